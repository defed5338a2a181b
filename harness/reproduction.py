"""Train stored rows again and say, row by row, whether their numbers come out; set the published ones beside them."""

import fnmatch
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from harness.cells import COMPETING, records
from harness.errors import ReadheadError, UnavailableError, UserError, unknown
from harness.execution import PlannedRun
from harness.groups import Group, Member, read_groups, seed_statistics
from harness.metrics import Metric
from harness.model import get_model
from harness.published import KEY
from harness.ranking import centre_of
from harness.recipe import Recipe, Training
from harness.records import RE_RUN, Identity, Reproduction
from harness.reruns import record_rerun
from harness.results import add_reproduction, bundle_files, place_bundle, require_writable
from harness.statistics import DECIMALS, prediction_interval, resample
from harness.sweep import Done, run_all
from harness.task import Task, combined_fingerprint

Verdict = Literal["reproduced", "drift", "failed", "not run"]

WITHIN, AT_MOST = 0.95, 0.99
"""Inside the first prediction interval is *reproduced*, inside the second *drift*, where chance puts 1 in 25."""


@dataclass(frozen=True)
class Against:
    """A published number of kind ``exact``, and what this benchmark's runs have where it stands."""

    split: str
    metric: Metric
    value: float
    source: str
    ours: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """``reached``: as good or better; ``near``: where a new seed might be; else by how much it is not."""
        if math.isnan(self.ours):
            return "no value here"
        if not self.metric.better(self.value, self.ours):
            return "reached"
        if self.low <= self.value <= self.high:
            return "near"
        return f"short by {abs(self.value - self.ours):.3g}"


@dataclass(frozen=True)
class Outcome:
    """What came of a row's new runs: headline on the first test, ``low`` and ``high`` for their mean, verdict, why."""

    group: Group
    values: Sequence[float]
    low: float
    high: float
    verdict: Verdict
    reason: str = ""


def rows_to_reproduce(results: Path, row: str, task: str, regime: str | None, budget: str) -> list[Group]:
    """Return the stored rows of trained models that two globs name; a ``UserError`` says which there are."""
    stored = [group for group in read_groups(results) if group.first.kind in COMPETING]
    chosen = [
        group
        for group in stored
        if fnmatch.fnmatch(group.key[0], task)
        and regime in (None, group.key[1])
        and group.key[2] == budget
        and fnmatch.fnmatch(group.key[3], row)
    ]
    if not chosen:
        where = f"{task}{f':{regime}' if regime else ''} with budget {budget}"
        raise unknown(
            f"stored row on {where}", row, {f"{g.key[3]} on {':'.join(g.key[:2])}, {g.key[2]}" for g in stored}
        )
    return chosen


def expected_seconds(groups: Sequence[Group], seeds: int) -> float:
    """Return what training ``seeds`` of each row again takes on one core, by what the stored runs took."""
    return sum(m.run.cost.seconds for group in groups for m in group.members[:seeds] if m.run.cost is not None)


def reproduce(groups: Sequence[Group], results: Path, seeds: int = 1, workers: int = 1) -> Iterator[Outcome]:
    """Train the first ``seeds`` of every row again from its stored recipe and yield the outcome of each row.

    That a row is reproduced is recorded in its bundles; a stranger's give way to those made here. What cannot be
    trained here is *not run*; a run that breaks off or diverges where the stored one did not is *failed*. A run that
    was interrupted goes on; the weights of the stored one stay in the cache. Raises ``UserError`` before any training
    where nothing could be recorded.
    """
    if seeds:
        require_writable(results, (member.folder for group in groups for member in group.members))
    wanted: dict[tuple[str, ...], tuple[Group, int]] = {}
    planned: list[PlannedRun] = []
    for group in groups:
        try:
            runs = [plan_again(group, member.run.identity) for member in group.members[:seeds]]
        except ReadheadError as error:
            yield Outcome(group, (), math.nan, math.nan, "not run", str(error))
            continue
        if runs:
            planned += runs
            wanted[group.key] = (group, len(runs))
    ended: dict[tuple[str, ...], list[Done]] = {key: [] for key in wanted}
    with tempfile.TemporaryDirectory() as scratch:
        for done in run_all(planned, Path(scratch), workers=workers, reproduction=True, mlflow=False):
            identity = done.identity
            key = (identity.task, identity.regime, identity.budget, identity.row)
            ended[key].append(done)
            group, count = wanted[key]
            if len(ended[key]) == count:
                yield _judged(group, ended[key], results)


def plan_again(group: Group, identity: Identity) -> PlannedRun:
    """Return a stored run to be trained again, by its own recipe; a ``UserError`` says why today's code cannot."""
    task = group.task
    if task is None:
        raise UserError(f"{identity.label}: {group.doubt}")
    absent = task.missing(identity.regime)
    if absent is not None:
        raise UserError(f"{identity.label}: {absent}")
    if identity.fingerprint != combined_fingerprint(task, identity.regime):
        raise UserError(f"{identity.label}: its data are not those of {task.name} version {task.version}")
    version = get_model(identity.model).version
    if version != identity.model_version:
        raise UserError(f"{identity.label}: it is of version {identity.model_version} of its model; here is {version}")
    recipe = Recipe(
        row=identity.row,
        model=identity.model,
        title=group.first.title,
        tuning=group.first.tuning,
        hyperparameters=identity.hyperparameters,
        training=Training.model_validate(identity.training),
        community=group.first.kind == "community",
    )
    return PlannedRun(task.name, task, identity.regime, recipe, identity)


def _judged(group: Group, ended: Sequence[Done], results: Path) -> Outcome:
    """Return the outcome of one row's new runs, and record those of a row that is reproduced."""
    task, regime = group.installed, group.key[1]
    assert task is not None
    test, metric = task.regime(regime).tests[0], task.headline
    stored = {member.run.identity.seed: member.run for member in group.members}
    exact = {
        done.identity.seed: done.run is not None
        and done.run.status == stored[done.identity.seed].status
        and done.run.files["predictions.npz"] == stored[done.identity.seed].files["predictions.npz"]
        for done in ended
    }
    values = [math.nan if d.run is None else d.run.whole(test, metric.name) for d in ended]
    narrow, wide = (new_seed_interval(group, task, test, metric, len(values), share) for share in (WITHIN, AT_MOST))
    reasons = [str(d.failure) if d.run is None else d.run.reason for d in ended if d.run is None or d.run.reason]
    verdict: Verdict
    if all(exact.values()):
        verdict, reasons = "reproduced", [*reasons, "predictions are identical"]
    elif np.isnan(values).any():
        unavailable = all(isinstance(d.failure, UnavailableError) for d in ended if d.run is None)
        broken = any(d.run is not None and math.isnan(v) for d, v in zip(ended, values, strict=True))
        verdict = "not run" if unavailable and not broken else "failed"
    else:
        centre = float(np.mean(values))
        before = [member.run.whole(test, metric.name) for member in group.members]
        solved = all(metric.is_solved(value) for value in [*before, *values])  # how well does not matter then
        inside = solved or narrow[0] <= centre <= narrow[1]
        verdict = "reproduced" if inside else "drift" if wide[0] <= centre <= wide[1] else "failed"
    for run, claimed in ((d.run, stored[d.identity.seed]) for d in ended):
        if run is not None and run.cost and claimed.cost and run.cost.parameters != claimed.cost.parameters:
            verdict = "failed"
            reasons.append(f"{run.cost.parameters:,} parameters, the bundle says {claimed.cost.parameters:,}")
    if verdict == "reproduced":
        for done in ended:
            if group.first.kind == "community":
                _take_over(done, results)
            else:
                _confirm(done, exact[done.identity.seed], group, results)
        again = {m.run.identity.seed for m in group.members if m.origin == RE_RUN} | set(exact)
        if group.self_reported and len(again) < len(group.members):
            reasons.append(f"{len(again)} of {len(group.members)} seeds re-run here, and a rank once all are")
    return Outcome(group, values, *narrow, verdict, "; ".join(filter(None, reasons)))


def _take_over(done: Done, results: Path) -> None:
    """Put a stranger's run as it was made here in the place of the one that was sent: only such runs are ranked."""
    assert done.folder is not None
    assert done.run is not None
    record_rerun(results, place_bundle(results, done.identity, bundle_files(done.folder, done.run)))


def _confirm(done: Done, exact: bool, group: Group, results: Path) -> None:
    """Record in every bundle of a row that comes with a package that today's source gives its numbers."""
    assert done.run is not None
    origin = done.run.provenance
    record = Reproduction(
        seed=done.identity.seed,
        source_hash=origin.source_hash,
        commit=origin.commit,
        exact=exact,
        finished=origin.finished,
    )
    for member in group.members:
        add_reproduction(results, member.folder, record)


def new_seed_interval(
    group: Group, task: Task, split: str, metric: Metric, new: int = 1, confidence: float = WITHIN
) -> tuple[float, float]:
    """Return where the mean of ``new`` more seeds of a row is to be expected, by its stored seeds.

    It is never narrower than what the choice of the test examples alone leaves open, so that equal seeds, or a single
    one, do not make it a point. NaN where no stored seed has a value.
    """
    found = [
        (value, member) for member in group.members if not math.isnan(value := member.run.whole(split, metric.name))
    ]
    if not found:
        return math.nan, math.nan
    sampling = _sampling_deviation(task, found[0][1], split, metric)
    return prediction_interval(np.array([value for value, _ in found]), new, sampling, confidence, metric.bounds)


def _sampling_deviation(task: Task, member: Member, split: str, metric: Metric) -> float:
    """Return the standard deviation of one run's score over resamples of the split's examples.

    It is at least what a single example can move, for no resample of answers that are all right has a wrong one.
    """
    statistics = seed_statistics(member, task, split, metric)
    span = metric.bounds[1] - metric.bounds[0]
    least = span / len(statistics) if math.isfinite(span) else 0.0
    return max(float(resample([statistics], metric).resamples.std()), least)


def against_published(group: Group, published: pd.DataFrame) -> list[Against]:
    """Return the published numbers of kind ``exact`` of a row, each beside what the stored runs have."""
    task, (name, regime, _, row) = group.task, group.key
    if task is None:
        return []
    lines = published[(published["task"] == name) & (published["regime"] == regime) & (published["row"] == row)]
    found = []
    for line in records(lines[lines["kind"] == "exact"].drop_duplicates(list(KEY))):
        metric = task.metric(line.metric)
        if metric.direction is None:
            continue
        values = np.array([member.run.whole(line.split, metric.name) for member in group.members])
        values = values[~np.isnan(values)]
        centre = np.mean if centre_of(task) == "mean" else np.median
        ours = round(float(centre(values)), DECIMALS) if len(values) else math.nan
        low, high = new_seed_interval(group, task, line.split, metric)
        found.append(Against(line.split, metric, line.value, line.paper, ours, low, high))
    return found
