import numpy as np
import pytest
import torch
from batches import count_parameters, tape_batch

from baselines.tape_lstm import TapeLSTM
from baselines.tape_transformer import TapeTransformer, rotate
from harness.families.tape import TAPE, Spec

MODELS = {
    "lstm": (TapeLSTM, {"hidden": 6, "layers": 2}),
    "transformer": (TapeTransformer, {"width": 16, "heads": 2, "layers": 2}),
}


@pytest.fixture(params=MODELS)
def model(request, tape_spec):
    kind, sizes = MODELS[request.param]
    return kind(tape_spec, **sizes).eval()


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


def test_state_dict_round_trip(model, tape_spec):
    kind, sizes = next(entry for entry in MODELS.values() if isinstance(model, entry[0]))
    other = kind(tape_spec, **sizes).eval()
    inputs = tape_batch([3]).inputs
    assert not torch.equal(other.predict_step(inputs).logits, model.predict_step(inputs).logits)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.predict_step(inputs).logits, model.predict_step(inputs).logits)


def test_parameter_counts(tape_spec):
    C, K = 5, 4
    n = 6
    lstm = (4 * n * (C + n) + 8 * n) + (4 * n * 2 * n + 8 * n) + 2 * 2 * n + K * (n + 1)
    assert count_parameters(TapeLSTM(tape_spec, hidden=n, layers=2)) == lstm
    d = 16
    block = 2 * 2 * d + 3 * d * d + d * (d + 1) + 4 * d * (d + 1) + d * (4 * d + 1)
    transformer = d * (C + 1) + 2 * block + 2 * d + K * (d + 1)
    assert count_parameters(TapeTransformer(tape_spec, width=d, heads=2, layers=2)) == transformer


def test_paper_sized_lstm():
    """Three layers of 256, 9 channels in, 8 bits out; torch has two bias vectors, the initial state is learned."""
    model = TapeLSTM(Spec(20, 120, 9, 8))
    assert count_parameters(model) == 4 * 256 * (9 + 256 + 2 * 512) + 3 * 2048 + 2 * 3 * 256 + 8 * 257


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
