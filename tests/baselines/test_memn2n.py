from itertools import product

import numpy as np
import pytest
import torch
from batches import count_parameters, gradients
from story_batches import SPEC, story_batch, told

from baselines.memn2n import MemN2N
from baselines.sentence_memory import Weights
from harness.errors import UserError
from harness.families.story import PAD
from harness.model import build

TYINGS, ENCODINGS = ("adjacent", "layer-wise"), ("position", "bow")
SIZES = {"hops": 3, "width": 6, "memory": 4}


def new(**settings) -> MemN2N:
    """Weights are large enough for the hops to choose, and for an error in any of them to show."""
    model = MemN2N(SPEC, **{**SIZES, "init": 0.7, **settings})
    return model.eval()


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def by_the_paper(model: MemN2N, length: int, position: bool, adjacent: bool, linear: bool = False):
    """§2 and §4.1 for one question, word by word and component by component, in double precision."""
    E = model.embeddings.detach().double().numpy()
    own = model.answers.detach().double().numpy()
    scale = 2
    d, K, N, V = E.shape[2], SIZES["hops"], SIZES["memory"], SPEC.vocabulary

    def encode(table: np.ndarray, words: list[int]) -> np.ndarray:
        out, J = np.zeros(d), len(words)
        for j, word in enumerate(words, start=1):
            for k in range(1, d + 1):
                l_kj = (1 - j / J) - (k / d) * (1 - 2 * j / J) if position else 1
                out[k - 1] += (scale if position else 1) * l_kj * table[word, k - 1]
        return out

    story, question, _, _ = told(length)
    newest_first = story[::-1][:N]
    if adjacent:
        A, C, B = [E[k] for k in range(K)], [E[k + 1] for k in range(K)], E[0]
    else:
        A, C, B = [E[0]] * K, [E[1]] * K, E[2]
    u, attention = encode(B, question), []
    for k in range(K):
        m, c = np.zeros((N, d)), np.zeros((N, d))  # a null memory is zero
        for i, sentence in enumerate(newest_first):
            m[i] = encode(A[k], sentence) + A[k][V + i]
            c[i] = encode(C[k], sentence) + C[k][V + i]
        p = m @ u if linear else softmax(m @ u)
        o = sum(p[i] * c[i] for i in range(N))
        u = (u if adjacent else model.H.detach().double().numpy() @ u) + o
        attention.append([0.0] * (length - N) + list(p[: len(newest_first)][::-1]))
    rows = [C[-1][word] if word and adjacent else own[a] for a, word in enumerate(SPEC.answer_words)]
    return np.array(rows) @ u, np.array(attention)


@pytest.mark.parametrize(("tying", "encoding", "linear"), product(TYINGS, ENCODINGS, (False, True)))
def test_scores_and_attention_are_the_papers_equations(tying, encoding, linear):
    model = new(tying=tying, encoding=encoding, linear_start=float(linear))
    batch = story_batch([3, 1, 7])
    scores, attention = model.predict_step(batch.inputs).scores, model.explain(batch.inputs)["attention"]
    assert attention.shape == (3, 3, 7)
    for row, length in enumerate((3, 1, 7)):
        expected, weights = by_the_paper(model, length, encoding == "position", tying == "adjacent", linear)
        size = np.abs(expected).max()
        np.testing.assert_allclose(scores[row].detach() / size, expected / size, atol=1e-5)
        np.testing.assert_allclose(attention[row, :, :length].detach(), weights, atol=1e-5 * np.abs(weights).max())
        assert bool((attention[row, :, length:] == 0).all())


@pytest.mark.parametrize(("tying", "encoding", "linear"), product(TYINGS, ENCODINGS, (False, True)))
def test_gradients_are_those_of_the_equations(tying, encoding, linear):
    """The hand-written way back against finite differences, in double precision, along a random direction."""
    model = new(tying=tying, encoding=encoding, linear_start=float(linear), init=0.4).double()
    batch = story_batch([3, 1, 7])
    found = gradients(model, model.training_step(batch, 0))
    for name, parameter in model.named_parameters():
        direction, step = torch.randn_like(parameter), 1e-6
        losses = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter += sign * step * direction
                losses.append(float(model.training_step(batch, 0)))
                parameter -= sign * step * direction
        assert float((found[name] * direction).sum()) == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=1e-5)


def test_position_encoding_by_hand():
    """d = 2: J = 1 gives a ramp, not ones; J = 2 weighs the components in opposite order."""
    weights = Weights(longest=3, width=2, position=True)
    alpha, beta = weights.table[:, 0], weights.table[:, 1]
    assert weights.kappa is not None
    l = alpha[:, None] + beta[:, None] * weights.kappa[:, None]  # (J,k,j)
    assert l[1, :, 0].tolist() == [0.5, 1.0]
    assert torch.allclose(l[2, :, :2], torch.tensor([[0.5, 0.5], [0.5, 1.0]]))
    assert torch.allclose(l[3], torch.tensor([[1 / 2, 1 / 2, 1 / 2], [1 / 3, 2 / 3, 1.0]]))
    assert l[2, :, 2].tolist() == [0, 0]


def test_weights_are_a_distribution_with_the_empty_memories():
    p = new()(story_batch([2, 9]).inputs)[1]
    assert p.shape == (2, 3, 4)
    assert bool((p >= 0).all())
    assert torch.allclose(p.sum(2), torch.ones(2, 3))
    assert bool((p[0, :, 2:] > 0).all())  # two of four slots are empty


def test_times_count_back_from_the_question():
    """ABC and xxABC: C is read alike, with the same row of T, whatever was told long before."""
    model, story = new(memory=3), told(3)[0]
    short, long = story_batch([3], stories=[story]), story_batch([3], stories=[[[9, 9], [4], *story]])
    assert torch.equal(model(short.inputs)[0], model(long.inputs)[0])
    assert model.predict_step(long.inputs).unread.tolist() == [2]


def test_order_of_sentences_and_of_words_matters():
    model = new()
    scores = [
        model(story_batch([2], stories=[story]).inputs)[0]
        for story in ([[5, 6], [7, 8]], [[7, 8], [5, 6]], [[6, 5], [7, 8]])
    ]
    assert not torch.allclose(scores[0], scores[1])
    assert not torch.allclose(scores[0], scores[2])
    bow = new(encoding="bow")
    same = [bow(story_batch([2], stories=[story]).inputs)[0] for story in ([[5, 6], [7, 8]], [[6, 5], [8, 7]])]
    assert torch.allclose(*same, atol=1e-5)


def test_empty_sentences_behind_the_story_change_nothing():
    model, plain, padded = new(), story_batch([3, 7]), story_batch([3, 7], extra=5)
    assert torch.allclose(model(plain.inputs)[0], model(padded.inputs)[0], atol=1e-5)


@pytest.mark.parametrize(("tying", "encoding"), list(product(TYINGS, ENCODINGS)))
def test_a_null_symbol_stays_zero(tying, encoding):
    model = new(tying=tying, encoding=encoding, noise=0.5).train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    before = model.embeddings.detach().clone()
    for _ in range(3):
        optimiser.zero_grad()
        model.training_step(story_batch([3, 1, 7]), 0).backward()
        optimiser.step()
    assert bool((model.embeddings[:, PAD] == 0).all())
    assert not torch.equal(model.embeddings, before)


def test_noise_moves_older_sentences_up_and_only_in_training():
    model = new(memory=9, noise=0.5)
    inputs = story_batch([9] * 200).inputs
    rest = model.remember(inputs).sentences.place[:, -1].view(200, 9) % model.rows - SPEC.vocabulary
    assert bool((rest == torch.arange(8, -1, -1)).all())  # oldest first
    times = model.train().remember(inputs).sentences.place[:, -1].view(200, 9) % model.rows - SPEC.vocabulary
    assert int(times.max()) == 8
    steps = times[:, :-1] - times[:, 1:]
    assert bool(((steps == 0) <= (times[:, :-1] == 8)).all())  # in order, until the last row of T
    shift = times[:, -3:] - rest[:, -3:]
    assert bool((shift >= 0).all())
    assert torch.allclose(shift.float().mean(0), torch.tensor([1.5, 1.0, 0.5]), atol=0.2)


def test_the_answer_shares_the_last_table_where_it_is_a_word():
    model = new(hops=1)
    with torch.no_grad():
        model.embeddings[1, 7] += 1.0  # word 7 is answer 0
        before = model(story_batch([1], stories=[[[5]]]).inputs)[0]
        model.embeddings[1, 7] += 1.0
        moved = model(story_batch([1], stories=[[[5]]]).inputs)[0] - before
    assert torch.nonzero(moved[0]).flatten().tolist() == [0]


def test_parameter_counts():
    words, d, answers = 12 + 4, 6, 5
    assert count_parameters(new()) == 4 * words * d + answers * d
    assert count_parameters(new(tying="layer-wise")) == 3 * words * d + answers * d + d * d
    assert new(memory=50).slots == 9  # no story is longer


class Steps:
    """A trainer of 100 steps, as far as the model asks."""

    estimated_stepping_batches, global_step = 100, 0


def test_linear_start_ends_once_when_the_error_stops_falling_and_the_schedule_starts_again(monkeypatch):
    model, trainer = new(linear_start=0.8, patience=2, linear_rate=0.005, learning_rate=0.01), Steps()
    monkeypatch.setattr(type(model), "trainer", trainer, raising=False)
    seen = []
    for trainer.global_step, value in enumerate([50.0, 40.0, 41.0, 39.0, 39.0, 38.5, 60.0, 60.0, 1.0, 2.0], start=1):
        model.on_validated(value)
        seen.append(bool(model.linear))
    assert seen == [True] * 7 + [False] * 3
    assert model.rate(8) == 1
    assert int(model.restarted) == 8
    assert [model.rate(step) for step in (8, 30, 31, 53, 54, 76, 77, 99)] == [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125]


def test_linear_start_ends_after_its_share_at_the_latest(monkeypatch):
    model, trainer = new(linear_start=0.3, patience=5), Steps()
    monkeypatch.setattr(type(model), "trainer", trainer, raising=False)
    assert model.rate(0) == 0.5
    for trainer.global_step, value in ((10, 50.0), (20, 40.0), (29, 30.0)):
        model.on_validated(value)
        assert bool(model.linear)
    trainer.global_step = 30
    model.on_validated(20.0)
    assert not bool(model.linear)


def test_the_paper_halves_the_rate_every_25_of_100_epochs(monkeypatch):
    model = new()
    monkeypatch.setattr(type(model), "trainer", Steps(), raising=False)
    assert [model.rate(step) for step in (0, 24, 25, 49, 50, 75, 99)] == [1, 1, 0.5, 0.5, 0.25, 0.125, 0.125]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tying": "none"}, "tying = 'none' is not valid: choose one of adjacent, layer-wise"),
        ({"encoding": "words"}, "encoding = 'words' is not valid: choose one of position, bow"),
        ({"hops": 0}, "hops = 0 is not valid: a whole number, 1 or more"),
        ({"memory": 2.5}, "memory = 2.5 is not valid"),
        ({"noise": 1.5}, "noise = 1.5 is not valid: a share, 0 to 1"),
    ],
)
def test_settings_that_are_not_valid_are_named(settings, message):
    with pytest.raises(UserError, match=message):
        build(MemN2N, SPEC, settings, "memn2n")
