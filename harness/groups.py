"""The stored runs as the board sees them: the seeds of a row side by side, with what makes each of them doubtful."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from harness.errors import CorruptBundleError, UserError
from harness.families.base import Stored
from harness.metrics import Metric
from harness.recipe import comes_with_a_package
from harness.records import RE_RUN, SELF_REPORTED, Identity, Run, canonical_json
from harness.registry import get_task
from harness.reruns import digest_of, read_reruns
from harness.results import find_bundles, read_arrays, read_curve, read_run, runs_folder
from harness.task import Task

TEXT, WHOLE, REAL = "str", "Int64", "float64"
"""Types of columns; whole numbers may be missing."""

RUN_DTYPES = {
    "suite": TEXT,
    "task": TEXT,
    "version": WHOLE,
    "regime": TEXT,
    "row": TEXT,
    "title": TEXT,
    "kind": TEXT,
    "origin": TEXT,
    "bound": TEXT,
    "budget": TEXT,
    "seed": WHOLE,
    "status": TEXT,
    "reason": TEXT,
    "stale": TEXT,
    "departs_from_budget": TEXT,
    "tuning": TEXT,
    "examples": WHOLE,
    "parameters": WHOLE,
    "seconds": REAL,
    "flops": REAL,
    "flops_in_training": REAL,
    "validation": REAL,
    "training_loss": REAL,
    "checkpoint": TEXT,
    "model": TEXT,
    "model_version": WHOLE,
    "hyperparameters": TEXT,
    "training": TEXT,
    "signatures": TEXT,
    "commit": TEXT,
    "dirty": TEXT,
    "harness_version": TEXT,
    "cpu": TEXT,
    "threads": WHOLE,
    "finished": TEXT,
    "bundle": TEXT,
}
"""Columns of ``runs.csv``, one line a bundle; ``origin`` as in ``Member``.

``stale`` and ``departs_from_budget`` are empty where they are not so.
"""


@dataclass(frozen=True)
class Member:
    """One bundle: its run, its folder, its path below ``results/runs`` and why it is stale (None: it is not).

    ``origin``: a stranger's run is ``self-reported``, or was ``re-run`` here; empty for what comes with a package.
    """

    run: Run
    folder: Path
    path: str
    stale: str | None
    origin: str


@dataclass(frozen=True)
class Group:
    """The seeds of one row with one budget in one regime of one task, by seed."""

    installed: Task | None
    members: tuple[Member, ...]

    @property
    def first(self) -> Run:
        """The run of the lowest seed; the group's runs differ in nothing but their seed."""
        return self.members[0].run

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Task, regime, budget and row."""
        identity = self.first.identity
        return identity.task, identity.regime, identity.budget, identity.row

    @property
    def self_reported(self) -> bool:
        """Whether a stranger's seeds are among these that nobody has run again here; such a row has no rank."""
        return any(member.origin == SELF_REPORTED for member in self.members)

    @property
    def superseded(self) -> bool:
        """Whether the task has moved on since: its installed version is a later one."""
        return self.installed is not None and self.first.identity.task_version < self.installed.version

    @property
    def doubt(self) -> str | None:
        """Why the stored numbers cannot be set beside an installed task at all; None if they can."""
        identity = self.first.identity
        if self.installed is None:
            return f"task {identity.task} is not installed"
        if self.superseded:
            steps = range(identity.task_version + 1, self.installed.version + 1)
            told = [f"version {n}: {self.installed.changes[n]}" for n in steps if n in self.installed.changes]
            return "; ".join([f"version {identity.task_version}, installed is {self.installed.version}", *told])
        if identity.task_version != self.installed.version:
            return f"scored on version {identity.task_version} of the task; installed is {self.installed.version}"
        if identity.regime not in self.installed.regimes:
            return f"the installed task has no regime {identity.regime}"
        return None

    @property
    def task(self) -> Task | None:
        """The installed task, None where there is a ``doubt``."""
        return None if self.doubt else self.installed

    @property
    def training_loss(self) -> np.ndarray:
        """The training error of each seed, ``(seeds,)``; NaN where there is none."""
        losses = [m.run.selection.training_loss if m.run.selection else None for m in self.members]
        return np.array([np.nan if loss is None else loss for loss in losses])

    @cached_property
    def statistics(self) -> Mapping[int, np.ndarray]:
        """The headline's statistics ``(n,k)`` on the first test by seed; a seed that diverged has none. Read once."""
        assert self.task is not None
        test = self.task.regime(self.first.identity.regime).tests[0]
        finished = [member for member in self.members if member.run.status == "completed"]
        return {
            member.run.identity.seed: seed_statistics(member, self.task, test, self.task.headline)
            for member in finished
        }

    @cached_property
    def curves(self) -> Mapping[int, pd.DataFrame]:
        """The training curve of every seed that has one, by seed; columns as ``CURVE_COLUMNS``. Read once."""
        kept = [member for member in self.members if "curve.csv" in member.run.files]
        return {member.run.identity.seed: read_curve(member.folder, member.run) for member in kept}


def seed_statistics(member: Member, task: Task, split: str, metric: Metric) -> np.ndarray:
    """Return a metric's statistics ``(n,k)`` of one run on a test; the task's data are loaded only where needed."""
    stored = stored_split(member, split)
    if metric.from_stored and task.missing(member.run.identity.regime):
        return metric.statistics(stored, None)
    examples = task.load(split)
    task.family.check_stored(stored, examples)
    return metric.statistics(stored, examples)


def stored_split(member: Member, split: str) -> Stored:
    """Return one split's arrays of ``predictions.npz``, empty where it has none."""
    return read_arrays(member.folder, member.run, group=split).get(split, {})


@lru_cache
def installed_task(name: str) -> Task | None:
    """Return the task called ``name``, None if no installed package has it."""
    try:
        return get_task(name)
    except UserError:
        return None


def read_groups(results: Path) -> list[Group]:
    """Read every bundle below ``results/runs`` and return the groups, sorted by key.

    ``CorruptBundleError`` names a damaged bundle; ``UserError`` names two seeds of a row that differ in more than seed.
    """
    from harness import provenance

    rerun = read_reruns(results)
    found: dict[tuple[str, str, str, str], list[Member]] = {}
    doubts: dict[tuple[object, ...], str | None] = {}
    for folder in find_bundles(results):
        run = read_run(folder)
        path = folder.relative_to(runs_folder(results)).as_posix()
        if path != run.identity.folder.as_posix():
            raise UserError(f"bundle {path} holds the run of {run.identity.folder.as_posix()}; move it there")
        identity = run.identity
        key = (identity.task, identity.regime, identity.budget, identity.row)
        # Asking is slow, and seeds of one row run and reproduced by the same sources are stale together.
        same = (*key, *run.source_hashes)
        if same not in doubts:
            doubts[same] = provenance.stale_reason(run)
        origin = _origin(run, rerun.get(path) == digest_of(folder))
        found.setdefault(key, []).append(Member(run, folder, path, doubts[same], origin))
    groups = []
    for key in sorted(found):
        members = sorted(found[key], key=lambda member: member.run.identity.seed)
        _require_alike(members)
        groups.append(Group(installed_task(key[0]), tuple(members)))
    return groups


def _origin(run: Run, rerun: bool) -> str:
    """Return a run's origin: who says that a row comes with a package that is not here is a stranger."""
    installed = run.kind == "trained" and comes_with_a_package(run.identity.row, run.identity.model)
    if installed or run.kind == "reference":
        return ""
    return RE_RUN if rerun else SELF_REPORTED


def _require_alike(members: Sequence[Member]) -> None:
    """Refuse seeds of one row that are not the same experiment: their mean would be of nothing."""
    for member in members[1:]:
        reason = differing(members[0].run, member.run)
        if reason is not None:
            raise UserError(
                f"{members[0].path} and {member.path} are not seeds of one experiment: {reason}. Run the older one "
                "again, or delete it"
            )


def differing(a: Run, b: Run) -> str | None:
    """Return the first of what tells two experiments apart, as ``a`` and ``b`` have it; None for seeds of one."""
    return f"kind is {a.kind!r} and {b.kind!r}" if a.kind != b.kind else other_experiment(a.identity, b.identity)


def other_experiment(a: Identity, b: Identity) -> str | None:
    """As ``differing``, of identities alone."""
    mine, other = a.model_dump(exclude={"seed"}), b.model_dump(exclude={"seed"})
    return next((f"{name} is {mine[name]!r} and {other[name]!r}" for name in mine if mine[name] != other[name]), None)


def require_seeds_alike(results: Path, wanted: Sequence[Identity]) -> None:
    """Refuse runs that would lie beside seeds of another experiment that they do not replace: no board takes both."""
    root = runs_folder(results)
    replaced = {root / identity.folder for identity in wanted}
    for place, identity in {(root / identity.folder).parent: identity for identity in wanted}.items():
        for stored in sorted(path.parent for path in place.glob("seed-*/run.json")):
            if stored in replaced:
                continue
            try:
                reason = other_experiment(read_run(stored).identity, identity)
            except CorruptBundleError:  # the board and `verify` say what is wrong with it
                continue
            if reason is not None:
                raise UserError(
                    f"{identity.label} would not be a seed of one experiment with {stored}: {reason}. Run that seed "
                    f"again, too, or move {place} away"
                )


def _run_line(member: Member) -> dict[str, object]:
    run, identity, cost, selection = member.run, member.run.identity, member.run.cost, member.run.selection
    return {
        "suite": identity.task.split("/")[0],
        "task": identity.task,
        "version": identity.task_version,
        "regime": identity.regime,
        "row": identity.row,
        "title": run.title,
        "kind": run.kind,
        "origin": member.origin,
        "bound": run.bound or "",
        "budget": identity.budget,
        "seed": identity.seed,
        "status": run.status,
        "reason": run.reason or "",
        "stale": member.stale or "",
        "departs_from_budget": "yes" if run.departs_from_budget else "",
        "tuning": run.tuning,
        "examples": cost.examples if cost else None,
        "parameters": cost.parameters if cost else None,
        "seconds": cost.seconds if cost else None,
        "flops": cost.flops if cost else None,
        "flops_in_training": cost.flops_in_training if cost else None,
        "validation": selection.validation if selection else None,
        "training_loss": selection.training_loss if selection else None,
        "checkpoint": selection.checkpoint if selection else "",
        "model": identity.model,
        "model_version": identity.model_version,
        "hyperparameters": canonical_json(identity.hyperparameters).decode(),
        "training": canonical_json(identity.training).decode(),
        "signatures": canonical_json(run.signatures).decode(),
        "commit": run.provenance.commit or "",
        "dirty": "" if run.provenance.dirty is None else str(run.provenance.dirty),
        "harness_version": run.provenance.harness_version,
        "cpu": run.provenance.cpu,
        "threads": run.provenance.threads,
        "finished": run.provenance.finished,
        "bundle": member.path,
    }


def runs_table(groups: Sequence[Group]) -> pd.DataFrame:
    """Return one line a bundle with the columns of ``RUN_DTYPES``: identity, status, cost and provenance."""
    lines = [_run_line(member) for group in groups for member in group.members]
    return pd.DataFrame(lines, columns=list(RUN_DTYPES)).astype(RUN_DTYPES)
