"""Training splits that vary another one's examples: what they depend on, and who may train on them."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pytest

from harness.errors import UserError
from harness.families.base import Examples
from harness.families.transduction import EOS, TRANSDUCTION, Spec
from harness.metrics.transduction import SEQUENCE_METRICS
from harness.recipe import Phase, Training
from harness.schedule import Schedule
from harness.splits import AnySplit, Split, TrainingBatches, Variant, fingerprint, load_split
from harness.task import Regime, Task


class Shifted(Task):
    """Repeat a numbered source; the variant adds the same random number to all symbols of an example."""

    name = "toy/shifted"
    version = 1
    family = TRANSDUCTION
    splits: ClassVar[tuple[AnySplit, ...]] = (
        Split("train", "train", (3,), 20),
        Variant("train-shifted", "train"),
        Split("validation", "validation", (3,), 5),
        Split("test", "test", (3,), 5),
    )
    regimes: ClassVar[Mapping[str, Regime]] = {
        "default": Regime("train", "validation", ("test",), also=("train-shifted",)),
        "plain": Regime("train", "validation", ("test",)),
    }
    metrics = SEQUENCE_METRICS
    plotted = ("exact_match",)
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 42}
    size_name = "symbols"

    def spec(self, regime):
        return Spec(3, 3, 5000, 5000, 1, 1)

    def generate(self, rng, size, count, role):
        source = np.arange(count)[:, None] * 100 + 4 + np.arange(size)
        target = np.concatenate([source, np.full((count, 1), EOS)], axis=1)
        return Examples(
            {"source": source, "source_length": np.full(count, size)}, {"target": target}, np.full(count, size)
        )

    def vary(self, split, examples, rng):
        source = examples.inputs["source"] + rng.randint(0, 90, (len(examples), 1))
        return Examples({**examples.inputs, "source": source}, examples.targets, examples.sizes)

    def references(self):
        return {}

    def render(self, examples, row, stored=None):
        return ""


def drawn(seed: int = 0, size: int = 4, start: int = 0, stop: int = 10, phase: int = 0) -> np.ndarray:
    """First symbols of the examples of some batches."""
    task = Shifted()
    batches = TrainingBatches(task, task.split("train-shifted"), seed, size, phase).iterate(start, stop)
    return np.concatenate([batch.inputs.source[:, 0].numpy() for batch in batches])


def test_an_epoch_holds_every_example_once_varied():
    epoch = drawn(stop=5)
    assert sorted(epoch // 100) == list(range(20))
    assert len(set(epoch % 100)) > 5


def test_variation_is_new_every_epoch_seed_phase_and_batch():
    whole = drawn(stop=10)
    first, second = whole[:20], whole[20:]
    by_example = [dict(zip(epoch // 100, epoch % 100, strict=True)) for epoch in (first, second)]
    assert by_example[0] != by_example[1]
    offsets = {tuple(run[:4] % 100) for run in (whole, whole[4:], second, drawn(seed=1), drawn(phase=1))}
    assert len(offsets) == 5


def test_resuming_at_a_batch_gives_the_batches_from_there_on():
    whole = drawn(stop=12)
    for start in range(12):
        assert np.array_equal(drawn(start=start, stop=12), whole[4 * start :])


def test_the_split_behind_it_stays_as_it_is():
    task = Shifted()
    before = fingerprint(load_split(task, task.bounded("train")))
    list(TrainingBatches(task, task.split("train-shifted"), 0, 4).iterate(0, 7))
    assert fingerprint(task.load("train")) == before
    plain = [b.inputs.source[:, 0].numpy() for b in TrainingBatches(task, task.split("train"), 0, 4).iterate(0, 5)]
    assert set(np.concatenate(plain)) == set(range(4, 2004, 100))


def test_it_is_fingerprinted_with_the_regimes_other_splits():
    task = Shifted()
    assert list(task.fingerprints("default")) == ["train", "train-shifted", "validation", "test"]
    assert list(task.fingerprints("plain")) == ["train", "validation", "test"]
    assert task.fingerprints("default")["train-shifted"] != task.fingerprints("default")["train"]
    assert task.fingerprints("default") == Shifted().fingerprints("default")


def test_it_has_no_rows_of_its_own():
    with pytest.raises(UserError, match="split train-shifted of toy/shifted is a variant of train"):
        Shifted().bounded("train-shifted")


def schedule(regime: str, split: str) -> Schedule:
    phases = [Phase(name="one", examples=0.5, split=split), Phase(name="two", examples=0.5)]
    return Schedule(Shifted(), regime, Training(batch_size=4, phases=phases), 40, seed=0)


def test_a_phase_may_train_on_it():
    batches = [
        next(iter(phase.iterate(0, 1))).inputs.source[:, 0] % 100
        for phase in schedule("default", "train-shifted").batches
    ]
    assert len(set(batches[0].tolist())) > 1
    assert set(batches[1].tolist()) == {4}


@pytest.mark.parametrize(
    ("regime", "split", "valid"),
    [
        ("default", "test", "train, train-shifted"),
        ("default", "validation", "train, train-shifted"),
        ("plain", "train-shifted", "train"),
        ("default", "train-shiftd", "train, train-shifted"),
    ],
)
def test_a_phase_may_train_on_nothing_else(regime, split, valid):
    with pytest.raises(UserError, match=f"unknown training split of toy/shifted:{regime} '{split}'.*Valid: {valid}$"):
        schedule(regime, split)


def test_a_task_without_a_rule_for_it_says_so():
    with pytest.raises(NotImplementedError, match="toy/shifted does not say how x varies"):
        Task.vary(Shifted(), "x", Shifted().load("test"), np.random.RandomState(0))
