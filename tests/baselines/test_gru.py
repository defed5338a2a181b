import numpy as np
import pytest
import torch
from batches import count_parameters, gradients, token_batch

from baselines.gru import GRU
from baselines.losses import token_loss
from baselines.sequences import shifted_right
from harness.families.transduction import BOS, Inputs

N = 6


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.fixture
def model(token_spec):
    model = GRU(token_spec, embedding=5, hidden=N, maxout=3)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)
    return model


@pytest.fixture
def p(model) -> dict[str, np.ndarray]:
    return {name: value.detach().numpy() for name, value in model.named_parameters()}


def test_encoder_is_the_papers_gated_unit_and_its_last_state_the_context(model, p):
    """Appendix A.1.1, word by word for one source of three."""
    W_z, W_r, W = np.split(p["W.weight"], 3)
    b_z, b_r, b = np.split(p["W.bias"], 3)
    U_z, U_r = np.split(p["U_zr"], 2, axis=1)
    h = np.zeros(N, np.float32)
    for word in (9, 4, 12):
        e = p["source_embedding.weight"][word]
        z, r = sigmoid(W_z @ e + b_z + h @ U_z), sigmoid(W_r @ e + b_r + h @ U_r)
        h = z * h + (1 - z) * np.tanh(W @ e + b + (r * h) @ p["U"])
    c = np.tanh(p["V.weight"] @ h + p["V.bias"])
    got = model.encode(token_batch([0, 1, 2], extra=2).inputs)[2]
    np.testing.assert_allclose(got.detach(), c, atol=1e-6)
    start = np.tanh(p["V_prime.weight"] @ c + p["V_prime.bias"])
    np.testing.assert_allclose(model.initial_state(got[None])[0].detach(), start, atol=1e-6)


def test_one_step_of_the_decoder_is_the_papers_equations(model, p):
    """Appendix A.1.2: the context enters both gates, the candidate under the reset gate, and the readout."""
    rng = np.random.RandomState(0)
    h, c, y = rng.randn(N).astype(np.float32), rng.randn(N).astype(np.float32), 7
    W_z, W_r, W = np.split(p["W_prime.weight"], 3)
    b_z, b_r, b = np.split(p["W_prime.bias"], 3)
    U_z, U_r, U = np.split(p["U_prime"], 3, axis=1)
    C_z, C_r, C = np.split(p["C"], 3, axis=1)
    e = p["target_embedding.weight"][y]
    z = sigmoid(W_z @ e + b_z + h @ U_z + c @ C_z)
    r = sigmoid(W_r @ e + b_r + h @ U_r + c @ C_r)
    h_new = z * h + (1 - z) * np.tanh(W @ e + b + r * (h @ U + c @ C))
    s = p["O_h.weight"] @ h_new + p["O_h.bias"] + p["O_y.weight"][y] + p["O_c.weight"] @ c
    logits = p["G.weight"] @ np.maximum(s[:3], s[3:]) + p["G.bias"]

    got_logits, got_h = model.step(torch.tensor([y]), torch.from_numpy(h)[None], torch.from_numpy(c)[None])
    np.testing.assert_allclose(got_h[0].detach(), h_new, atol=1e-6)
    np.testing.assert_allclose(got_logits[0].detach(), logits, atol=1e-6)


def test_every_step_sees_the_context_and_not_only_through_its_first_state(model):
    c = model.encode(token_batch([0]).inputs)
    y, h = torch.tensor([4]), torch.randn(1, N)
    logits, after = model.step(y, h, c)
    other_logits, other_after = model.step(y, h, c + 1)
    assert not torch.allclose(after, other_after)
    assert not torch.allclose(logits, other_logits)
    assert not torch.allclose(model.readout(h, y, c), model.readout(h, y, c + 1))


def test_training_is_the_decoding_step_repeated_in_loss_and_gradients(model):
    model.double()
    batch = token_batch([0, 1, 2], extra=1)
    c = model.encode(batch.inputs)
    h, logits = model.initial_state(c), []
    for y in shifted_right(batch.targets.target, BOS).T:
        word_logits, h = model.step(y, h, c)
        logits.append(word_logits)
    slow = token_loss(torch.stack(logits, dim=1), batch.targets.target)
    fast = model.training_step(batch, 0)
    assert torch.allclose(slow, fast, atol=1e-12)
    expected, got = gradients(model, slow), gradients(model, fast)
    for name in expected:
        assert torch.allclose(expected[name], got[name], atol=1e-12), name


def test_context_is_the_same_alone_with_mates_and_with_padding(model):
    together = model.encode(token_batch([0, 1, 2], extra=3).inputs)
    for row in range(3):
        assert torch.allclose(together[row], model.encode(token_batch([row]).inputs)[0], atol=1e-6)


def test_the_context_depends_on_order(model):
    length = torch.tensor([3])
    first, second = (model.encode(Inputs(torch.tensor([s]), length)) for s in ([4, 5, 6], [6, 5, 4]))
    assert not torch.allclose(first, second)


def test_weights_that_meet_their_own_state_start_orthogonal(token_spec):
    model = GRU(token_spec, embedding=5, hidden=N, maxout=3)
    for weight, blocks in ((model.U_zr, 2), (model.U, 1), (model.U_prime, 3)):
        for block in weight.chunk(blocks, dim=1):
            assert torch.allclose(block @ block.T, torch.eye(N), atol=1e-5)


def test_parameter_count(model):
    V, m, l = 13, 5, 3
    encoder = V * m + 3 * (m * N + N) + 3 * N * N + N * (N + 1)
    decoder = V * m + 3 * (m * N + N) + 3 * N * N + 3 * N * N + N * (N + 1)
    readout = 2 * l * (N + 1 + V + N) + V * (l + 1)
    assert count_parameters(model) == encoder + decoder + readout
