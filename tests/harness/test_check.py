"""``check`` passes models that keep the contract and names the part that another breaks."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from harness import check as checks
from harness.check import CHECKS, Check, check
from harness.errors import UserError
from harness.registry import get_task


@pytest.fixture
def report(models, monkeypatch):
    """Check a class of a model file on one task and return the lines by title."""

    def lines(name: str, task: str = "ntm/copy", file: str = "tape_models") -> dict[str, Check]:
        monkeypatch.setattr(checks, "task_names", lambda: [task])
        return {line.name: line for line in check(f"{models / file}.py:{name}")}

    return lines


def broken(lines: dict[str, Check]) -> set[str]:
    return {line.name for line in lines.values() if line.passed is False}


@pytest.mark.parametrize("name", ["Sound", "SeededNoise", "Logging", "LossInDict", "Manual"])
def test_a_tape_model_that_keeps_the_contract_passes(report, name):
    lines = report(name)
    assert {title: line.detail for title, line in lines.items() if line.passed is False} == {}
    assert list(lines) == list(CHECKS)
    if name != "Manual":  # its steps need a trainer, so what looks at a single step may say that it does not apply
        assert all(line.passed for line in lines.values())
        assert lines["loss and gradients"].detail.startswith("loss ")
    assert lines["prediction"].detail == "logits (96,)"  # 4 sequences of 3 vectors of 8 bits


def test_a_transduction_model_that_keeps_the_contract_passes(report):
    lines = report("Sound", "seq2seq/copy", "transduction_models")
    assert broken(lines) == set()
    assert lines["prediction"].detail == "tokens (4, 2)"


@pytest.mark.parametrize(
    ("name", "title", "detail"),
    [
        ("BothWays", "family contract", "not causal: changing the inputs from step"),
        ("SeesTheSum", "family contract", "not causal"),
        ("SeesTheWidth", "padding and batch mates", "changes with its batch mates or with padding; mask the pads"),
        ("SeesTheBatch", "padding and batch mates", "changes with its batch mates"),
        ("PadsInLoss", "loss under padding", "alone and"),
        ("NanLoss", "loss and gradients", "the loss is nan"),
        ("NanGradient", "loss and gradients", "gradients of output.weight are not finite"),
        ("NoGradient", "loss and gradients", "no parameter gets a gradient"),
        ("VectorLoss", "loss and gradients", "returned a tensor of shape (4,); return a scalar tensor"),
        ("NoLoss", "loss and gradients", "returned a NoneType; return a scalar tensor"),
        ("WrongShape", "prediction", "expected (B,T,K) = (4, 7, 8)"),
        ("BareTensor", "prediction", "returned a Tensor; return harness.families.tape.Prediction"),
        ("UnseededInit", "determinism", "two runs of one seed differ in "),
        ("UnseededTraining", "determinism", "use torch's generator"),
        ("NoisyPrediction", "padding and batch mates", "changes with its batch mates"),
        ("Remembers", "save and load", "register every tensor as parameter or buffer"),
        ("Unregistered", "save and load", "register every tensor as parameter or buffer"),
        ("Refuses", "prediction", "cannot be built with its defaults: no room"),
        ("Fails", "prediction", "KeyError: 'logits'"),
    ],
)
def test_a_broken_tape_model_is_told_what_it_breaks(report, name, title, detail):
    lines = report(name)
    assert title in broken(lines)
    assert detail in lines[title].detail
    assert "\n" not in lines[title].detail
    assert list(lines) == list(CHECKS)  # one broken part does not hide the others


@pytest.mark.parametrize(
    ("name", "only"),
    [
        ("SeesTheSum", {"family contract"}),
        ("PadsInLoss", {"loss under padding"}),
        ("NoGradient", {"loss and gradients"}),
        ("UnseededInit", {"determinism"}),
        ("UnseededTraining", {"determinism", "loss under padding"}),
        ("Remembers", {"save and load"}),
    ],
)
def test_what_is_sound_in_a_broken_model_passes(report, name, only):
    assert broken(report(name)) <= only


@pytest.mark.parametrize(
    ("name", "title", "detail"),
    [
        ("SeesPads", "padding and batch mates", "tokens of an example changes"),
        ("SeesPads", "loss under padding", "alone and"),
        ("OutOfVocabulary", "prediction", "returned token 54; the target vocabulary is 0..53"),
        ("Logits", "prediction", "dtype torch.float32; expected torch.int64"),
        ("WidthOfTheBatch", "padding and batch mates", "tokens of an example changes"),
    ],
)
def test_a_broken_transduction_model_is_told_what_it_breaks(report, name, title, detail):
    lines = report(name, "seq2seq/copy", "transduction_models")
    assert title in broken(lines)
    assert detail in lines[title].detail


def test_a_story_model_that_keeps_the_contract_passes(report):
    lines = report("Sound", "babi/qa1", "story_models")
    assert broken(lines) == set()
    assert list(lines) == list(CHECKS)
    assert lines["prediction"].detail == "answer (4,), rank (4,), unread (4,)"


@pytest.mark.parametrize(
    ("name", "title", "detail"),
    [
        ("SeesPads", "loss under padding", "alone and"),
        ("SaysTooMuch", "family contract", "did not read the oldest sentences of a story, but changing them moved"),
        ("TooMany", "prediction", "scores of shape (4, 7); expected (B,A) = (4, 6)"),
        ("NanScores", "prediction", "NaN or infinite scores"),
    ],
)
def test_a_broken_story_model_is_told_what_it_breaks(report, name, title, detail):
    lines = report(name, "babi/qa1", "story_models")
    assert title in broken(lines)
    assert detail in lines[title].detail


def test_a_few_tasks_stand_for_a_suite_of_many_alike(models):
    lines = list(check(f"{models}/story_models.py:Sound"))
    story = {line.task for line in lines if line.name != "applies"}
    assert story == {"babi/joint:1k", "babi/qa1:1k", "babi/qa3:1k"}
    assert not [line for line in lines if line.task.startswith(("babi/qa2", "babi-official"))]


def test_a_task_of_another_family_does_not_apply(report):
    lines = report("Sound", "seq2seq/copy")
    assert list(lines.values()) == [
        Check("seq2seq/copy", "applies", None, "family transduction: its families are tape")
    ]


def test_a_model_that_claims_the_wrong_family_fails_on_its_tasks(report):
    lines = report("WrongFamily", "seq2seq/copy")
    assert "prediction" in broken(lines)
    assert "input_channels" in lines["prediction"].detail
    assert report("WrongFamily", "ntm/copy")["applies"].passed is None


def test_a_family_that_there_is_not_is_refused(report):
    with pytest.raises(UserError, match=r"unknown family in .*NoFamily\.families 'tapes'. Did you mean 'tape'"):
        report("NoFamily")


def test_a_model_says_where_it_does_not_run(report):
    lines = report("Small")
    assert broken(lines) == set()
    assert lines["supports"].passed is None
    assert lines["supports"].detail == "does not run on test-50, test-120 (memory of 40)"
    assert "supports" not in report("Sound")


def test_a_size_of_several_numbers_is_judged_as_it_is_scored(report):
    """By the size of its examples: (10, 20) of ntm/repeat-copy is a tape of 212 steps."""
    detail = report("Small", "ntm/repeat-copy")["supports"].detail
    assert detail.endswith("test-10x20, test-20x10 (memory of 40)")


def test_every_task_of_the_family_is_checked(models):
    lines = list(check(f"{models}/tape_models.py:Sound"))
    tape = [line for line in lines if line.name != "applies"]
    assert {line.task.split(":")[0] for line in tape} >= {"ntm/copy"}
    assert all(get_task(line.task.split(":")[0]).family.name == "tape" for line in tape)
    assert all(get_task(line.task).family.name != "tape" for line in lines if line.name == "applies")
    assert all(line.passed for line in tape)


def test_checking_leaves_no_trace(report, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(3)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    report("SeededNoise")
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1:] == (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002
    assert torch.get_num_threads() == 1
    assert list(Path(".").iterdir()) == []


def test_checking_says_nothing_itself(report, capfd):
    report("Sound")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("name", "message"), [("no_such", "unknown row or model"), ("no/file.py:Model", "no/file.py")])
def test_an_unknown_model_is_refused(name, message):
    with pytest.raises(UserError, match=message):
        list(check(name))
