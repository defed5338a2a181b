"""``new`` writes a model that passes ``check`` and learns; names that make no module are refused."""

import re

import numpy as np
import pytest
import torch

from harness.check import check
from harness.errors import UserError
from harness.evaluation import predict
from harness.families import FAMILIES, Examples
from harness.model import build, get_model
from harness.registry import get_task
from harness.scaffold import class_name, new
from harness.splits import generator

TASKS = {
    "tape": ("ntm/copy", (1, 2, 3)),
    "transduction": ("seq2seq/copy", (2, 3, 4)),
    "pointing": ("geometry/sort", (3, 4, 5)),
    "story": ("babi/qa1", (10,)),
    "scene": ("sort-of-clevr/state", (6,)),
}


@pytest.mark.parametrize(
    ("name", "file", "cls"),
    [
        ("my-model", "my_model.py", "MyModel"),
        ("my_model", "my_model.py", "MyModel"),
        ("My Model", "my_model.py", "MyModel"),
        ("MyModel", "my_model.py", "MyModel"),
        ("GRUModel2", "grumodel2.py", "GRUModel2"),
        ("x", "x.py", "X"),
        ("pointer-net-2", "pointer_net_2.py", "PointerNet2"),
    ],
)
def test_a_name_makes_a_file_and_a_class(tmp_path, name, file, cls):
    path = new(name, "tape", tmp_path)
    assert path == tmp_path / file
    assert class_name(name) == cls
    text = path.read_text()
    assert f"class {cls}(pl.LightningModule)" in text
    assert f"readhead check {file}:{cls}" in text
    if cls != "MyModel":
        assert "MyModel" not in text
        assert "my_model" not in text
    assert get_model(f"{path}:{cls}").families == ("tape",)


@pytest.mark.parametrize(
    "name", ["", "-", "2fast", "my.model", "a/b", "../up", "/up", "class", "import", "my model!", "a\nb", "é è;"]
)
def test_a_name_that_makes_no_module_is_refused(tmp_path, name):
    with pytest.raises(UserError, match=re.escape(f"name {name!r} is not valid: it must make a Python module name")):
        new(name, "tape", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["none", "true", "false"])
def test_a_name_that_makes_no_class_is_refused(tmp_path, name):
    with pytest.raises(UserError, match=f"name '{name}' is not valid"):
        new(name, "tape", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ["f", "prediction", "tensor", "batch", "inputs", "spec"])
def test_a_class_that_shadows_an_import_of_the_template_is_refused_or_works(tmp_path, monkeypatch, family, name):
    try:
        path = new(name, family, tmp_path)
    except UserError:
        return
    monkeypatch.setattr("harness.check.task_names", lambda: [TASKS[family][0]])
    assert [line for line in check(f"{path}:{class_name(name)}") if line.passed is False] == []


def test_an_existing_file_is_left_alone(tmp_path):
    (tmp_path / "mine.py").write_text("precious")
    with pytest.raises(UserError, match=r"mine\.py exists; choose another name"):
        new("mine", "tape", tmp_path)
    assert (tmp_path / "mine.py").read_text() == "precious"


def test_an_unknown_family_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"unknown family 'tapes'\. Did you mean 'tape'"):
        new("mine", "tapes", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no.mine\.py cannot be written: No such file or directory"):
        new("mine", "tape", tmp_path / "no")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_a_template_that_passes_check_on_every_task(tmp_path, family):
    path = new("fresh-model", family, tmp_path)
    lines = list(check(f"{path}:FreshModel"))
    assert [line for line in lines if line.passed is False] == []
    assert any(line.passed for line in lines)
    assert re.match(r'"""FreshModel: ', path.read_text())
    assert path.read_text().count("[contract]") >= 4


@pytest.mark.parametrize(
    ("family", "steps", "share"),
    [("tape", 300, 0.6), ("transduction", 200, 0.2), ("pointing", 200, 0.2), ("story", 500, 0.2), ("scene", 200, 0.7)],
)
def test_every_template_learns(tmp_path, family, steps, share):
    name, sizes = TASKS[family]
    task = get_task(name)
    torch.manual_seed(0)
    spec = task.spec(next(iter(task.regimes)))
    model = build(get_model(f"{new('learner', family, tmp_path)}:Learner"), spec, {}, "learner")
    optimizer = model.configure_optimizers()

    def examples(split: str, step: int) -> Examples:
        return task.generate(generator("learn", 1, split, step), sizes[step % len(sizes)], 64, "train")

    def headline() -> float:
        new_ones = examples("test", 1)
        return task.score(predict(model, task, spec, new_ones), new_ones)[task.headline.name]

    untrained, losses = headline(), []
    for step in range(steps):
        loss = model.training_step(task.family.batch(examples("train", step)), step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert np.mean(losses[-15:]) < share * np.mean(losses[:3])
    if family == "scene":
        assert untrained < 0.3
        assert headline() > 0.47  # the best constant answers have 0.44
    elif family == "tape":
        assert headline() < 12 < 15 < untrained  # two vectors of eight bits; chance is 16
    elif family == "story":
        assert headline() < 10 < 70 < untrained  # six rooms; chance is 83 % wrong
    else:
        assert untrained == 0
        assert headline() > 0.5
