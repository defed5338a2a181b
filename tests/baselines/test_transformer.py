import math

import numpy as np
import pytest
import torch
from batches import count_parameters, padded, token_batch

from baselines.losses import token_loss
from baselines.sequences import shifted_right
from baselines.transformer import Attention, Pairs, Transformer, sinusoids
from harness.families.transduction import BOS, EOS, Inputs

SIZES = {"width": 8, "heads": 2}


@pytest.fixture
def model(token_spec):
    return Transformer(token_spec, **SIZES).eval()


def normalised(norm: torch.nn.LayerNorm, x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return scaled * norm.weight.detach().numpy() + norm.bias.detach().numpy()


def literal_attention(attention: Attention, x: np.ndarray, m: np.ndarray, causal: bool = False) -> np.ndarray:
    """§3.2 for one example, head by head and position by position: ``x (T,width)`` reads ``m (S,width)``."""
    W_Q, W_KV, W_O = (layer.weight.detach().numpy() for layer in (attention.W_Q, attention.W_KV, attention.W_O))
    d = W_Q.shape[0] // attention.heads
    query, key, value = x @ W_Q.T, *np.split(m @ W_KV.T, 2, axis=1)
    mixed = np.zeros_like(query)
    for head in range(attention.heads):
        own = slice(head * d, (head + 1) * d)
        for t in range(len(x)):
            seen = t + 1 if causal else len(m)
            e = np.exp([query[t, own] @ key[s, own] / math.sqrt(d) for s in range(seen)])
            mixed[t, own] = sum(weight * value[s, own] for s, weight in enumerate(e / e.sum()))
    return mixed @ W_O.T


def literal_feed_forward(feed_forward: torch.nn.Sequential, x: np.ndarray) -> np.ndarray:
    norm, first, _, second = feed_forward
    W_1, b_1, W_2, b_2 = (p.detach().numpy() for layer in (first, second) for p in (layer.weight, layer.bias))
    return x + np.maximum(normalised(norm, x) @ W_1.T + b_1, 0) @ W_2.T + b_2


def test_the_whole_model_is_the_papers_equations(model):
    """One example, layer by layer in NumPy, normalisation first; the weights are far from their initial symmetry."""
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    source, previous = [9, 4, 12], [BOS, 5, 7, 7]
    scale = math.sqrt(8)
    x = model.source_embedding.weight.detach().numpy()[source] * scale + sinusoids(0, 3, 8).numpy()
    for layer in model.encoder:
        normal = normalised(layer.self_norm, x)
        x = literal_feed_forward(layer.feed_forward, x + literal_attention(layer.self_attention, normal, normal))
    memory = normalised(model.encoder_norm, x)
    y = model.target_embedding.weight.detach().numpy()[previous] * scale + sinusoids(0, 4, 8).numpy()
    for layer in model.decoder:
        normal = normalised(layer.self_norm, y)
        y = y + literal_attention(layer.self_attention, normal, normal, causal=True)
        y = y + literal_attention(layer.source_attention, normalised(layer.source_norm, y), memory)
        y = literal_feed_forward(layer.feed_forward, y)
    W, b = model.output.weight.detach().numpy(), model.output.bias.detach().numpy()
    expected = normalised(model.decoder_norm, y) @ W.T + b

    encoded, state = model.encode(token_batch([0, 2], extra=1).inputs)
    logits, _ = model(torch.tensor([previous, previous]), state, encoded)
    np.testing.assert_allclose(logits[1].detach(), expected, rtol=1e-4, atol=1e-4)


def test_positions_are_the_papers_sines_and_cosines_wherever_they_start():
    table = sinusoids(0, 200, 6).double().numpy()
    for position in (0, 1, 60, 199):
        for i in range(3):
            angle = position / 10_000 ** (2 * i / 6)
            assert table[position, 2 * i : 2 * i + 2] == pytest.approx([math.sin(angle), math.cos(angle)], abs=1e-5)
    assert torch.allclose(sinusoids(57, 3, 6), sinusoids(0, 60, 6)[57:], atol=1e-6)


def test_decoding_with_the_cache_is_decoding_without(model):
    """Token after token with the pairs of those before, against all tokens at once; and in gradients none is lost."""
    batch = token_batch([0, 1, 2], extra=1)
    memory, state = model.encode(batch.inputs)
    previous = shifted_right(batch.targets.target, BOS)
    together, after = model(previous, state, memory)
    for t, y in enumerate(previous.T):
        logits, state = model.step(y, state, memory)
        assert torch.allclose(logits, together[:, t], atol=1e-5)
    for cached, whole in zip(state, after, strict=True):
        assert cached.key.shape == (3, 2, previous.shape[1], 4)
        assert torch.allclose(cached.key, whole.key, atol=1e-6)
        assert torch.allclose(cached.value, whole.value, atol=1e-6)


def test_greedy_answers_are_those_of_a_decoder_that_starts_over_at_every_step(model):
    inputs = token_batch([0, 1, 2]).inputs
    answer = model.predict_step(inputs).tokens
    memory, empty = model.encode(inputs)
    previous = torch.full((3, 1), BOS)
    for t in range(answer.shape[1]):
        logits, _ = model(previous, empty, memory)
        chosen = logits[:, -1].argmax(1)
        open_rows = ~(previous == EOS).any(1) & (t < torch.tensor([14, 8, 9]))
        assert torch.equal(chosen[open_rows], answer[open_rows, t])
        previous = torch.cat([previous, answer[:, t : t + 1]], dim=1)


def test_training_is_the_decoding_step_repeated(model):
    model.double()
    batch = token_batch([0, 1, 2], extra=1)
    memory, state = model.encode(batch.inputs)
    logits = []
    for y in shifted_right(batch.targets.target, BOS).T:
        word_logits, state = model.step(y, state, memory)
        logits.append(word_logits)
    slow = token_loss(torch.stack(logits, dim=1), batch.targets.target)
    assert torch.allclose(slow, model.training_step(batch, 0), atol=1e-6)  # positions are computed in single precision


def test_no_token_sees_a_later_one(model):
    memory, state = model.encode(token_batch([0]).inputs)
    tokens = torch.tensor([[BOS, 5, 6, 7]])
    before, _ = model(tokens, state, memory)
    for t in range(1, 4):
        changed = tokens.clone()
        changed[0, t:] = 9
        after, _ = model(changed, state, memory)
        assert torch.allclose(before[:, :t], after[:, :t], atol=1e-6)
        assert not torch.allclose(before[:, t], after[:, t], atol=1e-4)


def test_pads_get_no_attention_and_permuting_what_is_read_permutes_it():
    attention, x, m = Attention(8, 2), torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    mask = torch.tensor([[0.0] * 5, [0.0, 0.0, -torch.inf, -torch.inf, -torch.inf]])[:, None, None]
    weights = attention.weights(x, attention.pairs(m), mask)
    assert (weights[1, :, :, 2:] == 0).all()
    assert torch.allclose(weights.sum(3), torch.ones(2, 2, 3))
    order = torch.randperm(5)
    permuted = Pairs(*(part[:, :, order] for part in attention.pairs(m)))
    assert torch.allclose(attention.weights(x, permuted, mask[..., order]), weights[..., order], atol=1e-6)
    assert torch.allclose(attention(x, permuted, mask[..., order]), attention(x, attention.pairs(m), mask), atol=1e-6)
    by_weights = (weights @ attention.pairs(m).value).transpose(1, 2).flatten(2)
    assert torch.allclose(attention(x, attention.pairs(m), mask), attention.W_O(by_weights), atol=1e-6)


def test_order_of_the_source_matters_only_through_positions(model, monkeypatch):
    first, second = torch.tensor([[4, 5, 6]]), torch.tensor([[6, 4, 5]])
    length, y = torch.tensor([3]), torch.tensor([[BOS]])

    def logits(source: torch.Tensor) -> torch.Tensor:
        memory, state = model.encode(Inputs(source, length))
        return model(y, state, memory)[0]

    assert not torch.allclose(logits(first), logits(second), atol=1e-4)
    monkeypatch.setattr(
        "baselines.transformer.sinusoids", lambda first, count, width, device: torch.zeros(count, width)
    )
    assert torch.allclose(logits(first), logits(second), atol=1e-5)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_explanation_is_the_last_layers_attention_to_the_source(token_spec, beam_size):
    model = Transformer(token_spec, **SIZES, beam_size=beam_size).eval()
    inputs = token_batch([0, 1, 2]).inputs
    seen = []
    attention = model.decoder[-1].source_attention
    attention.register_forward_pre_hook(lambda module, arguments: seen.append(arguments))
    explanation = model.explain(inputs)
    tokens = explanation["tokens"]
    assert torch.equal(tokens, model.predict_step(inputs).tokens)
    assert explanation["attention"].shape == (*tokens.shape, 6)
    assert torch.allclose(explanation["attention"].sum(2), torch.ones(tokens.shape))
    assert (explanation["attention"][1, :, 2:] == 0).all()
    x, pairs, mask = next(arguments for arguments in seen if arguments[0].shape[1] == tokens.shape[1])
    assert torch.allclose(explanation["attention"], attention.weights(x, pairs, mask).mean(1), atol=1e-6)


def test_encoder_output_is_the_same_alone_with_mates_and_with_padding(model):
    together, _ = model.encode(token_batch([0, 1, 2], extra=20).inputs)
    for row, length in enumerate((6, 2, 3)):
        alone, _ = model.encode(token_batch([row]).inputs)
        for layer, single in zip(together.layers, alone.layers, strict=True):
            assert torch.allclose(layer.key[row, :, :length], single.key[0], atol=1e-5)
            assert torch.allclose(layer.value[row, :, :length], single.value[0], atol=1e-5)


def test_words_and_positions_start_at_the_same_size(token_spec):
    model = Transformer(token_spec, width=256, heads=4)
    words = model.source_embedding.weight.detach() * 16
    assert float(words.std()) == pytest.approx(1, abs=0.05)
    assert float(sinusoids(0, 50, 256).square().mean()) == pytest.approx(0.5, abs=1e-3)


def test_sources_of_any_length_are_read(model):
    rows = [list(range(4, 13)) * 30, [4]]
    memory, _ = model.encode(Inputs(padded(rows, 270), torch.tensor([270, 1])))
    assert torch.isfinite(memory.layers[0].key).all()


def test_parameter_count(token_spec):
    V, w = 13, 8
    attention, norm, feed_forward = 4 * w * w, 2 * w, 4 * w * (w + 1) + w * (4 * w + 1)
    encoder = 3 * (norm + attention + norm + feed_forward) + norm
    decoder = 1 * (2 * (norm + attention) + norm + feed_forward) + norm
    model = Transformer(token_spec, width=w, heads=2, encoder_layers=3, decoder_layers=1)
    assert count_parameters(model) == 2 * V * w + encoder + decoder + V * (w + 1)


def test_a_width_that_heads_do_not_divide_is_refused(token_spec):
    with pytest.raises(ValueError, match="width = 10 is not valid: it must be a multiple of 2 · heads = 8"):
        Transformer(token_spec, width=10, heads=4)
