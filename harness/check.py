"""``readhead check MODEL``: in seconds, whether a model keeps its contract on a tiny version of each of its tasks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from harness.errors import ReadheadError
from harness.evaluation import evaluating
from harness.families.base import Batch, Examples, Stored
from harness.model import applies, build, get_model, unsupported
from harness.recipe import Recipe, get_recipe
from harness.registry import get_task, task_names
from harness.splits import Size, Stream, generator
from harness.task import Task
from harness.training import Trainer, derive_seed, seed_everything, trainer_options

EXAMPLES = 4
STEPS = 2


@dataclass(frozen=True)
class Check:
    """One line of the report; ``passed`` None says that it does not apply, and ``detail`` why."""

    task: str
    name: str
    passed: bool | None
    detail: str = ""


@dataclass
class Tiny:
    """A model and a few examples of a task: ``small`` and ``large`` differ in size."""

    task: Task
    regime: str
    recipe: Recipe
    small: Examples
    large: Examples

    @property
    def spec(self) -> Any:
        """The task's spec."""
        return self.task.spec(self.regime)

    def batches(self) -> list[Batch]:
        """Return the two training batches, one of mixed sizes."""
        mixed = self.task.family.concatenate([self.small, self.large])
        return [self.task.family.batch(self.small), self.task.family.batch(mixed)]

    def build(self, seed: int = 0) -> Any:
        """Return a freshly initialised model."""
        seed_everything(derive_seed(seed, "init"))
        return build(get_model(self.recipe.model), self.spec, self.recipe.hyperparameters, self.recipe.row)

    def trained(self) -> Any:
        """Return a model after two optimiser steps through Lightning, as a run takes them."""
        model = self.build()
        seed_everything(derive_seed(0, "training"))
        trainer = Trainer(
            max_epochs=1,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            **trainer_options(self.recipe.training),
        )
        trainer.total_batches = STEPS
        trainer.fit(model, DataLoader(self.batches(), batch_size=None))  # type: ignore[arg-type]
        return model

    def stored(self, model: Any, examples: Examples) -> Stored:
        """Return the stored predictions for ``examples`` in one batch."""
        batch = self.task.family.batch(examples)
        with evaluating(model):
            return self.task.family.store(model.predict_step(batch.inputs, 0), batch, self.spec)


def tiny(task: Task, regime: str, recipe: Recipe) -> Tiny:
    """Return the tiny version of a task: a few training examples of two small sizes."""
    split = task.split(task.regime(regime).train)

    def draw(size: Size, block: str) -> Examples:
        rng = generator(task.name, task.version, "check", block)
        return task.generate(rng, size, EXAMPLES, split.role)

    if isinstance(split, Stream):
        sizes = split.sizes
        return Tiny(
            task, regime, recipe, draw(sizes[min(2, len(sizes) - 1)], "a"), draw(sizes[min(5, len(sizes) - 1)], "b")
        )
    examples = task.load(split.name)
    order = examples.sizes.argsort(kind="stable")
    return Tiny(task, regime, recipe, examples.take(order[:EXAMPLES]), examples.take(order[-EXAMPLES:]))


class NotApplicableError(Exception):
    """A check that says nothing about this model, and why."""


def step_loss(model: Any, batch: Batch) -> Any:
    """Return the loss of one step, from one and the same random state."""
    seed_everything(derive_seed(0, "training"))
    loss = model.training_step(batch, 0)
    return loss.get("loss") if isinstance(loss, dict) else loss


def loss_and_gradients(t: Tiny) -> str:
    """The loss is a finite scalar, and every gradient that exists is finite."""
    model = t.build()
    if not model.automatic_optimization:
        raise NotApplicableError("it optimises by hand, which needs a trainer")
    loss = step_loss(model, t.batches()[0])
    if not isinstance(loss, torch.Tensor) or loss.dim() != 0:
        raise AssertionError(f"training_step returned {_shown(loss)}; return a scalar tensor")
    value = float(loss.detach())
    if not np.isfinite(value):
        raise AssertionError(f"the loss is {value}")
    loss.backward()
    bad = [n for n, p in model.named_parameters() if p.grad is not None and not bool(torch.isfinite(p.grad).all())]
    if bad:
        raise AssertionError(f"gradients of {', '.join(bad)} are not finite")
    if all(p.grad is None or not bool(p.grad.any()) for p in model.parameters()):
        raise AssertionError("no parameter gets a gradient")
    return f"loss {value:.4g}"


def prediction(t: Tiny) -> str:
    """``predict_step`` returns what the family asks for."""
    stored = t.stored(t.trained(), t.small)
    return ", ".join(f"{name} {array.shape}" for name, array in stored.items())


def audit(t: Tiny) -> str:
    """What the family promises beyond shapes: a tape model reads only the past."""
    model = t.trained()
    with evaluating(model):
        t.task.family.audit(lambda inputs: model.predict_step(inputs, 0), t.task.family.batch(t.large))
    return ""


def batch_mates(t: Tiny) -> str:
    """An example's prediction is the same alone as padded among longer ones."""
    model = t.trained()
    mixed = t.task.family.concatenate([t.small, t.large])
    together = t.stored(model, mixed)
    alone = t.task.family.join(
        [t.stored(model, part.take(slice(i, i + 1))) for part in (t.small, t.large) for i in range(EXAMPLES)]
    )
    for name, array in alone.items():
        if not t.task.family.same(array, together[name]):
            raise AssertionError(f"{name} of an example changes with its batch mates or with padding; mask the pads")
    return ""


def training_loss_padding(t: Tiny) -> str:
    """The gradient of an example does not see the padding that a longer batch mate brings."""
    model = t.build().eval()
    if not model.automatic_optimization:
        raise NotApplicableError("it optimises by hand, which needs a trainer")
    family = t.task.family
    one = t.small.take(slice(0, 1))
    both = family.tensors(family.concatenate([one, t.large]))
    padded = Batch(_first(both.inputs), _first(both.targets))
    plain = float(step_loss(model, family.batch(one)).detach())
    wide = float(step_loss(model, padded).detach())
    if not np.isclose(plain, wide, rtol=1e-4, atol=1e-5):
        raise AssertionError(f"the loss of an example is {plain:.6g} alone and {wide:.6g} with padding")
    return ""


def _first(tensors: Any) -> Any:
    """Return a record of tensors with its first example alone, as wide as it is."""
    return replace(tensors, **{field.name: getattr(tensors, field.name)[:1] for field in fields(tensors)})


def determinism(t: Tiny) -> str:
    """Two runs of one seed give equal weights."""
    first, second = t.trained().state_dict(), t.trained().state_dict()
    moved = [name for name in first if not torch.equal(first[name], second[name])]
    if moved:
        raise AssertionError(f"two runs of one seed differ in {', '.join(moved)}; use torch's generator")
    return ""


def save_and_load(t: Tiny) -> str:
    """A state dict carries all that a prediction depends on."""
    model, fresh = t.trained(), t.build(seed=1)  # nothing but the state dict may carry over
    fresh.load_state_dict(model.state_dict())
    for name, array in t.stored(model, t.small).items():
        if not np.array_equal(array, t.stored(fresh, t.small)[name]):
            raise AssertionError(f"{name} differs after save and load; register every tensor as parameter or buffer")
    return ""


CHECKS: dict[str, Callable[[Tiny], str]] = {
    "loss and gradients": loss_and_gradients,
    "prediction": prediction,
    "family contract": audit,
    "padding and batch mates": batch_mates,
    "loss under padding": training_loss_padding,
    "determinism": determinism,
    "save and load": save_and_load,
}


def check(name: str) -> Iterator[Check]:
    """Yield one ``Check`` after the other for the model or row ``name`` on every installed task and regime.

    Of tasks that differ in nothing that a model could break, the suite names a few (``Task.sampled``).

    Raises ``UserError`` where the class itself is not a model.
    """
    recipe = get_recipe(name)
    model = get_model(recipe.model)
    for task in map(get_task, task_names()):
        if task.sampled == ():
            continue
        reason = applies(model, task.family.name)
        if reason is not None:
            yield Check(task.name, "applies", None, f"family {task.family.name}: {reason}")
            continue
        for regime in task.regimes if task.sampled is None else task.sampled:
            yield from _check_task(model, task, regime, recipe)


def _check_task(model: type[Any], task: Task, regime: str, recipe: Recipe) -> Iterator[Check]:
    from harness.execution import isolated

    label = task.name if len(task.regimes) == 1 else f"{task.name}:{regime}"
    t = tiny(task, regime, recipe.resolve(task))
    for title, function in CHECKS.items():
        try:
            with isolated():
                yield Check(label, title, True, function(t))
        except NotApplicableError as note:
            yield Check(label, title, None, str(note))
        except (AssertionError, ReadheadError) as error:
            yield Check(label, title, False, str(error))
        except (Exception, SystemExit) as error:  # whatever a stranger's model raises is a line of the report
            yield Check(
                label, title, False, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            )
    dropped: dict[str, list[str]] = {}
    try:
        for name in task.regime(regime).tests:
            reason = unsupported(model, t.spec, float(task.load(name).sizes.max()))
            if reason is not None:
                dropped.setdefault(reason, []).append(name)
    except ReadheadError as error:
        yield Check(label, "supports", False, str(error))
    if dropped:
        reasons = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in dropped.items())
        yield Check(label, "supports", None, f"does not run on {reasons}")


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"
