"""Metrics of questions about scenes: the share of right answers among the questions of a kind."""

from collections.abc import Callable

import numpy as np

from harness.families.base import Examples, Stored
from harness.families.scene import BLANK
from harness.metrics import Metric


def accuracy(name: str, title: str, of: Callable[[np.ndarray], np.ndarray]) -> Metric:
    """Return the accuracy over the questions for which ``of(question (n,Q,E)) -> (n,Q) bool`` holds.

    An example's statistics are its right and its asked questions of that kind: every question weighs the same, and
    resamples are of scenes, whose questions are not independent.
    """

    def statistics(stored: Stored, examples: Examples) -> np.ndarray:
        answer = examples.targets["answer"]
        counted = (answer != BLANK) & of(examples.inputs["question"])
        right = counted & (stored["answers"] == answer)
        return np.stack([right.sum(1), counted.sum(1)], axis=1).astype(np.float64)

    return Metric(name, title, "share", "max", statistics, bounds=(0, 1))
