"""What a task promises: names that are refused with the valid ones, pinned data, overlap rates."""

import json
import re
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pytest

from harness.errors import UserError
from harness.families.base import Examples
from harness.families.transduction import EOS, TRANSDUCTION, Spec
from harness.metrics.transduction import SEQUENCE_METRICS
from harness.pins import overlap
from harness.registry import get_task, task_names
from harness.splits import Split, Stream, fingerprint
from harness.task import Regime, Task


class Numbered(Task):
    """Sources are numbers counted up from a start that the size names, so that overlaps are known by hand."""

    name = "toy/numbered"
    version = 1
    family = TRANSDUCTION
    splits: ClassVar[tuple[Split | Stream, ...]] = (
        Split("train", "train", (0, 10), 10),  # 0..19
        Stream("stream", (0,)),  # 0..255, every block
        Split("validation", "validation", (15,), 10),  # 15..24: half in training
        Split("test", "test", (20,), 10),  # 20..29: half in validation, none in training
        Split("test-far", "test", (500,), 10, ladder=500),
    )
    regimes: ClassVar[Mapping[str, Regime]] = {
        "default": Regime("train", "validation", ("test", "test-far")),
        "streamed": Regime("stream", "validation", ("test", "test-far")),
    }
    metrics = SEQUENCE_METRICS
    plotted = ("exact_match",)
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 42, "standard": 100}
    size_name = "nothing"

    def spec(self, regime):
        return Spec(2, 2, 10, 10, 1, 1)

    def generate(self, rng, size, count, role):
        number = size + np.arange(count)
        digits = [number // 100 + 4, number // 10 % 10 + 4, number % 10 + 4]
        source = np.stack([d for d in digits], axis=1)
        target = np.concatenate([source, np.full((count, 1), EOS)], axis=1)
        return Examples(
            {"source": source, "source_length": np.full(count, 3)}, {"target": target}, np.full(count, size)
        )

    def references(self):
        return {}

    def render(self, examples, row, stored=None):
        return ""


@pytest.mark.parametrize(
    ("method", "name", "message"),
    [
        (
            "regime",
            "defualt",
            "unknown regime of toy/numbered 'defualt'. Did you mean 'default'? Valid: default, streamed",
        ),
        (
            "metric",
            "exact",
            "unknown metric of toy/numbered 'exact'. Did you mean 'exact_match'? "
            "Valid: bleu, exact_match, length_ratio, prefix, token_accuracy",
        ),
        ("budget", "huge", "unknown budget of toy/numbered 'huge'. Valid: smoke, standard"),
        (
            "split",
            "tests",
            "unknown split of toy/numbered 'tests'. Did you mean 'test'? "
            "Valid: stream, test, test-far, train, validation",
        ),
        ("load", "vallidation", "Did you mean 'validation'?"),
        ("bounded", "stream", "split stream of toy/numbered is a training stream and has no end"),
    ],
)
def test_unknown_names_are_refused_with_the_valid_ones(method, name, message):
    with pytest.raises(UserError, match=re.escape(message)):
        getattr(Numbered(), method)(name)


def test_known_names():
    task = Numbered()
    assert task.suite == "toy"
    assert task.headline.name == "exact_match"
    assert task.metric("bleu").name == "bleu"
    assert task.budget("smoke") == 42
    assert task.regime("default").tests == ("test", "test-far")
    assert len(task.bounded("train")) == 20


@pytest.fixture
def pin(tmp_path, monkeypatch):
    """Pin the fingerprints of the toy task in a folder of the test's own."""
    path = tmp_path / "task.fingerprints.json"
    monkeypatch.setattr(Numbered, "fingerprint_path", path)

    def write(version: int = 1, name: str = "toy/numbered", **splits: str) -> None:
        path.write_text(json.dumps({"task": name, "version": version, "splits": splits, "overlap": {}}))

    return write


def test_data_that_changed_are_refused(pin):
    found = fingerprint(Numbered().load("test"))
    pin(test="0" * 64, validation=fingerprint(Numbered().load("validation")))
    task = Numbered()
    message = (
        f"split test of toy/numbered version 1 has fingerprint {found[:16]}, not the pinned {'0' * 16}: its data "
        "changed. Undo the change, or raise the task's version and run `readhead fingerprint toy/numbered`"
    )
    with pytest.raises(UserError, match=re.escape(message)):
        task.load("test")
    with pytest.raises(UserError, match="fingerprint"):  # and again: a refused split is not kept
        task.load("test")
    assert len(task.load("validation")) == 10
    assert len(task.load("test-far")) == 10  # not pinned


def test_the_beginning_of_a_stream_is_checked_too(pin):
    pin(stream="0" * 64)
    with pytest.raises(UserError, match="split stream of toy/numbered version 1 has fingerprint"):
        Numbered().load("stream")


def test_one_changed_example_is_noticed(pin, monkeypatch):
    pin(**Numbered().fingerprints("default"))
    assert len(Numbered().load("test")) == 10
    original = Numbered.generate

    def changed(self, rng, size, count, role):
        examples = original(self, rng, size, count, role)
        examples.inputs["source"][-1, -1] += 1
        return examples

    monkeypatch.setattr(Numbered, "generate", changed)
    with pytest.raises(UserError, match="its data changed"):
        Numbered().load("test")


@pytest.mark.parametrize("stale", [{"version": 2}, {"name": "toy/other"}])
def test_pins_of_another_version_or_task_do_not_count(pin, stale):
    pin(test="0" * 64, **stale)
    task = Numbered()
    assert task.pinned["splits"] == {}
    assert task.fingerprints("default")["test"] == fingerprint(task.load("test"))


def test_fingerprints_name_every_split_of_the_regime(pin):
    own = Numbered().fingerprints("streamed")
    assert list(own) == ["stream", "validation", "test", "test-far"]
    assert len(set(own.values())) == 4
    pin(test="1" * 64)
    assert Numbered().fingerprints("streamed") == own | {"test": "1" * 64}


def test_a_split_is_generated_once(monkeypatch):
    task = Numbered()
    first = task.load("test")
    monkeypatch.setattr(Numbered, "generate", None)
    assert task.load("test") is first


def test_overlap_rates_by_hand():
    assert overlap(Numbered(), "default") == {
        "validation": {"train": 0.5},
        "test": {"validation": 0.5},
        "test-far": {},
    }
    assert overlap(Numbered(), "streamed", 512)["test"] == {"stream": 1.0, "validation": 0.5}


def test_overlap_does_not_see_padding(monkeypatch):
    original = Numbered.generate

    def padded(self, rng, size, count, role):
        examples = original(self, rng, size, count, role)
        if role == "validation":
            wide = np.pad(examples.inputs["source"], ((0, 0), (0, 4)))
            return Examples(examples.inputs | {"source": wide}, examples.targets, examples.sizes)
        return examples

    monkeypatch.setattr(Numbered, "generate", padded)
    assert overlap(Numbered(), "default")["validation"] == {"train": 0.5}


@pytest.mark.parametrize("name", ["seq2seq/copy", "ntm/copy"])
def test_only_inputs_of_one_symbol_overlap(name):
    rates = overlap(get_task(name), "default", 16_384)
    assert rates["validation"] == {"train": 0.05}  # one length in twenty
    assert rates["test"]["train"] == 0.05
    assert all(rates[split] == {} for split in rates if split.startswith("test-"))


@pytest.mark.parametrize("name", task_names())
def test_every_task_declares_what_the_board_needs(name):
    task = get_task(name)
    assert task.name == name
    assert type(task.version) is int
    assert task.headline.direction in ("max", "min")
    assert {task.metric(metric).name for metric in task.plotted} <= {metric.name for metric in task.metrics}
    assert task.plotted[0] == task.headline.name
    assert {"smoke", "standard", "paper"} <= set(task.budgets)
    assert list(task.budgets.values()) == sorted(task.budgets.values())
    names = [split.name for split in task.splits]
    assert len(set(names)) == len(names)
    for regime in task.regimes.values():
        assert task.split(regime.train).role == "train"
        assert task.bounded(regime.validation).role == "validation"
        assert all(task.bounded(test).role == "test" for test in regime.tests)
        ladder = [task.bounded(test).ladder for test in regime.tests]
        own = task.bounded(regime.tests[0])
        assert ladder[0] is None or own.sizes == task.split(regime.train).sizes  # another regime's ladder has it, too
        rungs = [size for size in ladder if size is not None]
        assert len(set(rungs)) == len(rungs)
        beside = [task.bounded(test) for test, size in zip(regime.tests, ladder, strict=True) if size is None]
        assert all(split.sizes == own.sizes for split in beside)  # more of the regime's own distribution
        assert all(task.split(other).role == "train" for other in regime.also)
    assert "exact" in {reference.bound for reference in task.references().values()} or task.suite == "babi-official"
    assert type(task).__doc__


UNPINNED = {"babi-official/qa3": ["en-10k"], "babi-official/joint": ["en-10k"]}
"""Where a file of the release could not be had when the others were pinned."""


@pytest.mark.parametrize("name", task_names())
def test_every_task_pins_the_fingerprint_of_every_split(name):
    task = get_task(name)
    assert set(task.pinned["overlap"]) == set(task.regimes) - set(UNPINNED.get(name, ()))
    for regime, splits in task.regimes.items():
        used = set(splits.names)
        if regime in task.pinned["overlap"]:
            assert used <= set(task.pinned["splits"])
        if task.missing(regime) is None:
            for split in used:
                task.load(split)
