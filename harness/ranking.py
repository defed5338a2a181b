"""Who leads a table, and who cannot be told from the leader."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.cells import COMPETING, split_size
from harness.families.base import Stored
from harness.groups import Group, Member
from harness.results import read_file
from harness.statistics import Centre, Comparison, Resampled, difference, resample
from harness.task import Task

RANK_COLUMNS = ("task", "regime", "budget", "row", "rank", "tied", "difference", "low", "high", "rule")
"""Columns of ``results/tables/ranks.csv``; ``difference`` is to the leader, with its bootstrap interval."""

MEAN_RULE = "mean of the headline over seeds"
TAPE_RULE = "share of seeds that solved the task, then median of the headline over seeds"


@dataclass(frozen=True)
class Ranked:
    """One row's place: ``rank`` None if it has no score; ``comparison`` to the leader where both have predictions."""

    row: str
    rank: int | None
    tied: bool = False
    comparison: Comparison | None = None


def rule(task: Task) -> str:
    """Return what the rows of a task are ordered by, in words."""
    return TAPE_RULE if _by_solved_rate(task) else MEAN_RULE


def _by_solved_rate(task: Task) -> bool:
    return task.family.name == "tape"


def headline_cells(scores: pd.DataFrame, task: Task, regime: str, budget: str) -> pd.DataFrame:
    """Return the headline cells of one table's competing rows on the first test, one line a row, by row."""
    test = task.regime(regime).tests[0]
    table = scores[
        (scores["task"] == task.name)
        & (scores["regime"] == regime)
        & (scores["budget"] == budget)
        & scores["kind"].isin(COMPETING)
    ]
    size = split_size(task, test)
    whole = table["size"].isna() if math.isnan(size) else table["size"] == size
    found = table[(table["split"] == test) & (table["metric"] == task.headline.name) & whole]
    return found.sort_values("row", kind="stable")


def rank_rows(cells: pd.DataFrame, task: Task, groups: Mapping[str, Group]) -> list[Ranked]:
    """Return the places of one table's rows, best first.

    ``cells`` are its ``headline_cells``; ``groups`` hold the runs of the rows that have predictions here. Rows are
    ordered by the task's ``rule``, those with a failed seed behind all others; rows without a score come last, without
    a rank. A row shares the leader's rank if nothing tells them apart: neither has a failed seed, or both have; their
    solved rates are equal where these rank; and the bootstrap interval of the difference includes 0.
    """
    lines = [line for _, line in cells.iterrows()]
    scored = sorted((line for line in lines if not math.isnan(line["mean"])), key=lambda line: _order(line, task))
    if not scored:
        return [Ranked(line["row"], None) for line in lines]
    leader = scored[0]
    compared = _compare(leader["row"], [line["row"] for line in scored], task, groups)

    def tied(line: pd.Series) -> bool:
        comparison = compared.get(line["row"])
        alike = _order(line, task)[:-1] == _order(leader, task)[:-1]
        return line["row"] == leader["row"] or (alike and comparison is not None and not comparison.separated)

    scored.sort(key=lambda line: not tied(line))  # stable: the order within and without the leader's rank stays
    ranked: list[Ranked] = []
    for place, line in enumerate(scored, start=1):
        same = place > 1 and _order(line, task) == _order(scored[place - 2], task)
        rank = 1 if tied(line) else ranked[-1].rank if same else place
        ranked.append(Ranked(line["row"], rank, tied(line) and line["row"] != leader["row"], compared.get(line["row"])))
    return ranked + [Ranked(line["row"], None) for line in lines if math.isnan(line["mean"])]


def _order(line: pd.Series, task: Task) -> tuple[float, ...]:
    """Return the sort key of a scored row, smaller is better; the last part is the score itself."""
    sign = -1 if task.headline.direction == "max" else 1
    failed = float(line["n_failed"] > 0)
    if _by_solved_rate(task):
        return failed, -line["solved_rate"], sign * line["median"]
    return failed, sign * line["mean"]


def _compare(leader: str, rows: Sequence[str], task: Task, groups: Mapping[str, Group]) -> dict[str, Comparison]:
    """Return the bootstrap comparison to the leader of every other row, where both have predictions here."""
    centre: Centre = "median" if _by_solved_rate(task) else "mean"
    if leader not in groups or len(rows) < 2:
        return {}
    first = _resampled(groups[leader], task, centre)
    return {
        row: difference(_resampled(groups[row], task, centre), first) for row in rows if row != leader and row in groups
    }


def _resampled(group: Group, task: Task, centre: Centre) -> Resampled:
    """Resample a row on the first test; a seed without predictions (diverged) is not in it."""
    test = task.regime(group.first.identity.regime).tests[0]
    examples = task.load(test)
    statistics = []
    for member in group.members:
        if member.run.status == "completed":
            stored = stored_split(member, test)
            task.family.check_stored(stored, examples)
            statistics.append(task.headline.statistics(stored, examples))
    return resample(statistics, task.headline, centre)


def stored_split(member: Member, split: str) -> Stored:
    """Return one split's arrays of ``predictions.npz``; the others are not decompressed."""
    with np.load(io.BytesIO(read_file(member.folder, member.run, "predictions.npz")), allow_pickle=False) as archive:
        prefix = f"{split}/"
        return {name[len(prefix) :]: archive[name] for name in archive.files if name.startswith(prefix)}


def ranks_table(places: Mapping[tuple[str, str, str], Sequence[Ranked]], rules: Mapping[str, str]) -> pd.DataFrame:
    """Return ``ranks.csv`` from the places of every table, keyed by task, regime and budget; ``rules`` by task."""
    lines = [
        {
            "task": task,
            "regime": regime,
            "budget": budget,
            "row": ranked.row,
            "rank": ranked.rank,
            "tied": ranked.tied,
            "difference": ranked.comparison.difference if ranked.comparison else math.nan,
            "low": ranked.comparison.low if ranked.comparison else math.nan,
            "high": ranked.comparison.high if ranked.comparison else math.nan,
            "rule": rules[task],
        }
        for (task, regime, budget), rows in places.items()
        for ranked in rows
    ]
    return pd.DataFrame(lines, columns=list(RANK_COLUMNS)).astype({"rank": "Int64"})
