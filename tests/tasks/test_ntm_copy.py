"""``ntm/copy``: the tape's layout by hand, references, even test sizes, pictures."""

import math

import numpy as np
import pytest
import torch
from numpy.random import RandomState

from harness.errors import UserError
from harness.families.tape import LOGIT_RANGE, quantise
from harness.pins import overlap
from harness.registry import get_task
from harness.splits import Split, generator, load_block, partition
from tasks.ntm.copy import BITS, LADDER, TRAIN_LENGTHS, Copy


@pytest.fixture
def task():
    return get_task("ntm/copy")


def splits(task):
    return [split for split in task.splits if isinstance(split, Split)]


def test_an_example_by_hand():
    vector = [1, 0, 1, 1, 0, 0, 1, 0]

    class Fixed:
        """Draws one vector."""

        def randint(self, low, high, size):
            assert (low, high) == (0, 2)
            return np.resize(vector, size)

    examples = Copy().generate(Fixed(), 1, 1, "train")
    assert examples.inputs["inputs"].tolist() == [[[*vector, 0], [0] * 8 + [1], [0] * 9]]
    assert examples.targets["bits"].tolist() == [[[0] * 8, [0] * 8, vector]]
    assert examples.targets["answer"].tolist() == [[False, False, True]]
    assert examples.inputs["length"].tolist() == [3]


@pytest.mark.parametrize("size", [1, 2, 5, 20, 120])
def test_the_tapes_layout(task, size):
    examples = task.generate(RandomState(0), size, 16, "train")
    tape, bits, answer = examples.inputs["inputs"], examples.targets["bits"], examples.targets["answer"]
    assert tape.shape == (16, 2 * size + 1, 9)
    assert bits.shape == (16, 2 * size + 1, 8)
    assert (examples.inputs["length"] == 2 * size + 1).all()
    assert np.array_equal(bits[:, size + 1 :], tape[:, :size, :8])  # what is read first is written first
    assert (tape[:, :, 8] == (np.arange(2 * size + 1) == size)).all()  # one delimiter, on a channel of its own
    assert (tape[:, size:, :8] == 0).all()  # silence from the delimiter on
    assert (answer == (np.arange(2 * size + 1) > size)).all()
    assert (bits[~answer] == 0).all()
    assert set(np.unique(tape)) == {0, 1}
    assert (tape.dtype, bits.dtype, answer.dtype) == (np.float32, np.float32, bool)


@pytest.mark.parametrize("size", [0, -1, (2, 3), 1.5])
def test_a_sequence_without_vectors_is_refused(task, size):
    with pytest.raises(UserError, match=r"size .* of ntm/copy is not valid: a whole number of at least 1"):
        task.generate(RandomState(0), size, 4, "validation")


def test_bits_are_fair_and_independent(task):
    tape = task.generate(RandomState(1), 20, 500, "train").inputs["inputs"][:, :20, :8]
    assert tape.mean() == pytest.approx(0.5, abs=0.007)  # four standard errors
    assert tape.mean((0, 1)) == pytest.approx(np.full(8, 0.5), abs=0.02)
    assert (tape[:, 1:] == tape[:, :-1]).mean() == pytest.approx(0.5, abs=0.01)
    assert (tape[..., 1:] == tape[..., :-1]).mean() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("role", ["train", "validation", "test"])
def test_sequences_of_two_and_more_vectors_have_their_role(task, role):
    vectors = task.generate(RandomState(2), 2, 200, role).inputs["inputs"][:, :2, :8]
    assert (partition(vectors.reshape(200, 16).astype(np.int64)) == role).all()
    one = task.generate(RandomState(2), 1, 4000, role).inputs["inputs"][:, 0, :8]
    assert len(np.unique(one, axis=0)) == 256  # every vector, whatever the role


def test_all_sizes_are_evenly_represented(task):
    for split in splits(task):
        sizes, counts = np.unique(task.load(split.name).sizes, return_counts=True)
        expected = TRAIN_LENGTHS if split.ladder is None else (split.ladder,)
        assert sizes.tolist() == list(expected)
        assert set(counts) == {split.per_size}
    assert [split.ladder for split in splits(task) if split.ladder] == [10, 20, 30, 50, 120]  # the paper's lengths
    assert len(task.load("test")) == 500


def test_training_never_goes_beyond_length_20(task):
    stream = task.split("train")
    assert {int(load_block(task, stream, block).sizes[0]) for block in range(200)} == set(range(1, 21))


def test_the_spec_covers_every_tape(task):
    spec = task.spec("default")
    assert (spec.max_train_size, spec.max_test_size) == (20, 120)
    for split in splits(task):
        batch = task.family.batch(task.load(split.name))
        assert batch.inputs.inputs.shape[2] == spec.input_channels
        assert batch.targets.bits.shape[2] == spec.output_bits
        assert task.load(split.name).sizes.max() <= spec.max_test_size


def scores(task, row, split):
    examples = task.load(split)
    return task.score(task.references()[row].predict(examples, generator("t", 1, row, split)), examples)


@pytest.mark.parametrize("length", LADDER)
def test_even_odds_cost_eight_bits_a_vector(task, length):
    assert scores(task, "random", f"test-{length}") == {
        "bits": 8 * length,
        "wrong_bits": 4 * length,
        "error_free": 0,
    }


def test_guessing_costs_84_bits_on_average(task):
    assert scores(task, "random", "test")["bits"] == 84 == 8 * np.mean(TRAIN_LENGTHS)


@pytest.mark.parametrize("length", LADDER)
def test_the_oracle_is_perfect_but_for_the_clipping(task, length):
    found = scores(task, "oracle", f"test-{length}")
    assert found["bits"] == pytest.approx(8 * length * math.log1p(math.exp(-LOGIT_RANGE)) / math.log(2), abs=1e-8)
    assert found["bits"] < 2e-4
    assert found["wrong_bits"] == 0
    assert found["error_free"] == 1
    assert task.headline.is_solved(found["bits"])


@pytest.mark.parametrize("length", LADDER)
def test_copying_the_last_vector_saves_its_eight_bits(task, length):
    found = scores(task, "copy-last-symbol", f"test-{length}")
    assert found["bits"] == pytest.approx(8 * (length - 1), abs=1e-4)
    assert found["wrong_bits"] == 4 * (length - 1)
    assert found["error_free"] == 0


def test_copying_the_last_vector_solves_length_one(task):
    examples = task.generate(RandomState(0), 1, 50, "test")
    stored = task.references()["copy-last-symbol"].predict(examples, RandomState(0))
    assert task.score(stored, examples)["error_free"] == 1


def test_bounds_of_the_references(task):
    bounds = {row: reference.bound for row, reference in task.references().items()}
    assert bounds == {"random": "expected", "copy-last-symbol": "none", "oracle": "exact"}


def test_the_solved_threshold(task):
    assert task.headline.name == "bits"
    assert task.headline.is_solved(0.1)
    assert not task.headline.is_solved(0.11)


def test_the_right_answer_through_a_prediction_scores_as_the_oracle(task):
    examples = task.load("test")
    batch = task.family.batch(examples)
    prediction = task.family.Prediction((2 * batch.targets.bits - 1) * 100)  # clipped to ±16
    stored = task.family.store(prediction, batch, task.spec("default"))
    assert np.array_equal(stored["logits"], task.references()["oracle"].predict(examples, RandomState(0))["logits"])
    assert batch.inputs.inputs.dtype == torch.float32


def test_only_sequences_of_one_vector_occur_in_training(task):
    assert overlap(task, "default", 8192)["test-10"] == {}
    assert task.pinned["overlap"]["default"]["test"]["train"] == 0.05


def test_an_example_reads_like_the_docstring(task):
    examples = task.family.concatenate(
        [task.generate(RandomState(0), 2, 1, "train"), task.generate(RandomState(1), 1, 1, "train")]
    )
    vectors = np.array([[1, 0, 1, 0, 0, 0, 0, 1], [0, 1, 1, 0, 0, 0, 0, 1]])
    examples.inputs["inputs"][0, :2, :8] = examples.targets["bits"][0, 3:5] = vectors
    examples.inputs["inputs"][1, :1, :8] = examples.targets["bits"][1, 2:3] = [[1, 1, 1, 1, 0, 0, 0, 0]]
    source = ["#....", ".#...", "##...", ".....", ".....", ".....", ".....", "##...", "..#.."]
    target = ["...#.", "....#", "...##", ".....", ".....", ".....", ".....", "...##"]
    titles = ["input   ", *["        "] * 8, "target  ", *["        "] * 7]
    picture = [title + line for title, line in zip(titles, source + target, strict=True)]
    assert task.render(examples, 0).splitlines() == picture

    logits = np.concatenate([2 * vectors.ravel() - 1, 2 * np.array([1, 1, 1, 0, 0, 0, 0, 0]) - 1]).astype(float)
    stored = {"logits": quantise(logits)}
    answer = [("answer  " if i == 0 else "        ") + line for i, line in enumerate(target)]
    assert task.render(examples, 0, stored).splitlines() == picture + answer
    second = task.render(examples, 1, stored).splitlines()
    assert [line[8:] for line in second[-8:]] == ["..#", "..#", "..#", "...", "...", "...", "...", "..."]
    assert BITS == 8
