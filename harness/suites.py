"""Suite scores: a row's headlines on all tasks of a suite, each between its floor and its ceiling, as one number."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from harness.cells import COMPETING
from harness.groups import Group, installed_task
from harness.ranking import Ranked, placed
from harness.registry import task_names
from harness.results import REFERENCE_BUDGET
from harness.standings import Board, Contest
from harness.statistics import DECIMALS, Comparison, Resampled, by_seed, difference, over_seeds, t_interval

SUITE_COLUMNS = (
    *("suite", "budget", "row", "task", "regime", "status", "rank", "tied", "score", "low", "high"),
    *("difference", "difference_low", "difference_high", "n_seeds", "n_failed", "floor", "ceiling", "missing"),
)
"""Columns of ``results/tables/suites.csv``: a line a row, and one for each task and regime that it has.

``status``: ``complete``; ``partial`` (something is ``missing``); ``failed`` (no seed finished on some task).
``n_seeds`` of a suite are the fewest that finished on a task.
"""
FOREIGN = "its runs are not here but in the installed package"
NO_SCALE = "no floor or no ceiling was run"


@dataclass(frozen=True)
class Scale:
    """One task and regime of a suite, with its headline at the floor and the ceiling; NaN where one was not run."""

    contest: Contest
    floor: float
    ceiling: float

    @property
    def known(self) -> bool:
        """Whether scores can be placed between the two."""
        return not math.isnan(self.floor - self.ceiling) and self.floor != self.ceiling

    @property
    def label(self) -> str:
        """The task's name, with the regime where there are several."""
        task = self.contest.task
        return task.name + (f":{self.contest.regime}" if len(task.regimes) > 1 else "")

    def normalise(self, scores: np.ndarray) -> np.ndarray:
        """Return ``scores`` with the floor at 0 and the ceiling at 1, cut at both; NaN stays."""
        return np.clip((scores - self.floor) / (self.ceiling - self.floor), 0.0, 1.0)


@dataclass(frozen=True)
class SuiteRow:
    """One row over a suite: normalised scores by task and seed (NaN: failed), and what is missing, by reason."""

    row: str
    title: str
    scores: Mapping[Scale, Mapping[int, float]]
    missing: Mapping[str, Sequence[str]]
    stale: Sequence[str]
    departing: Sequence[str]
    """Tasks whose budget of examples it departs from."""
    self_reported: bool

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing

    @cached_property
    def finished(self) -> Mapping[Scale, Mapping[int, float]]:
        """Of every task the seeds that have a score."""
        return {
            scale: {seed: score for seed, score in own.items() if not math.isnan(score)}
            for scale, own in self.scores.items()
        }

    @property
    def seeds(self) -> tuple[int, int]:
        """The fewest and the most seeds that finished on a task."""
        counts = [len(own) for own in self.finished.values()]
        return min(counts, default=0), max(counts, default=0)

    @property
    def failed(self) -> int:
        """How many runs failed, over all tasks."""
        return sum(map(len, self.scores.values())) - sum(map(len, self.finished.values()))

    @property
    def score(self) -> float:
        """The mean over tasks of the mean over seeds; NaN for a partial row, and if no seed finished on some task."""
        if not self.complete or not self.seeds[0]:
            return math.nan
        return round(float(np.mean([self.at(scale) for scale in self.scores])), DECIMALS)

    @property
    def interval(self) -> tuple[float, float]:
        """The t interval of the score over seeds, where the same ones finished on all tasks; NaN elsewhere."""
        alike = {frozenset(own) for own in self.finished.values()}
        if math.isnan(self.score) or len(alike) > 1:
            return math.nan, math.nan
        by_seed = [[own[seed] for own in self.finished.values()] for seed in sorted(next(iter(alike)))]
        return t_interval(np.mean(by_seed, axis=1), (0, 1))

    @property
    def status(self) -> str:
        """``complete``, ``partial`` or ``failed``."""
        return "partial" if not self.complete else "failed" if math.isnan(self.score) else "complete"

    def at(self, scale: Scale) -> float:
        """Return the mean on one task over the seeds that finished; NaN if none did."""
        known = list(self.finished.get(scale, {}).values())
        return float(np.mean(known)) if known else math.nan


@dataclass(frozen=True)
class SuiteTable:
    """A suite at one budget: ``ranked`` complete rows best first, then the others; ``rows`` by name."""

    suite: str
    budget: str
    scales: Sequence[Scale]
    rows: Mapping[str, SuiteRow]
    ranked: Sequence[Ranked]


def suite_tables(board: Board) -> list[SuiteTable]:
    """Return a table for every suite of several tasks and every budget of it with runs, large budgets first.

    A suite is what tasks have before the slash; each regime of each installed task that has the budget counts as one;
    of a task that names those that count (``counted``), these alone.
    """
    found = []
    for suite in sorted({contest.task.suite for contest in board.contests}):
        tasks = [task for name in task_names() if (task := installed_task(name)) is not None and task.suite == suite]
        most: dict[str, int] = {}
        for contest in board.contests:
            if contest.task.suite == suite:
                most[contest.budget] = max(most.get(contest.budget, 0), contest.task.budgets.get(contest.budget, 0))
        for budget in sorted(most, key=lambda name: (-most[name], name)):
            contests = [
                Contest(task, regime, budget)
                for task in tasks
                if budget in task.budgets
                for regime in (task.regimes if task.counted is None else task.counted)
            ]
            if len(contests) > 1:
                found.append(_table(board, suite, budget, [_scale(board, contest) for contest in contests]))
    return found


def _scale(board: Board, contest: Contest) -> Scale:
    task, ends = contest.task, []
    for reference in (task.floor, task.ceiling):
        key = (task.name, contest.regime, REFERENCE_BUDGET, reference, contest.test, task.headline.name)
        cell = board.cells.get(key)
        ends.append(math.nan if cell is None else float(cell.mean))
    return Scale(contest, *ends)


def _table(board: Board, suite: str, budget: str, scales: Sequence[Scale]) -> SuiteTable:
    """Return the table, its rows ranked as in every other: failed seeds last, ties by the paired bootstrap."""
    shown = board.scores[(board.scores["suite"] == suite) & (board.scores["budget"] == budget)]
    counted = pd.Index([scale.contest.key[:2] for scale in scales])
    own = pd.MultiIndex.from_frame(shown[["task", "regime"]]).isin(counted)
    run = shown[own & shown["kind"].isin(COMPETING) & (shown["runs"] != "") & (shown["metric"] != "")]
    rows = {row: _row(board, row, budget, scales) for row in sorted(set(run["row"]))}
    scored = sorted((row for row in rows.values() if row.status == "complete"), key=lambda row: (_key(row), row.row))
    ranked = [row for row in scored if not row.self_reported]
    compared = _compared(board, ranked, scored, scales)
    claimed = [Ranked(row.row, None, comparison=compared.get(row.row)) for row in scored if row.self_reported]
    rest = sorted(
        (row for row in rows.values() if row.status != "complete"), key=lambda row: (-len(row.scores), row.row)
    )
    places = placed({row.row: _key(row) for row in ranked}, compared) if ranked else []
    return SuiteTable(suite, budget, scales, rows, [*places, *claimed, *(Ranked(row.row, None) for row in rest)])


def _key(row: SuiteRow) -> tuple[float, ...]:
    return float(row.failed > 0), -row.score


def _row(board: Board, row: str, budget: str, scales: Sequence[Scale]) -> SuiteRow:
    scores: dict[Scale, dict[int, float]] = {}
    missing: dict[str, list[str]] = {}
    stale: list[str] = []
    departing: list[str] = []
    groups = []
    for scale in scales:
        group = board.row(scale.contest, row)
        reason = _absence(board, scale, row, group)
        if reason or group is None:
            missing.setdefault(reason, []).append(scale.label)
            continue
        groups.append(group)
        measured = np.array([scale.contest.score(member.run) for member in group.members])
        normal = scale.normalise(measured).tolist()
        scores[scale] = {m.run.identity.seed: value for m, value in zip(group.members, normal, strict=True)}
        if any(member.stale for member in group.members):
            stale.append(scale.label)
        if any(member.run.departs_from_budget for member in group.members):
            departing.append(scale.label)
    title = groups[0].first.title if groups else row
    return SuiteRow(row, title, scores, missing, stale, departing, any(group.self_reported for group in groups))


def _absence(board: Board, scale: Scale, row: str, group: Group | None) -> str:
    """Return why a row has no normalised score on one task, empty if it has one, be it that of a failed seed."""
    if group is None:
        contest = scale.contest
        cell = board.cells.get((*contest.key, row, contest.test, contest.task.headline.name))
        if cell is not None:
            return FOREIGN if cell.runs else cell.reason
        aside = board.aside.get((*contest.key, row))
        return "not run" if aside is None else aside.reason
    declined = [m.run.unsupported[scale.contest.test] for m in group.members if scale.contest.test in m.run.unsupported]
    return declined[0] if declined else "" if scale.known else NO_SCALE


def _compared(
    board: Board, ranked: Sequence[SuiteRow], scored: Sequence[SuiteRow], scales: Sequence[Scale]
) -> dict[str, Comparison]:
    """Return the difference of every row to the leader: the paired bootstrap, over each task's seeds and examples.

    Task by task: the seeds of a row, and the examples, which are the same for every row.
    """
    if not ranked or len(scored) < 2:
        return {}
    normal: dict[str, list[np.ndarray]] = {row.row: [] for row in scored}  # a task: (resamples,)
    for scale in scales:
        task = scale.contest.task
        for row in scored:
            group = board.row(scale.contest, row.row)
            assert group is not None
            statistics = [group.statistics[seed] for seed in row.finished[scale]]
            values, own = by_seed(statistics, task.headline, f"{task.data_name}|{scale.contest.test}")
            identity = hashlib.sha256(scale.label.encode() + np.stack(statistics).tobytes()).hexdigest()
            normal[row.row].append(over_seeds(scale.normalise(values), own, identity).resamples)
    resampled = {row.row: Resampled(row.score, np.mean(normal[row.row], axis=0)) for row in scored}
    leader = ranked[0].row
    return {name: difference(found, resampled[leader]) for name, found in resampled.items() if name != leader}


def suites_table(tables: Sequence[SuiteTable]) -> pd.DataFrame:
    """Return ``suites.csv``."""
    lines: list[dict[str, object]] = []
    for found in tables:
        for place in found.ranked:
            row = found.rows[place.row]
            compared = place.comparison or Comparison(math.nan, math.nan, math.nan)
            missing = "; ".join(f"{reason}: {', '.join(labels)}" for reason, labels in row.missing.items())
            known: dict[str, object] = {"suite": found.suite, "budget": found.budget, "row": row.row}
            low, high = row.interval
            numbers = {"score": row.score, "low": low, "high": high, "n_seeds": row.seeds[0]}
            numbers |= {"n_failed": row.failed, "difference": compared.difference}
            numbers |= {"difference_low": compared.low, "difference_high": compared.high}
            standing = {"status": row.status, "rank": place.rank, "tied": "yes" if place.tied else ""}
            lines.append(known | numbers | standing | {"missing": missing})
            lines += [known | _task_line(row, scale) for scale in row.scores]
    table = pd.DataFrame(lines, columns=list(SUITE_COLUMNS))
    return table.astype(dict.fromkeys(("rank", "n_seeds", "n_failed"), "Int64"))


def _task_line(row: SuiteRow, scale: Scale) -> dict[str, object]:
    """Return the line of one task and regime, its score normalised."""
    finished = len(row.finished[scale])
    return {
        "task": scale.contest.task.name,
        "regime": scale.contest.regime,
        "score": row.at(scale),
        "n_seeds": finished,
        "n_failed": len(row.scores[scale]) - finished,
        "floor": scale.floor,
        "ceiling": scale.ceiling,
    }
