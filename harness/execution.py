"""From an identity to a bundle: build, train, score once, save."""

import contextlib
import ctypes
import logging
import math
import os
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from rich.markup import escape

from harness import cost, provenance
from harness.checkpoints import Checkpoints
from harness.errors import CorruptBundleError, ReadheadError, RunFailedError, UserError
from harness.evaluation import AUDITED, evaluate, evaluating, explain, explained
from harness.families.base import Stored
from harness.mirror import Mirror
from harness.model import build, get_model, unsupported
from harness.progress import RunProgress, console
from harness.ranks import RANKS, leading
from harness.recipe import Recipe, Training
from harness.records import Cost, Identity, Provenance, Run, Score, Selection
from harness.results import CURVE_COLUMNS, read_run, require_writable, runs_folder, write_bundle
from harness.schedule import Schedule
from harness.task import Task
from harness.training import (
    Harness,
    Outcome,
    SegmentLoader,
    derive_seed,
    fit,
    random_states,
    restore_random_states,
    seed_everything,
)

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Names of ``mallopt`` settings in glibc's ``malloc.h``."""


@dataclass(frozen=True)
class PlannedRun:
    """One run to do: ``recipe`` is resolved for the task, ``identity`` follows from the rest.

    ``source`` is what the registry knows the task by.
    """

    source: str
    task: Task
    regime: str
    recipe: Recipe
    identity: Identity


def keep_freed_memory() -> None:
    """Let glibc keep what a step frees, where it is the C library: giving it back costs a twentieth of a step.

    The values are the trim and mmap thresholds; 32 MiB is the largest that glibc takes for the second.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_TRIM_THRESHOLD, 2**30)
        library.mallopt(M_MMAP_THRESHOLD, 2**25)


@contextmanager
def isolated(threads: int = 1) -> Iterator[None]:
    """Run with ``threads`` threads, quiet libraries and private generators; put all of it back."""
    states, before = random_states(), torch.get_num_threads()
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    torch.set_num_threads(threads)
    keep_freed_memory()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="pytorch_lightning|lightning_fabric|torch")
            yield
    finally:
        torch.set_num_threads(before)
        restore_random_states(states)


@contextmanager
def failures_named(identity: Identity) -> Iterator[None]:
    """Turn what goes wrong inside a model's code into one line that says where (READHEAD_TRACEBACK=1 shows all)."""
    try:
        yield
    except ReadheadError:
        raise
    except (Exception, SystemExit) as error:
        if os.environ.get("READHEAD_TRACEBACK"):
            traceback.print_exc()
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "site-packages" not in f.filename]
        where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "no message"
        raise RunFailedError(
            f"{identity.label} failed: {type(error).__name__}: {reason}{where} (READHEAD_TRACEBACK=1 shows more)"
        ) from error


def existing(results: Path, identity: Identity) -> Run | None:
    """Return the finished run of exactly this identity, None where there is none or another."""
    folder = runs_folder(results) / identity.folder
    if not (folder / "run.json").exists():
        return None
    try:
        run = read_run(folder)
    except CorruptBundleError:
        return None
    return run if run.identity == identity else None


def preflight(model: Any, task: Task, regime: str, spec: Any) -> None:
    """Predict and explain a few validation examples: a broken contract shows before the training, not after it."""
    examples = task.load(task.regime(regime).validation)
    few = task.family.batch(examples.take(slice(0, AUDITED)))
    unsupported(type(model), spec, float(examples.sizes.max()))
    with evaluating(model):
        task.family.store(model.predict_step(few.inputs, 0), few, spec)
        task.family.audit(lambda inputs: model.predict_step(inputs, 0), few)
    if hasattr(model, "explain"):
        explained(model, task.family.batch(examples.take(slice(0, 1))).inputs)


def build_model(planned: PlannedRun) -> pl.LightningModule:
    """Return the run's freshly initialised model."""
    seed_everything(derive_seed(planned.identity.seed, "init"))
    spec = planned.task.spec(planned.regime)
    return build(get_model(planned.recipe.model), spec, planned.recipe.hyperparameters, planned.recipe.row)


def execute(
    planned: PlannedRun,
    results: Path,
    *,
    force: bool = False,
    reproduction: bool = False,
    mlflow: bool = True,
    store: Path | str | None = None,
    quiet: bool = False,
) -> tuple[Path, Run]:
    """Train and score one run and return its bundle; a finished run of the same identity is returned as it is.

    A ``reproduction`` has checkpoints of its own, and leaves the weights of the run that it repeats alone.
    With ``mlflow`` it is mirrored to the tracking server, or else to the store below the results folder ``store``
    (``results`` by default). A ``quiet`` run shows no progress. Raises ``UserError`` for what the user can mend,
    ``RunFailedError`` where the model's code fails.
    """
    identity = planned.identity
    if not leading() and Training.model_validate(identity.training).devices == 1:
        raise UserError(
            f"{identity.label} has one device, but one of {', '.join(RANKS)} says that this process is one of several, "
            "of which only the first writes: unset it, or set devices"
        )
    require_writable(results)
    checkpoints = Checkpoints(identity, reproduction=reproduction)
    with checkpoints.claimed(), isolated(), failures_named(identity):
        done = None if force else existing(results, identity)
        if done is not None:
            if provenance.source_hash(get_model(planned.recipe.model)) not in done.source_hashes:
                console.print(
                    f"{escape(identity.label)} was finished by other code: raise the model's version if what changed "
                    "changes its numbers, or run it again with --force"
                )
            return runs_folder(results) / identity.folder, done
        origin = provenance.collect(get_model(planned.recipe.model), torch.get_num_threads())
        model = build_model(planned)
        spec = planned.task.spec(planned.regime)
        try:
            preflight(model, planned.task, planned.regime, spec)
        except ReadheadError as error:
            raise type(error)(f"{planned.recipe.model} on {planned.task.name}: {error}") from error
        mirrored = Path(results if store is None else store) if mlflow else None
        return _train_and_save(planned, model, spec, results, checkpoints, origin, mirrored, quiet, force)


def _train_and_save(
    planned: PlannedRun,
    model: pl.LightningModule,
    spec: Any,
    results: Path,
    checkpoints: Checkpoints,
    origin: Provenance,
    mirrored: Path | None,
    quiet: bool,
    force: bool,
) -> tuple[Path, Run]:
    """Train (or go on), choose the weights, score the tests once, write the bundle, mirror it."""
    identity, task = planned.identity, planned.task
    training = Training.model_validate(identity.training)
    schedule = Schedule(task, planned.regime, training, identity.examples, identity.seed)
    for batches in schedule.batches:
        batches.check()
    loader = SegmentLoader(schedule)
    saved = checkpoints.load_last()
    state = None if saved is None else next(iter(saved["callbacks"].values()))
    if state is not None and force and not state["outcome"].get("forced"):
        checkpoints.clear()  # of a run that was not to replace a finished one
        saved = state = None
    if state is not None and state["outcome"].get("source_hash") != origin.source_hash:
        console.print(f"{escape(identity.label)} was interrupted in other code; it starts afresh")
        checkpoints.clear()
        saved = state = None
    with ExitStack() as stack:
        mirror = None
        if mirrored is not None and leading():
            run_id = None if state is None else state["outcome"]["mirror_run"]
            tags = {"commit": origin.commit or "", "dirty": str(origin.dirty)}
            mirror = Mirror(mirrored, identity, tags, run_id)
            stack.enter_context(_aborting(mirror))
        finished = 0 if state is None else state["outcome"]["position"]
        done = sum(s.stop - s.start for s in schedule.segments[:finished])
        progress = stack.enter_context(RunProgress(identity.label, schedule.total, done, quiet or not leading()))
        harness = Harness(task, planned.regime, spec, loader, checkpoints, progress, mirror, identity.seed)
        harness.outcome.mirror_run = mirror.run_id if mirror else None
        harness.outcome.source_hash, harness.outcome.forced = origin.source_hash, force
        flops = _flops(model, planned, schedule)
        if saved is not None and state is not None and finished == len(schedule.segments):
            harness.load_state_dict(state)  # killed between the last segment and the bundle: only scoring is left
            model.load_state_dict(saved["state_dict"])
            outcome = harness.outcome
        else:
            outcome = fit(model, harness, training, checkpoints.last if saved is not None else None)
        run, files = _scored(planned, model, spec, training, outcome, origin, flops)
        place = results if leading() else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = write_bundle(place, run, **files)
        run = read_run(folder)
        checkpoints.finish(model.state_dict())
        if mirror is not None:
            mirror.finish(run, folder, outcome.curve, task.headline.name)
    return folder, run


@contextmanager
def _aborting(mirror: Mirror) -> Iterator[None]:
    """Close the mirrored run as failed or killed when the body does not end well."""
    try:
        yield
    except BaseException as error:
        mirror.abort(error)
        raise


def _flops(model: pl.LightningModule, planned: PlannedRun, schedule: Schedule) -> dict[str, float | None]:
    """Return the FLOPs of a run's ``Cost``; None for a model whose step cannot run outside a trainer."""
    task, phased = planned.task, len(schedule.phases) > 1
    batch = cost.largest_training_batch(task, task.split(task.regime(planned.regime).train))
    try:
        whole = cost.forward_flops(model, batch)
        mean = cost.flops_in_training(model, task, schedule, planned.identity.examples) if phased else None
    except RuntimeError:
        return {"flops": None}
    return {"flops": whole, "flops_in_training": mean}


def _scored(
    planned: PlannedRun,
    model: pl.LightningModule,
    spec: Any,
    training: Training,
    outcome: Outcome,
    origin: Provenance,
    flops: dict[str, float | None],
) -> tuple[Run, dict[str, Any]]:
    """Score the chosen weights on the tests and return the run, which ends then, with the contents of its files."""
    task, identity = planned.task, planned.identity
    use_best = training.checkpoint == "best" and outcome.best_weights is not None and outcome.best is not None
    if use_best and outcome.best_weights is not None:
        model.load_state_dict(outcome.best_weights)
    chosen = outcome.curve[outcome.best if use_best and outcome.best is not None else -1]
    stored: dict[str, Stored] = {}
    scores: list[Score] = []
    reasons: dict[str, str] = {}
    explained: dict[str, np.ndarray] = {}
    if outcome.diverged is None:
        stored, scores, reasons = evaluate(model, task, planned.regime, spec)
        explained = explain(model, task, planned.regime, spec)
    run = Run(
        kind="community" if planned.recipe.community else "trained",
        status="completed" if outcome.diverged is None else "diverged",
        reason=outcome.diverged,
        identity=identity,
        title=planned.recipe.title,
        departs_from_budget=identity.examples != task.budget(identity.budget, identity.regime),
        tuning=" ".join(planned.recipe.tuning.split()),
        signatures={metric.name: metric.signature for metric in task.metrics if metric.signature},
        scores=scores,
        unsupported=reasons,
        selection=Selection(
            checkpoint="best" if use_best else "last",
            step=chosen["step"],
            examples=chosen["examples"],
            validation=_finite(chosen["validation"]),
            training_loss=_finite(outcome.curve[-1]["training_loss"]),
        ),
        cost=Cost(
            parameters=cost.parameters(model),
            examples=outcome.curve[-1]["examples"],
            seconds=round(outcome.seconds, 3),
            **flops,
        ),
        provenance=origin.model_copy(update={"finished": provenance.now()}),
    )
    curve = pd.DataFrame(outcome.curve, columns=list(CURVE_COLUMNS))
    return run, {"stored": stored, "curve": curve, "explained": explained}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
