"""``ntm/associative-recall``: a reader that looks the query up agrees with every tape; no item twice; references."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import RandomState

from harness.errors import UserError
from harness.families.tape import LOGIT_RANGE
from harness.registry import get_task
from harness.splits import Split, load_block, partition
from tasks.ntm.associative_recall import LADDER, TRAIN_ITEMS, AssociativeRecall

ROLES = st.sampled_from(["train", "validation", "test"])

Item = tuple[tuple[float, ...], ...]


@pytest.fixture
def task():
    return get_task("ntm/associative-recall")


def read(tape: np.ndarray) -> tuple[list[Item], Item]:
    """Read a tape ``(T,8)`` step by step: the list of items and the query, split at the delimiters."""
    items: list[list[tuple[float, ...]]] = []
    query: list[tuple[float, ...]] = []
    delimiters = 0
    for step in tape.tolist():
        if step[6:] == [1, 0]:
            assert delimiters == 0
            items.append([])
        elif step[6:] == [0, 1]:
            delimiters += 1
        elif delimiters == 0:
            items[-1].append(tuple(step[:6]))
        elif delimiters == 1:
            query.append(tuple(step[:6]))
        else:
            assert step == [0] * 8  # silence while it is answered
        assert step[6:] == [0, 0] or step[:6] == [0] * 6  # a delimiter carries no bits
    assert delimiters == 2
    return [tuple(item) for item in items], tuple(query)


def test_an_example_by_hand():
    codes = [[0b100000_000000_000001, 0b000011_110000_101010], [7, 8]]

    class Fixed:
        """Draws the two items, and the query's place."""

        def randint(self, low, high, size):
            if isinstance(size, int):
                assert (low, high) == (0, 1)  # of two items only the first can be asked
                return np.zeros(size, int)
            assert (low, high) == (0, 2**18)
            return np.resize(codes[0], size)

    role = partition(np.array(codes))[0]
    examples = AssociativeRecall().generate(Fixed(), 2, 1, role)
    first = [[1, 0, 0, 0, 0, 0], [0] * 6, [0, 0, 0, 0, 0, 1]]
    second = [[0, 0, 0, 0, 1, 1], [1, 1, 0, 0, 0, 0], [1, 0, 1, 0, 1, 0]]
    item, query, silence = [[0] * 6 + [1, 0]], [[0] * 6 + [0, 1]], [[0] * 8]
    plain = [[[*vector, 0, 0] for vector in vectors] for vectors in (first, second)]
    expected = item + plain[0] + item + plain[1] + query + plain[0] + query + silence * 3
    assert examples.inputs["inputs"][0].tolist() == expected
    assert examples.targets["bits"][0].tolist() == [[0] * 6] * 13 + second
    assert examples.targets["answer"][0].tolist() == [False] * 13 + [True] * 3
    assert (examples.inputs["length"].tolist(), examples.sizes.tolist()) == ([16], [2])


@given(st.integers(2, 25), ROLES, st.integers(0, 1000))
def test_the_answer_is_what_followed_the_query(items, role, seed):
    task = get_task("ntm/associative-recall")
    examples = task.generate(RandomState(seed), items, 4, role)
    steps = 4 * items + 8
    assert examples.inputs["inputs"].shape == (4, steps, 8)
    assert (examples.inputs["length"] == steps).all()
    for tape, bits, answer in zip(
        examples.inputs["inputs"], examples.targets["bits"], examples.targets["answer"], strict=True
    ):
        listed, query = read(tape)
        assert len(listed) == len(set(listed)) == items
        assert {len(item) for item in listed} == {3}
        assert query in listed[:-1]
        assert tuple(map(tuple, bits[answer].tolist())) == listed[listed.index(query) + 1]
        assert answer.tolist() == [False] * (steps - 3) + [True] * 3
        assert not bits[~answer].any()


def test_every_stored_list_is_answered_right_and_has_no_item_twice(task):
    for split in task.splits:
        examples = task.load(split.name)
        for row in range(0, len(examples), 1 if split.role == "test" else 3):
            listed, query = read(examples.inputs["inputs"][row, : examples.inputs["length"][row]])
            assert len(set(listed)) == len(listed) == examples.sizes[row]
            answer = examples.targets["bits"][row][examples.targets["answer"][row]]
            assert tuple(map(tuple, answer.tolist())) == listed[listed.index(query) + 1]


def test_lists_with_an_item_twice_are_drawn_again():
    """Even where nearly every list has one: six items out of eight."""

    class FewCodes(RandomState):
        def randint(self, low, high=None, size=None, dtype=int):
            return super().randint(low, min(high, 8), size, dtype)

    examples = AssociativeRecall().generate(FewCodes(0), 6, 200, "train")
    last = examples.inputs["inputs"][:, 3:24:4, 3:6] @ [4, 2, 1]  # the low bits of each item's last vector
    assert {len(set(row)) for row in last.tolist()} == {6}


def test_the_query_is_any_item_but_the_last(task):
    examples = task.generate(RandomState(3), 5, 2000, "train")
    listed = examples.inputs["inputs"][:, :20].reshape(2000, 5, 4, 8)[:, :, 1:, :6]
    query = examples.inputs["inputs"][:, 21:24, :6]
    place = (listed == query[:, None]).all((2, 3)).argmax(1)
    counts = np.bincount(place, minlength=5)
    assert counts[4] == 0
    assert ((counts[:4] - 500) ** 2 / 500).sum() < 16.3  # chi-squared, 3 degrees of freedom, 0.1 %


def test_bits_are_fair_and_independent(task):
    examples = task.generate(RandomState(4), 6, 4000, "train")
    bits = examples.inputs["inputs"][:, :24].reshape(4000, 6, 4, 8)[:, :, 1:, :6]
    assert bits.mean((0, 1)) == pytest.approx(np.full((3, 6), 0.5), abs=0.0143)  # four and a half standard errors
    assert (bits[..., 1:] == bits[..., :-1]).mean() == pytest.approx(0.5, abs=0.005)
    assert (bits[:, 1:] == bits[:, :-1]).mean() == pytest.approx(0.5, abs=0.005)


@pytest.mark.parametrize("role", ["train", "validation", "test"])
def test_lists_have_their_role(task, role):
    vectors = task.generate(RandomState(5), 3, 200, role).inputs["inputs"][:, :12].reshape(200, 3, 4, 8)[:, :, 1:, :6]
    codes = vectors.reshape(200, 3, 18).astype(np.int64) @ (1 << np.arange(18)[::-1])
    assert (partition(codes) == role).all()


def test_nothing_of_a_test_occurs_elsewhere(task):
    assert all(rates == {} for rates in task.pinned["overlap"]["default"].values())


def test_all_sizes_are_evenly_represented(task):
    for split in task.splits:
        if isinstance(split, Split):
            sizes, counts = np.unique(task.load(split.name).sizes, return_counts=True)
            assert sizes.tolist() == list(TRAIN_ITEMS if split.ladder is None else [split.ladder])
            assert set(counts) == {split.per_size}
    assert TRAIN_ITEMS == (2, 3, 4, 5, 6)
    assert [split.ladder for split in task.splits if isinstance(split, Split) and split.ladder] == [8, 10, 12, 15, 20]
    blocks = [load_block(task, task.split("train"), block) for block in range(60)]
    assert {int(block.sizes[0]) for block in blocks} == set(TRAIN_ITEMS)


def test_the_spec_covers_every_tape(task):
    spec = task.spec("default")
    assert (spec.max_train_size, spec.max_test_size, spec.input_channels, spec.output_bits) == (6, 20, 8, 6)
    assert max(LADDER) == 20


@pytest.mark.parametrize("size", [0, 1, -3, (2, 2)])
def test_a_list_of_less_than_two_items_is_refused(task, size):
    with pytest.raises(UserError, match=r"of ntm/associative-recall is not valid: a whole number of at least 2"):
        task.generate(RandomState(0), size, 4, "train")


def scores(task, row, examples):
    return task.score(task.references()[row].predict(examples, RandomState(0)), examples)


@pytest.mark.parametrize("split", ["test", "test-20"])
def test_chance_is_18_bits_and_the_oracle_is_perfect(task, split):
    examples = task.load(split)
    assert scores(task, "random", examples) == {"bits": 18, "wrong_bits": 9, "error_free": 0}
    oracle = scores(task, "oracle", examples)
    assert oracle["bits"] == pytest.approx(18 * math.log1p(math.exp(-LOGIT_RANGE)) / math.log(2), abs=1e-8)
    assert (oracle["wrong_bits"], oracle["error_free"]) == (0, 1)
    assert task.headline.is_solved(oracle["bits"])


def no_order(tape: np.ndarray, answer: np.ndarray, step: float) -> float:
    """Bits that even odds over the items that may follow cost, bit by bit, as log-odds in multiples of ``step``."""
    listed, _ = read(tape)
    cost = 0.0
    for place in range(3):
        for bit in range(6):
            right = sum(item[place][bit] == answer[place, bit] for item in listed[1:])
            wrong = len(listed[1:]) - right
            odds = math.log(right / wrong) if wrong else LOGIT_RANGE
            cost += math.log2(1 + math.exp(-round(odds / step) * step))
    return cost


@pytest.mark.parametrize("split", ["test", "test-8"])
def test_knowing_the_items_but_not_their_order(task, split):
    examples = task.load(split)
    answers = [bits[answer] for bits, answer in zip(examples.targets["bits"], examples.targets["answer"], strict=True)]
    tapes = [tape[:n] for tape, n in zip(examples.inputs["inputs"], examples.inputs["length"], strict=True)]
    found = task.references()["no-order"].predict(examples, RandomState(0))
    own = task.headline.statistics(found, examples)[:, 0]
    as_stored = [no_order(tape, answer, LOGIT_RANGE / 127) for tape, answer in zip(tapes, answers, strict=True)]
    exact = [no_order(tape, answer, 1e-9) for tape, answer in zip(tapes, answers, strict=True)]
    assert own == pytest.approx(as_stored, abs=1e-6)
    assert own.mean() == pytest.approx(np.mean(exact), abs=0.02)
    if split == "test":
        assert own[examples.sizes == 2] == pytest.approx(np.zeros(400), abs=1e-4)  # the second is all that is left


def test_solved_is_half_a_bit(task):
    assert task.headline.is_solved(0.5)
    assert not task.headline.is_solved(0.51)
