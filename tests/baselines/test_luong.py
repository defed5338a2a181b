import math

import numpy as np
import pytest
import torch
from batches import count_parameters, gradients, token_batch

from baselines.losses import token_loss
from baselines.luong import Luong, State
from baselines.luong_attention import Attention
from baselines.sequences import shifted_right, valid_positions
from harness.cost import forward_flops
from harness.families.transduction import BOS, Inputs

N, S = 5, 7
SCORES = ("dot", "general", "concat", "location")
WINDOWS = ("global", "local-m", "local-p")
SIZES = {"embedding": 4, "hidden": N}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def arrays(module: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: value.detach().numpy() for name, value in module.named_parameters()}


def literal_score(p: dict[str, np.ndarray], score: str, h: np.ndarray, h_s: np.ndarray, s: int) -> float:
    """The score of the source's state number s, from 1."""
    if score == "dot":
        return h @ h_s
    if score == "general":
        return h @ p["W_a.weight"] @ h_s
    if score == "concat":
        return p["v_a"] @ np.tanh(p["W_a.weight"] @ np.concatenate([h, h_s]))
    return (p["W_a.weight"] @ h)[s - 1]


def literal_attention(
    p: dict[str, np.ndarray], score: str, window: str, D: int, h: np.ndarray, source: np.ndarray, t: int
) -> np.ndarray:
    """Equations 7 to 10, position by position, positions and steps counted from 1."""
    length = len(source)
    p_t = {"global": None, "local-m": min(t, length), "local-p": None}[window]
    if window == "local-p":
        p_t = length * sigmoid(p["v_p"] @ np.tanh(p["W_p.weight"] @ h))
    inside = [s for s in range(1, length + 1) if p_t is None or p_t - D <= s <= p_t + D]
    exponentials = {s: np.exp(literal_score(p, score, h, source[s - 1], s)) for s in inside}
    a = np.zeros(length)
    for s in inside:
        a[s - 1] = exponentials[s] / sum(exponentials.values())
        if window == "local-p":
            a[s - 1] *= np.exp(-((s - p_t) ** 2) / (2 * (D / 2) ** 2))
    return a


def drawn(score: str, window: str, half_window: int = 2) -> Attention:
    attention = Attention(N, score, window, half_window, positions=9)
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter)
    return attention


@pytest.mark.parametrize("half_window", [1, 2, 50])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("score", SCORES)
def test_attention_is_the_papers_equations(score, window, half_window):
    """Five steps from the third on, sources of 7 and 4: windows inside, at the edges, past the end, and wider."""
    attention = drawn(score, window, half_window)
    p, lengths = arrays(attention), torch.tensor([7, 4])
    states, h = torch.randn(2, S, N), torch.randn(2, 5, N)
    a = attention(h, attention.memory(states, valid_positions(lengths, S)), step=3).detach()
    assert a.shape == (2, 5, S)
    for row, length in enumerate(lengths.tolist()):
        source = states[row, :length].numpy()
        for k in range(5):
            expected = literal_attention(p, score, window, half_window, h[row, k].numpy(), source, t=3 + k)
            np.testing.assert_allclose(a[row, k, :length], expected, atol=1e-6)
    assert (a[1, :, 4:] == 0).all()


@pytest.mark.parametrize("window", WINDOWS)
def test_a_window_wider_than_the_source_sees_all_of_it(window):
    attention, states = drawn("general", window, half_window=100), torch.randn(1, 3, N)
    memory = attention.memory(states, torch.ones(1, 3, dtype=torch.bool))
    h = torch.randn(1, 4, N)
    a = attention(h, memory)
    assert (a > 0).all()
    if window != "local-p":
        assert torch.allclose(a, torch.softmax(h @ attention.W_a(states).mT, dim=2), atol=1e-6)


def test_the_predicted_window_has_sigma_half_of_its_half_width():
    """With v_p = 0 the centre is S/2; scores are even, so that the weights are the Gaussian over the window's size."""
    attention = drawn("dot", "local-p", half_window=2)
    torch.nn.init.zeros_(attention.v_p)
    memory = attention.memory(torch.zeros(1, 8, N), torch.ones(1, 8, dtype=torch.bool))
    a = attention(torch.randn(1, 1, N), memory)[0, 0]
    expected = [0, math.exp(-2) / 5, math.exp(-0.5) / 5, 1 / 5, math.exp(-0.5) / 5, math.exp(-2) / 5, 0, 0]
    assert a.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("extreme", [-1e4, 1e4])
def test_a_centre_at_either_end_of_the_source_still_has_a_position_in_its_window(extreme):
    attention = drawn("dot", "local-p", half_window=1)
    torch.nn.init.ones_(attention.W_p.weight)
    torch.nn.init.constant_(attention.v_p, extreme)
    memory = attention.memory(torch.randn(1, 4, N), torch.ones(1, 4, dtype=torch.bool))
    a = attention(torch.ones(1, 1, N), memory)[0, 0]
    assert torch.isfinite(a).all()
    assert a.nonzero().flatten().tolist() == ([0] if extreme < 0 else [2, 3])


def test_the_monotonic_window_follows_the_step_and_stays_at_the_sources_end():
    attention = drawn("dot", "local-m", half_window=1)
    memory = attention.memory(torch.randn(1, 4, N), torch.ones(1, 4, dtype=torch.bool))
    a = attention(torch.randn(1, 8, N), memory)[0]
    seen = [(row.nonzero().flatten() + 1).tolist() for row in a]
    assert seen == [[1, 2], [1, 2, 3], [2, 3, 4], [3, 4], [3, 4], [3, 4], [3, 4], [3, 4]]


@pytest.mark.parametrize("score", ["dot", "general", "concat"])
def test_permuting_the_source_states_permutes_the_attention(score):
    attention, states = drawn(score, "global"), torch.randn(2, S, N)
    valid, h, order = torch.ones(2, S, dtype=torch.bool), torch.randn(2, 3, N), torch.randperm(S)
    a, permuted = (attention(h, attention.memory(s, valid)) for s in (states, states[:, order]))
    assert torch.allclose(permuted, a[:, :, order], atol=1e-6)
    assert not torch.allclose(permuted, a, atol=1e-3)


def test_location_does_not_look_at_the_source_and_refuses_one_without_weights():
    attention, valid, h = drawn("location", "global"), torch.ones(2, S, dtype=torch.bool), torch.randn(2, 3, N)
    a, other = (attention(h, attention.memory(torch.randn(2, S, N), valid)) for _ in range(2))
    assert torch.allclose(a, other, atol=1e-6)
    wide = attention(h, attention.memory(torch.randn(2, 12, N), valid_positions(torch.tensor([7, 7]), 12)))
    assert torch.allclose(wide[:, :, :S], a, atol=1e-6)
    assert (wide[:, :, S:] == 0).all()
    with pytest.raises(ValueError, match="a source of 10 symbols is longer than the 9 positions"):
        attention.memory(torch.randn(2, 12, N), valid_positions(torch.tensor([7, 10]), 12))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("score", SCORES)
def test_one_step_is_the_papers_equations(token_spec, score, layers):
    """State first, then attention with the new top state, then h~; the old h~ enters the lowest layer (§3.3)."""
    model = Luong(token_spec, **SIZES, layers=layers, score=score, input_feeding=True)
    p, rng = arrays(model), np.random.RandomState(0)
    source = rng.randn(4, N).astype(np.float32)
    hidden, cell = (rng.randn(layers, N).astype(np.float32) for _ in range(2))
    fed = rng.randn(N).astype(np.float32)

    below = np.concatenate([p["target_embedding.weight"][7], fed])
    for layer in range(layers):
        W, U = p[f"decoder.weight_ih_l{layer}"], p[f"decoder.weight_hh_l{layer}"]
        b = p[f"decoder.bias_ih_l{layer}"] + p[f"decoder.bias_hh_l{layer}"]
        i, f, g, o = np.split(W @ below + U @ hidden[layer] + b, 4)
        below = sigmoid(o) * np.tanh(sigmoid(f) * cell[layer] + sigmoid(i) * np.tanh(g))
    h = below
    attention = {name.removeprefix("attention."): value for name, value in p.items()}
    a = literal_attention(attention, score, "global", 1, h, source, t=1)
    c = sum(weight * state for weight, state in zip(a, source, strict=True))
    attentional = np.tanh(p["W_c.weight"] @ np.concatenate([c, h]))
    logits = p["W_s.weight"] @ attentional + p["W_s.bias"]

    memory = model.attention.memory(torch.from_numpy(source)[None], torch.ones(1, 4, dtype=torch.bool))
    state = State(
        torch.from_numpy(hidden)[:, None], torch.from_numpy(cell)[:, None], torch.from_numpy(fed)[None, None], 1
    )
    got_logits, after = model.step(torch.tensor([7]), state, memory)
    np.testing.assert_allclose(after.hidden[-1, 0].detach(), h, atol=1e-6)
    np.testing.assert_allclose(after.attentional[0, 0].detach(), attentional, atol=1e-6)
    np.testing.assert_allclose(got_logits[0].detach(), logits, atol=1e-5)
    assert after.t == 2


def test_only_the_top_layers_state_scores(token_spec):
    """Layer 1 of two moves the attention through the layer above it alone, which is what the weights are made of."""
    model = Luong(token_spec, **SIZES, layers=2)
    memory, state = model.encode(token_batch([0]).inputs)
    word = model.target_embedding(torch.tensor([[7]]))
    after, a = model.advance(word, state, memory)
    assert torch.allclose(a, model.attention(after.hidden[1][:, None], memory), atol=1e-6)
    assert not torch.allclose(a, model.attention(after.hidden[0][:, None], memory), atol=1e-4)
    _, current = model.read(after.hidden[1][None], memory, 1)
    _, previous = model.read(state.hidden[1][None], memory, 1)
    assert torch.allclose(current, a, atol=1e-6)  # the new state, not the one before the step
    assert not torch.allclose(previous, a, atol=1e-4)


@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize(("score", "window"), [("general", "local-m"), ("concat", "local-p"), ("location", "global")])
def test_training_is_the_decoding_step_repeated_in_loss_and_gradients(token_spec, score, window, feeding):
    model = Luong(token_spec, **SIZES, layers=2, score=score, window=window, half_window=1, input_feeding=feeding)
    model.double()
    batch = token_batch([0, 1, 2], extra=1)
    memory, state = model.encode(batch.inputs)
    logits = []
    for y in shifted_right(batch.targets.target, BOS).T:
        word_logits, state = model.step(y, state, memory)
        logits.append(word_logits)
    slow = token_loss(torch.stack(logits, dim=1), batch.targets.target)
    fast = model.training_step(batch, 0)
    assert torch.allclose(slow, fast, atol=1e-12)
    expected, got = gradients(model, slow), gradients(model, fast)
    for name in expected:
        assert torch.allclose(expected[name], got[name], atol=1e-12), name


@pytest.mark.parametrize("feeding", [True, False])
def test_input_feeding_is_the_only_way_from_one_attention_to_the_next_state(token_spec, feeding):
    model = Luong(token_spec, **SIZES, input_feeding=feeding)
    memory, state = model.encode(token_batch([0]).inputs)
    assert not state.attentional.any()
    fed = state._replace(attentional=torch.ones_like(state.attentional))
    y = torch.tensor([7])
    logits, other = (model.step(y, s, memory)[0] for s in (state, fed))
    assert torch.allclose(logits, other, atol=1e-6) != feeding


def test_memory_is_in_the_order_of_the_source_whichever_way_it_was_read(token_spec):
    """The state of a word has seen it and what was read before it: all after it where the source is read backwards."""
    for reverse in (True, False):
        model = Luong(token_spec, **SIZES, reverse_source=reverse)
        lengths = torch.tensor([4, 3])
        before, _ = model.encode(Inputs(torch.tensor([[4, 5, 6, 7], [4, 5, 6, 0]]), lengths))
        after, _ = model.encode(Inputs(torch.tensor([[4, 9, 6, 7], [4, 9, 6, 0]]), lengths))
        moved = ((before.states - after.states).abs() > 1e-4).any(2).tolist()
        unread = [True, True, False, False] if reverse else [False, True, True, True]
        assert moved == [unread, [*unread[:3], False]]


@pytest.mark.parametrize("reverse", [True, False])
def test_encoder_states_are_the_same_alone_with_mates_and_with_padding(token_spec, reverse):
    model = Luong(token_spec, **SIZES, layers=2, reverse_source=reverse)
    memory, state = model.encode(token_batch([0, 1, 2], extra=3).inputs)
    for row, length in enumerate((6, 2, 3)):
        alone, last = model.encode(token_batch([row]).inputs)
        assert torch.allclose(memory.states[row, :length], alone.states[0], atol=1e-6)
        for part in ("hidden", "cell"):
            assert torch.allclose(getattr(state, part)[:, row], getattr(last, part)[:, 0], atol=1e-6)


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("window", WINDOWS)
def test_explanation_is_the_attention_that_the_answer_was_read_with(token_spec, window, beam_size):
    model = Luong(token_spec, **SIZES, window=window, half_window=2, beam_size=beam_size)
    inputs = token_batch([0, 1, 2]).inputs
    explanation = model.explain(inputs)
    tokens, attention = explanation["tokens"], explanation["attention"]
    assert torch.equal(tokens, model.predict_step(inputs).tokens)
    assert attention.shape == (*tokens.shape, 6)
    assert (attention[1, :, 2:] == 0).all()
    memory, state = model.encode(inputs)
    for t, y in enumerate(shifted_right(tokens, BOS).T):
        state, a = model.advance(model.target_embedding(y[None]), state, memory)
        assert torch.allclose(attention[:, t], a[:, 0], atol=1e-6)
    if window != "local-p":
        assert torch.allclose(attention.sum(2), torch.ones(tokens.shape))


@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize("window", ["global", "local-p"])
@pytest.mark.parametrize("score", SCORES)
def test_parameter_count(token_spec, score, window, feeding):
    V, m, n = 13, 4, N
    encoder = V * m + (4 * n * (m + n) + 8 * n) + (4 * n * (n + n) + 8 * n)
    decoder = V * m + (4 * n * (m + n * feeding + n) + 8 * n) + (4 * n * (n + n) + 8 * n)
    attention = {"dot": 0, "general": n * n, "concat": 2 * n * n + n, "location": 9 * n}[score]
    attention += n * n + n if window == "local-p" else 0
    model = Luong(token_spec, **SIZES, layers=2, score=score, window=window, input_feeding=feeding)
    assert count_parameters(model) == encoder + decoder + attention + 2 * n * n + V * (n + 1)


def test_values_that_are_no_choice_are_refused_by_name(token_spec):
    for setting, valid in (
        ({"score": "cosine"}, r"score = 'cosine' is not valid: choose one of dot, general, concat, location"),
        ({"window": "local"}, r"window = 'local' is not valid: choose one of global, local-m, local-p"),
        ({"half_window": 0}, r"half_window = 0 is not valid: it must be 1 or more"),
    ):
        with pytest.raises(ValueError, match=valid):
            Luong(token_spec, **SIZES, **setting)


def test_attention_of_a_forward_pass_is_counted(token_spec):
    """With general scores: keys once, then for every step a score and a sum over the source, W_c and W_s."""
    n, V, T, source = N, 13, 4, 6
    lstm = source * 4 * n * (4 + n) + T * 4 * n * (4 + n + n)
    attention = source * n * n + T * 2 * source * n
    flops = forward_flops(Luong(token_spec, **SIZES), token_batch([0]))
    assert flops == 2 * (lstm + attention + T * (2 * n * n + V * n))
