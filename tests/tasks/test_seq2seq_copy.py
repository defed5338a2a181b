"""``seq2seq/copy``: structure by hand, references, even test sizes, limits, pictures."""

import numpy as np
import pytest
import torch
from numpy.random import RandomState

from harness.families.transduction import BOS, EOS, FIRST_SYMBOL, PAD, UNKNOWN
from harness.pins import overlap
from harness.registry import get_task
from harness.splits import Split, generator, load_block, partition
from tasks.seq2seq.copy import Copy
from tasks.seq2seq.suite import LADDER, SYMBOLS, TRAIN_LENGTHS


@pytest.fixture
def task():
    return get_task("seq2seq/copy")


def splits(task):
    return [split for split in task.splits if isinstance(split, Split)]


def test_an_example_by_hand():
    class Fixed:
        """Draws 3, 0, 0 and 49: symbols 7, 4, 4 and 53."""

        def randint(self, low, high, size):
            assert (low, high) == (FIRST_SYMBOL, FIRST_SYMBOL + SYMBOLS)
            return np.resize([7, 4, 4, 53], size)

    examples = Copy().generate(Fixed(), 1, 4, "train")
    assert examples.inputs["source"].tolist() == [[7], [4], [4], [53]]
    assert examples.targets["target"].tolist() == [[7, EOS], [4, EOS], [4, EOS], [53, EOS]]
    assert examples.inputs["source_length"].tolist() == [1, 1, 1, 1]
    assert examples.sizes.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("size", [1, 2, 3, 20, 60])
def test_the_target_is_the_source_and_an_end(task, size):
    examples = task.generate(RandomState(0), size, 64, "train")
    source, target = examples.inputs["source"], examples.targets["target"]
    assert source.shape == (64, size)
    assert target.shape == (64, size + 1)
    assert np.array_equal(target[:, :-1], source)
    assert (target[:, -1] == EOS).all()
    assert {a.dtype for a in (source, target, examples.inputs["source_length"], examples.sizes)} == {np.dtype(np.int64)}


def test_symbols_are_even_and_independent(task):
    source = task.generate(RandomState(1), 20, 2000, "train").inputs["source"]
    assert source.min() == FIRST_SYMBOL
    assert source.max() == FIRST_SYMBOL + SYMBOLS - 1
    counts = np.bincount(source.ravel() - FIRST_SYMBOL, minlength=50)
    assert ((counts - 800) ** 2 / 800).sum() < 85.4  # chi-squared, 49 degrees of freedom, 0.1 %
    pairs = (source[:, 1:] == source[:, :-1]).mean()
    assert pairs == pytest.approx(1 / 50, abs=0.003)


@pytest.mark.parametrize("role", ["train", "validation", "test"])
def test_sources_of_two_and_more_symbols_have_their_role(task, role):
    source = task.generate(RandomState(2), 2, 200, role).inputs["source"]
    assert (partition(source) == role).all()
    one = task.generate(RandomState(2), 1, 500, role).inputs["source"]
    assert len(np.unique(one)) == 50  # every symbol, whatever the role


def test_all_sizes_are_evenly_represented(task):
    for split in splits(task):
        sizes, counts = np.unique(task.load(split.name).sizes, return_counts=True)
        expected = TRAIN_LENGTHS if split.ladder is None else (split.ladder,)
        assert sizes.tolist() == list(expected)
        assert set(counts) == {split.per_size}
    assert [split.ladder for split in splits(task) if split.ladder] == [*range(21, 41), 50, 60] == list(LADDER)
    assert len(task.load("test")) == 1000
    assert len(task.load("validation")) == 400
    assert all(len(task.load(f"test-{length}")) == 100 for length in LADDER)


def test_training_never_goes_beyond_length_20(task):
    stream = task.split("train")
    assert {int(load_block(task, stream, block).sizes[0]) for block in range(200)} == set(TRAIN_LENGTHS)
    assert stream.sizes == tuple(range(1, 21))


def test_the_specs_limits_cover_every_answer(task):
    spec = task.spec("default")
    assert (spec.max_train_size, spec.max_test_size) == (20, 60)
    for split in splits(task):
        examples = task.load(split.name)
        lengths = (examples.targets["target"] != PAD).sum(1)
        assert (lengths < spec.output_limit(examples.inputs["source_length"])).all()  # room for a mistake too
        for tokens, vocabulary in (
            (examples.inputs["source"], spec.source_vocabulary),
            (examples.targets["target"], spec.target_vocabulary),
        ):
            assert tokens.max() == vocabulary - 1
        assert examples.sizes.max() <= spec.max_test_size
        assert not np.isin(examples.inputs["source"], [BOS, EOS, UNKNOWN]).any()


def test_the_references_scores(task):
    def scores(row, split):
        examples = task.load(split)
        return task.score(task.references()[row].predict(examples, generator("t", 1, row, split)), examples)

    perfect = {"exact_match": 1, "token_accuracy": 1, "prefix": 1, "bleu": 100, "length_ratio": 1}
    for split in ("test", "test-40", "test-60"):
        assert scores("oracle", split) == perfect
        random = scores("random", split)
        assert random["token_accuracy"] == pytest.approx(1 / SYMBOLS, abs=0.005)
        assert random["length_ratio"] == 1
        assert random["exact_match"] <= 0.005  # one symbol of fifty in a twentieth of the test
    last = scores("copy-last-symbol", "test")
    # The last place is right, and each of the others by chance.
    expected = sum(1 + (n - 1) / SYMBOLS for n in TRAIN_LENGTHS) / sum(TRAIN_LENGTHS)
    assert last["token_accuracy"] == pytest.approx(expected, abs=0.01)
    assert last["exact_match"] == pytest.approx((1 + 1 / 50) / 20, abs=0.01)
    assert last["length_ratio"] == 1


def test_bounds_of_the_references(task):
    bounds = {row: reference.bound for row, reference in task.references().items()}
    assert bounds == {"random": "expected", "copy-last-symbol": "none", "oracle": "exact"}


def test_only_sources_of_one_symbol_occur_in_training(task):
    rates = overlap(task, "default", 4096)
    assert rates["test"]["train"] == 0.05
    assert task.pinned["overlap"]["default"]["test"]["train"] == 0.05


def test_an_example_reads_like_the_docstring(task):
    batch = task.family.batch(task.generate(RandomState(0), 3, 2, "train"))
    assert batch.inputs.source.dtype == torch.int64
    examples = task.family.concatenate(
        [task.generate(RandomState(0), 2, 1, "train"), task.generate(RandomState(1), 3, 1, "train")]
    )
    examples.inputs["source"][0, :2] = examples.targets["target"][0, :2] = [11, 7]
    stored = {"tokens": np.array([[11, UNKNOWN, 53, EOS], [4, 0, 0, 0]], np.uint8)}
    assert task.render(examples, 0) == "source  7 3\ntarget  7 3 EOS"
    assert task.render(examples, 0, stored) == "source  7 3\ntarget  7 3 EOS\nanswer  7 UNK 49 EOS"
    assert task.render(examples, 1, stored).splitlines()[-1] == "answer  0"
