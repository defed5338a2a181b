import numpy as np
import pytest
import torch
from batches import gradients, token_batch
from torch.utils.flop_counter import FlopCounterMode

from baselines.additive_attention import attention_recurrence
from baselines.bahdanau import Bahdanau, Memory
from baselines.losses import token_loss
from baselines.recurrent import BidirectionalGRU
from baselines.sequences import shifted_right, valid_positions
from harness.families.transduction import BOS, Inputs

SIZES = {"embedding": 5, "hidden": 6, "attention": 7, "maxout": 3}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.fixture
def model(token_spec):
    return Bahdanau(token_spec, **SIZES)


def arrays(model: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: value.detach().numpy() for name, value in model.named_parameters()}


def test_one_step_is_the_papers_equations(model):
    """Appendix A.2.2, written out position by position for one example."""
    p, n = arrays(model), 6
    rng = np.random.RandomState(0)
    h, s, y = rng.randn(4, 2 * n).astype(np.float32), rng.randn(n).astype(np.float32), 7
    W_z, W_r, W = np.split(p["W.weight"].T, 3, axis=1)
    b_z, b_r, b = np.split(p["W.bias"], 3)
    C_z, C_r, C = np.split(p["C"], 3, axis=1)
    U_z, U_r = np.split(p["U_zr"], 2, axis=1)
    Ey = p["E.weight"][y]

    e = np.array([p["v_a"] @ np.tanh(s @ p["W_a"] + h_j @ p["U_a"]) for h_j in h])
    alpha = np.exp(e) / np.exp(e).sum()
    c = sum(alpha_j * h_j for alpha_j, h_j in zip(alpha, h, strict=True))
    z = sigmoid(Ey @ W_z + b_z + s @ U_z + c @ C_z)
    r = sigmoid(Ey @ W_r + b_r + s @ U_r + c @ C_r)
    s_new = (1 - z) * s + z * np.tanh(Ey @ W + b + (r * s) @ p["U"] + c @ C)
    t = p["U_o.weight"] @ s_new + p["U_o.bias"] + p["V_o.weight"] @ Ey + p["C_o.weight"] @ c
    logits = p["W_o.weight"] @ np.maximum(t[:3], t[3:]) + p["W_o.bias"]

    annotations = torch.from_numpy(h)[None]
    memory = Memory(annotations, annotations @ model.U_a, torch.zeros(1, 4))
    got_logits, got_s, got_alpha = model.step(torch.tensor([y]), torch.from_numpy(s)[None], memory)
    np.testing.assert_allclose(got_alpha[0].detach(), alpha, atol=1e-6)
    np.testing.assert_allclose(got_s[0].detach(), s_new, atol=1e-6)
    np.testing.assert_allclose(got_logits[0].detach(), logits, atol=1e-6)


def test_encoder_is_the_papers_gru_in_both_directions():
    n = 4
    encoder = BidirectionalGRU(vocabulary=9, embedding=3, hidden=n)
    torch.nn.init.normal_(encoder.b)
    p = arrays(encoder)
    words = [5, 8, 4, 5]

    def run(direction: int, sequence: list[int]) -> list[np.ndarray]:
        h, states = np.zeros(n, np.float32), []
        U_z, U_r = np.split(p["U_zr"][direction], 2, axis=1)
        for word in sequence:
            x_z, x_r, x = np.split(p["embedding.weight"][word] @ p["W"][direction] + p["b"][direction, 0], 3)
            z, r = sigmoid(x_z + h @ U_z), sigmoid(x_r + h @ U_r)
            h = (1 - z) * h + z * np.tanh(x + (r * h) @ p["U"][direction])
            states.append(h)
        return states

    forwards, backwards = run(0, words), run(1, words[::-1])[::-1]
    annotations, first_backward = encoder(torch.tensor([words]), torch.ones(1, 4, dtype=torch.bool))
    expected = [np.concatenate(pair) for pair in zip(forwards, backwards, strict=True)]
    np.testing.assert_allclose(annotations[0].detach(), expected, atol=1e-6)
    np.testing.assert_allclose(first_backward[0].detach(), backwards[0], atol=1e-6)


def test_changing_the_last_word_reaches_the_first_annotation_only_through_the_backward_half():
    encoder = BidirectionalGRU(vocabulary=9, embedding=3, hidden=4)
    valid = torch.ones(1, 3, dtype=torch.bool)
    before, _ = encoder(torch.tensor([[5, 6, 7]]), valid)
    after, _ = encoder(torch.tensor([[5, 6, 8]]), valid)
    assert torch.equal(before[0, 0, :4], after[0, 0, :4])
    assert (before[0, 0, 4:] != after[0, 0, 4:]).all()


def test_training_is_the_decoding_step_repeated_in_loss_and_gradients(model):
    """The fast recurrence against autograd through ``step``, in double precision, with mixed lengths."""
    model.double()
    batch = token_batch([0, 1, 2], extra=1)
    memory, s = model.encode(batch.inputs)
    logits = []
    for y in shifted_right(batch.targets.target, BOS).T:
        word_logits, s, _ = model.step(y, s, memory)
        logits.append(word_logits)
    slow = token_loss(torch.stack(logits, dim=1), batch.targets.target)
    fast = model.training_step(batch, 0)
    assert torch.allclose(slow, fast, atol=1e-12)
    expected, got = gradients(model, slow), gradients(model, fast)
    for name in expected:
        assert torch.allclose(expected[name], got[name], atol=1e-12), name


def test_hand_written_backward_passes_are_the_derivatives():
    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    n, a, S, B, V = 3, 4, 3, 2, 5
    mask = torch.tensor([[0, 0, 0], [0, 0, -torch.inf]], dtype=torch.float64)
    weights = (draw(n, a), draw(a), draw(2 * n, 3 * n), draw(n, 2 * n), draw(n, n))
    previous = torch.tensor([[1, 1], [4, 3]])
    assert torch.autograd.gradcheck(
        lambda table, s_0, h, keys, *w: attention_recurrence(previous, table, s_0, h, keys, mask, *w),
        (draw(V, 3 * n), draw(B, n), draw(B, S, 2 * n), draw(B, S, a), *weights),
    )
    encoder = BidirectionalGRU(V, 2, n).double()
    source, valid = torch.tensor([[4, 3, 1], [4, 2, 0]]), mask == 0
    names = [name for name, _ in encoder.named_parameters()]
    assert torch.autograd.gradcheck(
        lambda *values: torch.func.functional_call(encoder, dict(zip(names, values, strict=True)), (source, valid)),
        tuple(encoder.parameters()),
    )


def test_pads_get_no_attention_and_permuting_the_memory_permutes_it(model):
    memory, s = model.encode(token_batch([0, 1, 2], extra=2).inputs)
    alpha = model.attend(s, memory)
    valid = valid_positions(torch.tensor([6, 2, 3]), 8)
    assert (alpha[~valid] == 0).all()
    assert (alpha[valid] > 0).all()
    assert torch.allclose(alpha.sum(1), torch.ones(3))
    order = torch.randperm(8)
    permuted = Memory(memory.annotations[:, order], memory.keys[:, order], memory.mask[:, order])
    assert torch.allclose(model.attend(s, permuted), alpha[:, order], atol=1e-7)


def test_explanation_is_the_attention_of_the_greedy_answer(model):
    inputs = token_batch([0, 1, 2]).inputs
    explanation = model.explain(inputs)
    assert torch.equal(explanation["tokens"], model.predict_step(inputs).tokens)
    attention = explanation["attention"]
    assert attention.shape == (*explanation["tokens"].shape, 6)
    assert torch.allclose(attention.sum(2), torch.ones(attention.shape[:2]))
    assert (attention[1, :, 2:] == 0).all()


def test_parameter_count(token_spec):
    m, n, a, l, V = 5, 6, 7, 3, 13
    encoder = V * m + 2 * (3 * m * n + 3 * n * n + 3 * n)
    decoder = V * m + 3 * m * n + 3 * n + 3 * n * n + 6 * n * n + n * n + n + a * (n + 2 * n + 1)
    readout = 2 * l * (n + m + 2 * n + 1) + V * (l + 1)
    model = Bahdanau(token_spec, **SIZES)
    assert sum(p.numel() for p in model.parameters()) == encoder + decoder + readout


def test_encoder_state_is_the_same_alone_and_with_padding(model):
    for row, length in enumerate((6, 2, 3)):
        together, s = model.encode(token_batch([0, 1, 2], extra=3).inputs)
        alone, s_alone = model.encode(token_batch([row]).inputs)
        assert torch.allclose(together.annotations[row, :length], alone.annotations[0], atol=1e-6)
        assert torch.allclose(s[row], s_alone[0], atol=1e-6)


def test_a_pad_id_inside_the_padding_is_all_that_the_encoder_ignores(model):
    inputs = token_batch([1], extra=2).inputs
    dirty = Inputs(inputs.source.index_fill(1, torch.tensor([2, 3]), 9), inputs.source_length)
    assert torch.equal(model.encode(inputs)[1], model.encode(dirty)[1])


def test_a_forward_pass_is_counted_in_full(token_spec):
    """The matrix products of the recurrences reach PyTorch's counter; the energies, matrix by vector, do not."""
    m, n, a, l, V = 5, 6, 7, 3, 13
    batch, S, T = token_batch([0]), 6, 4
    encoder = 2 * (V * m * 3 * n + S * 3 * n * n)
    tables = V * m * (3 * n + 2 * l)
    decoder = n * n + S * 2 * n * a + T * (n * a + S * 2 * n + 2 * n * 3 * n + 3 * n * n)
    readout = T * (3 * n * 2 * l + l * V)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        Bahdanau(token_spec, **SIZES).training_step(batch, 0)
    assert counter.get_total_flops() == 2 * (encoder + tables + decoder + readout)
