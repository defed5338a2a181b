"""Recompute every stored number from stored predictions and regenerated targets, without training."""

import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import numpy as np

from harness.cells import COMPETING
from harness.errors import CorruptBundleError, ReadheadError, UserError
from harness.evaluation import score_split
from harness.records import Run, Score
from harness.registry import get_task, task_names
from harness.results import read_arrays, read_curve, read_file, read_run, runs_folder
from harness.splits import Split
from harness.task import Task, combined_fingerprint

SHARED = 50
"""From so many bundles on further processes pay for their start."""


@dataclass(frozen=True)
class Finding:
    """What ``verify`` says of one bundle; ``message`` is empty where all is well."""

    folder: Path
    status: Literal["verified", "unverified", "failed"]
    message: str = ""


def verify(path: Path, workers: int = 1) -> Iterator[Finding]:
    """Check every bundle at or below ``path`` (a results folder, a part of one, or one bundle).

    More ``workers`` are further processes, which share many bundles by task. Raises ``UserError`` if there is none.
    """
    if not path.exists():
        raise UserError(f"{str(path)!r} does not exist; give a results folder or a bundle")
    folders = [path] if (path / "run.json").exists() else list(_bundles(path))
    if not folders:
        raise UserError(f"no bundle (a folder with run.json) lies below {str(path)!r}")
    if workers <= 1 or len(folders) < SHARED:
        yield from map(verify_bundle, folders)
        return
    shares: dict[tuple[str, ...], list[Path]] = {}
    for folder in folders:  # by task, so that each process loads the data of its own ones only
        shares.setdefault(folder.parts[:-4], []).append(folder)
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        for found in pool.map(_verify_all, shares.values()):
            yield from found


def _verify_all(folders: Sequence[Path]) -> list[Finding]:
    return [verify_bundle(folder) for folder in folders]


@dataclass(frozen=True)
class Proof:
    """What was proven of the committed targets of one split: how many, and what is wrong with some of them."""

    task: str
    split: str
    count: int
    wrong: tuple[str, ...]


def prove(tasks: Iterable[Task], per_size: int | None = None) -> Iterator[Proof]:
    """Prove the committed targets of ``tasks`` again, split by split; ``per_size`` examples of each size, or all."""
    for task in tasks:
        if not task.committed:
            continue
        for split in task.splits:
            if isinstance(split, Split):
                sizes = task.load(split.name).sizes
                rows = [row for size in np.unique(sizes) for row in np.flatnonzero(sizes == size)[:per_size].tolist()]
                yield Proof(task.name, split.name, len(rows), tuple(task.prove(split, rows)))


def _bundles(path: Path) -> Iterator[Path]:
    """Yield the bundles of a results folder, or of any folder below its ``runs``, even one without its ``run.json``."""
    root = runs_folder(path) if runs_folder(path).is_dir() else path
    found = {file.parent for file in root.rglob("run.json")} | {each for each in root.rglob("seed-*") if each.is_dir()}
    yield from sorted(folder for folder in found if ".tmp-" not in str(folder.relative_to(root)))


def verify_bundle(folder: Path) -> Finding:
    """Check one bundle: checksums, place, task version, data, every score, the choice of weights."""
    try:
        run = read_run(folder)
        for name in run.files:
            read_file(folder, run, name)
        strange = sorted({file.name for file in folder.iterdir()} - {"run.json", *run.files})
        if strange:
            raise CorruptBundleError(f"{folder}: {', '.join(strange)} is not a file of this bundle")
        place = run.identity.folder.parts
        if folder.resolve().parts[-len(place) :] != place:
            raise CorruptBundleError(f"{folder}: it holds the run of {run.identity.folder}")
        if run.identity.task not in task_names():
            return Finding(folder, "unverified", f"task {run.identity.task} is not installed here")
        task = get_task(run.identity.task)
        absent = task.missing(run.identity.regime)
        _check_data(folder, run, task, load=absent is None)
        if absent is None:
            _check_scores(folder, run, task)
        else:
            _check_scores_without_data(folder, run, task)
        if run.kind in COMPETING:
            _check_selection(folder, run, task)
        if absent is not None:
            return Finding(folder, "unverified", f"{run.identity.label}: the data to verify it are not here: {absent}")
    except ReadheadError as error:
        return Finding(folder, "failed", str(error))
    return Finding(folder, "verified")


def _check_data(folder: Path, run: Run, task: Task, load: bool) -> None:
    """Require the run's task version and data to be today's; loading checks every pinned fingerprint.

    Data that cannot be loaded here are compared by what is pinned, where all of the regime is.
    """
    identity = run.identity
    if identity.task_version != task.version:
        raise CorruptBundleError(
            f"{folder}: it is of {task.name} version {identity.task_version}; this is version {task.version}"
        )
    regime = task.regime(identity.regime)
    for split in regime.names if load else ():
        task.load(split)
    if not load and not set(regime.names) <= set(task.pinned["splits"]):
        return
    if identity.fingerprint != combined_fingerprint(task, identity.regime):
        raise CorruptBundleError(f"{folder}: its data fingerprint is not that of {task.name} version {task.version}")


def _check_scores(folder: Path, run: Run, task: Task) -> None:
    """Require the stored scores to equal those of the stored predictions, split by split and size by size."""
    if run.status != "completed":
        if run.scores:
            raise CorruptBundleError(f"{folder}: status {run.status}, but it has scores")
        return
    predictions = read_arrays(folder, run)
    tests = [split for split in task.regime(run.identity.regime).tests if split not in run.unsupported]
    if sorted(predictions) != sorted(tests):
        odd = sorted(set(predictions) ^ set(tests))
        raise CorruptBundleError(f"{folder}: predictions and tests differ in {', '.join(odd)}")
    recomputed: list[Score] = []
    for split in tests:
        examples = task.load(split)
        try:
            task.family.check_stored(predictions[split], examples)
        except CorruptBundleError as error:
            raise CorruptBundleError(f"{folder}: {split}: {error}") from error
        recomputed += score_split(task, split, predictions[split], examples)
    stored = {(score.split, score.size): score for score in run.scores}
    if set(stored) != {(score.split, score.size) for score in recomputed} or len(stored) != len(run.scores):
        raise CorruptBundleError(f"{folder}: its scores are not those of its splits and sizes")
    for score in recomputed:
        own = stored[score.split, score.size]
        for name, value in score.values.items():
            if own.values.get(name) != value or own.n != score.n:
                at = score.split if score.size is None else f"{score.split} size {score.size:g}"
                raise CorruptBundleError(f"{folder}: {name} on {at} is {own.values.get(name)}, recomputed {value}")
        if set(own.values) != set(score.values):
            raise CorruptBundleError(f"{folder}: {score.split} has metrics that {task.name} has not")


def _check_scores_without_data(folder: Path, run: Run, task: Task) -> None:
    """Require the scores of whole tests to be those of the predictions, in the metrics that need nothing else."""
    predictions = read_arrays(folder, run)
    for split, stored in predictions.items():
        whole = next((score for score in run.scores if score.split == split), None)
        for metric in task.metrics:
            if metric.from_stored and whole is not None:
                value = metric.score(metric.statistics(stored, None))
                if whole.values.get(metric.name) != value:
                    raise CorruptBundleError(
                        f"{folder}: {metric.name} on {split} is {whole.values.get(metric.name)}, recomputed {value}"
                    )


def _check_selection(folder: Path, run: Run, task: Task) -> None:
    """Require the scored weights to be those that the curve names: the best on validation, or the last."""
    curve = read_curve(folder, run)
    if run.selection is None or curve.empty:
        raise CorruptBundleError(f"{folder}: a trained run needs a selection and a curve")
    best = 0
    values = [float(value) for value in curve["validation"]]
    for index, value in enumerate(values):
        if task.headline.better(value, values[best]):
            best = index
    asked = run.identity.training.get("checkpoint", "best")
    if run.selection.checkpoint != asked and any(map(math.isfinite, values)):
        raise CorruptBundleError(f"{folder}: the {run.selection.checkpoint} weights were scored, not the {asked}")
    at = best if run.selection.checkpoint == "best" else len(values) - 1
    expected: dict[str, float | None] = {
        "step": int(curve["step"].iloc[at]),
        "examples": int(curve["examples"].iloc[at]),
        "validation": _finite(values[at]),
        "training_loss": _finite(float(curve["training_loss"].iloc[-1])),
    }
    for name, found in expected.items():
        own = getattr(run.selection, name)
        if own != found:
            raise CorruptBundleError(
                f"{folder}: {name} of the {run.selection.checkpoint} weights is {own}, but step {expected['step']} of "
                f"its curve has {found}"
            )
    if run.cost is not None and run.cost.examples != int(curve["examples"].iloc[-1]):
        raise CorruptBundleError(f"{folder}: it was trained on {run.cost.examples} examples by its cost, not its curve")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
