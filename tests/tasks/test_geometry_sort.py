"""``geometry/sort``: positions in order, ties, references, splits."""

import math

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.random import RandomState

from harness.families.pointing import GRID, on_grid
from harness.registry import get_task
from harness.splits import Split, generator, load_block


@pytest.fixture
def task():
    return get_task("geometry/sort")


class Fixed:
    """Draws given numbers."""

    def __init__(self, *rows):
        self.rows = np.array(rows)

    def randint(self, low, high, size):
        assert (low, high) == (0, GRID)
        assert size == self.rows.shape
        return self.rows


def test_targets_are_positions_and_not_ranks(task):
    examples = task.generate(Fixed([3, 1, 2]), 3, 1, "train")
    assert examples.targets["indices"].tolist() == [[1, 2, 0]]
    assert on_grid(examples.inputs["elements"]).tolist() == [[[3], [1], [2]]]


def test_ties_keep_the_order_of_the_input(task):
    assert task.generate(Fixed([3, 1, 3, 1]), 4, 1, "train").targets["indices"].tolist() == [[1, 3, 0, 2]]


@pytest.mark.parametrize("split", ["test-5", "test-15", "test-5-20", "test-50"])
def test_pointing_at_the_targets_in_turn_gives_sorted_numbers(task, split):
    examples = task.load(split)
    for values, length, target in zip(
        examples.inputs["elements"][:, :, 0], examples.sizes, examples.targets["indices"], strict=True
    ):
        assert values[target[:length]].tolist() == sorted(values[:length].tolist())
        assert (target[length:] == -1).all()


def test_splits_hold_what_they_say(task):
    for split in task.splits:
        if isinstance(split, Split):
            sizes, counts = np.unique(task.load(split.name).sizes, return_counts=True)
            assert sizes.tolist() == list(split.sizes)
            assert set(counts) == {split.per_size}
    assert list(task.regimes) == ["5", "10", "15", "5-20"]
    assert [split.ladder for split in task.splits if getattr(split, "ladder", None)] == [5, 10, 15, 20, 25, 30, 40, 50]
    for regime in ("5", "10", "15"):
        assert task.regime(regime).tests[0] == f"test-{regime}"
        assert set(load_block(task, task.split(f"train-{regime}"), 3).sizes) == {int(regime)}
        assert len(set(task.regime(regime).tests)) == 8
    assert set(task.pinned["overlap"]) == set(task.regimes)
    for rates in task.pinned["overlap"].values():
        assert all(rate == {} for rate in rates.values())


def test_references(task):
    for split, size in (("test-5", 5), ("test-50", 50)):
        examples = task.load(split)
        found = {}
        for row, reference in task.references().items():
            stored = reference.predict(examples, generator("t", 1, row, split))
            task.family.check_stored(stored, examples)
            found[row] = task.score(stored, examples)
        assert found["exact"] == {"sorted": 1, "places": 1, "permutation": 1}
        assert found["random"]["permutation"] == 1
        chance = 1 / math.factorial(size)
        assert found["random"]["sorted"] == pytest.approx(chance, abs=4 * (chance / len(examples)) ** 0.5 + 1e-9)
        assert found["random"]["places"] == pytest.approx(1 / size, abs=4 / (size * len(examples)) ** 0.5)


def test_a_random_order_of_mixed_sizes_is_a_permutation_of_each(task):
    examples = task.load("test-5-20")
    stored = task.references()["random"].predict(examples, RandomState(0))
    assert task.score(stored, examples)["permutation"] == 1


def test_pictures(task):
    examples = task.generate(Fixed([GRID // 2, 0, GRID // 4]), 3, 1, "test")
    assert task.render(examples, 0).splitlines() == [
        "input   0 (0.500)  1 (0.000)  2 (0.250)",
        "target  1 2 0",
    ]
    axis = Figure().subplots()
    task.draw(axis, examples, 0, {"indices": np.array([1, 2, 0]), "pointer": np.eye(3)[[1, 2, 0]]})
    assert axis.images[0].get_array().argmax(1).tolist() == [1, 2, 0]


def test_it_has_no_text_format(task, tmp_path):
    from harness.errors import UserError

    with pytest.raises(UserError, match="geometry/sort has no text format to read"):
        task.read(tmp_path / "x")
    with pytest.raises(UserError, match="geometry/sort has no text format to export"):
        task.export("test-5")
