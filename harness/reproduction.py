"""Train stored rows again and say, row by row and cell by cell, whether their numbers come out."""

import fnmatch
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.cells import COMPETING
from harness.errors import ReadheadError, UnavailableError, UserError, unknown
from harness.execution import PlannedRun
from harness.expectation import Again, Place, Verdict, held_against, places
from harness.groups import Group, read_groups
from harness.model import get_model
from harness.published import read_published
from harness.recipe import Recipe, Training
from harness.records import RE_RUN, Identity, Reproduction, Run
from harness.reruns import record_rerun
from harness.results import add_reproduction, bundle_files, place_bundle, require_writable
from harness.sweep import Done, run_all
from harness.task import combined_fingerprint

CELLS_NAMED = 4
"""Most cells that the line of a row names; the table has all."""


@dataclass(frozen=True)
class Outcome:
    """What came of a row's new runs: cell by cell, the headline on the first test first; verdict, and why.

    No cells: nothing was run. The headline's alone: all predictions are identical, or some run broke off.
    """

    group: Group
    cells: Sequence[Again]
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
    wanted: dict[tuple[str, ...], tuple[Group, Sequence[Place], int]] = {}
    planned: list[PlannedRun] = []
    published = read_published()
    for group in groups:
        try:
            runs = [plan_again(group, member.run.identity) for member in group.members[:seeds]]
        except ReadheadError as error:
            yield Outcome(group, (), "not run", str(error))
            continue
        if runs:
            planned += runs
            assert group.task is not None
            wanted[group.key] = (group, places(group, group.task, published), len(runs))
    ended: dict[tuple[str, ...], list[Done]] = {key: [] for key in wanted}
    with tempfile.TemporaryDirectory() as scratch:
        for done in run_all(planned, Path(scratch), workers=workers, reproduction=True, mlflow=False):
            identity = done.identity
            key = (identity.task, identity.regime, identity.budget, identity.row)
            ended[key].append(done)
            group, judged, count = wanted[key]
            if len(ended[key]) == count:
                yield _judged(group, judged, ended[key], results)


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


def _judged(group: Group, where: Sequence[Place], ended: Sequence[Done], results: Path) -> Outcome:
    """Return the outcome of one row's new runs, and record those of a row that is reproduced."""
    task = group.installed
    assert task is not None
    stored = {member.run.identity.seed: member.run for member in group.members}
    exact = {
        done.identity.seed: done.run is not None
        and done.run.status == stored[done.identity.seed].status
        and done.run.files["predictions.npz"] == stored[done.identity.seed].files["predictions.npz"]
        for done in ended
    }
    reasons = [str(d.failure) if d.run is None else d.run.reason for d in ended if d.run is None or d.run.reason]
    runs = [done.run for done in ended if not _diverged_again(done.run, stored[done.identity.seed])]
    verdict: Verdict
    if all(exact.values()):
        verdict, reasons = "reproduced", [*reasons, "predictions are identical"]
        cells = _told(held_against(group, task, where[:1], [done.run for done in ended]), verdict)
    elif any(run is None or run.status == "diverged" for run in runs):
        unavailable = all(isinstance(done.failure, UnavailableError) for done in ended if done.run is None)
        broken = any(run is not None and run.status == "diverged" for run in runs)
        verdict = "not run" if unavailable and not broken else "failed"
        cells = _told(held_against(group, task, where[:1], runs), verdict)
    else:
        cells = held_against(group, task, where, runs)
        named = {what: [_name(cell) for cell in cells if cell.verdict == what] for what in ("failed", "drift")}
        verdict = "failed" if named["failed"] else cells[0].verdict
        reasons += [f"{what} in {len(of)} of {len(cells)}: {_listed(of)}" for what, of in named.items() if of]
    for run, claimed in ((done.run, stored[done.identity.seed]) for done in ended):
        if run is not None and run.cost and claimed.cost and run.cost.parameters != claimed.cost.parameters:
            verdict, cells = "failed", _told(cells, "failed")
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
    return Outcome(group, cells, verdict, "; ".join(filter(None, reasons)))


def _diverged_again(run: Run | None, stored: Run) -> bool:
    """Whether a run diverged as the stored one did, so that it has no value to compare, and has not failed."""
    return run is not None and run.status == stored.status == "diverged"


def _told(cells: Sequence[Again], verdict: Verdict) -> list[Again]:
    """Return the cells, with the row's verdict on the first of them."""
    return [replace(cells[0], verdict=verdict), *cells[1:]]


def _name(cell: Again) -> str:
    return f"{cell.metric.title} on {cell.split}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:CELLS_NAMED]) + (" and more" if len(names) > CELLS_NAMED else "")


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
