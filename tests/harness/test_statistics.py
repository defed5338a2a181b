"""Intervals, comparisons and best of k against oracles and invariants."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import PCG64, RandomState

from harness.metrics import Metric, mean
from harness.metrics.tape import BITS
from harness.metrics.transduction import BLEU_SCORE, EXACT_MATCH, bleu_statistics
from harness.registry import get_task
from harness.statistics import compare, example_counts, resample, summarise, t_interval

UNBOUNDED = replace(EXACT_MATCH, bounds=(-math.inf, math.inf))
VALUES = st.lists(st.floats(-100, 100).map(lambda v: round(v, 6)), min_size=2, max_size=12)


def rng(seed: int) -> RandomState:
    return RandomState(PCG64(seed))


def one(values: list[float], metric: Metric = UNBOUNDED, losses: list[float] | None = None) -> dict[str, float]:
    summary = summarise(np.array([values], float), metric, np.array(losses or range(len(values)), float))
    return {name: getattr(summary, name)[0] for name in vars(summary)}


@given(VALUES)
def test_t_interval_is_that_of_scipy(values):
    array = np.array(values)
    low, high = t_interval(array)
    if array.std() == 0:
        assert low == pytest.approx(values[0])
        return
    expected = scipy.stats.t.interval(0.95, len(values) - 1, array.mean(), scipy.stats.sem(array))
    assert (low, high) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_one_seed_has_no_interval():
    assert all(math.isnan(end) for end in t_interval(np.array([0.5])))
    assert math.isnan(one([0.5])["low"])
    assert math.isnan(one([0.5])["std"])


def test_interval_is_cut_at_the_metric_bounds():
    assert t_interval(np.array([0.9, 1.0, 0.8]), (0, 1))[1] == 1.0
    assert one([0.0, 0.0, 0.4], EXACT_MATCH)["low"] == 0.0
    assert one([5.0, 0.1, 0.2], BITS)["low"] == 0.0


def test_interval_refuses_a_failed_seed():
    with pytest.raises(ValueError, match="failed"):
        t_interval(np.array([0.1, math.nan]))


@given(VALUES, st.integers(0, 4))
def test_summary_agrees_with_numpy_and_counts_failures(values, failed):
    found = one([math.nan] * failed + values)
    assert (found["count"], found["failed"]) == (len(values), failed)
    assert found["mean"] == pytest.approx(np.mean(values), abs=1e-8)
    assert found["std"] == pytest.approx(np.std(values, ddof=1), abs=1e-8)
    assert found["median"] == pytest.approx(np.median(values))
    assert found["worst"] == min(values)
    assert (found["low"], found["high"]) == pytest.approx(t_interval(np.array(values)), abs=1e-7)


def test_summary_of_failures_alone_has_no_number():
    found = one([math.nan, math.nan], replace(BITS, solved=0.1))
    assert (found["count"], found["failed"], found["solved_rate"]) == (0, 2, 0)
    assert all(math.isnan(found[name]) for name in ("mean", "low", "high", "std", "median", "worst", "best_of_k"))


def test_worst_follows_direction():
    assert one([1.0, 3.0, math.nan], BITS)["worst"] == 3
    assert one([1.0, 3.0, math.nan], EXACT_MATCH)["worst"] == 1
    assert math.isnan(one([1.0, 3.0], replace(EXACT_MATCH, direction=None))["worst"])


def test_a_failed_seed_is_unsolved():
    assert one([0.1, 0.05, 3.0, math.nan], replace(BITS, solved=0.1))["solved_rate"] == 0.5
    assert one([0.9, 1.0], replace(EXACT_MATCH, solved=1.0))["solved_rate"] == 0.5
    assert math.isnan(one([0.9, 1.0], EXACT_MATCH)["solved_rate"])


def test_best_of_k_is_chosen_by_training_error_alone():
    assert one([0.9, 0.2, 0.4], losses=[3.0, 1.0, 2.0])["best_of_k"] == 0.2
    assert one([0.9, 0.2, 0.4], losses=[math.nan, 2.0, 2.0])["best_of_k"] == 0.2


def test_the_best_of_k_is_a_seed_that_has_a_value():
    """A seed that diverged may have a training loss, the lowest of all."""
    assert one([math.nan, 3.0, 5.0], losses=[0.1, 0.2, 0.3])["best_of_k"] == 3
    assert one([math.nan, 3.0, 5.0], losses=[math.nan] * 3)["best_of_k"] == 3
    assert one([math.nan, 3.0], losses=[0.1, math.nan])["best_of_k"] == 3
    cells = np.array([[math.nan, 3.0, 5.0], [1.0, 3.0, 5.0], [math.nan] * 3])
    found = summarise(cells, UNBOUNDED, np.array([0.1, 0.3, 0.2])).best_of_k
    assert np.array_equal(found, [5, 1, math.nan], equal_nan=True)


def flips(rates: list[float], examples: int, seed: int) -> list[np.ndarray]:
    """Per-example statistics of seeds that are right with these probabilities."""
    draws = rng(seed)
    return [mean((draws.random_sample(examples) < rate).astype(float)) for rate in rates]


def test_a_row_does_not_differ_from_itself():
    rows = flips([0.5, 0.7, 0.6], 200, 0)
    found = compare(rows, [row.copy() for row in rows], EXACT_MATCH)
    assert (found.difference, found.low, found.high, found.separated) == (0, 0, 0, False)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 1000))
def test_exchanging_the_sides_changes_the_sign(a_seeds, b_seeds, seed):
    a, b = flips([0.6] * a_seeds, 60, seed), flips([0.5] * b_seeds, 60, seed + 1)
    there, back = compare(a, b, EXACT_MATCH), compare(b, a, EXACT_MATCH)
    assert (there.difference, there.low, there.high) == (-back.difference, -back.high, -back.low)
    assert compare(a, b, EXACT_MATCH) == there
    assert there.low <= there.high


def test_pairing_on_examples_sees_a_small_steady_gain():
    base = rng(0).random_sample(400) < 0.5
    better = base.copy()
    better[np.flatnonzero(~base)[:12]] = True
    assert compare([mean(better)], [mean(base)], EXACT_MATCH).separated
    shuffled = rng(1).permutation(better)
    assert not compare([mean(shuffled)], [mean(base)], EXACT_MATCH).separated


def test_spread_between_seeds_widens_the_interval():
    steady, spread = flips([0.7, 0.7, 0.7], 300, 0), flips([0.4, 0.7, 1.0], 300, 1)
    other = flips([0.5, 0.5, 0.5], 300, 2)
    narrow, wide = compare(steady, other, EXACT_MATCH), compare(spread, other, EXACT_MATCH)
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    assert narrow.separated


def test_interval_covers_the_true_difference():
    """Nominal 95 %; the bootstrap of few seeds is known to be somewhat narrow, so 85 % is asked for, of 120 trials."""
    draws, covered = rng(7), 0
    for trial in range(120):
        a = flips(np.clip(draws.normal(0.7, 0.05, 6), 0, 1).tolist(), 100, 2 * trial)
        b = flips(np.clip(draws.normal(0.6, 0.05, 6), 0, 1).tolist(), 100, 2 * trial + 1)
        found = compare(a, b, EXACT_MATCH)
        covered += found.low <= 0.1 <= found.high
    assert 0.85 * 120 <= covered <= 120


def test_equal_rows_are_rarely_separated():
    wrong = sum(
        compare(flips([0.6] * 4, 100, 2 * t), flips([0.6] * 4, 100, 2 * t + 1), EXACT_MATCH).separated
        for t in range(100)
    )
    assert wrong <= 12


def test_works_for_a_ratio_of_sums():
    """Corpus BLEU: the resampled value is that of the resampled corpus, not a mean of sentence scores."""
    task = get_task("seq2seq/copy")
    examples = task.load("test-21")
    stored = {"tokens": examples.targets["target"].copy()}
    stored["tokens"][::3, :5] = 9
    statistics = bleu_statistics(stored, examples)
    found = resample([statistics], BLEU_SCORE)
    counts = example_counts(len(examples))
    again = np.repeat(statistics, counts[17].astype(int), axis=0)
    assert found.resamples[17] == pytest.approx(BLEU_SCORE.score(again), abs=1e-6)
    assert found.score == BLEU_SCORE.score(statistics)


def test_median_ignores_one_bad_seed():
    good, bad = flips([0.9], 100, 0)[0], flips([0.1], 100, 1)[0]
    assert resample([good, good, bad], EXACT_MATCH, "median").score == EXACT_MATCH.score(good)


def test_undefined_resamples_do_not_separate():
    undefined = np.zeros((50, 2))
    found = compare([undefined], flips([0.5], 50, 0), EXACT_MATCH)
    assert math.isnan(found.low)
    assert not found.separated


def test_rows_must_share_their_examples():
    with pytest.raises(ValueError, match="same examples"):
        compare(flips([0.5], 50, 0), flips([0.5], 60, 0), EXACT_MATCH)
    with pytest.raises(ValueError, match="without a completed seed"):
        resample([], EXACT_MATCH)


def test_resampling_touches_no_global_state_and_is_reproducible():
    np.random.seed(3)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    example_counts.cache_clear()
    first = example_counts(37).copy()
    example_counts.cache_clear()
    assert (example_counts(37) == first).all()
    assert (first.sum(1) == 37).all()
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
