"""Metrics of closed tours through a set of points."""

from dataclasses import replace

import numpy as np

from harness.families.base import Examples, Stored
from harness.families.pointing import GRID, on_grid
from harness.metrics import Metric
from harness.metrics.pointing import PERMUTATION, is_permutation
from harness.metrics.polygons import cross

ROUNDING = 1e-9
"""Percent of a tour's length that the order of a sum may change."""


def canonical_tours(points: np.ndarray, tours: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return permutations ``tours (n,M)`` of ``length (n,)`` points from point 0 on, counter-clockwise; zeros behind.

    ``points (n,N,2) int64``. Counter-clockwise is the sign of the area that the tour goes round; where that is 0, the
    second position is smaller than the last.
    """
    place = np.arange(tours.shape[1])
    inside = place < length[:, None]
    last = np.maximum(length, 1)[:, None]
    first = (np.where(inside, tours, 1) == 0).argmax(1)[:, None]
    forward = np.take_along_axis(tours, (first + place) % last, 1)
    corners = np.take_along_axis(points, np.where(inside, forward, 0)[:, :, None].astype(np.int64), 1)
    area = cross(corners[:, :1], corners, np.roll(corners, -1, axis=1))
    area = np.where(place < length[:, None] - 1, area, 0).sum(1)  # the last edge ends where it is measured from
    second, end = forward[:, min(1, forward.shape[1] - 1)], np.take_along_axis(forward, last - 1, 1)[:, 0]
    turned = (area < 0) | ((area == 0) & (second > end))
    backward = np.take_along_axis(tours, (first - place) % last, 1)
    return np.where(inside, np.where(turned[:, None], backward, forward), 0)


def tour_lengths(points: np.ndarray, tours: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return the lengths ``(n,) float64``, in units of the grid, of closed tours ``(n,M)`` of ``length (n,)`` points.

    ``points (n,N,2) int64``. Edges are rounded square roots of whole numbers, added in the order of the tour, so that
    the result is the same on every machine. One point has length 0, two have twice their distance.
    """
    inside = np.arange(tours.shape[1]) < length[:, None]
    corners = np.take_along_axis(points, np.where(inside, tours, 0)[:, :, None].astype(np.int64), 1)
    following = np.roll(corners, -1, axis=1)
    np.put_along_axis(following, np.maximum(length - 1, 0)[:, None, None], corners[:, :1], 1)
    edges = np.sqrt(((following - corners) ** 2).sum(2).astype(np.float64))
    total = np.zeros(len(tours))
    for column, there in zip(edges.T, inside.T, strict=True):
        total += np.where(there, column, 0)
    return total


def _lengths(stored: Stored, examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths ``(n,)`` in units of the square's side, 0 where a tour is not valid, and whether it is."""
    points, count = on_grid(examples.inputs["elements"]), examples.inputs["length"]
    valid = is_permutation(stored["indices"], count)
    return np.where(valid, measured(points, stored["indices"], count, valid), 0), valid


def measured(points: np.ndarray, tours: np.ndarray, count: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Return the lengths of the ``valid`` of ``tours (n,M)``, in units of the square's side; the others are nonsense.

    Measured from point 0 on and counter-clockwise, so that one cycle has one length however it is written.
    """
    width = points.shape[1]
    padded = np.zeros((len(tours), width), np.int64)
    padded[:, : tours.shape[1]] = tours[:, :width]
    padded[~valid] = np.arange(width)
    return tour_lengths(points, canonical_tours(points, padded, count), count) / GRID


def _gap(stored: Stored, examples: Examples) -> np.ndarray:
    """Return ``(n,2)``: by how many percent a valid tour is longer than the target (else 0), and whether it is valid.

    A target is a shortest tour, so a gap that is negative by rounding alone is 0.
    """
    length, valid = _lengths(stored, examples)
    shortest, _ = _lengths({"indices": examples.targets["indices"]}, examples)
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.where(shortest > 0, 100 * (length / shortest - 1), 0)
    gap = np.where(np.abs(gap) < ROUNDING, 0, gap)
    return np.stack([np.where(valid, gap, 0), valid], axis=1)


def _mean_length(stored: Stored, examples: Examples) -> np.ndarray:
    return np.stack(_lengths(stored, examples), axis=1)


GAP = Metric("gap", "gap to the optimum", "%", "min", _gap)
LENGTH = Metric("length", "tour length", "sides", None, _mean_length)
"""No direction: over the valid tours alone, a model with few of them may look short."""

VALID = replace(PERMUTATION, name="valid", title="valid tours")

TOUR_METRICS = (GAP, LENGTH, VALID)
"""What a task reports whose answer is a tour, headline first; gap and length over the valid tours."""
