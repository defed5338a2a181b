"""``ntm/repeat-copy``: an interpreter of the rule agrees with every tape; the number's scale; references."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import RandomState

from harness.errors import UserError
from harness.families.tape import LOGIT_RANGE, quantise
from harness.pins import overlap
from harness.registry import get_task
from harness.splits import Split, load_block, partition
from tasks.ntm.repeat_copy import LADDER, PAIRS, RepeatCopy

ROLES = st.sampled_from(["train", "validation", "test"])


@pytest.fixture
def task():
    return get_task("ntm/repeat-copy")


def interpreted(tape: np.ndarray) -> list[list[float]]:
    """Read a tape ``(T,8)`` as the rule says and return what must be written after the delimiter, row by row."""
    vectors = []
    for step in tape.tolist():
        if step[6] == 1:
            repeats = round(step[7] * math.sqrt(8.25) + 5.5)
            return [[*vector, 0] for _ in range(repeats) for vector in vectors] + [[0] * 6 + [1]]
        assert step[6:] == [0, 0]
        vectors.append(step[:6])
    raise AssertionError("no delimiter")


def test_an_example_by_hand():
    vectors = [[1, 0, 0, 1, 1, 0], [0, 1, 0, 0, 0, 1]]

    class Fixed:
        """Draws two vectors, as often as asked."""

        def randint(self, low, high, size):
            assert (low, high) == (0, 2)
            return np.resize(vectors, size)

    role = partition(np.array(vectors).reshape(1, 12))[0]
    examples = RepeatCopy().generate(Fixed(), (2, 3), 1, role)
    silent = [0] * 8
    delimiter = [0] * 6 + [1, np.float32((3 - 5.5) / math.sqrt(99 / 12))]
    assert examples.inputs["inputs"][0].tolist() == [[*vectors[0], 0, 0], [*vectors[1], 0, 0], delimiter, *[silent] * 7]
    copy = [[*vector, 0] for vector in vectors]
    assert examples.targets["bits"][0].tolist() == [[0] * 7] * 3 + copy * 3 + [[0] * 6 + [1]]
    assert examples.targets["answer"][0].tolist() == [False] * 3 + [True] * 7
    assert examples.inputs["length"].tolist() == [10]
    assert examples.sizes.tolist() == [10]


@given(st.integers(1, 21), st.integers(1, 21), ROLES, st.integers(0, 1000))
def test_every_tape_is_what_the_rule_says(length, repeats, role, seed):
    task = get_task("ntm/repeat-copy")
    examples = task.generate(RandomState(seed), (length, repeats), 3, role)
    steps = length + 1 + length * repeats + 1
    assert examples.inputs["inputs"].shape == (3, steps, 8)
    assert (examples.inputs["length"] == steps).all()
    assert (examples.sizes == steps).all()
    for tape, bits, answer in zip(
        examples.inputs["inputs"], examples.targets["bits"], examples.targets["answer"], strict=True
    ):
        assert answer.tolist() == [False] * (length + 1) + [True] * (length * repeats + 1)
        assert bits[answer].tolist() == interpreted(tape)
        assert not bits[~answer].any()
        assert not tape[length + 1 :].any()


def test_every_stored_split_is_what_the_rule_says(task):
    for name in ("validation", "test", "test-10x20", "test-20x10"):
        examples = task.load(name)
        for row in range(0, len(examples), 7):
            tape = examples.inputs["inputs"][row, : examples.inputs["length"][row]]
            bits = examples.targets["bits"][row][examples.targets["answer"][row]]
            assert bits.tolist() == interpreted(tape)


def numbers(task, split: str) -> np.ndarray:
    inputs = task.load(split).inputs["inputs"]
    return inputs[:, :, 7][inputs[:, :, 6] == 1]


def test_the_number_is_normalised_over_the_repeats_trained_on(task):
    found = numbers(task, "test")
    assert found.mean() == pytest.approx(0, abs=1e-6)
    assert found.std() == pytest.approx(1, abs=1e-6)
    assert np.unique(found) == pytest.approx((np.arange(1, 11) - 5.5) / 2.8722813, abs=1e-6)


def test_longer_tests_keep_the_training_normaliser(task):
    assert numbers(task, "test-10x20") == pytest.approx(np.full(25, 14.5 / 2.8722813), abs=1e-6)
    assert numbers(task, "test-20x10") == pytest.approx(np.full(25, 4.5 / 2.8722813), abs=1e-6)


def test_all_pairs_are_evenly_represented(task):
    assert sorted(PAIRS) == [(length, repeats) for length in range(1, 11) for repeats in range(1, 11)]
    for split in task.splits:
        if isinstance(split, Split):
            inputs = task.load(split.name).inputs["inputs"]
            lengths = inputs[:, :, 6].argmax(1)
            repeats = np.rint(numbers(task, split.name) * 8.25**0.5 + 5.5).astype(int)
            found, counts = np.unique(np.stack([lengths, repeats]), axis=1, return_counts=True)
            assert list(map(tuple, found.T.tolist())) == list(split.sizes)
            assert set(counts) == {split.per_size}
    assert {name: pair for name, pair in LADDER.items()} == {"10x20": (10, 20), "20x10": (20, 10)}
    assert [split.ladder for split in task.splits if isinstance(split, Split) and split.ladder] == [212, 222]


def test_training_never_goes_beyond_ten_times_ten(task):
    blocks = [load_block(task, task.split("train"), block) for block in range(150)]
    assert max(int(block.sizes[0]) for block in blocks) <= 112
    lengths = {int(block.inputs["inputs"][0, :, 6].argmax()) for block in blocks}
    assert lengths == set(range(1, 11))


@pytest.mark.parametrize("role", ["train", "validation", "test"])
def test_vectors_have_their_role_whatever_the_repeats(task, role):
    for repeats in (1, 7):
        vectors = task.generate(RandomState(repeats), (2, repeats), 100, role).inputs["inputs"][:, :2, :6]
        assert (partition(vectors.reshape(100, 12).astype(np.int64)) == role).all()
    one = task.generate(RandomState(2), (1, 3), 1000, role).inputs["inputs"][:, 0, :6]
    assert len(np.unique(one, axis=0)) == 64  # every vector, whatever the role


def test_only_sequences_of_one_vector_occur_in_training(task):
    rates = overlap(task, "default", 65_536)
    assert 0 < rates["test"]["train"] <= 0.1  # one length in ten
    assert rates["test-10x20"] == rates["test-20x10"] == {}


def test_the_spec_covers_every_tape(task):
    spec = task.spec("default")
    assert (spec.max_train_size, spec.max_test_size) == (112, 222)
    assert (spec.input_channels, spec.output_bits) == (8, 7)
    for split in task.splits:
        examples = task.load(split.name)
        assert examples.inputs["inputs"].shape[2] == 8
        assert examples.targets["bits"].shape[2] == 7
        assert examples.sizes.max() <= (spec.max_train_size if split.role == "train" else spec.max_test_size)


@pytest.mark.parametrize("size", [0, (0, 3), (3, 0), (3,), (1, 2, 3), 5])
def test_lengths_and_repeats_below_one_are_refused(task, size):
    with pytest.raises(UserError, match=r"size .* of ntm/repeat-copy is not valid: \(length, repeats\), each at least"):
        task.generate(RandomState(0), size, 4, "train")


def scores(task, row, examples):
    return task.score(task.references()[row].predict(examples, RandomState(0)), examples)


@pytest.mark.parametrize(("length", "repeats"), [(1, 1), (3, 4), (10, 20), (20, 10)])
def test_references_by_hand(task, length, repeats):
    examples = task.generate(RandomState(0), (length, repeats), 20, "test")
    steps = length * repeats + 1
    assert scores(task, "random", examples) == {"bits": 7 * steps, "wrong_bits": 3.5 * steps, "error_free": 0}
    oracle = scores(task, "oracle", examples)
    certain = math.log1p(math.exp(-LOGIT_RANGE)) / math.log(2)
    assert oracle["bits"] == pytest.approx(7 * steps * certain, abs=1e-8)
    assert (oracle["wrong_bits"], oracle["error_free"]) == (0, 1)
    # After each copy one bit for whether it was the last, and one for every 1 of the vector that would follow.
    ones = examples.inputs["inputs"][:, 0, :6].sum(1)
    found = scores(task, "no-count", examples)
    assert found["bits"] == pytest.approx(repeats * (1 + ones).mean(), abs=1e-3)
    assert found["wrong_bits"] == pytest.approx(repeats * (1 + ones).mean() / 2)
    assert found["error_free"] == 0


def test_chance_is_219_bits_over_the_pairs_trained_on(task):
    expected = 7 * np.mean([length * repeats + 1 for length, repeats in PAIRS])
    assert scores(task, "random", task.load("test"))["bits"] == expected == 218.75


def test_solved_is_half_a_bit(task):
    assert task.headline.name == "bits"
    assert task.headline.is_solved(0.5)
    assert not task.headline.is_solved(0.51)


def test_an_example_as_text(task):
    examples = task.generate(RandomState(0), (1, 2), 1, "train")
    vector = np.array([1, 0, 1, 0, 0, 1])
    examples.inputs["inputs"][0, 0, :6] = vector
    examples.targets["bits"][0, 2:4, :6] = vector
    bits = [("#" if bit else ".") for bit in vector]
    source = [f"{bit}...." for bit in bits] + [".#..."] * 2
    target = [f"..{bit}{bit}." for bit in bits] + ["....#"]
    titles = ["input   ", *["        "] * 7, "target  ", *["        "] * 6]
    picture = [title + line for title, line in zip(titles, source + target, strict=True)]
    assert task.render(examples, 0).splitlines() == picture
    stored = {"logits": quantise(2.0 * np.array([*vector, 0, *vector, 0, *[0] * 6, 1]) - 1)}
    answer = [("answer  " if index == 0 else "        ") + line for index, line in enumerate(target)]
    assert task.render(examples, 0, stored).splitlines() == picture + answer
