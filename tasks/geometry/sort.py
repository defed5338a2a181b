"""``geometry/sort``: the positions of a set of numbers, from the smallest to the largest."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.random import RandomState

from harness.families.base import Examples, Family, Stored
from harness.families.pointing import GRID, POINTING, STOP, Spec
from harness.metrics import Metric
from harness.metrics.pointing import ORDER_METRICS
from harness.splits import Role, Size, Split, Stream
from harness.task import Reference, Regime, Task
from tasks.geometry import drawing, suite
from tasks.geometry.points import to_elements

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MIXED = tuple(range(5, 21))
REGIMES = {"5": (5,), "10": (10,), "15": (15,), "5-20": MIXED}
VALIDATION = {name: 480 // len(sizes) for name, sizes in REGIMES.items()}
"""Sets of each size for validation, by regime."""
LADDER = {5: 500, 10: 500, 15: 500, 20: 500, 25: 200, 30: 200, 40: 200, 50: 200}
"""Numbers of each further test, and how many sets of it."""


class Sort(Task):
    """List the positions of the numbers of a set in the order of their values, the smallest first.

    Positions in the input, not ranks: what is pointed at is the number that comes next. Equal numbers are listed in the
    order of their positions, and an answer may exchange them. Examples::

        .3 .1 .2       -> 1 2 0      (the ranks of the inputs would be 2 0 1)
        .3 .1 .3 .1    -> 1 3 0 2

    Numbers are drawn evenly from [0,1), as multiples of 2^-24. Sets of 5, 10 or 15 numbers, or of 5 to 20 with the size
    of a batch drawn evenly; tests up to 50. Headline: the share of sets that are wholly sorted.

    Source: Vinyals, Bengio, Kudlur 2016 ("Order Matters: Sequence to Sequence for Sets"), §4: sets of 5, 10 and 15,
    10,000 iterations.
    """

    name = "geometry/sort"
    version = 1
    family: ClassVar[Family] = POINTING
    splits: ClassVar[tuple[Split | Stream, ...]] = suite.splits(REGIMES, VALIDATION, 40, LADDER)
    regimes: ClassVar[Mapping[str, Regime]] = suite.tested(REGIMES, LADDER)
    metrics: ClassVar[tuple[Metric, ...]] = ORDER_METRICS
    plotted: ClassVar[tuple[str, ...]] = ("sorted", "places")
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 1_024, "demo": 65_536, "standard": 655_360, "paper": 1_280_000}
    size_name = "numbers"
    ceiling: ClassVar[str] = "exact"
    learnt: ClassVar[float | None] = 0.9

    def spec(self, regime: str) -> Spec:
        """One number an element; every element once."""
        return Spec(
            max_train_size=REGIMES[regime][-1],
            max_test_size=max(LADDER),
            dimensions=1,
            permutation=True,
            has_stop=False,
            output_slope=1,
            output_offset=0,
        )

    def generate(self, rng: RandomState, size: Size, count: int, role: Role) -> Examples:
        """Draw ``count`` sets of ``size`` numbers."""
        assert isinstance(size, int)
        numbers = rng.randint(0, GRID, size=(count, size))
        return Examples(
            inputs={"elements": to_elements(numbers[:, :, None]), "length": np.full(count, size)},
            targets={"indices": numbers.argsort(axis=1, kind="stable")},
            sizes=np.full(count, size),
        )

    def references(self) -> dict[str, Reference]:
        """A random order and the right one."""
        return {
            "random": Reference("a random order", "expected", _shuffled),
            "exact": Reference(
                "the right order", "exact", lambda e, _: {"indices": e.targets["indices"].astype(np.int16)}
            ),
        }

    def render(self, examples: Examples, row: int, stored: Stored | None = None) -> str:
        """Show the numbers with their positions, the right order and the answer."""
        return drawing.text(examples, row, stored)

    draws: ClassVar[tuple[str, ...]] = drawing.EXPLAINED

    def draw(self, axis: "Axes", examples: Examples, row: int, explanation: Stored) -> None:
        """Draw where the model pointed at each step."""
        drawing.pointer(axis, explanation)


def _shuffled(examples: Examples, rng: RandomState) -> Stored:
    length = examples.inputs["length"]
    keys = rng.random_sample(examples.inputs["elements"].shape[:2])
    beyond = np.arange(keys.shape[1]) >= length[:, None]
    keys[beyond] = np.inf
    return {"indices": np.where(beyond, STOP, keys.argsort(axis=1, kind="stable")).astype(np.int16)}
