"""What a request amounts to: the runs it names, and why some combinations are left out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.errors import UserError
from harness.execution import PlannedRun, isolated
from harness.model import applies, build, get_model
from harness.recipe import Recipe, match_recipes, override
from harness.records import LARGEST_SEED, Identity
from harness.registry import match_tasks
from harness.task import Task, combined_fingerprint


@dataclass
class Plan:
    """``runs`` in the order they are done; ``skipped`` says what was left out and why, a line each."""

    runs: list[PlannedRun] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def identify(task: Task, regime: str, recipe: Recipe, budget: str, seed: int) -> Identity:
    """Return the identity of a run; ``recipe`` is resolved for the task."""
    return Identity(
        task=task.name,
        task_version=task.version,
        regime=regime,
        fingerprint=combined_fingerprint(task, regime),
        row=recipe.row,
        model=recipe.model,
        model_version=get_model(recipe.model).version,
        hyperparameters=recipe.hyperparameters,
        training=recipe.training.model_dump(exclude_unset=True, exclude={"examples"}),
        budget=budget,
        examples=recipe.training.examples or task.budget(budget, regime),
        seed=seed,
    )


def untrained_identity(task: Task, regime: str, row: str, budget: str, seed: int = 0) -> Identity:
    """Return the identity of a row for which nothing is trained here, so most of it is empty."""
    values: dict[str, Any] = {"model": "", "model_version": 0, "hyperparameters": {}, "training": {}}
    return Identity(
        task=task.name,
        task_version=task.version,
        regime=regime,
        fingerprint=combined_fingerprint(task, regime),
        row=row,
        budget=budget,
        examples=0,
        seed=seed,
        **values,
    )


def make_plan(
    row: str,
    task: str,
    regime: str | None = None,
    budget: str = "standard",
    seeds: Sequence[int] = (0, 1, 2),
    settings: Sequence[str] = (),
) -> Plan:
    """Return the runs that a request names. A combination asked for by name that cannot be run is a ``UserError``."""
    if any(not 0 <= seed <= LARGEST_SEED for seed in seeds) or len(set(seeds)) != len(seeds):
        raise UserError(
            f"seeds {' '.join(map(str, seeds))} are not valid: give different numbers from 0 to {LARGEST_SEED}"
        )
    plan = Plan()
    tasks = match_tasks(task)
    for recipe in match_recipes(row):
        changed = override(recipe, list(settings))
        model = get_model(changed.model)
        for one in tasks:
            reason = applies(model, one.family.name)
            if reason is not None:
                plan.skipped.append(f"{recipe.row} on {one.name}: {reason}; the task's is {one.family.name}")
                continue
            source = task if ":" in task else one.name
            regimes = [regime] if regime is not None else list(one.regimes)
            resolved = changed.resolve(one)
            for name in regimes:
                one.regime(name)
                absent = one.missing(name)
                if absent is not None:
                    plan.skipped.append(f"{recipe.row} on {one.name}:{name}: {absent}")
                    continue
                with isolated():  # refuses wrong hyperparameters before anything is trained
                    build(model, one.spec(name), resolved.hyperparameters, resolved.row)
                plan.runs += [
                    PlannedRun(source, one, name, resolved, identify(one, name, resolved, budget, seed))
                    for seed in seeds
                ]
    if not plan.runs:
        raise UserError(f"nothing to run: {'; '.join(plan.skipped)}")
    return plan
