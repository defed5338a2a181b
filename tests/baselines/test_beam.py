"""Beam search against exhaustive search, against greedy decoding, and where other implementations stop too early."""

import itertools
import math

import pytest
import torch

from baselines.beam import beam_search, repeat, search, select, valid_beam_size
from baselines.decoding import greedy
from harness.families.transduction import BOS, EOS, PAD

V = 4
"""Pad, BOS and 3 are ordinary words here."""


def table(seed: int) -> torch.Tensor:
    """Logits by prefix: a prefix is a number in base V + 1, so that what may come next depends on all of it."""
    return torch.randn(5 ** (V + 1), V, generator=torch.Generator().manual_seed(seed)) * 2


def stepper(tables: torch.Tensor):
    """The step of a made-up model and its first state: which table, and the prefix so far; a row along axis 1."""

    def step(tokens, state):
        which, (prefix, t) = state
        assert which.shape == prefix.shape == (1, len(tokens))
        prefix = prefix * (V + 1) + tokens + 1 if t else prefix  # BOS is no part of it
        return tables[which[0], prefix[0]], (which, (prefix, t + 1))

    return step, (torch.arange(len(tables))[None], (torch.zeros(1, len(tables), dtype=torch.long), 0))


def mean_log_probability(logits: torch.Tensor, answer: tuple[int, ...] | list[int]) -> float:
    prefix, total = 0, 0.0
    for token in answer:
        total += float(torch.log_softmax(logits[prefix].double(), 0)[token])
        prefix = prefix * (V + 1) + token + 1
    return total / len(answer)


def without_pads(row: list[int]) -> list[int]:
    return row[: row.index(EOS) + 1] if EOS in row else row


def best_of_all(logits: torch.Tensor, limit: int) -> list[int]:
    """Score every answer that ends in time."""
    words = [token for token in range(V) if token != EOS]
    answers = [(*p, EOS) for length in range(limit) for p in itertools.product(words, repeat=length)]
    return list(max(answers, key=lambda answer: mean_log_probability(logits, answer)))


def test_a_beam_that_holds_everything_finds_the_best_of_all_answers():
    limits = [1, 2, 3, 4, 4, 4]
    tables = torch.stack([table(seed) for seed in range(6)])
    found = search(*stepper(tables), torch.tensor(limits), beam_size=V**4, axis=1).tolist()
    expected = [best_of_all(logits, limit) for logits, limit in zip(tables, limits, strict=True)]
    assert [without_pads(row) for row in found] == expected
    assert len({len(answer) for answer in expected}) > 1


def test_a_beam_of_one_is_greedy():
    tables = torch.stack([table(seed) for seed in range(20)])
    limit = torch.arange(20) % 4 + 1
    expected = greedy(*stepper(tables), limit)
    assert torch.equal(beam_search(*stepper(tables), limit, 1, axis=1), expected)
    assert torch.equal(search(*stepper(tables), limit, axis=1), expected)


def test_a_wider_beam_finds_better_answers():
    tables, limit = torch.stack([table(seed) for seed in range(40)]), 4
    scores = []
    for size in (1, 2, 4, 16, 256):
        found = search(*stepper(tables), torch.full((40,), limit), size, axis=1).tolist()
        complete = [(logits, without_pads(row)) for logits, row in zip(tables, found, strict=True)]
        scores.append([mean_log_probability(*pair) if EOS in pair[1] else -math.inf for pair in complete])
    means = [sum(max(score, -10) for score in row) / 40 for row in scores]
    assert means == sorted(means)
    assert means[0] < means[-1]
    assert all(best >= score - 1e-6 for row in scores for best, score in zip(scores[-1], row, strict=True))


@pytest.mark.parametrize("size", [2, 3, 7])
def test_an_example_is_the_same_alone_and_with_mates(size):
    tables = torch.stack([table(seed) for seed in range(12)])
    limit = torch.arange(12) % 4 + 1
    together = search(*stepper(tables), limit, size, axis=1)
    for row in range(12):
        alone = search(*stepper(tables[row : row + 1]), limit[row : row + 1], size, axis=1)[0]
        assert torch.equal(together[row, : len(alone)], alone)
        assert (together[row, len(alone) :] == PAD).all()


def scripted(rows: dict[tuple[int, ...], dict[int, float]], calls: list[int]):
    """A step that looks up the probabilities after a prefix, its state the prefix itself, ``(N,t)``."""

    def step(tokens, state):
        calls.append(len(tokens))
        prefix = torch.cat([state, tokens[:, None]], dim=1)
        probabilities = torch.full((len(tokens), 7), 1e-9)
        for logits, row in zip(probabilities, prefix[:, 1:].tolist(), strict=True):
            for token, p in rows.get(tuple(row), {EOS: 1.0}).items():
                logits[token] = p
        return probabilities.log(), prefix

    return step, torch.zeros(1, 0, dtype=torch.long)


def test_search_goes_on_while_an_open_hypothesis_can_still_win():
    """EOS has 60 % at the first step, but the long way costs 40 % once: log(.6) = -.51 against log(.4) / 4 = -.23."""
    rows = {(): {EOS: 0.6, 4: 0.4}, (4,): {5: 1.0}, (4, 5): {6: 1.0}, (4, 5, 6): {EOS: 1.0}}
    step, state = scripted(rows, [])
    assert search(step, state, torch.tensor([9]), 1).tolist() == [[EOS]]
    for size in (2, 3, 20):
        assert search(step, state, torch.tensor([9]), size).tolist() == [[4, 5, 6, EOS]]
    assert search(step, state, torch.tensor([2]), 2).tolist() == [[EOS]]  # log(.4) / 2 and no EOS by then


def test_search_stops_when_no_open_hypothesis_can_win():
    """After EOS with 96 %, even an answer of nine tokens that costs nothing more has log(.04) / 9 = -.36 < -.04."""
    calls: list[int] = []
    rows = {(): {EOS: 0.96, 4: 0.04}, (4,): {4: 1.0}, (4, 4): {4: 1.0}}
    step, state = scripted(rows, calls)
    assert search(step, state, torch.tensor([9]), 2).tolist() == [[EOS]]
    assert len(calls) == 1
    assert search(step, state, torch.tensor([200]), 2).tolist() == [[EOS]]  # log(.04) / 200 could win, so it is tried
    assert len(calls) == 1 + 4


def test_an_answer_without_end_is_cut_and_comes_after_any_that_has_one():
    endless = {(): {4: 0.7, 5: 0.3}, (4,): {4: 1.0}, (5,): {5: 1.0}, (4, 4): {4: 1.0}, (5, 5): {5: 1.0}}
    step, state = scripted(endless, [])
    assert search(step, state, torch.tensor([3]), 2).tolist() == [[4, 4, 4]]
    step, state = scripted(endless | {(5, 5): {EOS: 1.0}}, [])
    assert search(step, state, torch.tensor([3]), 2).tolist() == [[5, 5, EOS]]


def test_what_has_no_probability_is_no_answer():
    """EOS is impossible, and a beam wider than the vocabulary fills up with hypotheses of probability 0."""

    def step(tokens, state):
        logits = torch.arange(7.0).repeat(len(tokens), 1)
        return logits.index_fill(1, torch.tensor([EOS]), -torch.inf), state

    for size in (1, 2, 7, 20, 300):
        assert search(step, None, torch.tensor([2, 1]), size).tolist() == [[6, 6], [6, PAD]]


def test_a_pad_that_the_model_says_is_kept_inside_an_answer():
    step, state = scripted({(): {PAD: 1.0}, (PAD,): {PAD: 1.0}}, [])
    assert search(step, state, torch.tensor([5]), 2).tolist() == [[PAD, PAD, EOS]]


def test_a_beam_wider_than_the_vocabulary_starts_with_one_hypothesis_not_with_copies():
    """Three words, then the end: nine answers in all, of which the best has a worse beginning."""
    rows = {(): {4: 0.5, 5: 0.3, 6: 0.2}, (4,): {4: 0.4, 5: 0.3, 6: 0.3}, (5,): {4: 0.1, 5: 0.8, 6: 0.1}}
    step, state = scripted(rows, [])
    assert search(step, state, torch.tensor([3]), 1).tolist() == [[4, 4, EOS]]
    for size in (3, 9, 50):
        assert search(step, state, torch.tensor([3]), size).tolist() == [[5, 5, EOS]]


def test_states_are_repeated_and_reordered_along_their_axis():
    hidden, cache = torch.arange(6).view(1, 3, 2), torch.arange(3)[None]
    state = (hidden, (cache, 7))
    repeated, (repeated_cache, t) = repeat(state, 2, axis=1)
    assert repeated_cache.tolist() == [[0, 0, 1, 1, 2, 2]]
    assert repeated[0, :, 0].tolist() == [0, 0, 2, 2, 4, 4]
    picked, (picked_cache, _) = select(state, torch.tensor([2, 0, 2]), axis=1)
    assert picked_cache.tolist() == [[2, 0, 2]]
    assert picked[0].tolist() == [[4, 5], [0, 1], [4, 5]]
    assert t == 7


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "4"])
def test_a_beam_has_at_least_one_hypothesis(size):
    with pytest.raises(ValueError, match=r"beam_size = .* is not valid: a whole number, 1 \(greedy\) or more"):
        valid_beam_size(size)
    with pytest.raises(ValueError, match="beam_size"):
        search(*stepper(table(0)[None]), torch.tensor([3]), size)


def test_bos_is_the_first_token_of_every_hypothesis():
    seen = []

    def step(tokens, state):
        seen.append(tokens.tolist())
        return torch.eye(7)[torch.full_like(tokens, EOS)] * 50, state

    search(step, torch.zeros(2, 1), torch.tensor([3, 3]), 2)
    assert seen == [[BOS] * 4]
