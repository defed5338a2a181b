"""``geometry/convex-hull``: the corners of a set of points, in order round them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.random import RandomState

from harness.families.base import Examples, Family, Stored
from harness.families.pointing import POINTING, STOP, Spec, on_grid
from harness.metrics import Metric
from harness.metrics.polygons import HULL_METRICS
from harness.splits import Role, Size, Split, Stream
from harness.task import Reference, Regime, Task
from tasks.geometry import drawing, released, suite
from tasks.geometry.points import draw_points, to_elements

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MIXED = tuple(range(5, 51))
REGIMES = {"5-50": MIXED, "50": (50,)}
VALIDATION = {"5-50": 10, "50": 400}
"""Sets of each size for validation, by regime."""
LADDER = {5: 500, 10: 500, 20: 500, 50: 500, 100: 500, 200: 256, 500: 128}
"""Points of each further test, and how many sets of it; fewer where a model that does not stop takes long."""


class ConvexHull(Task):
    """List the corners of the convex hull of a set of points, then stop.

    Points are drawn evenly from the unit square; the answer lists positions in the input, counter-clockwise from the
    lowest position that is a corner. Examples (coordinates in tenths)::

        0 (5,5)  1 (1,1)  2 (9,2)  3 (8,9)  4 (2,8)    -> 1 2 3 4 stop    point 0 lies inside
        0 (2,8)  1 (9,2)  2 (1,1)                      -> 0 2 1 stop

    An answer counts as right if its polygon is the hull: from another corner on, the other way round, or with points on
    its edges, too. Area coverage is the mean share of the hull's area that answers cover which are simple polygons;
    *not simple* is the share of those that are none (a repeated, a missing or an impossible position makes them so),
    and by the paper's rule coverage is a FAIL, shown as a dash, where it exceeds 1 %. Coordinates are multiples of
    2^-24, and every comparison is of whole numbers.

    Source: Vinyals, Fortunato, Jaitly 2015, §4.2: a million sets of 5 to 50 points (or of 50), tests up to 500. The
    size of a batch is drawn evenly.
    """

    name = "geometry/convex-hull"
    version = 1
    family: ClassVar[Family] = POINTING
    splits: ClassVar[tuple[Split | Stream, ...]] = suite.splits(REGIMES, VALIDATION, 15, LADDER)
    regimes: ClassVar[Mapping[str, Regime]] = suite.tested(REGIMES, LADDER)
    metrics: ClassVar[tuple[Metric, ...]] = HULL_METRICS
    plotted: ClassVar[tuple[str, ...]] = ("same_polygon", "coverage")
    budgets: ClassVar[Mapping[str, int]] = {
        "smoke": 1_024,
        "demo": 65_536,
        "standard": 2_097_152,
        "paper": 10_485_760,
    }
    size_name = "points"
    ceiling: ClassVar[str] = "exact"
    learnt: ClassVar[float | None] = 0.5  # every second hull right in every point

    def spec(self, regime: str) -> Spec:
        """Two coordinates; at most every point, the first again, and the stop."""
        return Spec(
            max_train_size=REGIMES[regime][-1],
            max_test_size=max(LADDER),
            dimensions=2,
            permutation=False,
            has_stop=True,
            output_slope=1,
            output_offset=2,
        )

    def generate(self, rng: RandomState, size: Size, count: int, role: Role) -> Examples:
        """Draw ``count`` sets of ``size`` points, at least 3; a set on one line is drawn again."""
        points = draw_points(rng, count, size, at_least=3)
        corners = hull(points)
        while len(rows := np.flatnonzero((corners != STOP).sum(1) < 3)):
            points[rows] = draw_points(rng, len(rows), size)
            corners = hull(points)
        return Examples(
            inputs={"elements": to_elements(points), "length": np.full(count, size)},
            targets={"indices": corners},
            sizes=np.full(count, size),
        )

    def read(self, path: Path) -> Examples:
        """Return the sets of a file in the format of the paper's authors."""
        return released.read(path, closed_tours=False)

    def export(self, split: str) -> str:
        """Return the sets of a split in the format of the paper's authors."""
        return released.text(self.load(split))

    def references(self) -> dict[str, Reference]:
        """A random triangle, the polygon of the extreme points, and the hull."""
        return {
            "random": Reference("a random triangle", "expected", _triangle),
            "extremes": Reference("leftmost, lowest, rightmost and highest point", "none", _extremes),
            "exact": Reference("the hull", "exact", lambda e, _: {"indices": e.targets["indices"].astype(np.int16)}),
        }

    def render(self, examples: Examples, row: int, stored: Stored | None = None) -> str:
        """Show the points with their positions, the hull and the answer."""
        return drawing.text(examples, row, stored)

    draws: ClassVar[tuple[str, ...]] = drawing.EXPLAINED

    def draw(self, axis: "Axes", examples: Examples, row: int, explanation: Stored) -> None:
        """Draw the hull and the answer, and beside them where the model pointed at each step."""
        drawing.polygons(axis, examples, row, explanation)


def hull(points: np.ndarray) -> np.ndarray:
    """Return the corners of each hull, ``(n,M) int64`` positions, -1 behind them and at least once in every row.

    ``points (n,N,2) int64``. Counter-clockwise from the lowest position that is a corner; points inside an edge are no
    corners. A set on one line has two corners, a set of one point has one.

    Gift wrapping (Jarvis 1973), all sets at once: from a corner, the next one is the point that has all others on its
    left, the furthest of those in line with it. It wins a knock-out tournament of exact comparisons.
    """
    count = len(points)
    instance = np.arange(count)
    x, y = np.ascontiguousarray(points[:, :, 0]), np.ascontiguousarray(points[:, :, 1])
    start = np.argmin(x * 2**25 + y, axis=1)  # the lowest of the points furthest left is a corner
    here, corners = start, [start]
    closed = np.zeros(count, bool)
    while True:
        following = _next_corner(x - x[instance, here][:, None], y - y[instance, here][:, None])
        closed |= (points[instance, following] == points[instance, start]).all(1)
        if closed.all():
            break
        here = np.where(closed, here, following)
        corners.append(np.where(closed, STOP, following))
    ring = np.stack([*corners, np.full(count, STOP)], axis=1)  # (n,M)
    number = (ring != STOP).sum(1)
    first = np.where(ring == STOP, points.shape[1], ring).argmin(1)
    place = np.arange(ring.shape[1])
    rotated = np.take_along_axis(ring, (first[:, None] + place) % number[:, None], 1)
    return np.where(place < number[:, None], rotated, STOP)


def _next_corner(dx: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """Return the position ``(n,)`` of the next corner from the differences ``(n,N)`` of all points to this one."""
    position = np.broadcast_to(np.arange(dx.shape[1]), dx.shape)
    while dx.shape[1] > 1:
        half = dx.shape[1] // 2
        ax, ay, bx, by = dx[:, :half], dy[:, :half], dx[:, half : 2 * half], dy[:, half : 2 * half]
        turn = ax * by - ay * bx  # negative: b lies to the right of a
        wins = (turn < 0) | ((turn == 0) & (bx * bx + by * by > ax * ax + ay * ay))
        left = [
            np.where(wins, b, a) for a, b in ((ax, bx), (ay, by), (position[:, :half], position[:, half : 2 * half]))
        ]
        if dx.shape[1] % 2:
            left = [
                np.concatenate([won, one[:, -1:]], axis=1) for won, one in zip(left, (dx, dy, position), strict=True)
            ]
        dx, dy, position = left
    return position[:, 0]


def _triangle(examples: Examples, rng: RandomState) -> Stored:
    """Three different positions, evenly drawn."""
    length = examples.inputs["length"]
    keys = rng.random_sample(examples.inputs["elements"].shape[:2])
    keys[np.arange(keys.shape[1]) >= length[:, None]] = np.inf
    return {"indices": keys.argsort(axis=1, kind="stable")[:, :3].astype(np.int16)}


def _extremes(examples: Examples, rng: RandomState) -> Stored:
    """Leftmost, lowest, rightmost, highest; a point that is two of them is named once."""
    points = on_grid(examples.inputs["elements"])
    beyond = np.arange(points.shape[1]) >= examples.inputs["length"][:, None]
    low, high = np.where(beyond[:, :, None], 2**25, points), np.where(beyond[:, :, None], -1, points)
    ring = np.stack(
        [low[:, :, 0].argmin(1), low[:, :, 1].argmin(1), high[:, :, 0].argmax(1), high[:, :, 1].argmax(1)], 1
    )
    again = np.concatenate([np.zeros((len(ring), 1), bool), ring[:, 1:] == ring[:, :-1]], axis=1)
    again[:, -1] |= ring[:, -1] == ring[:, 0]
    order = again.argsort(axis=1, kind="stable")
    return {"indices": np.take_along_axis(np.where(again, STOP, ring), order, 1).astype(np.int16)}
