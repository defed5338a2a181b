"""Family ``pointing``: what is stored, what is refused, padding; metrics of orders."""

import dataclasses
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import CorruptBundleError, PredictionError, UserError
from harness.families import FAMILIES, POINTING, pointing
from harness.families.base import Batch, Examples
from harness.families.pointing import GRID, INVALID, STOP, canonical_indices, on_grid
from harness.metrics.pointing import ORDER_METRICS, is_permutation

SPEC = pointing.Spec(
    max_train_size=5,
    max_test_size=9,
    dimensions=2,
    permutation=False,
    has_stop=True,
    output_slope=1,
    output_offset=2,
)
TOUR_SPEC = dataclasses.replace(SPEC, permutation=True, has_stop=False, output_offset=0)


def sets(lengths: list[int], answers: list[list[int]] | None = None, stop: int = 1, seed: int = 0) -> Examples:
    """Random sets of points, answered by all positions in order unless ``answers`` says otherwise."""
    rng = np.random.RandomState(seed)
    answers = [list(range(n)) for n in lengths] if answers is None else answers
    elements = np.zeros((len(lengths), max(lengths), 2), np.float32)
    indices = np.full((len(lengths), max(map(len, answers)) + stop), STOP)
    for row, (length, answer) in enumerate(zip(lengths, answers, strict=True)):
        elements[row, :length] = rng.randint(0, GRID, (length, 2)) / GRID
        indices[row, : len(answer)] = answer
    sizes = np.array(lengths)
    return Examples({"elements": elements, "length": sizes}, {"indices": indices}, sizes)


def store(rows: list[list[int]], examples: Examples, spec: pointing.Spec = SPEC) -> list[list[int]]:
    prediction = pointing.Prediction(torch.tensor(rows))
    stored = POINTING.store(prediction, POINTING.batch(examples), spec)
    POINTING.check_stored(stored, examples)
    return stored["indices"].tolist()


def test_the_family_is_installed():
    assert FAMILIES["pointing"] is POINTING


# What a task may hold


@pytest.mark.parametrize(
    ("array", "place", "value", "problem"),
    [
        ("length", (1,), 0, "no element; a set has at least 1"),
        ("length", (1,), 5, "more elements than there are"),
        ("indices", (1, 3), 0, "an answer that goes on after its stop"),
        ("elements", (1, 0, 0), np.nan, "an element that is not finite"),
        ("elements", (1, 1, 1), np.inf, "an element that is not finite"),
        ("elements", (1, 2, 0), 0.5, "an element after the last of its set"),
        ("indices", (1, 0), 2, "an answer that points outside of its set"),
        ("indices", (1, 0), -2, "an answer that points outside of its set"),
    ],
)
def test_a_set_that_no_task_may_hold_is_named(array, place, value, problem):
    examples = sets([3, 2, 4])
    POINTING.check_examples(examples)
    arrays = {**examples.inputs, **examples.targets}
    arrays[array] = arrays[array].copy()
    arrays[array][place] = value
    inputs = {name: arrays[name] for name in examples.inputs}
    with pytest.raises(UserError, match=f"example 1 has {problem}"):
        POINTING.check_examples(Examples(inputs, {"indices": arrays["indices"]}, examples.sizes))


# What is stored


def test_what_follows_the_first_stop_is_ignored():
    assert store([[0, 2, STOP, 1, STOP], [1, STOP, 0, 0, 0]], sets([3, 3])) == [[0, 2], [1, STOP]]


def test_a_position_outside_of_the_own_set_is_invalid_and_not_refused():
    assert store([[0, 2, STOP], [0, 2, STOP]], sets([3, 2])) == [[0, 2], [0, INVALID]]
    assert store([[7, 99, STOP], [0, 1, STOP]], sets([3, 2])) == [[INVALID, INVALID], [0, 1]]


def test_an_answer_that_reaches_the_limit_without_its_stop_is_invalid():
    """Limits are 5 and 4: the stop of the first row comes in time, that of the second does not."""
    rows = [[0, 1, 2, 0, STOP, STOP], [0, 1, 0, 1, STOP, STOP]]
    assert store(rows, sets([3, 2])) == [[0, 1, 2, 0], [0, 1, 0, INVALID]]
    assert store([[0, 1, 2, 0, 1, 2, 0]], sets([3])) == [[0, 1, 2, 0, INVALID]]
    assert store([[0, 1, 2]], sets([3])) == [[0, 1, 2]]  # a narrow answer: what is not there is the stop


def test_a_task_without_stop_takes_as_many_positions_as_there_are_elements():
    assert store([[2, 0, 1, 0], [1, 0, 1, 1]], sets([3, 2]), TOUR_SPEC) == [[2, 0, 1], [1, 0, STOP]]
    assert store([[2, 0], [1, STOP]], sets([3, 2]), TOUR_SPEC) == [[2, 0], [1, STOP]]  # too short is stored as it is


def test_no_position_at_all_is_an_empty_answer():
    examples = sets([2, 2])
    stored = POINTING.store(pointing.Prediction(torch.zeros((2, 0), dtype=torch.int64)), POINTING.batch(examples), SPEC)
    assert stored["indices"].shape == (2, 0)
    joined = POINTING.join([stored, {"indices": np.array([[1, 0]], np.int16)}])["indices"]
    assert joined.tolist() == [[STOP, STOP], [STOP, STOP], [1, 0]]
    assert joined.dtype == np.int16


@given(st.integers(0, 2**32 - 1))
def test_an_answer_is_stored_the_same_alone_and_in_a_batch(seed):
    rng = np.random.RandomState(seed)
    examples = sets(rng.randint(1, 6, 4).tolist(), seed=seed)
    rows = torch.from_numpy(rng.randint(STOP, 8, (4, 9)))

    def stored(part: slice) -> dict[str, np.ndarray]:
        batch = POINTING.batch(examples.take(part))
        return POINTING.store(pointing.Prediction(rows[part]), batch, SPEC)

    alone = POINTING.join([stored(slice(row, row + 1)) for row in range(4)])
    assert np.array_equal(alone["indices"], stored(slice(0, 4))["indices"])


@given(st.lists(st.lists(st.integers(-1, 6), min_size=5, max_size=5), min_size=1, max_size=5), st.booleans())
def test_canonicalisation_is_idempotent_but_for_the_stop_that_it_asks_for(rows, has_stop):
    length = np.full(len(rows), 5)
    once = canonical_indices(np.array(rows), length, length + 2, has_stop)
    positions = np.where(once == INVALID, 99, once)  # what a model would have returned
    assert np.array_equal(canonical_indices(positions, length, length + 2, has_stop), once)


def test_other_integer_types_are_taken():
    batch = POINTING.batch(sets([3, 3]))
    indices = torch.tensor([[1, 0], [STOP, 2]], dtype=torch.int32).T
    assert POINTING.store(pointing.Prediction(indices), batch, SPEC)["indices"].tolist() == [[1, STOP], [0, 2]]


def test_limits_of_numbers_arrays_and_tensors():
    assert SPEC.output_limit(5) == 7
    assert SPEC.output_limit(np.array([3, 5])).tolist() == [5, 7]
    assert SPEC.output_limit(torch.tensor([3, 5])).tolist() == [5, 7]
    assert TOUR_SPEC.output_limit(5) == 5


# What is refused


@pytest.mark.parametrize(
    ("prediction", "message"),
    [
        (torch.zeros(2, 3, dtype=torch.int64), r"returned a Tensor; return harness.families.pointing.Prediction"),
        (pointing.Prediction([[0], [1]]), "returned indices as a list"),
        (pointing.Prediction(torch.zeros(2, 3)), r"dtype torch.float32; expected torch.int64"),
        (pointing.Prediction(torch.zeros(2, 3, dtype=torch.bool)), r"dtype torch.bool"),
        (pointing.Prediction(torch.zeros(3, 3, dtype=torch.int64)), r"shape \(3, 3\); expected .* B = 2"),
        (pointing.Prediction(torch.zeros(2, 3, 4, dtype=torch.int64)), r"shape \(2, 3, 4\)"),
        (pointing.Prediction(torch.full((2, 3), -2)), r"index -2; positions count from 0, -1 is the stop"),
    ],
)
def test_a_broken_prediction_is_refused(prediction, message):
    with pytest.raises(PredictionError, match=message):
        POINTING.store(prediction, POINTING.batch(sets([2, 3])), SPEC)


@pytest.mark.parametrize(
    "indices",
    [
        None,
        np.zeros((3, 2), np.int16),
        np.zeros(2, np.int16),
        np.zeros((2, 2), np.int64),
        np.array([[0, 2], [0, 1]], np.int16),
        np.array([[0, -3], [0, 1]], np.int16),
        np.array([[STOP, 0], [0, 1]], np.int16),
    ],
    ids=["missing", "rows", "rank", "dtype", "outside", "below", "after-the-stop"],
)
def test_stored_positions_that_cannot_be_scored_are_corrupt(indices):
    examples = sets([2, 3])
    with pytest.raises(CorruptBundleError, match="indices"):
        POINTING.check_stored({} if indices is None else {"indices": indices}, examples)
    POINTING.check_stored({"indices": np.array([[0, 1], [2, STOP]], np.int16)}, examples)
    POINTING.check_stored({"indices": np.zeros((2, 0), np.int16)}, examples)


# Padding


def test_concatenation_and_trimming_pad_with_stops_and_keep_one_behind_the_longest_answer():
    both = POINTING.concatenate([sets([2], [[1]]), sets([4], [[3, 0, 1]])])
    assert both.targets["indices"].tolist() == [[1, STOP, STOP, STOP], [3, 0, 1, STOP]]
    assert (both.inputs["elements"][0, 2:] == 0).all()
    batch = POINTING.batch(both.take(slice(0, 1)))
    assert isinstance(batch, Batch)
    assert batch.targets.indices.tolist() == [[1, STOP]]
    assert batch.inputs.elements.shape == (1, 2, 2)
    tour = POINTING.batch(sets([3], stop=0))
    assert tour.targets.indices.tolist() == [[0, 1, 2]]


def test_grid_coordinates_survive_float32():
    whole = np.array([0, 1, 2, 12345, GRID // 3, GRID - 1, GRID])
    assert on_grid((whole / GRID).astype(np.float32)).tolist() == whole.tolist()


# Orders and permutations


@given(st.lists(st.lists(st.integers(-2, 4), min_size=0, max_size=5), min_size=1, max_size=5), st.data())
def test_a_permutation_names_everything_once(rows, data):
    lengths = np.array(data.draw(st.lists(st.integers(1, 5), min_size=len(rows), max_size=len(rows))))
    width = max(map(len, rows))
    padded = np.array([row + [STOP] * (width - len(row)) for row in rows]).reshape(len(rows), width)
    for row, length, found in zip(padded.tolist(), lengths, is_permutation(padded, lengths), strict=True):
        while row and row[-1] == STOP:
            row.pop()
        assert found == (sorted(row) == list(range(length)))


def numbers(values: list[list[float]], answers: list[list[int]]) -> tuple[Examples, dict[str, np.ndarray]]:
    width, height = max(map(len, values)), len(values)
    elements = np.zeros((height, width, 1), np.float32)
    target = np.full((height, width), STOP)
    for row, one in enumerate(values):
        elements[row, : len(one), 0] = one
        target[row, : len(one)] = np.argsort(one, kind="stable")
    sizes = np.array([len(one) for one in values])
    stored = np.array([row + [STOP] * (width - len(row)) for row in answers], np.int16)
    return Examples({"elements": elements, "length": sizes}, {"indices": target}, sizes), {"indices": stored}


def order_scores(values: list[list[float]], answers: list[list[int]]) -> dict[str, float]:
    examples, stored = numbers(values, answers)
    return {metric.name: metric.score(metric.statistics(stored, examples)) for metric in ORDER_METRICS}


def test_positions_count_and_ranks_do_not():
    assert order_scores([[0.3, 0.1, 0.2]], [[1, 2, 0]]) == {"sorted": 1, "places": 1, "permutation": 1}
    assert order_scores([[0.3, 0.1, 0.2]], [[2, 0, 1]]) == {"sorted": 0, "places": 0, "permutation": 1}


def test_equal_numbers_may_be_exchanged():
    """B17 of the public bug reports: 3 1 3 1 is sorted by 1 3 0 2, and as well by 3 1 2 0."""
    values = [[0.75, 0.25, 0.75, 0.25]]
    assert order_scores(values, [[1, 3, 0, 2]])["sorted"] == 1
    assert order_scores(values, [[3, 1, 2, 0]])["sorted"] == 1
    assert order_scores(values, [[3, 3, 2, 0]]) == {"sorted": 0, "places": 1, "permutation": 0}
    assert order_scores(values, [[0, 1, 2, 3]])["sorted"] == 0


def test_short_long_and_invalid_orders_are_wrong():
    assert order_scores([[0.5, 0.25]], [[1]]) == {"sorted": 0, "places": 0.5, "permutation": 0}
    assert order_scores([[0.5, 0.25]], [[]]) == {"sorted": 0, "places": 0, "permutation": 0}
    assert order_scores([[0.5, 0.25]], [[1, INVALID]]) == {"sorted": 0, "places": 0.5, "permutation": 0}
    assert order_scores([[0.5, 0.25], [0.5, 0.25, 0.75]], [[1, 0], [1, 0, 2]])["sorted"] == 1


def test_exactly_one_order_of_different_numbers_is_right():
    values = [0.5, 0.25, 0.875, 0.125]
    right = [order for order in permutations(range(4)) if order_scores([values], [list(order)])["sorted"] == 1]
    assert right == [(3, 1, 0, 2)]
