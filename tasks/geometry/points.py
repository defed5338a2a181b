"""Random points on the grid, no two alike."""

import numpy as np
from numpy.random import RandomState

from harness.errors import UserError
from harness.families.pointing import GRID
from harness.splits import Size


def draw_points(rng: RandomState, count: int, size: Size, at_least: int = 1) -> np.ndarray:
    """Return ``count`` sets of ``size`` points, ``(count,size,2) int64`` in 0..GRID-1: uniform in the unit square.

    A set in which a point occurs twice is drawn again. A ``UserError`` refuses fewer than ``at_least`` points.
    """
    if not isinstance(size, int) or size < at_least:
        raise UserError(f"size {size!r} is not valid: it must be a number of points, at least {at_least}")
    points = rng.randint(0, GRID, size=(count, size, 2))
    while len(rows := np.flatnonzero(has_copies(points))):
        points[rows] = rng.randint(0, GRID, size=(len(rows), size, 2))
    return points


def has_copies(points: np.ndarray) -> np.ndarray:
    """Return ``(n,) bool``: whether a set of ``points (n,N,2) int64`` holds the same point twice."""
    codes = np.sort(points[:, :, 0] * (2 * GRID) + points[:, :, 1], axis=1)
    return (codes[:, 1:] == codes[:, :-1]).any(1)


def to_elements(points: np.ndarray) -> np.ndarray:
    """Return points of the grid as coordinates in [0,1], float32, without rounding."""
    return (points / GRID).astype(np.float32)
