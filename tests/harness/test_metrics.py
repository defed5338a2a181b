"""Metrics against hand-computed values, sacrebleu and torch; scores add up over examples."""

import math

import numpy as np
import pytest
import sacrebleu
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.families.base import Examples
from harness.families.tape import LOGIT_RANGE, dequantise, quantise
from harness.families.transduction import BOS, EOS, PAD, canonical_tokens
from harness.metrics import Metric, mean, ratio
from harness.metrics.tape import BITS, COST_OF_ONE, ERROR_FREE, WRONG_BITS, tape_metrics
from harness.metrics.transduction import (
    BLEU_SCORE,
    EXACT_MATCH,
    LENGTH_RATIO,
    PREFIX,
    SEQUENCE_METRICS,
    TOKEN_ACCURACY,
)

A, B, C, D, E, F, G = range(4, 11)


def padded(rows: list[list[int]]) -> np.ndarray:
    out = np.zeros((len(rows), max(map(len, rows), default=0)), np.int64)
    for index, row in enumerate(rows):
        out[index, : len(row)] = row
    return out


def examples_of(references: list[list[int]]) -> Examples:
    """Examples whose targets are ``references``, each with its EOS."""
    target = padded([[*row, EOS] for row in references])
    sizes = np.array([len(row) for row in references])
    return Examples({"source": target, "source_length": sizes}, {"target": target}, sizes)


def answers(rows: list[list[int]], limit: int = 100) -> dict[str, np.ndarray]:
    """What is stored where a model emits ``rows`` as they stand, filled up with pads."""
    tokens = padded(rows)
    return {"tokens": canonical_tokens(tokens, np.full(len(rows), limit), 60)}


def ended(rows: list[list[int]]) -> dict[str, np.ndarray]:
    """Answers that end in EOS."""
    return answers([[*row, EOS] for row in rows])


def score(metric: Metric, stored: dict[str, np.ndarray], examples: Examples) -> float:
    return metric.score(metric.statistics(stored, examples))


def bleu(hypotheses: list[list[int]], references: list[list[int]]) -> float:
    return score(BLEU_SCORE, ended(hypotheses), examples_of(references))


def sacrebleu_of(hypotheses: list[list[int]], references: list[list[int]]) -> float:
    lines = [[" ".join(map(str, row)) for row in rows] for rows in (hypotheses, references)]
    metric = sacrebleu.BLEU(tokenize="none", effective_order=True, force=True)
    return metric.corpus_score(lines[0], [lines[1]]).score


# Few symbols, so that n-grams match and repeat.
sequence = st.lists(st.integers(4, 8), min_size=1, max_size=12)
pairs = st.lists(st.tuples(st.lists(st.integers(4, 8), max_size=12), sequence), min_size=1, max_size=8)


@given(pairs)
def test_bleu_is_sacrebleus_corpus_bleu(drawn):
    hypotheses, references = map(list, zip(*drawn, strict=True))
    expected = sacrebleu_of(hypotheses, references)
    assert bleu(hypotheses, references) == pytest.approx(min(expected, 100), abs=1e-8)


@given(st.lists(sequence, min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_bleu_of_near_copies_is_sacrebleus_too(references, seed):
    rng = np.random.RandomState(seed)
    hypotheses = [[t if rng.rand() < 0.8 else 4 + rng.randint(50) for t in row] for row in references]
    assert bleu(hypotheses, references) == pytest.approx(min(sacrebleu_of(hypotheses, references), 100), abs=1e-8)


@given(pairs)
def test_bleu_is_never_above_100(drawn):
    hypotheses, references = map(list, zip(*drawn, strict=True))
    assert 0 <= bleu(hypotheses, references) <= 100
    assert bleu(references, references) == 100
    statistics = BLEU_SCORE.statistics(ended(references), examples_of(references))
    assert float(BLEU_SCORE.value(statistics.sum(0))) <= 100  # before rounding, as intervals see it


@pytest.mark.parametrize("reference", [[A], [A, B], [A, B, C]])
def test_a_perfect_short_answer_has_bleu_100(reference):
    assert bleu([reference], [reference]) == 100
    assert sacrebleu.corpus_bleu([" ".join(map(str, reference))], [[" ".join(map(str, reference))]]).score < 1


def test_bleu_without_a_common_symbol_is_0():
    assert bleu([[A]], [[B]]) == 0
    assert bleu([[A, A, A, A, A]], [[B, C, D, E, F]]) == 0


def test_an_empty_answer_counts_against_bleu():
    five = [A, B, C, D, E]
    assert bleu([[], five], [five, five]) == pytest.approx(100 * math.exp(1 - 10 / 5), abs=1e-6)
    assert bleu([[]], [five]) == 0


def test_bleu_punishes_brevity_and_not_the_other_way_round():
    reference = [A, B, C, D, E, F, G]
    assert bleu([reference[:5]], [reference]) == pytest.approx(100 * math.exp(1 - 7 / 5), abs=1e-6)
    assert bleu([reference[:5]], [reference]) == pytest.approx(67.0, abs=0.1)
    assert bleu([reference], [reference[:5]]) < 100  # precision 5/7, no bonus for length
    assert bleu([reference], [reference[:5]]) == pytest.approx(
        100 * (5 / 7 * 4 / 6 * 3 / 5 * 2 / 4) ** (1 / 4), abs=1e-6
    )


def test_bleu_is_over_the_corpus_and_not_a_mean_of_batches_or_bins():
    right, wrong = [A, B, C, D, E, F, G], [D, D]
    references = [right, [A, B]]
    both = bleu([right, wrong], references)
    single = [bleu([right], [right]), bleu([wrong], [[A, B]])]
    assert single == [100, 0]
    precisions = [7 / 9, 6 / 7, 5 / 5, 4 / 4]
    assert both == pytest.approx(100 * math.prod(precisions) ** (1 / 4), abs=1e-6)
    assert abs(both - np.mean(single)) > 30


def test_bleu_clips_repeated_symbols():
    # "the the the ..." of the paper: two of seven unigrams match, no bigram does.
    hypothesis, reference = [A] * 7, [A, B, C, D, A, E]
    statistics = BLEU_SCORE.statistics(ended([hypothesis]), examples_of([reference]))
    assert statistics.tolist() == [[7, 6, 2, 0, 0, 0, 7, 6, 5, 4]]


def test_bleu_does_not_count_the_eos():
    assert bleu([[A, B, C, D]], [[E, F, G, E]]) == 0


def test_bleu_states_its_settings():
    for part in ("eff:yes", "tok:none", sacrebleu.__version__):
        assert part in BLEU_SCORE.signature


@given(pairs, st.data())
def test_scores_of_a_union_are_the_value_of_summed_statistics(drawn, data):
    hypotheses, references = map(list, zip(*drawn, strict=True))
    stored, examples = ended(hypotheses), examples_of(references)
    cut = data.draw(st.integers(0, len(references)))
    for metric in SEQUENCE_METRICS:
        statistics = metric.statistics(stored, examples)
        parts = [
            metric.statistics({"tokens": stored["tokens"][rows]}, examples.take(rows))
            for rows in (slice(0, cut), slice(cut, None))
            if len(stored["tokens"][rows])
        ]
        assert np.array_equal(np.concatenate(parts), statistics)  # an example's share does not depend on its mates
        total = float(metric.value(sum(part.sum(0) for part in parts)))
        assert metric.score(statistics) == pytest.approx(total, abs=1e-8)
        order = data.draw(st.permutations(range(len(references))))
        assert metric.score(statistics[list(order)]) == metric.score(statistics)


def test_sequence_metrics_by_hand():
    references = [[A, B, C, D], [A, B], [A]]
    stored = ended([[A, B, E, D, D], [A], [A]])
    examples = examples_of(references)
    assert score(EXACT_MATCH, stored, examples) == pytest.approx(1 / 3)
    assert score(TOKEN_ACCURACY, stored, examples) == pytest.approx((3 + 1 + 1) / (4 + 2 + 1))
    assert score(PREFIX, stored, examples) == pytest.approx((2 / 4 + 1 / 2 + 1) / 3)
    assert score(LENGTH_RATIO, stored, examples) == pytest.approx((5 + 1 + 1) / 7)


def test_an_empty_target_has_all_of_a_prefix_or_nothing():
    assert score(PREFIX, answers([[EOS]]), examples_of([[]])) == 1
    assert score(PREFIX, answers([[A, EOS]]), examples_of([[]])) == 0
    assert score(PREFIX, answers([[A]]), examples_of([[]])) == 0
    assert score(PREFIX, answers([[EOS], [A, EOS]]), examples_of([[], [A]])) == 1
    assert score(PREFIX, answers([[A, EOS], [A, EOS]]), examples_of([[], [A]])) == 0.5


def test_a_prefix_ends_at_the_first_error():
    stored, examples = ended([[E, B, C, D]]), examples_of([[A, B, C, D]])
    assert score(PREFIX, stored, examples) == 0
    assert score(TOKEN_ACCURACY, stored, examples) == 0.75


@given(st.lists(sequence, min_size=1, max_size=5), st.integers(0, 10))
def test_an_answer_without_eos_is_never_exact(references, slack):
    examples = examples_of(references)
    for limit in (len(max(references, key=len)), len(max(references, key=len)) + slack):
        stored = answers([[*row, *[A] * (limit - len(row))] for row in references], limit)
        assert score(EXACT_MATCH, stored, examples) == 0
    # right symbols, filled up with pads to the width instead of an end
    stored = answers([[*row, PAD, PAD] for row in references])
    assert score(EXACT_MATCH, stored, examples) == 0
    assert score(EXACT_MATCH, ended(references), examples) == 1


@pytest.mark.parametrize("constant", [PAD, BOS])
def test_predicting_pad_constantly_scores_0(constant):
    references = [[A, B, C], [A], [A, B, C, D, E, F, G, A, B, C]]
    stored = answers([[constant] * 20 for _ in references], limit=20)
    for metric in (EXACT_MATCH, TOKEN_ACCURACY, PREFIX, BLEU_SCORE):
        assert score(metric, stored, examples_of(references)) == 0
    assert score(LENGTH_RATIO, stored, examples_of(references)) == pytest.approx(60 / 14)  # it is not an empty answer


def test_a_too_long_answer_is_not_exact_and_never_ends_early():
    stored, examples = ended([[A, B, C]]), examples_of([[A, B]])
    assert score(EXACT_MATCH, stored, examples) == 0
    assert score(EXACT_MATCH, ended([[A, EOS, B]]), examples_of([[A]])) == 1  # what follows EOS is ignored


def test_short_last_batches_weigh_by_their_examples():
    statistics = np.concatenate([mean(np.full(256, 0.7)), mean(np.full(256, 0.8)), mean(np.full(10, 0.9))])
    weighted = (0.7 * 256 + 0.8 * 256 + 0.9 * 10) / 522
    assert EXACT_MATCH.score(statistics) == pytest.approx(weighted, abs=1e-9)
    assert EXACT_MATCH.score(statistics) == pytest.approx(0.7529, abs=1e-4)


def test_sums_are_exactly_rounded():
    values = np.array([1e16, 1.0, -1e16] * 5 + [0.1] * 10)
    assert EXACT_MATCH.score(mean(values)) == round((5 + 1) / 25, 9)


def test_nan_is_worse_than_every_number_in_both_directions():
    for metric in (EXACT_MATCH, BITS):
        assert metric.better(1.0, math.nan)
        assert not metric.better(math.nan, 1.0)
        assert not metric.better(math.nan, math.nan)
        assert not metric.better(1.0, 1.0)
    assert EXACT_MATCH.better(0.9, 0.1)
    assert BITS.better(0.1, 0.9)
    with pytest.raises(ValueError, match="length_ratio has no direction"):
        LENGTH_RATIO.better(1, 2)


def test_solved_is_at_or_past_the_threshold():
    headline = tape_metrics(solved=0.1)[0]
    assert headline.name == "bits"
    assert [headline.is_solved(v) for v in (0.0, 0.1, 0.1000001, math.nan)] == [True, True, False, False]
    assert not EXACT_MATCH.is_solved(1.0)


def test_a_ratio_over_nothing_is_nan():
    assert math.isnan(float(ratio(np.array([0.0, 0.0]))))
    assert ratio(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist() == [0.5, 0.75]


def tape_examples(lengths: list[int], seed: int, bits: int = 3) -> Examples:
    """Random tapes: ``lengths[i]`` answer steps behind as many silent ones."""
    rng = np.random.RandomState(seed)
    steps = 2 * max(lengths)
    answer = np.zeros((len(lengths), steps), bool)
    for row, length in enumerate(lengths):
        answer[row, length : 2 * length] = True
    target = rng.randint(0, 2, (len(lengths), steps, bits)).astype(np.float32) * answer[..., None]
    sizes = np.array(lengths)
    inputs = {"inputs": np.zeros((len(lengths), steps, 1), np.float32), "length": 2 * sizes}
    return Examples(inputs, {"bits": target, "answer": answer}, sizes)


tape_lengths = st.lists(st.integers(1, 6), min_size=1, max_size=6)


@given(tape_lengths, st.integers(0, 2**32 - 1), st.sampled_from([0.3, 3.0, 12.0]))
def test_tape_bits_are_torchs_cross_entropy_in_base_2(lengths, seed, spread):
    examples = tape_examples(lengths, seed)
    logits = np.random.RandomState(seed).standard_normal(examples.targets["bits"].shape) * spread
    answer = examples.targets["answer"]
    stored = {"logits": quantise(logits[answer]).reshape(-1)}
    cost = torch.nn.functional.binary_cross_entropy_with_logits(
        torch.from_numpy(dequantise(quantise(logits))),
        torch.from_numpy(examples.targets["bits"].astype(np.float64)),
        reduction="none",
    ).numpy() / math.log(2)
    expected = (cost * answer[..., None]).sum((1, 2))
    assert BITS.statistics(stored, examples)[:, 0] == pytest.approx(expected, abs=1e-8)
    assert score(BITS, stored, examples) == pytest.approx(expected.mean(), abs=1e-8)
    wrong = ((logits > 0) != (examples.targets["bits"] > 0.5)) & answer[..., None]
    decided = quantise(logits) != 127
    expected_wrong = (wrong & decided).sum((1, 2)) + 0.5 * ((~decided) & answer[..., None]).sum((1, 2))
    assert WRONG_BITS.statistics(stored, examples)[:, 0].tolist() == expected_wrong.tolist()
    assert score(ERROR_FREE, stored, examples) == pytest.approx(np.mean(expected_wrong == 0))


@given(tape_lengths, st.integers(0, 1000))
def test_an_even_guess_costs_exactly_one_bit_a_bit(lengths, seed):
    examples = tape_examples(lengths, seed)
    stored = {"logits": np.full(sum(lengths) * 3, quantise(np.zeros(1))[0])}
    assert BITS.statistics(stored, examples)[:, 0].tolist() == [3.0 * n for n in lengths]
    assert WRONG_BITS.statistics(stored, examples)[:, 0].tolist() == [1.5 * n for n in lengths]
    assert score(ERROR_FREE, stored, examples) == 0


def test_tape_metrics_of_the_right_and_of_the_opposite_answer():
    examples = tape_examples([1, 4], seed=0)
    right = (2 * examples.targets["bits"][examples.targets["answer"]] - 1) * LOGIT_RANGE
    for sign, wrong in ((1, 0), (-1, 3)):
        stored = {"logits": quantise(sign * right).reshape(-1)}
        assert WRONG_BITS.statistics(stored, examples)[:, 0].tolist() == [wrong, 4 * wrong]
        assert score(ERROR_FREE, stored, examples) == (sign == 1)
    certain = math.log1p(math.exp(-16)) / math.log(2)
    assert score(BITS, {"logits": quantise(right).reshape(-1)}, examples) == pytest.approx(7.5 * certain, abs=1e-9)
    assert score(BITS, {"logits": quantise(-right).reshape(-1)}, examples) == pytest.approx(
        7.5 * (certain + 16 / math.log(2)), abs=1e-8
    )


def test_one_error_makes_a_sequence_not_error_free():
    examples = tape_examples([2, 2], seed=1)
    levels = quantise((2 * examples.targets["bits"][examples.targets["answer"]] - 1) * LOGIT_RANGE).reshape(-1)
    levels[7] = 254 - levels[7]  # the second sequence's second bit
    assert WRONG_BITS.statistics({"logits": levels}, examples)[:, 0].tolist() == [0, 1]
    assert score(ERROR_FREE, {"logits": levels}, examples) == 0.5


def test_the_cost_table_falls_with_the_level_and_both_targets_share_the_bits():
    assert len(COST_OF_ONE) == 255
    assert (np.diff(COST_OF_ONE) < 0).all()
    assert COST_OF_ONE[127] == 1
    # 2^-cost(1) + 2^-cost(0) = 1: the two are probabilities
    assert np.exp2(-COST_OF_ONE) + np.exp2(-COST_OF_ONE[::-1]) == pytest.approx(np.ones(255), abs=1e-10)
