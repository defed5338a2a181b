"""Metrics as per-example sufficient statistics: a score is ``value`` of their sum over the examples.

Scores over a split, over one size, over a bootstrap resample and over a pair of models all come from the same rows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from harness.families.base import Stored

Direction = Literal["max", "min"]


def ratio(sums: np.ndarray) -> np.ndarray:
    """Return the first statistic's sum over the second's, ``(...,2) -> (...)``: a mean when the second counts."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return sums[..., 0] / sums[..., 1]


@dataclass(frozen=True)
class Metric:
    """One number on the board.

    ``statistics(stored, examples) -> (n,k) float64`` gives each example's share; ``value`` maps sums ``(...,k)`` to
    scores ``(...)``, NaN where the metric is not defined. ``direction`` says which way is better (None: neither);
    ``solved`` is the threshold from which a run counts as having solved the task; ``bounds`` are the possible values.
    ``from_stored``: the statistics need no ``Examples``, and get None where the task's data are not on the machine.
    """

    name: str
    title: str
    unit: str
    direction: Direction | None
    statistics: Callable[[Stored, Any], np.ndarray]
    value: Callable[[np.ndarray], np.ndarray] = ratio
    bounds: tuple[float, float] = (0.0, math.inf)
    solved: float | None = None
    signature: str = ""
    from_stored: bool = False

    def score(self, statistics: np.ndarray) -> float:
        """Return the metric over rows of ``statistics (n,k)``; exactly rounded sums, so equal on every machine."""
        sums = np.array([math.fsum(column) for column in statistics.T])
        return round(float(self.value(sums)), 9)

    def better(self, a: float, b: float) -> bool:
        """Return whether ``a`` is strictly better than ``b``; NaN is worse than every number."""
        if self.direction is None:
            raise ValueError(f"metric {self.name} has no direction")
        if math.isnan(a) or math.isnan(b):
            return math.isnan(b) and not math.isnan(a)
        return a > b if self.direction == "max" else a < b

    def is_solved(self, value: float) -> bool:
        """Return whether ``value`` reaches the solved threshold; False without one or for NaN."""
        return self.solved is not None and (value == self.solved or self.better(value, self.solved))


def mean(values: np.ndarray) -> np.ndarray:
    """Return statistics ``(n,2)`` whose ``ratio`` is the mean of ``values (n,)``."""
    return np.stack([values.astype(np.float64), np.ones(len(values))], axis=1)


__all__ = ["Direction", "Metric", "mean", "ratio"]
