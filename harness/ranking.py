"""Who leads a table, and who cannot be told from the leader."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from harness.families.base import Stored
from harness.groups import Group, Member
from harness.metrics import Metric
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
    return TAPE_RULE if ranks_by_solved_rate(task) else MEAN_RULE


def ranks_by_solved_rate(task: Task) -> bool:
    """Return whether the share of solved seeds ranks before the score: training on tapes succeeds or fails."""
    return task.family.name == "tape"


def centre_of(task: Task) -> Centre:
    """Return what stands for the seeds of a row: the median where runs succeed or fail."""
    return "median" if ranks_by_solved_rate(task) else "mean"


def rank_rows(cells: Sequence[Any], task: Task, groups: Mapping[str, Group], *, claims: bool = False) -> list[Ranked]:
    """Return the places of one table's rows, best first.

    ``cells`` are its headline cells on the first test, one a row; ``groups`` hold the runs of the rows that have
    predictions here. Rows are ordered by the task's ``rule``, those with a failed seed behind all others. Then come,
    without a rank, self-reported rows in the same order, and last the rows without a score. A row shares the leader's
    rank if nothing tells them apart: neither has a failed seed, or both have; their solved rates are equal where these
    rank; and the bootstrap interval of the difference includes 0. ``claims`` ranks self-reported rows with the others.
    """
    named = sorted(cells, key=lambda cell: cell.row)
    ordered = sorted((cell for cell in named if not math.isnan(cell.mean)), key=lambda cell: _order(cell, task))
    claimed = [cell for cell in ordered if not claims and cell.row in groups and groups[cell.row].self_reported]
    scored = [cell for cell in ordered if cell not in claimed]
    scoreless = [Ranked(cell.row, None) for cell in named if math.isnan(cell.mean)]
    if not scored:
        return [Ranked(cell.row, None) for cell in claimed] + scoreless
    leader = scored[0]
    compared = _compare(leader.row, [cell.row for cell in (*scored[1:], *claimed)], task, groups)
    rest = [Ranked(cell.row, None, comparison=compared.get(cell.row)) for cell in claimed] + scoreless

    def tied(cell: Any) -> bool:
        comparison = compared.get(cell.row)
        alike = _order(cell, task)[:-1] == _order(leader, task)[:-1]
        return cell is leader or (alike and comparison is not None and not comparison.separated)

    scored.sort(key=lambda cell: not tied(cell))  # stable: within and behind the leader's rank the order stays
    ranked: list[Ranked] = []
    for place, cell in enumerate(scored, start=1):
        equal = place > 1 and _order(cell, task) == _order(scored[place - 2], task)
        rank = 1 if tied(cell) else ranked[-1].rank if equal else place
        ranked.append(Ranked(cell.row, rank, tied(cell) and cell is not leader, compared.get(cell.row)))
    return ranked + rest


def _order(cell: Any, task: Task) -> tuple[float, ...]:
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
    test = task.regime(group.first.identity.regime).tests[0]
    finished = [member for member in group.members if member.run.status == "completed"]
    return resample([seed_statistics(member, task, test, task.headline) for member in finished], task.headline, centre)


def seed_statistics(member: Member, task: Task, split: str, metric: Metric) -> np.ndarray:
    """Return a metric's statistics ``(n,k)`` of one run on a test; the task's data are loaded only where needed."""
    stored = stored_split(member, split)
    if metric.from_stored and task.missing(member.run.identity.regime):
        return metric.statistics(stored, None)
    examples = task.load(split)
    task.family.check_stored(stored, examples)
    return metric.statistics(stored, examples)


def stored_split(member: Member, split: str) -> Stored:
    """Return one split's arrays of ``predictions.npz``; the others are not decompressed."""
    with np.load(io.BytesIO(read_file(member.folder, member.run, "predictions.npz")), allow_pickle=False) as archive:
        prefix = f"{split}/"
        return {name[len(prefix) :]: archive[name] for name in archive.files if name.startswith(prefix)}


def ranks_table(contests: Mapping[tuple[str, str, str], tuple[Task, Sequence[Ranked]]]) -> pd.DataFrame:
    """Return ``ranks.csv`` from the rows of every table, keyed by task, regime and budget."""
    lines = []
    for key, (task, rows) in contests.items():
        for ranked in rows:
            found = ranked.comparison or Comparison(math.nan, math.nan, math.nan)
            numbers = (found.difference, found.low, found.high)
            lines.append((*key, ranked.row, ranked.rank, "yes" if ranked.tied else "", *numbers, rule(task)))
    return pd.DataFrame(lines, columns=list(RANK_COLUMNS)).astype({"rank": "Int64"})
