"""What several seeds say together: t intervals, paired bootstrap comparisons, best of k, solved rate.

A seed that failed has no value. It is passed as NaN, never left out: the functions count it and say so.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.random import PCG64, RandomState

from harness.metrics import Metric

CONFIDENCE = 0.95
RESAMPLES = 2_000
DECIMALS = 9
"""Decimals kept of every result, as in ``Metric.score``, so that the last bits of a sum cannot show."""

Centre = Literal["mean", "median"]


@dataclass(frozen=True)
class Summary:
    """Several cells over their seeds, each ``(cells,)``; NaN where undefined.

    ``count`` seeds have a value and ``failed`` have none; every other field is over those that have one, but
    ``solved_rate``, in which a failed seed is unsolved. ``low`` and ``high`` bound the t interval of the mean.
    """

    count: np.ndarray
    failed: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    std: np.ndarray
    median: np.ndarray
    worst: np.ndarray
    best_of_k: np.ndarray
    solved_rate: np.ndarray


@dataclass(frozen=True)
class Comparison:
    """The difference ``a - b`` of two rows with its bootstrap interval; ``separated`` if the interval excludes 0."""

    difference: float
    low: float
    high: float

    @property
    def separated(self) -> bool:
        """Whether the interval excludes 0; False where it is undefined."""
        return self.low > 0 or self.high < 0


@lru_cache
def t_quantile(degrees: int) -> float:
    """Return the two-sided quantile of Student's t at ``CONFIDENCE``."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1 + CONFIDENCE) / 2))


def t_interval(values: np.ndarray, bounds: tuple[float, float] = (-math.inf, math.inf)) -> tuple[float, float]:
    """Return the t interval of the mean of ``values (n,)`` cut at ``bounds``; NaN for fewer than two values."""
    if np.isnan(values).any():
        raise ValueError("an interval over failed seeds is not defined: leave them out and count them")
    std = values.std(ddof=1) if len(values) > 1 else math.nan
    low, high = _intervals(np.array([values.mean()]), np.array([std]), np.array([len(values)]), bounds)
    return float(low[0]), float(high[0])


def prediction_interval(
    values: np.ndarray,
    new: int,
    sampling: float,
    confidence: float = CONFIDENCE,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[float, float]:
    """Return where the mean of ``new`` further seeds is to be expected after ``values (n,)``, cut at ``bounds``.

    Both are normal with one deviation, estimated from ``values``: mean ± t s √(1/new + 1/n). Half its width is at least
    what the ``sampling`` deviation of the test examples gives, which is all of it for a single value.
    """
    from scipy.special import ndtri, stdtrit

    n, tail = len(values), (1 + confidence) / 2
    spread = float(stdtrit(n - 1, tail)) * float(values.std(ddof=1)) * math.sqrt(1 / new + 1 / n) if n > 1 else 0.0
    half = max(spread, float(ndtri(tail)) * sampling)
    low, high = np.clip([values.mean() - half, values.mean() + half], *bounds)
    return float(low), float(high)


def _intervals(
    mean: np.ndarray, std: np.ndarray, count: np.ndarray, bounds: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return ``low`` and ``high (cells,)`` from the moments of each cell."""
    quantile = np.array([t_quantile(int(n) - 1) if n > 1 else math.nan for n in count])
    half = quantile * std / np.sqrt(np.maximum(count, 1))
    return np.clip(mean - half, *bounds), np.clip(mean + half, *bounds)


def summarise(values: np.ndarray, metric: Metric, training_loss: np.ndarray) -> Summary:
    """Summarise ``values (cells, seeds)``, NaN for a seed without one, of one metric.

    ``training_loss (seeds,)`` chooses the best of k: of the seeds that have a value, the one of lowest training loss,
    whatever its score.
    """
    known = ~np.isnan(values)
    count = known.sum(1)
    # Moments of the known values alone; numpy's nan-functions warn where a cell has none.
    with np.errstate(invalid="ignore", divide="ignore"):
        total = np.where(known, values, 0).sum(1)
        mean = np.round(total / np.where(count, count, math.nan), DECIMALS)
        squares = np.where(known, (values - (total / np.maximum(count, 1))[:, None]) ** 2, 0).sum(1)
        std = np.sqrt(squares / np.where(count > 1, count - 1, math.nan))
    low, high = _intervals(mean, std, count, metric.bounds)
    ordered = np.sort(values, axis=1)  # NaN last
    return Summary(
        count=count,
        failed=values.shape[1] - count,
        mean=mean,
        low=low,
        high=high,
        std=std,
        median=_medians(ordered, count),
        worst=_worst(ordered, count, metric),
        best_of_k=_best(values, training_loss),
        solved_rate=_solved(values, metric),
    )


def _medians(ordered: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Return the median of the first ``count`` of each row of ``ordered (cells, seeds)``."""
    rows = np.arange(len(ordered))
    lower, upper = np.maximum(count - 1, 0) // 2, np.maximum(count, 1) // 2
    return np.where(count > 0, (ordered[rows, lower] + ordered[rows, upper]) / 2, math.nan)


def _worst(ordered: np.ndarray, count: np.ndarray, metric: Metric) -> np.ndarray:
    """Return the worst value of each row; NaN for a metric without direction."""
    if metric.direction is None:
        return np.full(len(ordered), math.nan)
    column = np.zeros_like(count) if metric.direction == "max" else np.maximum(count - 1, 0)
    return ordered[np.arange(len(ordered)), column]


def _solved(values: np.ndarray, metric: Metric) -> np.ndarray:
    """Return the share of all seeds, failed ones included, that reach the metric's solved threshold."""
    if metric.solved is None:
        return np.full(len(values), math.nan)
    reached = values >= metric.solved if metric.direction == "max" else values <= metric.solved
    return reached.mean(1)


def _best(values: np.ndarray, training_loss: np.ndarray) -> np.ndarray:
    """Return each row's value of the seed of lowest ``training_loss (seeds,)`` that has one, the first of equals.

    A loss of NaN loses to every number. A seed that diverged may have the lowest of all, and has no value.
    """
    if not values.shape[1]:
        return np.full(len(values), math.nan)
    ordered = values[:, np.argsort(training_loss, kind="stable")]  # NaN last
    return ordered[np.arange(len(ordered)), np.argmax(~np.isnan(ordered), axis=1)]


@lru_cache(maxsize=4)
def example_counts(examples: int, resamples: int = RESAMPLES, of: str = "") -> np.ndarray:
    """Return how often each bootstrap resample holds each example, ``(resamples, examples) float64``.

    ``of`` names the examples where several sets of them are resampled together: each is drawn by itself.
    """
    rng = _generator("|".join(["examples", f"{examples}", f"{resamples}", *([of] if of else [])]))
    drawn = rng.randint(0, examples, size=(resamples, examples))
    flat = drawn + np.arange(resamples)[:, None] * examples
    counts = np.bincount(flat.ravel(), minlength=resamples * examples).reshape(resamples, examples)
    counts = counts.astype(np.float64)
    counts.setflags(write=False)
    return counts


def _generator(name: str) -> RandomState:
    digest = hashlib.sha256(name.encode()).digest()
    return RandomState(PCG64(int.from_bytes(digest[:16], "little")))


@dataclass(frozen=True)
class Resampled:
    """One row of the board: its score, and its score in every bootstrap resample ``(resamples,)``."""

    score: float
    resamples: np.ndarray


def resample(
    statistics: Sequence[np.ndarray],
    metric: Metric,
    centre: Centre = "mean",
    minus: Sequence[np.ndarray] | None = None,
) -> Resampled:
    """Resample a row's seeds, and in each the examples, from ``statistics``: one ``(n,k)`` a seed.

    The examples of resample r are the same for every row scored on ``n`` examples, so that two rows are compared pair
    by pair. The seeds drawn depend on the row's own statistics: two rows draw independently, and a row that is compared
    with itself, or with the sides exchanged, gives exactly 0, or exactly the opposite. With ``minus``, the statistics
    of the same seeds on another test, each seed's score is how far it falls from the first test to the other.
    """
    if not statistics:
        raise ValueError("a row without a completed seed cannot be resampled")
    values, own = by_seed(statistics, metric)
    identity = hashlib.sha256(np.stack(statistics).tobytes())
    if minus is not None:
        other_values, other = by_seed(minus, metric)
        values, own = values - other_values, own - other
        identity.update(np.stack(minus).tobytes())
    return over_seeds(values, own, identity.hexdigest(), centre)


def over_seeds(values: np.ndarray, own: np.ndarray, identity: str, centre: Centre = "mean") -> Resampled:
    """Resample the seeds of ``values (resamples, seeds)``, scores on resampled examples; ``own (seeds,)`` are on all.

    ``identity`` names the row by what it was scored from, and so the seeds that are drawn.
    """
    drawn = _generator(identity).randint(0, len(own), size=values.shape)
    centred = np.mean if centre == "mean" else np.median
    return Resampled(float(centred(own)), centred(np.take_along_axis(values, drawn, axis=1), axis=1))


def by_seed(statistics: Sequence[np.ndarray], metric: Metric, of: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Return each seed's score in every resample of the examples ``(resamples, seeds)``, and on all ``(seeds,)``.

    ``of`` names the examples, as for ``example_counts``.
    """
    stacked = np.stack(statistics)  # (seeds, n, k)
    seeds, examples, width = stacked.shape
    columns = stacked.transpose(1, 0, 2).reshape(examples, seeds * width)
    sums = (example_counts(examples, of=of) @ columns).reshape(RESAMPLES, seeds, width)
    return metric.value(sums), np.array([metric.score(one) for one in statistics])


def difference(a: Resampled, b: Resampled) -> Comparison:
    """Return ``a - b`` with the percentile interval; undefined resamples make the interval undefined."""
    spread = np.round(a.resamples - b.resamples, DECIMALS)
    tail = (1 - CONFIDENCE) / 2
    # Both ends by order statistics counted from their own end: exchanging the sides only changes the sign.
    ordered, rank = np.sort(spread), int(tail * len(spread))
    if np.isnan(ordered[-1]):
        return Comparison(round(a.score - b.score, DECIMALS), math.nan, math.nan)
    return Comparison(round(a.score - b.score, DECIMALS), float(ordered[rank]), float(ordered[-1 - rank]))


def compare(a: Sequence[np.ndarray], b: Sequence[np.ndarray], metric: Metric, centre: Centre = "mean") -> Comparison:
    """Return the hierarchical paired bootstrap of ``a - b``: resample seeds, then examples, paired on examples.

    ``a`` and ``b`` hold the per-example statistics ``(n,k)`` of each seed over the same ``n`` examples; the numbers of
    seeds may differ. ``ValueError`` if the numbers of examples do.
    """
    if {len(one) for one in (*a, *b)} != {len(a[0])}:
        raise ValueError("the two rows were not scored on the same examples")
    return difference(resample(a, metric, centre), resample(b, metric, centre))
