"""``geometry/tsp``: the shortest closed tour through a set of cities."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.random import RandomState

from harness.families.base import Examples, Family, Stored
from harness.families.pointing import POINTING, STOP, Spec, on_grid
from harness.metrics import Metric
from harness.metrics.tours import TOUR_METRICS
from harness.splits import Role, Size, Split, Stream
from harness.task import Reference, Regime, Task
from tasks.geometry import drawing, optima, released, suite
from tasks.geometry.heuristics import greedy_edge, nearest_neighbour
from tasks.geometry.local_search import local_search
from tasks.geometry.points import draw_points, to_elements

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MIXED = tuple(range(5, 21))
REGIMES = {"5-20": MIXED, "10": (10,), "5": (5,)}
VALIDATION = {name: 400 // len(sizes) for name, sizes in REGIMES.items()}
"""Instances of each size for validation, by regime."""
LADDER = {5: 500, 10: 500, 20: 500, 25: 200, 30: 200, 40: 200, 50: 200}
"""Cities of each further test, and how many instances of it; fewer where an optimum takes longer to prove."""


class TSP(Task):
    """Visit all cities, and come back, on the shortest way.

    Cities are points of the unit square; the answer lists their positions in the input, from the first city on,
    counter-clockwise, without the first city a second time. Examples (coordinates in tenths)::

        0 (1,1)  1 (9,8)  2 (9,1)  3 (1,8)             -> 0 2 1 3      length 3.0
        0 (5,9)  1 (1,1)  2 (9,2)                      -> 0 1 2        three cities have one tour

    An answer is valid if it names every city once; a tour is scored by its length alone, not by the order in which it
    is written. Headline: by how many percent valid tours are longer than the shortest, whose length is proven for every
    validation and test instance (``tsp.optima.npz``); the share of valid tours and their mean length stand beside it.
    Training instances are new ones always; their targets are tours from a local search, on average 1.0002 times the
    shortest at 20 cities. Coordinates are multiples of 2^-24.

    Source: Vinyals, Fortunato, Jaitly 2015, §4.4: a million instances of 5 to 20 cities (or of 5, 10, 50), solved
    exactly up to 20. The size of a batch is drawn evenly.
    """

    name = "geometry/tsp"
    version = 1
    family: ClassVar[Family] = POINTING
    splits: ClassVar[tuple[Split | Stream, ...]] = suite.splits(REGIMES, VALIDATION, 40, LADDER)
    regimes: ClassVar[Mapping[str, Regime]] = suite.tested(REGIMES, LADDER)
    metrics: ClassVar[tuple[Metric, ...]] = TOUR_METRICS
    plotted: ClassVar[tuple[str, ...]] = ("gap", "valid")
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 1_024, "demo": 65_536, "standard": 524_288, "paper": 10_485_760}
    size_name = "cities"
    ceiling: ClassVar[str] = "exact"
    learnt: ClassVar[float | None] = 5.0  # per cent: better than the textbook heuristics, which are 8 to 12 above

    def spec(self, regime: str) -> Spec:
        """Two coordinates; every city once."""
        return Spec(
            max_train_size=REGIMES[regime][-1],
            max_test_size=max(LADDER),
            dimensions=2,
            permutation=True,
            has_stop=False,
            output_slope=1,
            output_offset=0,
        )

    def generate(self, rng: RandomState, size: Size, count: int, role: Role) -> Examples:
        """Draw ``count`` instances of ``size`` cities, each with the tour that a local search finds."""
        points = draw_points(rng, count, size)
        return Examples(
            inputs={"elements": to_elements(points), "length": np.full(count, size)},
            targets={"indices": local_search(points)},
            sizes=np.full(count, size),
        )

    def labelled(self, split: Split, examples: Examples) -> Examples:
        """Put the committed optimum in the place of every target."""
        tours = optima.committed(split.name, on_grid(examples.inputs["elements"]), examples.inputs["length"])
        return Examples(examples.inputs, {"indices": tours}, examples.sizes)

    committed = True

    def prove(self, split: Split, rows: Sequence[int]) -> Iterator[str]:
        """Solve some instances again and compare the lengths."""
        examples = self.load(split.name).take(np.asarray(rows))
        tours = examples.targets["indices"]
        for row, message in optima.disproved(on_grid(examples.inputs["elements"]), tours, examples.inputs["length"]):
            yield f"{self.name} {split.name}, example {rows[row]}: {message}"

    def read(self, path: Path) -> Examples:
        """Return the instances of a file in the format of the paper's authors."""
        return released.read(path, closed_tours=True)

    def export(self, split: str) -> str:
        """Return the instances of a split in the format of the paper's authors."""
        return released.text(self.load(split))

    def references(self) -> dict[str, Reference]:
        """A random order, two textbook heuristics, the local search that trains, and the proven optimum."""
        return {
            "random": Reference("a random order", "expected", lambda e, rng: _stored(e, lambda p: _shuffled(p, rng))),
            "nearest-neighbour": Reference(
                "to the nearest city not visited yet", "none", lambda e, _: _stored(e, nearest_neighbour)
            ),
            "greedy-edge": Reference("shortest edges first", "none", lambda e, _: _stored(e, greedy_edge)),
            "2-opt": Reference(
                "one insertion tour, improved by 2-opt and or-opt", "none", lambda e, _: _stored(e, _one_start)
            ),
            "training-labels": Reference(
                "what training is taught: the best of several such tours", "none", lambda e, _: _stored(e, local_search)
            ),
            "exact": Reference(
                "a proven optimum", "exact", lambda e, _: {"indices": e.targets["indices"].astype(np.int16)}
            ),
        }

    def render(self, examples: Examples, row: int, stored: Stored | None = None) -> str:
        """Show the cities with their positions, the shortest tour and the answer."""
        return drawing.text(examples, row, stored)

    draws: ClassVar[tuple[str, ...]] = drawing.EXPLAINED

    def draw(self, axis: "Axes", examples: Examples, row: int, explanation: Stored) -> None:
        """Draw the shortest tour and the answer, and beside them where the model pointed at each step."""
        drawing.polygons(axis, examples, row, explanation)


def _shuffled(points: np.ndarray, rng: RandomState) -> np.ndarray:
    return rng.random_sample(points.shape[:2]).argsort(axis=1, kind="stable")


def _one_start(points: np.ndarray) -> np.ndarray:
    return local_search(points, starts=1, improved=1)


def _stored(examples: Examples, tours: Callable[[np.ndarray], np.ndarray]) -> Stored:
    """Store what ``tours`` (points ``(n,N,2)`` of one size to ``(n,N)``) makes of all examples, size by size."""
    points, length = on_grid(examples.inputs["elements"]), examples.inputs["length"]
    indices = np.full(points.shape[:2], STOP, np.int16)
    for size in np.unique(length):
        rows = np.flatnonzero(length == size)
        indices[rows, :size] = tours(points[rows, :size])
    return {"indices": indices}
