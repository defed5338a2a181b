"""What a bundle says, held against what can be worked out again: data, kind, scores, selection, schedule."""

import math
import re
from pathlib import Path

import numpy as np

from harness.cells import COMPETING
from harness.errors import CorruptBundleError, ReadheadError
from harness.evaluation import refer, score_split
from harness.families.base import Stored
from harness.recipe import Training, comes_with_a_package, get_recipe, recipe_paths, validated
from harness.records import Run, Score
from harness.registry import get_task, model_names, task_names
from harness.results import EXTERNAL_BUDGET, REFERENCE_BUDGET, read_arrays, read_curve, read_file, read_run
from harness.schedule import Schedule
from harness.task import Task, combined_fingerprint

_VERSION = re.compile(r"\|version:[0-9a-z.]+$")
"""Of a library, in a metric's signature: not of the metric."""

LARGEST_EXPLANATION = 500_000
"""Numbers in one array of what a model shows of an example; a figure would take minutes to draw more."""


def doubt(folder: Path, references: bool = False) -> str:
    """Return why a bundle cannot be verified here, nothing if it is; a ``ReadheadError`` says what is wrong with it.

    With ``references`` the predictions of a reference are made again.
    """
    run = read_run(folder)
    for name in run.files:
        read_file(folder, run, name)
    strange = sorted({file.name for file in folder.iterdir()} - {"run.json", *run.files})
    if strange:
        raise CorruptBundleError(f"{folder}: {', '.join(strange)} is not a file of this bundle")
    place = run.identity.folder.parts
    if folder.resolve().parts[-len(place) :] != place:
        raise CorruptBundleError(f"{folder}: it holds the run of {run.identity.folder}")
    if run.reproductions and run.kind != "trained":
        raise CorruptBundleError(f"{folder}: it says that it was reproduced; of a {run.kind} run reruns.csv does")
    if run.identity.task not in task_names():
        return f"task {run.identity.task} is not installed here"
    task = get_task(run.identity.task)
    absent = task.missing(run.identity.regime)
    _check_data(folder, run, task, load=absent is None)
    _check_kind(folder, run, task)
    if absent is None:
        _check_scores(folder, run, task)
        _check_examples(folder, run, task)
        if references and run.kind == "reference":
            _check_reference(folder, run, task)
    else:
        _check_scores_without_data(folder, run, task)
    if run.kind in COMPETING:
        _check_selection(folder, run, task)
        if absent is None:
            _check_schedule(folder, run, task)
    if absent is not None:
        return f"{run.identity.label}: the data to verify it are not here: {absent}"
    if run.kind == "trained" and not comes_with_a_package(run.identity.row, run.identity.model):
        return f"{run.identity.label}: it says that an installed package has this row; none has here"
    return ""


def _check_kind(folder: Path, run: Run, task: Task) -> None:
    """Require what a run says of itself to fit its kind: who may bound the others, and what was trained."""
    identity, installed = run.identity, recipe_paths()
    ours = {*installed, *model_names()}
    trained = (identity.model, identity.model_version, identity.hyperparameters, identity.training, identity.examples)
    untrained = not any((*trained, run.selection, run.cost))
    reference = task.references().get(identity.row)
    fits = {
        "trained": reference is None and (identity.row not in ours or identity.model == get_recipe(identity.row).model),
        "community": reference is None and identity.row not in ours,
        "reference": untrained and reference is not None and (identity.budget, identity.seed) == (REFERENCE_BUDGET, 0),
        "external": untrained and reference is None and identity.budget == EXTERNAL_BUDGET and identity.row not in ours,
    }
    if not fits[run.kind]:
        raise CorruptBundleError(f"{folder}: it is no run of kind {run.kind}: row, budget or settings are not of one")
    if run.bound != (reference.bound if run.kind == "reference" and reference is not None else None):
        raise CorruptBundleError(f"{folder}: bound {run.bound} is not what {task.name} says of {identity.row}")
    expected = run.kind in COMPETING and identity.examples != task.budget(identity.budget, identity.regime)
    if run.departs_from_budget != expected:
        raise CorruptBundleError(
            f"{folder}: departs_from_budget is {run.departs_from_budget}, but it has {identity.examples} examples"
        )
    if (run.reason is None) != (run.status == "completed") or (run.status == "diverged" and run.kind not in COMPETING):
        raise CorruptBundleError(f"{folder}: status {run.status} of a {run.kind} run, and reason {run.reason}")
    if not set(run.unsupported) <= set(task.regime(identity.regime).tests):
        raise CorruptBundleError(f"{folder}: it is unsupported on what is no test of {task.name}:{identity.regime}")
    recorded = {name: _VERSION.sub("", text) for name, text in run.signatures.items()}
    if recorded != {m.name: _VERSION.sub("", m.signature) for m in task.metrics if m.signature}:
        raise CorruptBundleError(f"{folder}: the signatures of its metrics are not those of {task.name}")


def _check_examples(folder: Path, run: Run, task: Task) -> None:
    """Require what a model shows of itself to be of the fixed examples, in the type that is stored, and drawable."""
    if "examples.npz" not in run.files:
        return
    places = {f"{split}/{row}" for split, row in task.explained(run.identity.regime)}
    for place, arrays in read_arrays(folder, run, "examples.npz").items():
        strange = [name for name, array in arrays.items() if array.dtype != np.float16]
        strange += [name for name, array in arrays.items() if array.size > LARGEST_EXPLANATION]
        if place not in places or strange:
            raise CorruptBundleError(f"{folder}: {place} in examples.npz is not what a model shows of a fixed example")
        if run.kind == "community" and task.draws and set(task.draws) <= set(arrays):
            _check_drawing(folder, task, place, arrays)


def _check_drawing(folder: Path, task: Task, place: str, explanation: Stored) -> None:
    """Draw what the board is going to draw; one bundle of arrays in strange shapes would stop all of it."""
    from matplotlib.figure import Figure

    from harness.plots.explained import DRAWING_ERRORS

    split, _, row = place.rpartition("/")
    try:
        task.draw(Figure().subplots(), task.load(split), int(row), explanation)
    except DRAWING_ERRORS as error:
        raise CorruptBundleError(f"{folder}: {place} in examples.npz cannot be drawn: {error}") from error


def _check_data(folder: Path, run: Run, task: Task, load: bool) -> None:
    """Require the run's task version and data to be today's, by the pinned fingerprint of each split of its regime.

    The tests are made again and checked against theirs; what a model learns from is checked before it trains. Data
    that cannot be loaded here are compared by what is pinned, where all of the regime is.
    """
    identity = run.identity
    if identity.task_version != task.version:
        raise CorruptBundleError(
            f"{folder}: it is of {task.name} version {identity.task_version}; this is version {task.version}"
        )
    regime = task.regime(identity.regime)
    for split in regime.tests if load else ():
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
        if read_arrays(folder, run):
            raise CorruptBundleError(f"{folder}: status {run.status}, but it has predictions")
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
        strange = sorted(set(predictions[split]) - set(task.family.arrays))
        if strange:
            raise CorruptBundleError(f"{folder}: {split}: {', '.join(strange)} is no array of a prediction")
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


def _check_reference(folder: Path, run: Run, task: Task) -> None:
    """Require the stored predictions to be those that the task's reference makes now."""
    regime, row = run.identity.regime, run.identity.row
    stored, made = read_arrays(folder, run), refer(task, regime, row, task.references()[row])
    for split, arrays in made.items():
        if {name: _bits(array) for name, array in arrays.items()} != {n: _bits(a) for n, a in stored[split].items()}:
            raise CorruptBundleError(f"{folder}: {split}: its predictions are not those of {row}")


def _bits(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    return str(array.dtype), array.shape, array.tobytes()


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
    cost = run.cost
    if cost is None or min(cost.parameters, cost.flops or 0, cost.flops_in_training or 0) < 0:
        raise CorruptBundleError(f"{folder}: a trained run needs its cost")
    if cost.examples != int(curve["examples"].iloc[-1]) or cost.seconds != float(curve["seconds"].iloc[-1]):
        raise CorruptBundleError(f"{folder}: examples or seconds of its cost are not those at the end of its curve")


def _check_schedule(folder: Path, run: Run, task: Task) -> None:
    """Require the curve to be of the training that the identity names: each validation once, on training data alone."""
    identity, curve = run.identity, read_curve(folder, run)
    training = validated(Training, identity.training, f"{folder}: training")
    if identity.examples < 1:
        raise CorruptBundleError(f"{folder}: it was trained on no examples")
    try:
        schedule = Schedule(task, identity.regime, training, identity.examples, identity.seed)
    except ReadheadError as error:
        raise CorruptBundleError(f"{folder}: {error}") from error
    count = len(schedule.segments) if run.status == "completed" else min(len(curve), len(schedule.segments))
    steps = np.cumsum([segment.stop - segment.start for segment in schedule.segments])[:count]
    examples = [schedule.examples_after(segment + 1) for segment in range(count)]
    if curve["step"].tolist() != steps.tolist() or curve["examples"].tolist() != examples:
        raise CorruptBundleError(f"{folder}: its curve is not that of {identity.examples} examples in its recipe")
    seconds = curve["seconds"].to_numpy()
    if not np.isfinite(seconds).all() or (np.diff(seconds, prepend=0) < 0).any():
        raise CorruptBundleError(f"{folder}: the seconds of its curve do not go on")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
