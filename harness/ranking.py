"""Who leads a table, and who cannot be told from the leader."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.groups import Group
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
    return TAPE_RULE if ranks_by_solved_rate(task) else MEAN_RULE


def ranks_by_solved_rate(task: Task) -> bool:
    """Return whether the share of solved seeds ranks before the score: training on tapes succeeds or fails."""
    return task.family.name == "tape" and task.headline.solved is not None


def centre_of(task: Task) -> Centre:
    """Return what stands for the seeds of a row: the median where runs succeed or fail."""
    return "median" if ranks_by_solved_rate(task) else "mean"


def rank_rows(cells: Sequence[Any], task: Task, groups: Mapping[str, Group], *, claims: bool = False) -> list[Ranked]:
    """Return the places of one table's rows, best first.

    ``cells`` are its headline cells on the first test, one a row; ``groups`` hold the runs of the rows that have
    predictions here. Rows are ordered by the task's ``rule``, those with a failed seed behind all others. Then come,
    without a rank, self-reported rows in the same order, and last the rows without a score. A row shares the leader's
    rank if nothing tells them apart: neither has a failed seed, or both have; their solved rates are equal where these
    rank; and the bootstrap interval of the difference includes 0, as it does of all rows between them. ``claims`` ranks
    self-reported rows with the others.
    """
    named = sorted(cells, key=lambda cell: cell.row)
    ordered = sorted((cell for cell in named if not math.isnan(cell.mean)), key=lambda cell: order(cell, task))
    claimed = [cell for cell in ordered if not claims and cell.row in groups and groups[cell.row].self_reported]
    scored = [cell for cell in ordered if cell not in claimed]
    scoreless = [Ranked(cell.row, None) for cell in named if math.isnan(cell.mean)]
    if not scored:
        return [Ranked(cell.row, None) for cell in claimed] + scoreless
    compared = _compare(scored[0].row, [cell.row for cell in (*scored[1:], *claimed)], task, groups)
    rest = [Ranked(cell.row, None, comparison=compared.get(cell.row)) for cell in claimed] + scoreless
    return placed({cell.row: order(cell, task) for cell in scored}, compared) + rest


def placed(keys: Mapping[str, tuple[float, ...]], compared: Mapping[str, Comparison]) -> list[Ranked]:
    """Return the places of rows with a score, best first.

    ``keys`` are their sort keys in ascending order, the last part of each the score itself; ``compared`` holds the
    differences to the leader. A row shares the leader's rank if the rest of its key is the leader's, the interval of
    the difference includes 0, and the same holds for every row before it: a row whose seeds scatter does not overtake
    a better one that is told apart.
    """
    leader = next(iter(keys))
    ranked: list[Ranked] = []
    tied = True
    for place, (row, key) in enumerate(keys.items(), start=1):
        alike = key[:-1] == keys[leader][:-1]
        tied = tied and (row == leader or (alike and row in compared and not compared[row].separated))
        equal = place > 1 and key == keys[ranked[-1].row]
        rank = 1 if tied else ranked[-1].rank if equal else place
        ranked.append(Ranked(row, rank, tied and row != leader, compared.get(row)))
    return ranked


def order(cell: Any, task: Task) -> tuple[float, ...]:
    """Return the sort key of a scored row, smaller is better; the last part is the score itself."""
    sign = -1 if task.headline.direction == "max" else 1
    failed = float(cell.n_failed > 0)
    if ranks_by_solved_rate(task):
        return failed, -cell.solved_rate, sign * cell.median
    return failed, sign * cell.mean


def _compare(leader: str, rows: Sequence[str], task: Task, groups: Mapping[str, Group]) -> dict[str, Comparison]:
    """Return the bootstrap comparison of every other row to the leader, where both have predictions here."""
    centre = centre_of(task)
    own = [row for row in rows if row in groups]
    if leader not in groups or not own:
        return {}
    first = _resampled(groups[leader], task, centre)
    return {row: difference(_resampled(groups[row], task, centre), first) for row in own}


def paired(a: Group, b: Group, task: Task) -> Comparison:
    """Return the bootstrap comparison ``a - b`` of two rows in the headline on the first test."""
    centre = centre_of(task)
    return difference(_resampled(a, task, centre), _resampled(b, task, centre))


def _resampled(group: Group, task: Task, centre: Centre) -> Resampled:
    """Resample a row on the first test; a seed without predictions (diverged) is not in it."""
    return resample(list(group.statistics.values()), task.headline, centre)


def ranks_table(contests: Mapping[tuple[str, str, str], tuple[Task, Sequence[Ranked]]]) -> pd.DataFrame:
    """Return ``ranks.csv`` from the rows of every table, keyed by task, regime and budget."""
    lines = []
    for key, (task, rows) in contests.items():
        for ranked in rows:
            found = ranked.comparison or Comparison(math.nan, math.nan, math.nan)
            numbers = (found.difference, found.low, found.high)
            lines.append((*key, ranked.row, ranked.rank, "yes" if ranked.tied else "", *numbers, rule(task)))
    return pd.DataFrame(lines, columns=list(RANK_COLUMNS)).astype({"rank": "Int64"})
