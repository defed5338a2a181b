"""Metrics of token sequences. Hypothesis and reference are compared without their EOS, except in exact match."""

import numpy as np
import sacrebleu
from sacrebleu.metrics.bleu import BLEU

from harness.families.base import Examples, Stored, pad_concatenate
from harness.families.transduction import EOS, PAD
from harness.metrics import Metric, mean

ORDERS = 4
"""Longest n-gram of BLEU."""


def _aligned(stored: Stored, examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    """Return hypothesis and reference tokens ``(n,T)`` padded to one width."""
    hypothesis, reference = stored["tokens"].astype(np.int64), examples.targets["target"]
    both = pad_concatenate([hypothesis, reference], PAD)
    return both[: len(hypothesis)], both[len(hypothesis) :]


def _without_eos(tokens: np.ndarray) -> np.ndarray:
    """Replace EOS by pad; in canonical tokens nothing follows it."""
    return np.where(tokens == EOS, PAD, tokens)


def _correct_positions(stored: Stored, examples: Examples) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(n,T) bool`` of reference positions that are right, and the reference lengths ``(n,)``."""
    hypothesis, reference = map(_without_eos, _aligned(stored, examples))
    inside = reference != PAD
    return inside & (hypothesis == reference), inside.sum(1)


def _exact(stored: Stored, examples: Examples) -> np.ndarray:
    hypothesis, reference = _aligned(stored, examples)
    return mean((hypothesis == reference).all(1))


def _token_accuracy(stored: Stored, examples: Examples) -> np.ndarray:
    correct, length = _correct_positions(stored, examples)
    return np.stack([correct.sum(1), length], axis=1).astype(np.float64)


def _prefix(stored: Stored, examples: Examples) -> np.ndarray:
    correct, length = _correct_positions(stored, examples)
    empty = length == 0  # has all of a prefix if nothing is answered, and none of it else
    answered = (_without_eos(_aligned(stored, examples)[0]) != PAD).any(1)
    return mean(np.where(empty, ~answered, np.cumprod(correct, axis=1).sum(1) / np.maximum(length, 1)))


def _length_ratio(stored: Stored, examples: Examples) -> np.ndarray:
    hypothesis, reference = map(_without_eos, _aligned(stored, examples))
    return np.stack([(hypothesis != PAD).sum(1), (reference != PAD).sum(1)], axis=1).astype(np.float64)


def bleu_statistics(stored: Stored, examples: Examples) -> np.ndarray:
    """Return ``(n,10)``: hypothesis length, reference length, matched and total n-grams for n = 1..4.

    Counted over the whole batch at once: each n-gram gets a rank among all n-grams seen, so that clipped matches are
    an intersection of (sentence, rank) keys.
    """
    hypothesis, reference = map(_without_eos, _aligned(stored, examples))
    if len(hypothesis) != len(reference):
        raise ValueError(f"{len(hypothesis)} hypotheses for {len(reference)} references")
    count = len(hypothesis)
    tokens = np.concatenate([hypothesis, reference])  # (2n, T)
    lengths = (tokens != PAD).sum(1)  # (2n,)
    base = int(tokens.max(initial=0)) + 1
    columns = [lengths[:count], lengths[count:]]
    matched, total = [], []
    ranks = np.zeros_like(tokens)
    for order in range(1, ORDERS + 1):
        width = max(tokens.shape[1] - order + 1, 0)
        keys = ranks[:, :width] * base + tokens[:, order - 1 :]
        present = np.arange(width) < (lengths - order + 1)[:, None]  # (2n, width)
        _, dense = np.unique(keys, return_inverse=True)
        ranks = dense.reshape(keys.shape)
        sentence = np.broadcast_to((np.arange(2 * count) % max(count, 1))[:, None], keys.shape)
        grams = sentence * (int(ranks.max(initial=0)) + 1) + ranks
        seen, seen_count = np.unique(grams[:count][present[:count]], return_counts=True)
        wanted, wanted_count = np.unique(grams[count:][present[count:]], return_counts=True)
        both, left, right = np.intersect1d(seen, wanted, assume_unique=True, return_indices=True)
        clipped = np.minimum(seen_count[left], wanted_count[right])
        owner = both // (int(ranks.max(initial=0)) + 1)
        matched.append(np.bincount(owner, weights=clipped, minlength=count))
        total.append(np.maximum(lengths[:count] - order + 1, 0))
    return np.stack([*columns, *matched, *total], axis=1).astype(np.float64)


def bleu_value(sums: np.ndarray) -> np.ndarray:
    """Return corpus BLEU in 0..100 from summed statistics ``(...,10)``, by sacrebleu, with effective order."""

    def one(row: np.ndarray) -> float:
        if row[1] == 0:
            return float("nan")
        correct, total = [int(v) for v in row[2 : 2 + ORDERS]], [int(v) for v in row[2 + ORDERS :]]
        score = BLEU.compute_bleu(
            correct, total, int(row[0]), int(row[1]), smooth_method="exp", effective_order=True
        ).score
        return min(score, 100.0)  # sacrebleu's exp(log) may give 100.00000000000004

    return np.apply_along_axis(one, -1, sums)


EXACT_MATCH = Metric("exact_match", "exact match", "share", "max", _exact, bounds=(0, 1))
TOKEN_ACCURACY = Metric("token_accuracy", "token accuracy", "share", "max", _token_accuracy, bounds=(0, 1))
PREFIX = Metric("prefix", "correct prefix", "share", "max", _prefix, bounds=(0, 1))
BLEU_SCORE = Metric(
    "bleu",
    "BLEU",
    "BLEU",
    "max",
    bleu_statistics,
    bleu_value,
    bounds=(0, 100),
    signature=f"nrefs:1|case:mixed|eff:yes|tok:none|smooth:exp|version:{sacrebleu.__version__}",
)
LENGTH_RATIO = Metric("length_ratio", "length ratio", "ratio", None, _length_ratio)

SEQUENCE_METRICS = (EXACT_MATCH, TOKEN_ACCURACY, PREFIX, BLEU_SCORE, LENGTH_RATIO)
"""What every transduction task reports, headline first."""
