"""``geometry/convex-hull``: labels against scipy and by hand, references, splits, pictures."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from numpy.random import RandomState
from scipy.spatial import ConvexHull as Qhull

from harness.errors import UserError
from harness.families.pointing import GRID, STOP, on_grid
from harness.registry import get_task
from harness.splits import Split, generator, load_block
from tasks.geometry.convex_hull import LADDER, MIXED, hull


@pytest.fixture
def task():
    return get_task("geometry/convex-hull")


def rows(indices):
    return [[int(i) for i in row if i != STOP] for row in indices]


def rotated(corners):
    first = int(np.argmin(corners))
    return [int(c) for c in np.roll(corners, -first)]


# Labels


@pytest.mark.parametrize("size", [3, 4, 5, 10, 50, 200, 500])
def test_hulls_are_qhulls_from_the_lowest_position_on(size):
    """scipy's corners are counter-clockwise but start anywhere."""
    points = RandomState(size).randint(0, GRID, (60, size, 2))
    assert rows(hull(points)) == [rotated(Qhull(one).vertices) for one in points]


def literal_hull(points):
    """A corner is a point that some line separates from all others: the definition, pair by pair, in Python integers.

    a is followed by b if every other point is to the left of a→b or, in line with it, between the two.
    """

    def follows(a, b):
        for c in set(points) - {a, b}:
            turn = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
            between = min(a, b) < c < max(a, b)
            if turn < 0 or (turn == 0 and not between):
                return False
        return True

    return {a: b for a in points for b in points if a != b and follows(a, b)}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=9, unique=True))
def test_hulls_with_points_in_line_are_exact(points):
    found = rows(hull(np.array([points])))[0]
    after = literal_hull(points)
    assert {points[i]: points[j] for i, j in zip(found, np.roll(found, -1), strict=True)} == after
    assert found[0] == min(found)


def test_points_on_an_edge_are_no_corners():
    """B14: the square with its edges' middles has four corners."""
    points = np.array([[(0, 4), (2, 0), (0, 0), (4, 2), (4, 0), (2, 4), (4, 4), (0, 2), (2, 2)]])
    assert rows(hull(points)) == [[0, 2, 4, 6]]


def test_degenerate_sets_have_fewer_than_three_corners():
    """B13: what makes Qhull stop with an error ends here, and the task draws such a set again."""
    assert rows(hull(np.array([[(0, 0), (1, 1), (2, 2)]]))) == [[0, 2]]
    assert rows(hull(np.array([[(3, 3)]]))) == [[0]]
    assert rows(hull(np.array([[(1, 1)] * 5]))) == [[0]]


def test_repeated_points_do_not_disturb_the_hull():
    corners = rows(hull(np.array([[(0, 0), (0, 0), (4, 0), (4, 0), (0, 4), (0, 4), (1, 1)]])))[0]
    assert len(corners) == 3
    assert {i // 2 for i in corners} == {0, 1, 2}


def test_orientation_is_exact_where_float_coordinates_are_not():
    """The middle point is one grid step off the diagonal of the whole square."""
    far = GRID - 1
    assert rows(hull(np.array([[(0, 0), (far - 1, far), (far, far), (far // 2, far // 2)]]))) == [[0, 2, 1]]
    inside = rows(hull(np.array([[(0, 0), (far, far), (far, 0), (12_345, 12_344)]])))
    assert inside == [[0, 2, 1]]
    outside = rows(hull(np.array([[(0, 0), (far, far), (far, 0), (12_345, 12_346)]])))
    assert outside == [[0, 2, 1, 3]]


def test_a_set_on_one_line_is_drawn_again(task):
    class Once:
        """Draws one set on a line, then others."""

        calls = 0

        def randint(self, low, high, size):
            self.calls += 1
            if self.calls == 1:
                return np.array([[(1, 1), (2, 2), (3, 3)], [(0, 0), (5, 0), (0, 5)]])
            return np.array([[(7, 7), (9, 7), (8, 9)]])

    examples = task.generate(Once(), 3, 2, "train")
    assert on_grid(examples.inputs["elements"]).tolist() == [[[7, 7], [9, 7], [8, 9]], [[0, 0], [5, 0], [0, 5]]]
    assert rows(examples.targets["indices"]) == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("size", [-1, 0, 1, 2, (3, 4), 5.0])
def test_fewer_than_three_points_are_refused(task, size):
    with pytest.raises(UserError, match="at least 3"):
        task.generate(RandomState(0), size, 1, "train")


# Splits


def test_mean_corners_are_those_of_uniform_points(task):
    """Measured elsewhere: 4.26, 5.98, 10.07, 13.75, 16.26 at n = 5, 10, 50, 200, 500."""
    for size, mean in ((5, 4.26), (10, 5.98), (50, 10.07), (200, 13.75), (500, 16.26)):
        corners = (task.load(f"test-{size}").targets["indices"] != STOP).sum(1)
        assert corners.mean() == pytest.approx(mean, abs=4 * corners.std() / len(corners) ** 0.5 + 0.01)


def test_splits_hold_what_they_say(task):
    for split in task.splits:
        if isinstance(split, Split):
            examples = task.load(split.name)
            sizes, counts = np.unique(examples.sizes, return_counts=True)
            assert sizes.tolist() == list(split.sizes)
            assert set(counts) == {split.per_size}
            assert np.array_equal(examples.inputs["length"], examples.sizes)
            assert (examples.targets["indices"] == STOP).any(1).all()
    assert [split.ladder for split in task.splits if getattr(split, "ladder", None)] == [5, 10, 20, 50, 100, 200, 500]
    assert set(LADDER) == {5, 10, 20, 50, 100, 200, 500}


def test_training_draws_every_size_and_no_other(task):
    stream = task.split("train-5-50")
    assert {int(load_block(task, stream, block).sizes[0]) for block in range(250)} == set(MIXED)
    assert set(load_block(task, task.split("train-50"), 7).sizes) == {50}


def test_no_set_of_one_split_is_in_another(task):
    assert set(task.pinned["overlap"]) == set(task.regimes)
    for rates in task.pinned["overlap"].values():
        assert all(rate == {} for rate in rates.values())


def test_the_spec_covers_every_answer(task):
    for regime in task.regimes:
        spec = task.spec(regime)
        assert (spec.max_test_size, spec.dimensions, spec.permutation, spec.has_stop) == (500, 2, False, True)
        for split in task.regime(regime).tests:
            examples = task.load(split)
            assert examples.inputs["elements"].shape[2] == 2
            answers = (examples.targets["indices"] != STOP).sum(1) + 1
            assert (answers <= spec.output_limit(examples.sizes)).all()
    assert task.spec("5-50").max_train_size == task.spec("50").max_train_size == 50


# References


def scores(task, row, split):
    examples = task.load(split)
    stored = task.references()[row].predict(examples, generator("t", 1, row, split))
    task.family.check_stored(stored, examples)
    return task.score(stored, examples)


@pytest.mark.parametrize("split", ["test-5-50", "test-5", "test-500"])
def test_references(task, split):
    assert scores(task, "exact", split) == {"same_polygon": 1, "coverage": 1, "not_simple": 0, "coverage_or_fail": 1}
    triangle, extremes = scores(task, "random", split), scores(task, "extremes", split)
    assert triangle["not_simple"] == 0
    assert extremes["not_simple"] < 0.15  # two opposite corners may be all four extremes
    assert 0.05 < triangle["coverage"] < 0.4
    assert triangle["coverage"] < extremes["coverage"] < 1
    assert {name: r.bound for name, r in task.references().items()} == {
        "random": "expected",
        "extremes": "none",
        "exact": "exact",
    }


def test_extremes_name_no_point_twice(task):
    """The lower left corner of a triangle is its leftmost and its lowest point."""
    points = np.array([[(0, 0), (6, 1), (5, 6), (3, 3)]])
    examples = task.generate(RandomState(0), 4, 1, "test")
    examples.inputs["elements"][:] = points / GRID
    assert rows(task.references()["extremes"].predict(examples, RandomState(0))["indices"]) == [[0, 1, 2]]


def test_the_right_answer_through_a_prediction_is_right(task):
    examples = task.load("test-5-50")
    batch = task.family.batch(examples)
    stored = task.family.store(task.family.Prediction(batch.targets.indices), batch, task.spec("5-50"))
    assert task.score(stored, examples)["same_polygon"] == 1


# Pictures


def test_an_example_as_text_and_as_a_picture(task):
    examples = task.family.concatenate([task.generate(RandomState(0), size, 1, "test") for size in (4, 6)])
    target = rows(examples.targets["indices"])[0]
    shown = task.render(examples, 0, {"indices": np.array([[1, -2, STOP], [0, 1, 2]], np.int16)}).splitlines()
    assert shown[0].startswith("input   0 (0.")
    assert "3 (0." in shown[0]
    assert "4 (" not in shown[0]
    assert shown[-2] == "target  " + " ".join(map(str, target))
    assert shown[-1] == "answer  1 ?"
    axis = Figure().subplots()
    pointer = np.eye(3, 4, dtype=np.float16)
    task.draw(axis, examples, 0, {"indices": np.array([1, 2, -1], np.float16), "pointer": pointer})
    plane, heat = axis.child_axes
    truth, answer = (line.get_xydata() for line in plane.lines)
    elements = examples.inputs["elements"][0]
    assert np.allclose(truth, elements[[*target, target[0]]])
    assert np.allclose(answer, elements[[1, 2, 1]])
    assert heat.images[0].get_array().shape == (3, 4)
