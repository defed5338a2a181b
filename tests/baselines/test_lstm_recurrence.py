"""The hand-written LSTM against the equations, against torch's, and its derivatives."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from baselines.lstm_recurrence import LSTM


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def literal(p, x, h, c):
    """The equations, step by step, for one sequence."""
    states, cells = [], []
    for x_t in x:
        i, f, o, g = np.split(x_t @ p["W_x"] + h @ p["W_h"] + p["b"], 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
        cells.append(c)
    return np.array(states), np.array(cells)


@pytest.fixture
def lstm():
    lstm = LSTM(3, 5).double()
    for weight in lstm.parameters():
        torch.nn.init.normal_(weight, std=0.7)
    return lstm


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_states_and_cells_are_those_of_the_equations(lstm):
    x, h, c = draw(4, 2, 3), draw(2, 5), draw(2, 5)
    p = {name: value.detach().numpy() for name, value in lstm.named_parameters()}
    states, cells = lstm(x, h, c)
    for row in range(2):
        expected = literal(p, *(each.detach().numpy() for each in (x[:, row], h[row], c[row])))
        np.testing.assert_allclose(states[:, row].detach(), expected[0], atol=1e-13)
        np.testing.assert_allclose(cells[:, row].detach(), expected[1], atol=1e-13)


def test_it_is_torchs_lstm_in_values_and_gradients(lstm):
    def torchs_order(weight):
        i, f, o, g = weight.chunk(4, dim=-1)
        return torch.cat([i, f, g, o], dim=-1)

    other = torch.nn.LSTM(3, 5).double()
    with torch.no_grad():
        other.weight_ih_l0.copy_(torchs_order(lstm.W_x).T)
        other.weight_hh_l0.copy_(torchs_order(lstm.W_h).T)
        other.bias_ih_l0.copy_(torchs_order(lstm.b))
        other.bias_hh_l0.zero_()
    x, h, c = draw(6, 2, 3), draw(2, 5), draw(2, 5)
    states, cells = lstm(x, h, c)
    theirs, (_, last_cell) = other(x, (h[None], c[None]))
    assert torch.allclose(states, theirs, atol=1e-13)
    assert torch.allclose(cells[-1], last_cell[0], atol=1e-13)
    weights = torch.randn_like(states)
    ours = torch.autograd.grad((states * weights).sum() + cells[-1].sum(), [x, h, c, *lstm.parameters()])
    parameters = [other.weight_ih_l0, other.weight_hh_l0, other.bias_ih_l0]
    theirs = torch.autograd.grad((theirs * weights).sum() + last_cell.sum(), [x, h, c, *parameters])
    for own, expected in zip(ours[:3], theirs[:3], strict=True):
        assert torch.allclose(own, expected, atol=1e-12)
    for own, expected in zip(ours[3:], theirs[3:], strict=True):
        assert torch.allclose(torchs_order(own).t(), expected, atol=1e-12)


def test_the_hand_written_backward_pass_is_the_derivative(lstm):
    names = [name for name, _ in lstm.named_parameters()]
    inputs = (draw(3, 2, 3), draw(2, 5), draw(2, 5))
    assert torch.autograd.gradcheck(
        lambda x, h, c, *w: torch.func.functional_call(lstm, dict(zip(names, w, strict=True)), (x, h, c)),
        (*inputs, *lstm.parameters()),
    )


def test_inputs_without_a_gradient_get_none(lstm):
    x = torch.randn(3, 2, 3, dtype=torch.float64)
    states, _ = lstm(x, x.new_zeros(2, 5), x.new_zeros(2, 5))
    states.sum().backward()
    assert x.grad is None
    assert lstm.W_x.grad.abs().max() > 0


def test_reading_padded_sets_is_reading_each_alone(lstm):
    elements = torch.randn(3, 6, 3, dtype=torch.float64)
    length = torch.tensor([6, 2, 1])
    states, (h, c) = lstm.read(elements, length)
    zeros = elements.new_zeros(1, 5)
    for row, n in enumerate(length.tolist()):
        own, cells = lstm(elements[row, :n, None], zeros, zeros)
        assert torch.allclose(states[row, :n], own[:, 0], atol=1e-14)
        assert torch.allclose(h[row], own[-1, 0], atol=1e-14)
        assert torch.allclose(c[row], cells[-1, 0], atol=1e-14)


def test_half_precision_is_near_and_sees_inputs_in_full():
    torch.manual_seed(0)
    lstm = LSTM(2, 16)
    x = torch.rand(7, 4, 2)
    zeros = torch.zeros(4, 16)
    results = []
    for half in (False, True):
        lstm.zero_grad()
        states, _ = lstm(x, zeros, zeros, half)
        states.square().sum().backward()
        results.append((states.detach(), lstm.W_h.grad.clone(), lstm.W_x.grad.clone()))
    for exact, rounded in zip(*results, strict=True):
        assert not torch.equal(exact, rounded)
        assert torch.allclose(exact, rounded, rtol=0.03, atol=0.01 * float(exact.abs().max()))
    with torch.no_grad():
        lstm.W_h.zero_()  # what is left depends on the inputs alone
    exact, rounded = (lstm(x, zeros, zeros, half)[0] for half in (False, True))
    assert torch.equal(exact, rounded)


def test_initial_weights():
    lstm = LSTM(4, 64)
    assert lstm.W_h.abs().max() <= 0.08 < lstm.W_h.abs().max() + 0.001
    assert lstm.W_x.abs().max() <= 0.5 < lstm.W_x.abs().max() + 0.01
    assert torch.equal(lstm.b, torch.cat([torch.zeros(64), torch.ones(64), torch.zeros(128)]))


def test_matrix_products_are_counted():
    lstm, n, m, steps, batch = LSTM(3, 5), 5, 3, 4, 2
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        lstm(torch.rand(steps, batch, m), torch.zeros(batch, n), torch.zeros(batch, n))
    assert counter.get_total_flops() == 2 * batch * steps * 4 * n * (m + n)
