import numpy as np
import pytest
import torch
from batches import count_parameters, token_batch

from baselines.encoding import read
from baselines.rnn import RNN
from harness.families.transduction import BOS, Inputs


@pytest.fixture
def model(token_spec):
    return RNN(token_spec, embedding=4, hidden=5, layers=2)


def test_one_step_of_each_layer_is_elmans_equation(model):
    p = {name: value.detach().numpy() for name, value in model.named_parameters()}
    before = np.random.RandomState(0).randn(2, 5).astype(np.float32)
    below, after = p["target_embedding.weight"][7], []
    for layer in range(2):
        W, U = p[f"decoder.weight_ih_l{layer}"], p[f"decoder.weight_hh_l{layer}"]
        b = p[f"decoder.bias_ih_l{layer}"] + p[f"decoder.bias_hh_l{layer}"]
        below = np.tanh(W @ below + U @ before[layer] + b)
        after.append(below)
    logits = p["output.weight"] @ below + p["output.bias"]
    got_logits, got = model.step(torch.tensor([7]), torch.from_numpy(before)[:, None])
    np.testing.assert_allclose(got[:, 0].detach(), after, atol=1e-6)
    np.testing.assert_allclose(got_logits[0].detach(), logits, atol=1e-6)


def test_the_state_after_the_source_is_all_that_the_answer_is_written_from(token_spec):
    model = RNN(token_spec, embedding=4, hidden=5)
    p = {name: value.detach().numpy() for name, value in model.named_parameters()}
    h = np.zeros(5, np.float32)
    for word in (10, 11):
        x = p["encoder.weight_ih_l0"] @ p["source_embedding.weight"][word]
        h = np.tanh(x + p["encoder.bias_ih_l0"] + p["encoder.weight_hh_l0"] @ h + p["encoder.bias_hh_l0"])
    np.testing.assert_allclose(model.encode(token_batch([0, 1, 2]).inputs)[0, 1].detach(), h, atol=1e-6)


def test_source_is_read_backwards_by_its_length_where_asked(token_spec):
    backwards = RNN(token_spec, embedding=4, hidden=5, reverse_source=True)
    forwards = RNN(token_spec, embedding=4, hidden=5)
    forwards.load_state_dict(backwards.state_dict())
    length = torch.tensor([3, 5])
    source = torch.tensor([[4, 5, 6, 0, 0], [7, 8, 9, 10, 11]])
    mirrored = torch.tensor([[6, 5, 4, 0, 0], [11, 10, 9, 8, 7]])
    got, expected = backwards.encode(Inputs(source, length)), forwards.encode(Inputs(mirrored, length))
    assert torch.allclose(got, expected, atol=1e-6)


def test_training_is_the_decoding_step_repeated(model):
    batch = token_batch([0])
    h, y, loss = model.encode(batch.inputs), torch.tensor([BOS]), torch.tensor(0.0)
    for target in batch.targets.target.T:
        logits, h = model.step(y, h)
        loss, y = loss - torch.log_softmax(logits, 1)[0, target[0]], target
    assert torch.allclose(model.training_step(batch, 0), loss / 4, atol=1e-6)


def test_recurrent_weights_start_orthogonal_and_one_bias_is_zero(model):
    for rnn in (model.encoder, model.decoder):
        for layer in range(2):
            U = getattr(rnn, f"weight_hh_l{layer}")
            assert torch.allclose(U @ U.T, torch.eye(5), atol=1e-5)
            assert not getattr(rnn, f"bias_hh_l{layer}").any()


def test_read_gives_states_of_full_width_with_zeros_on_pads():
    """Lengths 3 and 4 in a width of 6 (packing alone would return a width of 4)."""
    rnn = torch.nn.LSTM(2, 3, 2)
    embedded, length = torch.randn(6, 2, 2), torch.tensor([3, 4])
    states, (hidden, cell) = read(rnn, embedded, length)
    assert states.shape == (6, 2, 3)
    assert hidden.shape == cell.shape == (2, 2, 3)
    for row, steps in enumerate(length.tolist()):
        alone, (h, c) = rnn(embedded[:steps, row : row + 1])
        assert torch.allclose(states[:steps, row], alone[:, 0], atol=1e-6)
        assert (states[steps:, row] == 0).all()
        assert torch.allclose(hidden[:, row], h[:, 0], atol=1e-6)
        assert torch.allclose(cell[:, row], c[:, 0], atol=1e-6)


def test_parameter_count(model):
    V, m, n = 13, 4, 5
    stack = (m * n + n * n + 2 * n) + (n * n + n * n + 2 * n)
    assert count_parameters(model) == 2 * V * m + 2 * stack + V * (n + 1)
