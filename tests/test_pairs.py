"""Every row trains, is scored and is verified on every task of its families; nothing here names a model or a task."""

import numpy as np
import pytest

from harness import api
from harness.model import applies, get_model
from harness.recipe import get_recipe, recipe_paths
from harness.registry import get_task, task_names
from harness.splits import Split
from harness.task import Task
from harness.verify import verify_bundle

TASKS = [name for name in task_names() if get_task(name).sampled != ()]
"""Of a suite of many tasks alike, those that stand for it."""

PAIRS = [
    (row, task)
    for row in sorted(recipe_paths())
    for task in TASKS
    if applies(get_model(get_recipe(row).model), get_task(task).family.name) is None
]


SCORED = 24
"""Examples of a validation or test split that are scored here, spread over its sizes."""


@pytest.fixture
def few(monkeypatch):
    """Cut every validation and test split; its examples are the ones that count.

    What a split is made of is not cut: that of all bAbI tasks holds those of each.
    """
    whole = Task.load

    def load(task, name):
        monkeypatch.setattr(Task, "load", whole)
        examples, split = task.load(name), task.split(name)
        monkeypatch.setattr(Task, "load", load)
        if not isinstance(split, Split) or split.role == "train" or len(examples) <= SCORED:
            return examples
        return examples.take(np.linspace(0, len(examples) - 1, SCORED).astype(int))

    monkeypatch.setattr(Task, "load", load)


def test_every_row_has_a_task_and_every_task_of_its_family_a_row():
    assert {row for row, _ in PAIRS} == set(recipe_paths())
    families = {get_task(task).family.name for _, task in PAIRS}
    assert {task for _, task in PAIRS} == {task for task in TASKS if get_task(task).family.name in families}


@pytest.mark.parametrize(("row", "task"), PAIRS)
def test_a_row_trains_a_few_steps_and_is_verified(row, task, tmp_path, few):
    settings = [f"examples={min(256, get_task(task).budget('smoke') - 1)}", "validations=2"]
    options = {"regime": next(iter(get_task(task).regimes)), "budget": "smoke", "seeds": [0], "settings": settings}
    (done,) = api.run(row, task, results=tmp_path, mlflow=False, **options)
    assert done.run is not None
    assert done.run.status == "completed"
    assert done.run.departs_from_budget
    assert done.run.cost.parameters > 0
    assert done.run.cost.flops > 0
    assert verify_bundle(done.folder).status == "verified"


@pytest.mark.parametrize("row", sorted(recipe_paths()))
def test_a_row_keeps_the_contract(row):
    failed = [f"{check.task} {check.name}: {check.detail}" for check in api.check(row) if check.passed is False]
    assert failed == []
