"""Metrics of permutations and of orders by value."""

import numpy as np

from harness.families.base import Examples, Stored
from harness.families.pointing import STOP, on_grid
from harness.metrics import Metric, mean


def is_permutation(indices: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return ``(n,) bool``: whether a row of ``indices (n,M)`` names each of its ``length (n,)`` elements once."""
    width = max(indices.shape[1], int(length.max(initial=0)))
    padded = np.full((len(indices), width), STOP, np.int64)
    padded[:, : indices.shape[1]] = indices
    beyond = np.arange(width) >= length[:, None]
    inside = np.sort(np.where(beyond, width, padded), axis=1)  # the numbers from 0 on, where each is there once
    return ((inside == np.arange(width)) | beyond).all(1) & ((padded == STOP) | ~beyond).all(1)


def _places(stored: Stored, examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(n,M) bool`` of places that hold the right value, and which places there are ``(n,M) bool``.

    Equal values may change places: what counts is the value, not which of its copies is pointed at.
    """
    target, answer = examples.targets["indices"], stored["indices"].astype(np.int64)
    values = on_grid(examples.inputs["elements"][:, :, 0])
    there = target != STOP
    width = target.shape[1]
    padded = np.full(target.shape, STOP)
    padded[:, : answer.shape[1]] = answer[:, :width]
    named = padded >= 0
    right = np.take_along_axis(values, np.where(named, padded, 0), 1) == np.take_along_axis(
        values, np.where(there, target, 0), 1
    )
    return right & named & there, there


def _sorted(stored: Stored, examples: Examples) -> np.ndarray:
    right, there = _places(stored, examples)
    return mean((right == there).all(1) & is_permutation(stored["indices"], examples.inputs["length"]))


def _place_accuracy(stored: Stored, examples: Examples) -> np.ndarray:
    right, there = _places(stored, examples)
    return np.stack([right.sum(1), there.sum(1)], axis=1).astype(np.float64)


def _valid(stored: Stored, examples: Examples) -> np.ndarray:
    return mean(is_permutation(stored["indices"], examples.inputs["length"]))


SORTED = Metric("sorted", "sorted sequences", "share", "max", _sorted, bounds=(0, 1))
PLACES = Metric("places", "right places", "share", "max", _place_accuracy, bounds=(0, 1))
PERMUTATION = Metric("permutation", "permutations", "share", "max", _valid, bounds=(0, 1))

ORDER_METRICS = (SORTED, PLACES, PERMUTATION)
"""What a task reports whose answer is an order of numbers, headline first."""
