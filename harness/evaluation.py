"""Free-running evaluation: predict on stripped inputs, store canonically, score what is stored."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from harness.errors import ReadheadError, UserError
from harness.families.base import Examples, Stored
from harness.model import unsupported
from harness.records import Score
from harness.splits import generator
from harness.task import Reference, Task

EVALUATION_BATCH = 128
AUDITED = 4
"""Examples of every test split whose future is perturbed, where the family promises causality."""


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode, no gradients, a fixed random state; all three are put back."""
    was_training = model.training
    model.eval()
    graphics = [model.device] if model.device.type == "cuda" else []
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=graphics):
            torch.manual_seed(0)
            yield
    finally:
        model.train(was_training)


def answer(model: Any, inputs: Any, index: int = 0) -> Any:
    """Return what ``predict_step`` says, on the CPU wherever the model is."""
    if model.device.type == "cpu":
        return model.predict_step(inputs, index)
    prediction = model.predict_step(inputs.to(model.device), index)
    return prediction.to("cpu") if hasattr(prediction, "to") else prediction


def predict(model: Any, task: Task, spec: Any, examples: Examples, *, audit: bool = False) -> Stored:
    """Return the stored predictions of ``model`` for ``examples``; the model never sees a target.

    Raises ``PredictionError`` where the model breaks the contract, naming task and model.
    """
    parts = []
    name = type(model).__name__
    with evaluating(model):
        for start in range(0, len(examples), EVALUATION_BATCH):
            batch = task.family.batch(examples.take(slice(start, start + EVALUATION_BATCH)))
            try:
                prediction = answer(model, batch.inputs, start // EVALUATION_BATCH)
                parts.append(task.family.store(prediction, batch, spec))
                if audit and start == 0:
                    few = task.family.batch(examples.take(slice(0, AUDITED)))
                    task.family.audit(lambda inputs: answer(model, inputs), few)
            except ReadheadError as error:
                raise type(error)(f"{name} on {task.name}: {error}") from error
    return task.family.join(parts)


def score_split(task: Task, split: str, stored: Stored, examples: Examples) -> list[Score]:
    """Return the scores over a split, then over each of its sizes where it has several."""
    statistics = {metric.name: metric.statistics(stored, examples) for metric in task.metrics}

    def over(rows: np.ndarray, size: float | None) -> Score:
        values = {metric.name: metric.score(statistics[metric.name][rows]) for metric in task.metrics}
        finite = {name: value if np.isfinite(value) else None for name, value in values.items()}
        return Score(split=split, size=size, n=int(rows.sum()), values=finite)

    sizes = np.unique(examples.sizes)
    scores = [over(np.ones(len(examples), bool), float(sizes[0]) if len(sizes) == 1 else None)]
    if len(sizes) > 1:
        scores += [over(examples.sizes == size, float(size)) for size in sizes]
    return scores


def evaluate(model: Any, task: Task, regime: str, spec: Any) -> tuple[dict[str, Stored], list[Score], dict[str, str]]:
    """Return predictions by split, scores, and the splits that the model cannot be run on with its reasons."""
    predictions, scores, reasons = {}, [], {}
    for split in task.regime(regime).tests:
        examples = task.load(split)
        reason = unsupported(type(model), spec, float(examples.sizes.max()))
        if reason is not None:
            reasons[split] = reason
            continue
        predictions[split] = predict(model, task, spec, examples, audit=True)
        scores += score_split(task, split, predictions[split], examples)
    return predictions, scores, reasons


def explain(model: Any, task: Task, regime: str, spec: Any) -> dict[str, np.ndarray]:
    """Return what the model shows of itself on the task's fixed test examples, keyed ``<split>/<row>/<name>``.

    Beside what its ``explain`` returns stand the fields of its prediction, unless it gives its own of that name.
    """
    if not hasattr(model, "explain"):
        return {}
    shown = {}
    for split, row in task.explained(regime):
        examples = task.load(split).take(slice(row, row + 1))
        if unsupported(type(model), spec, float(examples.sizes[0])) is not None:
            continue
        for name, array in explained(model, task.family.batch(examples).inputs).items():
            shown[f"{split}/{row}/{name}"] = array
    return shown


def explained(model: Any, inputs: Any) -> dict[str, np.ndarray]:
    """Return what ``explain`` and ``predict_step`` say of the first example of ``inputs``, by name."""
    with evaluating(model):
        explanation = model.explain(inputs)
        prediction = model.predict_step(inputs, 0)
    if not isinstance(explanation, dict):
        raise UserError(f"explain returned a {type(explanation).__name__}; return a dict of tensors")
    for name, value in explanation.items():
        if not isinstance(value, torch.Tensor):
            raise UserError(f"explain returned a {type(value).__name__} as {name!r}; return a dict of tensors")
    return {name: pictured(x.detach().cpu().numpy()[0]) for name, x in (vars(prediction) | explanation).items()}


def pictured(array: np.ndarray) -> np.ndarray:
    """Return ``array`` as float16; fractions in 255 steps up to the largest: all that a picture shows, and small."""
    if not np.issubdtype(array.dtype, np.floating):
        return array.astype(np.float16)
    step = np.abs(array, dtype=np.float64).max(initial=0, where=np.isfinite(array)) / 255
    return (np.rint(array / step) * step if step else array).astype(np.float16)


def refer(task: Task, regime: str, row: str, reference: Reference) -> dict[str, Stored]:
    """Return what the reference called ``row`` predicts on every test of a regime, the same whenever it is asked."""
    stored = {}
    for split in task.regime(regime).tests:
        examples = task.load(split)
        stored[split] = reference.predict(examples, generator(task.name, task.version, f"reference/{row}", split))
        task.family.check_stored(stored[split], examples)
    return stored
