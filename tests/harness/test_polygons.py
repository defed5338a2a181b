"""Metrics of polygons against shapely and by hand."""

import math
from itertools import product

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from harness.families.base import Examples
from harness.families.pointing import GRID, INVALID, STOP
from harness.metrics.polygons import HULL_METRICS, cross, doubled_area, rings, simple

SQUARE = [(0, 0), (4, 0), (4, 4), (0, 4), (2, 0), (4, 2), (2, 4), (0, 2), (1, 1)]
"""Four corners, the middles of the edges, and a point inside."""


def example(points, target, answers):
    """One set of points, one target, several answers."""
    count, width = len(answers), max(map(len, answers)) + 1
    elements = np.array([points] * count, np.float32) / 8
    stored = np.array([list(a) + [STOP] * (width - len(a)) for a in answers], np.int16)
    targets = np.array([[*target, STOP]] * count)
    sizes = np.full(count, len(points))
    return Examples({"elements": elements, "length": sizes}, {"indices": targets}, sizes), {"indices": stored}


def scores(points, target, answers):
    examples, stored = example(points, target, answers)
    return {metric.name: metric.score(metric.statistics(stored, examples)) for metric in HULL_METRICS}


def one(*answer):
    return scores(SQUARE, (0, 1, 2, 3), [answer])


# By hand


@pytest.mark.parametrize(
    "answer",
    [
        (0, 1, 2, 3),
        (2, 3, 0, 1),
        (3, 2, 1, 0),
        (0, 4, 1, 5, 2, 6, 3, 7),
        (7, 0, 1, 2, 3),
        (0, 1, 2, 3, 0),
        (0, 0, 1, 2, 3),
    ],
    ids=["itself", "rotated", "reversed", "edge-points", "from-an-edge-point", "closed", "stuttering"],
)
def test_the_same_polygon_however_it_is_written(answer):
    assert one(*answer) == {"same_polygon": 1, "coverage": 1, "not_simple": 0, "coverage_or_fail": 1}


@pytest.mark.parametrize(
    ("answer", "area"),
    [((0, 1, 2), 0.5), ((4, 5, 6, 7), 0.5), ((0, 1, 8), 0.125), ((0, 1, 2, 3, 8), 0.875), ((0, 4, 1, 2, 3, 7), 1)],
)
def test_area_is_a_share_of_the_targets(answer, area):
    found = one(*answer)
    assert found["coverage"] == area
    assert found["not_simple"] == 0
    assert found["same_polygon"] == (area == 1)


@pytest.mark.parametrize(
    "answer",
    [
        (),
        (0,),
        (0, 1),
        (0, 4, 1),
        (0, 2, 1, 3),
        (0, 1, 2, 3, 0, 1, 2, 3),
        (0, 1, 2, 3, 1),
        (0, 1, 5, 1, 2, 3),
        (0, 1, 2, 4, 3),
        (0, 1, 2, INVALID),
        (0, 1, 2, 3, INVALID),
    ],
    ids=[
        "nothing",
        "point",
        "edge",
        "flat",
        "bow-tie",
        "twice-round",
        "corner-again",
        "spike",
        "touching-an-edge",
        "invalid",
        "endless",
    ],
)
def test_what_is_no_simple_polygon(answer):
    """B16: a bow-tie is outside of the area's mean; so is a square walked twice, whose area would be 2."""
    found = one(*answer)
    assert found["not_simple"] == 1
    assert found["same_polygon"] == 0
    assert math.isnan(found["coverage"])
    assert math.isnan(found["coverage_or_fail"])


def test_more_than_one_in_a_hundred_is_a_fail():
    right, wrong = (0, 1, 2, 3), (0, 2, 1, 3)
    within = scores(SQUARE, right, [right] * 198 + [wrong] * 2)
    beyond = scores(SQUARE, right, [right] * 197 + [wrong] * 3)
    assert within["coverage_or_fail"] == within["coverage"] == 1
    assert within["not_simple"] == 0.01
    assert math.isnan(beyond["coverage_or_fail"])
    assert beyond["coverage"] == 1


def test_a_right_area_alone_is_not_the_right_polygon():
    """Two triangles of one area."""
    points = [(0, 0), (4, 0), (0, 4), (4, 4)]
    assert scores(points, (0, 1, 2), [(0, 1, 3)])["same_polygon"] == 0
    assert scores(points, (0, 1, 2), [(0, 1, 3)])["coverage"] == 1


def test_orientation_is_exact_at_the_ends_of_the_grid():
    """Points off a line by one grid step at most, where float32 and float64 coordinates in [0,1] go wrong."""
    far = GRID - 1
    line = np.array([[0, 0], [far - 1, far], [far, far], [1, 1]])
    assert int(cross(line[0], line[3], line[2])) == 0
    assert int(cross(line[0], line[1], line[2])) == -far
    wide = np.array([[0, 0], [GRID, 0], [GRID, GRID], [0, GRID]])
    corners, count = rings(wide[None], np.array([[0, 1, 2, 3]]))
    assert doubled_area(corners, count).tolist() == [2 * GRID**2]


# Against shapely


def shape(points, answer):
    corners = [points[index] for index in answer]
    return shapely.Polygon(corners) if len(set(corners)) >= 3 else shapely.Polygon()


grid = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=4, max_size=7)


@given(grid, st.data())
def test_simplicity_and_area_agree_with_shapely(points, data):
    answers = data.draw(st.lists(st.lists(st.integers(0, len(points) - 1), min_size=3, max_size=7), min_size=1))
    _, stored = example(points, (0, 1, 2), answers)
    corners, count = rings(np.array([points] * len(answers)), stored["indices"])
    for row, answer in enumerate(answers):
        polygon = shape(points, answer)
        expected = polygon.is_valid and not polygon.is_empty and polygon.area > 0
        assert bool(simple(corners, count)[row]) == expected, answer
        if expected:
            assert abs(doubled_area(corners, count)[row]) == 2 * polygon.area


@given(grid, st.data())
def test_equality_agrees_with_shapely(points, data):
    lists = st.lists(st.integers(0, len(points) - 1), min_size=3, max_size=6)
    target, answer = data.draw(lists), data.draw(lists)
    polygon = shape(points, target)
    if not polygon.is_valid or polygon.area == 0:
        return
    other = shape(points, answer)
    expected = other.is_valid and not other.is_empty and polygon.equals(other)
    assert scores(points, target, [answer])["same_polygon"] == expected


@given(st.permutations(range(9)), st.integers(3, 9))
def test_equality_is_found_among_all_ways_to_write_the_square(order, count):
    answer = order[:count]
    polygon = shape(SQUARE, answer)
    expected = polygon.is_valid and polygon.equals(shapely.box(0, 0, 4, 4))
    assert one(*answer)["same_polygon"] == expected


def test_every_quadrangle_of_a_small_grid():
    points = list(product(range(3), range(3)))
    answers = [answer for answer in product(range(9), repeat=4) if len(set(answer)) == 4]
    _, stored = example(points, (0, 1, 2), answers)
    corners, count = rings(np.array([points] * len(answers)), stored["indices"])
    expected = [(p := shape(points, answer)).is_valid and p.area > 0 for answer in answers]
    assert simple(corners, count).tolist() == expected


def test_rings_of_different_lengths_do_not_mix():
    answers = [(0, 1, 2, 3), (0, 2, 1, 3), (0, 1, 2), (4, 5, 6, 7), ()]
    together = example(SQUARE, (0, 1, 2, 3), answers)
    for metric in HULL_METRICS:
        rows = metric.statistics(together[1], together[0])
        for row, answer in enumerate(answers):
            alone = example(SQUARE, (0, 1, 2, 3), [answer])
            assert np.array_equal(metric.statistics(alone[1], alone[0])[0], rows[row])


def test_long_rings_are_tested_in_parts(monkeypatch):
    angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    circle = (np.stack([np.cos(angle), np.sin(angle)], 1) * 1000 + 2000).astype(np.int64)
    ring, count = np.stack([circle, circle[::-1], circle[np.r_[1, 0, 2:40]]]), np.full(3, 40)
    expected = [True, True, False]
    assert simple(ring, count).tolist() == expected
    monkeypatch.setattr("harness.metrics.polygons.PAIRS", 1)
    assert simple(ring, count).tolist() == expected
