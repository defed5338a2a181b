import numpy as np
import pytest
import torch
from batches import count_parameters, token_batch

from baselines.lstm import LSTM
from baselines.recurrent import set_forget_bias
from harness.families.transduction import Inputs


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.fixture
def model(token_spec):
    return LSTM(token_spec, embedding=4, hidden=5, layers=2)


def test_one_step_of_one_layer_is_the_lstm_equations(token_spec):
    model, n = LSTM(token_spec, embedding=4, hidden=5, layers=1), 5
    p = {name: value.detach().numpy() for name, value in model.named_parameters()}
    h, c = np.random.RandomState(0).randn(2, n).astype(np.float32)
    a = p["decoder.weight_ih_l0"] @ p["target_embedding.weight"][7] + p["decoder.bias_ih_l0"]
    i, f, g, o = np.split(a + p["decoder.weight_hh_l0"] @ h + p["decoder.bias_hh_l0"], 4)
    c_new = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h_new = sigmoid(o) * np.tanh(c_new)
    logits = p["output.weight"] @ h_new + p["output.bias"]
    state = (torch.from_numpy(h)[None, None], torch.from_numpy(c)[None, None])
    got_logits, (got_h, got_c) = model.step(torch.tensor([7]), state)
    np.testing.assert_allclose(got_logits[0].detach(), logits, atol=1e-6)
    np.testing.assert_allclose(got_h[0, 0].detach(), h_new, atol=1e-6)
    np.testing.assert_allclose(got_c[0, 0].detach(), c_new, atol=1e-6)


def test_source_is_read_backwards_by_its_length(token_spec):
    backwards = LSTM(token_spec, embedding=4, hidden=5, reverse_source=True)
    forwards = LSTM(token_spec, embedding=4, hidden=5, reverse_source=False)
    forwards.load_state_dict(backwards.state_dict())
    length = torch.tensor([3, 5])
    source = torch.tensor([[4, 5, 6, 0, 0], [7, 8, 9, 10, 11]])
    mirrored = torch.tensor([[6, 5, 4, 0, 0], [11, 10, 9, 8, 7]])
    for got, expected in zip(
        backwards.encode(Inputs(source, length)), forwards.encode(Inputs(mirrored, length)), strict=True
    ):
        assert torch.equal(got, expected)


def test_state_after_two_words_is_the_same_with_pads_behind_them(model):
    short = model.encode(Inputs(torch.tensor([[4, 5]]), torch.tensor([2])))
    long = model.encode(Inputs(torch.tensor([[4, 5, 0, 0, 0]]), torch.tensor([2])))
    mates = model.encode(token_batch([0, 1, 2], extra=2).inputs)
    alone = model.encode(token_batch([1]).inputs)
    for layer_state, padded in zip(short, long, strict=True):
        assert torch.allclose(layer_state, padded, atol=1e-6)
    for together, single in zip(mates, alone, strict=True):
        assert together.shape == (2, 3, 5)
        assert torch.allclose(together[:, 1], single[:, 0], atol=1e-6)


def test_every_layer_of_the_decoder_starts_from_the_encoders_own(model):
    hidden, cell = model.encode(token_batch([0]).inputs)
    y = torch.tensor([4])
    logits, _ = model.step(y, (hidden, cell))
    for part in range(2):
        for layer in range(2):
            state = [hidden.clone(), cell.clone()]
            state[part][layer] += 1
            assert not torch.allclose(model.step(y, (state[0], state[1]))[0], logits)


def test_forget_bias_is_one_once():
    lstm = torch.nn.LSTM(3, 4, 2)
    set_forget_bias(lstm)
    for layer in range(2):
        total = getattr(lstm, f"bias_ih_l{layer}") + getattr(lstm, f"bias_hh_l{layer}")
        assert torch.equal(total[4:8], torch.ones(4))
        assert (total[:4].abs() < 1).all()
        assert (total[8:].abs() < 1).all()


def test_parameter_count(model):
    V, m, n = 13, 4, 5
    stack = (4 * n * (m + n) + 8 * n) + (4 * n * (n + n) + 8 * n)
    assert count_parameters(model) == 2 * V * m + 2 * stack + V * (n + 1)
