"""Metrics of polygons whose corners are positions in a set of points; exact, in whole numbers.

Coordinates are at most 2^24, so an orientation is a difference of two products below 2^48, and int64 holds it.
"""

import math

import numpy as np

from harness.families.base import Examples, Stored
from harness.families.pointing import INVALID, on_grid
from harness.metrics import Metric, mean, ratio

FAIL_SHARE = 0.01
"""Vinyals et al. print FAIL where more than this share of the answers are no simple polygons."""

PAIRS = 2**22
"""Most pairs of an edge and a corner that are tested at once: 32 MiB a temporary array."""


def cross(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return twice the signed area of the triangle a, b, c (arrays ``(...,2) int64``), positive counter-clockwise."""
    ab, ac = b - a, c - a
    return ab[..., 0] * ac[..., 1] - ab[..., 1] * ac[..., 0]


def _compact(corners: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Move the ``kept (n,M)`` corners of each row to its front; return them and their number ``(n,)``."""
    order = np.argsort(~kept, axis=1, kind="stable")
    return np.take_along_axis(corners, order[:, :, None], 1), kept.sum(1)


def _neighbour(corners: np.ndarray, count: np.ndarray, step: int) -> np.ndarray:
    """Return for each corner of ``corners (n,M,2)`` the one ``step`` further round its ring of ``count (n,)``."""
    place = (np.arange(corners.shape[1]) + step) % np.maximum(count, 1)[:, None]
    return np.take_along_axis(corners, place[:, :, None], 1)


def rings(points: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners ``(n,M,2) int64`` of each polygon and their number ``(n,)``; what is behind is not defined.

    ``points (n,N,2) int64``; ``indices (n,M)``: -1 after the answer. A corner that repeats the one before it, and one
    where the boundary goes straight on, is left out: neither changes the polygon. An invalid answer has no corners.
    """
    there = (indices >= 0) & ~(indices == INVALID).any(1, keepdims=True)
    corners = np.take_along_axis(points, np.where(there, indices, 0).astype(np.int64)[:, :, None], 1)
    corners, count = _compact(corners, there)
    inside = np.arange(corners.shape[1]) < count[:, None]
    moved = (corners != _neighbour(corners, count, -1)).any(2)
    corners, count = _compact(corners, inside & moved)
    inside = np.arange(corners.shape[1]) < count[:, None]
    before, after = _neighbour(corners, count, -1), _neighbour(corners, count, 1)
    onwards = ((corners - before) * (after - corners)).sum(2) > 0
    straight = (cross(before, corners, after) == 0) & onwards
    return _compact(corners, inside & ~straight)


def doubled_area(corners: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return twice the signed area ``(n,) int64`` of each ring, positive where it is counter-clockwise."""
    parts = cross(corners[:, :1], corners, _neighbour(corners, count, 1))
    return np.where(np.arange(corners.shape[1]) < count[:, None], parts, 0).sum(1)


def simple(corners: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return ``(n,) bool``: whether a ring is a simple polygon, one whose edges meet at their shared corners alone.

    Fewer than three corners are none; nor is a ring that touches or retraces itself.
    """
    out = np.zeros(len(corners), bool)
    for m in np.unique(count[count >= 3]):
        rows = np.flatnonzero(count == m)
        step = max(1, PAIRS // int(m * m))
        for start in range(0, len(rows), step):
            chunk = rows[start : start + step]
            out[chunk] = _simple(corners[chunk, :m])
    return out


def _simple(corners: np.ndarray) -> np.ndarray:
    """``simple`` for rings ``(n,m,2)`` of one number of corners, no two neighbours of which are equal."""
    m = corners.shape[1]
    out = np.zeros(len(corners), bool)
    codes = np.sort(corners[:, :, 0] * 2**25 + corners[:, :, 1], axis=1)
    distinct = np.flatnonzero((codes[:, 1:] != codes[:, :-1]).all(1))  # a corner visited twice is a touch
    p = corners[distinct]
    q = np.roll(p, -1, axis=1)  # edge i runs from p_i to q_i = p_{i+1}
    side = np.sign(cross(p[:, :, None], q[:, :, None], p[:, None])).astype(np.int8)  # (n,edge,corner)
    start, end = side, np.roll(side, -1, axis=2)  # sides of edge i on which edge j starts and ends
    apart = start * end > 0
    crossing = ~apart & ~apart.swapaxes(1, 2)
    in_line = (start == 0) & (end == 0)
    low, high = np.minimum(p, q), np.maximum(p, q)
    overlap = ((low[:, :, None] <= high[:, None]) & (low[:, None] <= high[:, :, None])).all(3)
    touching = crossing & (~in_line | overlap)
    edge = np.arange(m)
    gap = (edge[None] - edge[:, None]) % m
    touching &= (gap > 1) & (gap < m - 1)  # neighbours share a corner
    turn = side[:, edge, (edge + 2) % m]
    back = (turn == 0) & (((q - p) * np.roll(q - p, -1, axis=1)).sum(2) < 0)  # an edge runs back along the one before
    out[distinct] = ~touching.any((1, 2)) & ~back.any(1)
    return out


def _answers(stored: Stored, examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    return rings(on_grid(examples.inputs["elements"]), stored["indices"])


def _targets(examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    return rings(on_grid(examples.inputs["elements"]), examples.targets["indices"])


def _from_lowest(corners: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return each ring counter-clockwise from its lowest corner of those furthest left, ``(n,M,2)``; zeros behind."""
    place = np.arange(corners.shape[1])
    inside = place < count[:, None]
    code = np.where(inside, corners[:, :, 0] * 2**25 + corners[:, :, 1], np.iinfo(np.int64).max)
    first = code.argmin(1) if corners.shape[1] else np.zeros(len(corners), np.int64)
    direction = np.where(doubled_area(corners, count) < 0, -1, 1)
    order = (first[:, None] + direction[:, None] * place) % np.maximum(count, 1)[:, None]
    return np.where(inside[:, :, None], np.take_along_axis(corners, order[:, :, None], 1), 0)


def _same_polygon(stored: Stored, examples: Examples) -> np.ndarray:
    (ours, our_count), (theirs, their_count) = _answers(stored, examples), _targets(examples)
    width = max(ours.shape[1], theirs.shape[1])
    ours, theirs = (
        np.pad(_from_lowest(*ring), ((0, 0), (0, width - ring[0].shape[1]), (0, 0)))
        for ring in ((ours, our_count), (theirs, their_count))
    )
    return mean((our_count == their_count) & (ours == theirs).all((1, 2)))


def _coverage(stored: Stored, examples: Examples) -> np.ndarray:
    """Return ``(n,3)``: the share of the target's area that a simple polygon has (else 0), whether it is simple, 1."""
    corners, count = _answers(stored, examples)
    is_simple = simple(corners, count)
    covered = np.abs(doubled_area(corners, count)) / np.abs(doubled_area(*_targets(examples)))
    return np.stack([np.where(is_simple, covered, 0), is_simple, np.ones(len(count))], axis=1)


def _coverage_or_fail(sums: np.ndarray) -> np.ndarray:
    """Return the mean over simple polygons; NaN where more than ``FAIL_SHARE`` of the answers are none."""
    failed = (sums[..., 2] - sums[..., 1]) > FAIL_SHARE * sums[..., 2]
    return np.where(failed, math.nan, ratio(sums))


def _not_simple(stored: Stored, examples: Examples) -> np.ndarray:
    return mean(~simple(*_answers(stored, examples)))


SAME_POLYGON = Metric("same_polygon", "same polygon", "share", "max", _same_polygon, bounds=(0, 1))
COVERAGE = Metric("coverage", "area of simple polygons", "share", "max", _coverage, bounds=(0, 1))
NOT_SIMPLE = Metric("not_simple", "not simple", "share", "min", _not_simple, bounds=(0, 1))
COVERAGE_OR_FAIL = Metric(
    "coverage_or_fail", "area, FAIL rule", "share", "max", _coverage, _coverage_or_fail, bounds=(0, 1)
)

HULL_METRICS = (SAME_POLYGON, COVERAGE, NOT_SIMPLE, COVERAGE_OR_FAIL)
"""What a task reports whose answer is a polygon, headline first; areas are shares of the target's."""
