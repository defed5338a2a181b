"""Metrics of bit tapes, from quantised log-odds at the answer steps."""

import math
from dataclasses import replace

import numpy as np

from harness.families.base import Examples, Stored
from harness.families.tape import dequantise
from harness.metrics import Metric, mean

_LEVELS = dequantise(np.arange(255, dtype=np.uint8))
COST_OF_ONE = np.array([round((math.log1p(math.exp(-abs(l))) + max(-l, 0)) / math.log(2), 12) for l in _LEVELS])
"""``(255,)``: bits that a target of 1 costs at each stored level, −log2 σ(l); a target of 0 costs its mirror image.

A table of rounded scalars, so that scores are equal on machines whose vector ``log`` differs in the last place.
"""


def _per_example(values: np.ndarray, examples: Examples) -> np.ndarray:
    """Sum ``values (answered bits,)`` by example, ``(n,)``."""
    counts = examples.targets["answer"].sum(1) * examples.targets["bits"].shape[2]
    owner = np.repeat(np.arange(len(examples)), counts)
    return np.bincount(owner, weights=values, minlength=len(examples))


def _answered_bits(examples: Examples) -> np.ndarray:
    """Return the target bits at answer steps in stored order, ``(answered bits,) bool``."""
    return examples.targets["bits"][examples.targets["answer"]].reshape(-1) > 0.5


def _cost(stored: Stored, examples: Examples) -> np.ndarray:
    ones = _answered_bits(examples)
    levels = stored["logits"].astype(np.int64)
    return _per_example(COST_OF_ONE[np.where(ones, levels, 254 - levels)], examples)


def _wrong(stored: Stored, examples: Examples) -> np.ndarray:
    """Wrong bits at threshold 0.5; log-odds of exactly 0 are an even guess and count half."""
    ones = _answered_bits(examples)
    levels = stored["logits"].astype(np.int64)
    wrong = np.where(levels == 127, 0.5, (levels > 127) != ones)
    return _per_example(wrong, examples)


BITS = Metric("bits", "bits per sequence", "bits", "min", lambda s, e: mean(_cost(s, e)))
WRONG_BITS = Metric("wrong_bits", "wrong bits per sequence", "bits", "min", lambda s, e: mean(_wrong(s, e)))
ERROR_FREE = Metric(
    "error_free", "error-free share", "share", "max", lambda s, e: mean(_wrong(s, e) == 0), bounds=(0, 1)
)


def tape_metrics(solved: float) -> tuple[Metric, ...]:
    """Return what every tape task reports, headline first; a run has solved it at ``solved`` bits per sequence."""
    return (replace(BITS, solved=solved), WRONG_BITS, ERROR_FREE)
