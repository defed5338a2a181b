"""Metrics of tours: by hand, and against a slow literal computation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.families.base import Examples
from harness.families.pointing import GRID, INVALID, STOP
from harness.metrics.tours import GAP, LENGTH, TOUR_METRICS, VALID, canonical_tours, tour_lengths

SQUARE = [(0, 0), (1, 0), (1, 1), (0, 1)]


def example(points, target, answers, scale=GRID // 8):
    """One set of points (in eighths), one target, several answers."""
    count, width = len(answers), max(1, *map(len, answers))
    elements = (np.array([points] * count) * (scale / GRID)).astype(np.float32)
    stored = np.array([list(a) + [STOP] * (width - len(a)) for a in answers], np.int16)
    sizes = np.full(count, len(points))
    targets = np.array([list(target)] * count)
    return Examples({"elements": elements, "length": sizes}, {"indices": targets}, sizes), {"indices": stored}


def scores(points, target, answers, scale=GRID // 8):
    examples, stored = example(points, target, answers, scale)
    return {metric.name: metric.score(metric.statistics(stored, examples)) for metric in TOUR_METRICS}


def literal_length(points, tour):
    return sum(math.dist(points[tour[i]], points[tour[i - 1]]) for i in range(len(tour)))


def test_a_closed_tour_has_its_closing_edge():
    """B07: the unit square has length 4, not 3."""
    assert tour_lengths(np.array([SQUARE]), np.array([[0, 1, 2, 3]]), np.array([4])).tolist() == [4]
    found = scores(SQUARE, (0, 1, 2, 3), [(0, 1, 2, 3)])
    assert found == {"gap": 0, "length": 0.5, "valid": 1}


def test_the_triangle_three_four_five():
    points = [(0, 0), (4, 0), (4, 3)]
    assert tour_lengths(np.array([points]), np.array([[0, 1, 2]]), np.array([3])).tolist() == [12]


def test_one_two_and_three_cities():
    """B10: lengths 0, twice the distance, and the triangle's."""
    for points, length in (([(3, 3)], 0), ([(0, 0), (3, 4)], 10), ([(0, 0), (3, 0), (0, 4)], 12)):
        tour = tuple(range(len(points)))
        assert tour_lengths(np.array([points]), np.array([tour]), np.array([len(points)])).tolist() == [length]
        found = scores(points, tour, [tour])
        assert found["gap"] == 0
        assert found["valid"] == 1
        assert found["length"] == length / 8


@pytest.mark.parametrize(
    "answer",
    [(0, 0, 2, 1), (0, 1, 2), (), (0, 1, 2, INVALID), (0, 1, 2, 2), (3, 2, 1, 1)],
    ids=["start-again", "short", "empty", "outside", "repeated", "missing"],
)
def test_an_answer_that_is_no_tour_is_not_scored(answer):
    """B08: invalid, neither a gap nor a length; beside valid answers it counts in the valid share alone."""
    alone = scores(SQUARE, (0, 1, 2, 3), [answer])
    assert math.isnan(alone["gap"])
    assert math.isnan(alone["length"])
    assert alone["valid"] == 0
    both = scores(SQUARE, (0, 1, 2, 3), [answer, (0, 1, 2, 3)])
    assert both == {"gap": 0, "length": 0.5, "valid": 0.5}


def test_the_gap_is_in_percent_and_does_not_depend_on_the_scale():
    """B11: the crossed square is 2 + 2√2 long instead of 4."""
    crossed = 100 * ((2 + 2 * math.sqrt(2)) / 4 - 1)
    for scale in (GRID // 8, GRID // 80):
        found = scores(SQUARE, (0, 1, 2, 3), [(0, 2, 1, 3)], scale)
        assert found["gap"] == pytest.approx(crossed)
    assert found["length"] == pytest.approx((2 + 2 * math.sqrt(2)) * (GRID // 80) / GRID)


tours = st.integers(1, 8).flatmap(
    lambda n: st.tuples(
        st.lists(st.tuples(st.integers(0, GRID - 1), st.integers(0, GRID - 1)), min_size=n, max_size=n, unique=True),
        st.permutations(range(n)),
    )
)


@given(tours)
def test_lengths_are_those_of_the_literal_sum(drawn):
    points, tour = drawn
    found = tour_lengths(np.array([points]), np.array([tour]), np.array([len(points)]))[0]
    assert found == pytest.approx(literal_length(points, tour), rel=1e-12)


@given(tours, st.integers(0, 7), st.booleans())
def test_every_way_to_write_a_cycle_has_one_canonical_form(drawn, shift, backwards):
    points, tour = drawn
    n = len(points)
    other = np.roll(tour, shift)[:: -1 if backwards else 1]
    both = canonical_tours(np.array([points] * 2), np.stack([tour, other]), np.full(2, n))
    assert both[0].tolist() == both[1].tolist()
    assert both[0, 0] == 0
    assert sorted(both[0].tolist()) == list(range(n))
    edges = [{frozenset((t[i], t[i - 1])) for i in range(n)} for t in (list(tour), both[0].tolist())]
    assert edges[0] == edges[1]
    x, y = np.array(points)[both[0]].T.astype(object)
    area = sum(x[i - 1] * y[i] - x[i] * y[i - 1] for i in range(n))
    assert area > 0 or (area == 0 and (n < 3 or both[0, 1] < both[0, -1]))


@given(tours)
def test_a_canonical_tour_is_the_same_with_padding(drawn):
    points, tour = drawn
    n = len(points)
    wide_points = np.zeros((1, n + 3, 2), np.int64)
    wide_points[0, :n] = points
    wide_tour = np.zeros((1, n + 3), np.int64)
    wide_tour[0, :n] = tour
    narrow = canonical_tours(np.array([points]), np.array([tour]), np.array([n]))
    wide = canonical_tours(wide_points, wide_tour, np.array([n]))
    assert wide[0, :n].tolist() == narrow[0].tolist()
    assert tour_lengths(wide_points, wide_tour, np.array([n])) == tour_lengths(
        np.array([points]), np.array([tour]), np.array([n])
    )


@given(tours, st.integers(0, 7), st.booleans())
def test_the_gap_of_the_target_is_exactly_zero_however_it_is_written(drawn, shift, backwards):
    points, tour = drawn
    other = np.roll(tour, shift)[:: -1 if backwards else 1].tolist()
    examples, stored = example(points, tour, [other], scale=1)
    assert GAP.statistics(stored, examples).tolist() == [[0, 1]]


def test_a_tour_shorter_than_the_target_shows():
    """The board's exact bound must be able to catch a wrong label; the mean length ranks nothing."""
    assert scores(SQUARE, (0, 2, 1, 3), [(0, 1, 2, 3)])["gap"] < -17
    assert LENGTH.direction is None
    assert (GAP.direction, VALID.direction) == ("min", "max")
