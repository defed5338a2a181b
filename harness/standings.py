"""All that the board shows, as data: every cell, every run, the order of each table's rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from harness.cells import COMPETING, cells_table, records, whole_cells
from harness.groups import Group, installed_task, read_groups, runs_table
from harness.published import read_published
from harness.ranking import Ranked, rank_rows
from harness.records import Run
from harness.results import EXTERNAL_BUDGET
from harness.tables import with_shipped
from harness.task import Task

STORY = ("seq2seq", "geometry", "ntm", "babi-official", "babi", "sort-of-clevr")
"""Suites in the order in which the board tells how models came to read the past; suites of others follow."""


@dataclass(frozen=True)
class Contest:
    """One table of the board: a task, a regime and a budget."""

    task: Task
    regime: str
    budget: str

    @property
    def key(self) -> tuple[str, str, str]:
        """Task name, regime and budget."""
        return self.task.name, self.regime, self.budget

    @property
    def test(self) -> str:
        """The first test, which ranks."""
        return self.task.regime(self.regime).tests[0]

    def score(self, run: Run) -> float:
        """Return a run's headline on the first test, NaN where it has none."""
        return run.whole(self.test, self.task.headline.name)

    @property
    def title(self) -> str:
        """What it is called: task, regime (where there are several) and budget."""
        regime = f" · {self.regime}" if len(self.task.regimes) > 1 else ""
        return f"{self.task.name}{regime} · {self.budget}"

    @property
    def slug(self) -> str:
        """What its figures are called."""
        return "-".join(self.key).replace("/", "-")


@dataclass(frozen=True)
class Board:
    """``scores`` and ``runs`` as in their files; ``groups`` by key: runs whose numbers stand beside today's task.

    ``superseded`` are runs that were scored on an older version of their task.
    """

    scores: pd.DataFrame
    runs: pd.DataFrame
    groups: Mapping[tuple[str, ...], Group]
    superseded: Sequence[Group] = ()

    @cached_property
    def cells(self) -> Mapping[tuple[str, ...], Any]:
        """The cells of splits as a whole, by task, regime, budget, row, split and metric."""
        return whole_cells(self.scores)

    @cached_property
    def aside(self) -> Mapping[tuple[str, ...], Any]:
        """The lines of rows that stand beside no installed task, by task, regime, budget and row."""
        lines = records(self.scores[self.scores["metric"] == ""])
        return {(line.task, line.regime, line.budget, line.row): line for line in lines}

    @cached_property
    def contests(self) -> Mapping[Contest, Sequence[Ranked]]:
        """The rows of every table, best first; tables by task and regime, the largest budget first."""
        return {contest: self.rank(contest) for contest in self._tables()}

    def row(self, contest: Contest, row: str) -> Group | None:
        """Return the runs of one row of a table, None where it has none here."""
        return self.groups.get((*contest.key, row))

    @cached_property
    def _runs_by_key(self) -> Mapping[Any, pd.DataFrame]:
        return dict(iter(self.runs.groupby(["task", "regime", "budget", "row"], sort=False)))

    def runs_of(self, task: str, regime: str, budget: str, row: str) -> pd.DataFrame:
        """Return the lines of ``runs.csv`` of one row of one table, none where it has no run."""
        return self._runs_by_key.get((task, regime, budget, row), self.runs.iloc[:0])

    def _tables(self) -> list[Contest]:
        shown = self.scores[self.scores["kind"].isin(COMPETING) & (self.scores["metric"] != "")]
        found = []
        for line in records(shown[["task", "regime", "budget"]].drop_duplicates()):
            task = installed_task(line.task)
            if task is not None:
                found.append(Contest(task, line.regime, line.budget))
        places = {contest.key[:2] for contest in found}
        alone = {key[:2]: group for key, group in self.groups.items() if key[2] == EXTERNAL_BUDGET}
        found += [  # rows from elsewhere stand in every table of their regime; where there is none, in one of their own
            Contest(group.task, place[1], EXTERNAL_BUDGET)
            for place, group in alone.items()
            if place not in places and group.task is not None
        ]
        return sorted(found, key=_reading_order)

    def headline_cells(self, contest: Contest) -> list[Any]:
        """Return the headline cell on the first test of every row of a table."""
        wanted = (contest.test, contest.task.headline.name)
        return [cell for key, cell in self.cells.items() if key[:3] == contest.key and key[4:] == wanted]

    def rank(self, contest: Contest, *, claims: bool = False) -> list[Ranked]:
        """Return the places of a table's rows; with ``claims`` self-reported ones have ranks, too."""
        own = {key[3]: group for key, group in self.groups.items() if key[:3] == contest.key}
        places = rank_rows(self.headline_cells(contest), contest.task, own, claims=claims)
        return [Ranked(place.row, None) for place in places] if contest.budget == EXTERNAL_BUDGET else places


def _reading_order(contest: Contest) -> tuple[Any, ...]:
    regimes, budgets = list(contest.task.regimes), contest.task.budgets
    place = regimes.index(contest.regime), -budgets.get(contest.budget, 0), contest.budget
    return *suite_order(contest.task.suite), contest.task.name, *place


def suite_order(suite: str) -> tuple[int, str]:
    """Return a key that sorts suites as the board shows them: those of ``STORY``, then others by name."""
    return STORY.index(suite) if suite in STORY else len(STORY), suite


def load_board(results: Path, published: Sequence[Path] | None = None) -> Board:
    """Read the bundles below ``results/runs`` and the published numbers (None: those of the installed packages).

    Raises ``UserError`` for a damaged bundle, for bundles that contradict each other, and for a run that beats an exact
    bound.
    """
    groups = read_groups(results)
    scores, runs = with_shipped(cells_table(groups, read_published(published)), runs_table(groups))
    current: dict[tuple[str, ...], Group] = {group.key: group for group in groups if group.task is not None}
    return Board(scores, runs, current, [group for group in groups if group.superseded])


def doubts(board: Board) -> Iterator[str]:
    """Yield one line for every row whose task, as it was scored, is not installed."""
    for cell in board.aside.values():
        if cell.status == "unverified":
            yield f"{cell.row} on {cell.task}:{cell.regime}, {cell.budget}: {cell.reason}"
