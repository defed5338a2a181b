"""``leaderboard.md``, ``results/tables`` and ``results/plots``: pure functions of stored runs and published numbers."""

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from harness.board import Section, render_section
from harness.cells import COMPETING, cells_table, collect
from harness.groups import Group, installed_task, read_groups, runs_table
from harness.markdown import escape, number, table
from harness.published import KINDS, read_published
from harness.ranking import MEAN_RULE, TAPE_RULE, Ranked, headline_cells, rank_rows, ranks_table, rule
from harness.tables import csv_bytes, with_shipped
from harness.task import Task

SCORES, RUNS, RANKS, VERSIONS = "scores.csv", "runs.csv", "ranks.csv", "versions.json"

Place = tuple[str, str, str]
"""Task, regime and budget: one table of the board."""


@dataclass(frozen=True)
class Board:
    """All that the board shows: every cell, every run, and the places of each table's rows."""

    scores: pd.DataFrame
    runs: pd.DataFrame
    groups: Mapping[tuple[str, str, str, str], Group]
    places: Mapping[Place, Sequence[Ranked]]


def load_board(results: Path, published: Sequence[Path] | None = None) -> Board:
    """Read the bundles and the published numbers and rank the rows of every table."""
    groups = read_groups(results)
    scores, runs = with_shipped(cells_table(groups, read_published(published)), runs_table(groups))
    by_key = {group.key: group for group in groups if group.task is not None}
    places = {}
    for name, regime, budget in _tables(scores):
        task = installed_task(name)
        assert task is not None
        own = {key[3]: group for key, group in by_key.items() if key[:3] == (name, regime, budget)}
        places[name, regime, budget] = rank_rows(headline_cells(scores, task, regime, budget), task, own)
    return Board(scores, runs, by_key, places)


def _tables(scores: pd.DataFrame) -> list[Place]:
    """Return the tables: by task and regime, the largest budget first."""
    shown = scores[scores["kind"].isin(COMPETING) & (scores["metric"] != "")]
    places = {(row.task, row.regime, row.budget) for row in shown[["task", "regime", "budget"]].itertuples()}

    def order(place: Any) -> tuple[Any, ...]:
        task = installed_task(place[0])
        assert task is not None
        return place[0], list(task.regimes).index(place[1]), -task.budgets.get(place[2], 0), place[2]

    return sorted(places, key=order)


def write_board(results: Path, board: Path, published: Sequence[Path] | None = None) -> list[Path]:
    """Write the tables and plots below ``results`` and the Markdown file ``board``; return every file written.

    Figures of earlier boards that no longer have a table are removed. Raises ``UserError`` for a damaged bundle, for
    bundles that contradict each other, and for a run that beats an exact bound.
    """
    return _publish(load_board(results, published), results, board, results, board)


def check_board(results: Path, board: Path, published: Sequence[Path] | None = None) -> list[str]:
    """Return the files that ``write_board`` would change, add or remove, as shown to a user; empty if none.

    Plots are compared only under the plotting versions that drew them: ``results/plots/versions.json``.
    """
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        _publish(load_board(results, published), results, board, fresh, fresh / board.name)
        pairs = [(board, fresh / board.name)]
        pairs += _pairs(results / "tables", fresh / "tables", "*.csv")
        if _recorded(results) == plotting_versions():
            pairs += _pairs(results / "plots", fresh / "plots", FIGURES)
        return [str(old) for old, new in pairs if _bytes(old) != _bytes(new)]


def _pairs(old: Path, new: Path, pattern: str) -> list[tuple[Path, Path]]:
    names = {path.name for folder in (old, new) for path in folder.glob(pattern)}
    return [(old / name, new / name) for name in sorted(names)]


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
