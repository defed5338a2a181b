import numpy as np
import pytest
import torch
from batches import count_parameters, tape_batch

from baselines.ntm import NTM
from baselines.tape_gru import TapeGRU
from baselines.tape_lstm import StackedLSTM, TapeLSTM
from baselines.tape_transformer import TapeTransformer, rotate
from harness.families.tape import TAPE, Spec

HEADS = {"hidden": 6, "read_heads": 2, "write_heads": 2, "slots": 9, "width": 4}
MODELS = {
    "lstm": (TapeLSTM, {"hidden": 6, "layers": 2}),
    "lstm, stacked": (TapeLSTM, {"hidden": 6, "layers": 3, "stacked": True}),
    "gru": (TapeGRU, {"hidden": 6, "layers": 2}),
    "transformer": (TapeTransformer, {"width": 16, "heads": 2, "layers": 2}),
    "ntm, lstm": (NTM, {"controller": "lstm", **HEADS}),
    "ntm, feedforward": (NTM, {"controller": "feedforward", **HEADS}),
}


@pytest.fixture(params=MODELS)
def build(request, tape_spec):
    """Return a function that builds a small model with new weights."""
    kind, sizes = MODELS[request.param]
    return lambda: kind(tape_spec, **sizes).eval()


@pytest.fixture
def model(build):
    return build()


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_outputs_depend_on_the_past_alone(model):
    batch = tape_batch([3, 4])
    before = model.predict_step(batch.inputs).logits
    for step in range(1, before.shape[1]):
        tape = batch.inputs.inputs.clone()
        tape[:, step:] = torch.rand_like(tape[:, step:])
        after = model(tape)
        assert torch.allclose(before[:, :step], after[:, :step], atol=1e-6)
        assert not torch.allclose(before[:, step], after[:, step])
    TAPE.audit(model.predict_step, batch)


def test_a_sequence_is_the_same_alone_with_mates_and_with_padding(model):
    alone = tape_batch([2])
    for other in (tape_batch([2, 4]), tape_batch([2], extra=7)):
        expected = model.predict_step(alone.inputs).logits[0]
        got = model.predict_step(other.inputs).logits[0, :5]
        assert torch.allclose(got, expected, atol=1e-5)
    padded_loss = model.training_step(tape_batch([2], extra=7), 0)
    assert torch.allclose(model.training_step(alone, 0), padded_loss, atol=1e-5)


def test_loss_is_the_cost_of_a_sequence(model):
    """Summed over answered bits, mean over sequences: that of a batch is the mean of its members' losses."""
    both, one, other = (model.training_step(tape_batch(lengths), 0) for lengths in ([2, 4], [2], [4]))
    assert torch.allclose(both, (one + other) / 2, atol=1e-5)
    batch = tape_batch([3])
    logits = model.predict_step(batch.inputs).logits[0, 4:].detach().double().numpy()
    bits = batch.targets.bits[0, 4:].numpy()
    chance = 1 / (1 + np.exp(-logits))
    cost = -(bits * np.log(chance) + (1 - bits) * np.log(1 - chance)).sum()
    assert float(model.training_step(batch, 0).detach()) == pytest.approx(cost, abs=1e-5)


def test_loss_and_gradients_are_finite(model):
    model.training_step(tape_batch([1, 4]), 0).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())
    assert all(p.grad.abs().max() > 0 for p in model.parameters())


def test_tapes_far_longer_than_in_training_are_read(model):
    assert model(torch.zeros(1, 241, 5)).shape == (1, 241, 4)


def test_state_dict_round_trip(model, build):
    other = build()
    inputs = tape_batch([3]).inputs
    assert not torch.equal(other.predict_step(inputs).logits, model.predict_step(inputs).logits)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.predict_step(inputs).logits, model.predict_step(inputs).logits)


def test_parameter_counts(tape_spec):
    C, K = 5, 4
    n = 6
    lstm = (4 * n * (C + n) + 8 * n) + (4 * n * 2 * n + 8 * n) + 2 * 2 * n + K * (n + 1)
    assert count_parameters(TapeLSTM(tape_spec, hidden=n, layers=2)) == lstm
    gru = (3 * n * (C + n) + 6 * n) + (3 * n * 2 * n + 6 * n) + 2 * n + K * (n + 1)
    assert count_parameters(TapeGRU(tape_spec, hidden=n, layers=2)) == gru
    d = 16
    block = 2 * 2 * d + 3 * d * d + d * (d + 1) + 4 * d * (d + 1) + d * (4 * d + 1)
    transformer = d * (C + 1) + 2 * block + 2 * d + K * (d + 1)
    assert count_parameters(TapeTransformer(tape_spec, width=d, heads=2, layers=2)) == transformer


def test_paper_sized_lstm():
    """Three layers of 256, 9 channels in, 8 bits out; torch has two bias vectors, the initial state is learned."""
    model = TapeLSTM(Spec(20, 120, 9, 8))
    assert count_parameters(model) == 4 * 256 * (9 + 256 + 2 * 512) + 3 * 2048 + 2 * 3 * 256 + 8 * 257


@pytest.mark.parametrize(
    ("hidden", "channels", "bits", "count"),
    [(256, 10, 9, 1_352_969), (512, 8, 7, 5_312_007), (256, 8, 6, 1_344_518), (128, 1, 1, 331_905)],
)
def test_stacked_lstm_has_the_papers_parameters(hidden, channels, bits, count):
    """Table 3: copy, repeat copy, associative recall and N-grams, with the channels in and bits out that fit them."""
    model = TapeLSTM(Spec(20, 120, channels, bits), hidden=hidden, layers=3, stacked=True)
    assert count_parameters(model) == count


def test_stacked_lstm_is_the_papers_form_written_out(tape_spec):
    """Three layers that all see the tape and are all seen by the output; one bias a gate; two tapes."""
    model, n, C = TapeLSTM(tape_spec, hidden=6, layers=3, stacked=True), 6, 5
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    p = {name: value.detach().double().numpy() for name, value in model.named_parameters()}
    tapes = tape_batch([2, 4]).inputs.inputs
    got = model(tapes).detach()
    for row in range(2):
        h, c = p["initial"][:, :, 0].copy()
        for t, x in enumerate(tapes[row].double().numpy()):
            for layer in range(3):
                W = p[f"lstm.layers.{layer}.weight_ih_l0"]
                a = W[:, :C] @ x + W[:, C] + p[f"lstm.layers.{layer}.weight_hh_l0"] @ h[layer]
                if layer > 0:
                    a += W[:, C + 1 :] @ h[layer - 1]  # of this step
                i, f, g, o = np.split(a, 4)
                c[layer] = sigmoid(f) * c[layer] + sigmoid(i) * np.tanh(g)
                h[layer] = sigmoid(o) * np.tanh(c[layer])
            logits = p["output.weight"] @ h.flatten() + p["output.bias"]
            np.testing.assert_allclose(got[row, t], logits, atol=1e-5)
    assert W.shape == (4 * n, C + 1 + n)


def test_stacked_lstm_starts_with_a_forget_bias_of_one():
    for layer in StackedLSTM(input_channels=5, hidden=6, layers=2).layers:
        assert layer.weight_ih_l0[:, 5].tolist() == [0.0] * 6 + [1.0] * 6 + [0.0] * 12


def test_stacked_lstm_returns_the_last_states_as_torchs_does():
    """One layer is torch's own LSTM, the constant input apart."""
    stacked, state = StackedLSTM(5, 6, 1), (torch.randn(1, 2, 6), torch.randn(1, 2, 6))
    x = torch.randn(4, 2, 5)
    states, last = stacked(x, state)
    expected, expected_last = stacked.layers[0](torch.cat([x, torch.ones(4, 2, 1)], dim=2), state)
    assert torch.equal(states, expected)
    assert all(torch.equal(a, b) for a, b in zip(last, expected_last, strict=True))


def test_tape_gru_is_the_papers_equations_written_out(tape_spec):
    """Cho et al. 2014, A.1.2 without a context; torch orders the gates r, z, h~."""
    model = TapeGRU(tape_spec, hidden=6, layers=2)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    p = {name: value.detach().double().numpy() for name, value in model.named_parameters()}
    tapes = tape_batch([2, 4]).inputs.inputs
    got = model(tapes).detach()
    for row in range(2):
        h = p["h_0"][:, 0].copy()
        for t, x in enumerate(tapes[row].double().numpy()):
            for layer in range(2):
                W_r, W_z, W = np.split(p[f"gru.weight_ih_l{layer}"], 3)
                U_r, U_z, U = np.split(p[f"gru.weight_hh_l{layer}"], 3)
                (b_r, b_z, b), (c_r, c_z, b_U) = (np.split(p[f"gru.bias_{kind}_l{layer}"], 3) for kind in ("ih", "hh"))
                z = sigmoid(W_z @ x + U_z @ h[layer] + b_z + c_z)
                r = sigmoid(W_r @ x + U_r @ h[layer] + b_r + c_r)
                candidate = np.tanh(W @ x + b + r * (U @ h[layer] + b_U))
                h[layer] = z * h[layer] + (1 - z) * candidate
                x = h[layer]
            np.testing.assert_allclose(got[row, t], p["output.weight"] @ x + p["output.bias"], atol=1e-5)


def test_one_tape_lstm_step_is_the_lstm_equations(tape_spec):
    model, n = TapeLSTM(tape_spec, hidden=6, layers=1), 6
    torch.nn.init.normal_(model.initial)
    p = {name: value.detach().numpy() for name, value in model.named_parameters()}
    x, (h, c) = np.array([1, 0, 1, 0, 1], np.float32), p["initial"][:, 0, 0]
    a = p["lstm.weight_ih_l0"] @ x + p["lstm.bias_ih_l0"] + p["lstm.weight_hh_l0"] @ h + p["lstm.bias_hh_l0"]
    i, f, g, o = np.split(a, 4)
    c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
    logits = p["output.weight"] @ (np.tanh(c) / (1 + np.exp(-o))) + p["output.bias"]
    np.testing.assert_allclose(model(torch.from_numpy(x)[None, None])[0, 0].detach(), logits, atol=1e-6)
    assert torch.equal(torch.ones(n), (model.lstm.bias_ih_l0 + model.lstm.bias_hh_l0)[n : 2 * n])


def test_masked_attention_is_the_papers_equation(tape_spec):
    block = TapeTransformer(tape_spec, width=8, heads=2, layers=1).blocks[0]
    x = torch.randn(1, 4, 8)
    q, k, v = (x @ block.query_key_value.weight.T).view(4, 3, 2, 4).permute(1, 2, 0, 3)  # (heads,T,d)
    q, k = rotate(q[None])[0], rotate(k[None])[0]
    mixed = torch.zeros(4, 2, 4)
    for head in range(2):
        for t in range(4):
            score = torch.stack([q[head, t] @ k[head, past] / 2 for past in range(t + 1)])
            mixed[t, head] = torch.softmax(score, 0) @ v[head, : t + 1]
    expected = block.attention_output(mixed.reshape(4, 8))
    assert torch.allclose(block.attend(x)[0], expected, atol=1e-6)


def test_rotation_keeps_lengths_and_makes_scores_depend_on_distance():
    q, k = torch.randn(2, 6)
    turned_q, turned_k = (rotate(x.expand(1, 1, 50, 6))[0, 0] for x in (q, k))
    assert torch.allclose(turned_q.norm(dim=1), q.norm().expand(50), atol=1e-5)
    assert torch.allclose(turned_q[0], q)
    assert torch.allclose(turned_q[45] @ turned_k[40], turned_q[5] @ turned_k[0], atol=1e-4)
    assert not torch.allclose(turned_q[45] @ turned_k[40], turned_q[45] @ turned_k[41], atol=1e-2)
