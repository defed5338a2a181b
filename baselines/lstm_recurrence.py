"""An LSTM layer over all steps of known inputs, fast on one core.

The backward pass is by hand: the loop back carries the gradients of state and cell alone, and the gradients of the
weights are one matrix product each after it. tanh(x) = 2σ(2x) - 1, and σ is six times as fast.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

PRECISIONS = ("fp32", "bf16")


def valid_precision(precision: str) -> str:
    """Return ``precision``; a ``ValueError`` says what it may be."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision = {precision!r} is not valid: one of {', '.join(PRECISIONS)}")
    return precision


class LSTM(nn.Module):
    """One LSTM layer (Hochreiter, Schmidhuber 1997, with a forget gate)::

        i, f, o = σ(W_x x_t + W_h h_{t-1} + b)    input, forget and output gate
        g = tanh(W_x x_t + W_h h_{t-1} + b)
        c_t = f∘c_{t-1} + i∘g,    h_t = o∘tanh(c_t)

    The blocks of the weights have the order i, f, o, g. W_h is uniform in ±0.08, W_x in ±1/√m for m inputs: with ±0.08
    a state hardly depends on the two coordinates of a point. Biases are 0, but that of the forget gate is 1. A sequence
    may be padded behind: what comes later changes no earlier state.
    """

    def __init__(self, inputs: int, hidden: int):
        super().__init__()
        self.hidden = hidden
        self.W_x = nn.Parameter(torch.empty(inputs, 4 * hidden).uniform_(-(inputs**-0.5), inputs**-0.5))
        self.W_h = nn.Parameter(torch.empty(hidden, 4 * hidden).uniform_(-0.08, 0.08))
        self.b = nn.Parameter(torch.zeros(4 * hidden).index_fill(0, torch.arange(hidden, 2 * hidden), 1.0))

    def forward(self, x: Tensor, h: Tensor, c: Tensor, half: bool = False) -> tuple[Tensor, Tensor]:
        """Return states and cells ``(T,B,n)`` after each of the inputs ``x (T,B,m)``, from ``h`` and ``c (B,n)`` on.

        ``half``: the products with W_h in bfloat16. Inputs, gates, cells and states stay in float32.
        """
        return _Recurrence.apply(x, h, c, self.W_x, self.W_h, self.b, half)

    def read(self, elements: Tensor, length: Tensor, half: bool = False) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the states ``(B,N,n)`` from zeros on, and state and cell ``(B,n)`` after each set's last element.

        ``elements (B,N,m)``; ``length (B,)`` of them belong to each set. States behind them are of no use.
        """
        zeros = elements.new_zeros(len(elements), self.hidden)
        states, cells = self(elements.transpose(0, 1), zeros, zeros, half)  # (N,B,n) each
        last, row = length - 1, torch.arange(len(elements), device=elements.device)
        return states.transpose(0, 1), (states[last, row], cells[last, row])


def _doubled(weight: Tensor) -> Tensor:
    """Return a copy of ``weight (...,4n)`` with the last of its four blocks, g's, times two."""
    doubled = weight.clone()
    doubled.chunk(4, dim=-1)[3].mul_(2)
    return doubled


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, h_0: Tensor, c_0: Tensor, W_x: Tensor, W_h: Tensor, b: Tensor, half: bool
    ) -> tuple[Tensor, Tensor]:
        (steps, batch), hidden = x.shape[:2], len(W_h)
        W_x, W_h, b = map(_doubled, (W_x, W_h, b))
        gates = torch.addmm(b, x.flatten(0, 1), W_x).view(
            steps, batch, -1
        )  # inputs, turned in place into i, f, o, σ(2g)
        states, cells = gates.new_empty(2, steps + 1, batch, hidden)
        squashed = gates.new_empty(steps, batch, hidden)  # σ(2c) = (tanh(c) + 1) / 2
        states[0], cells[0] = h_0, c_0
        if half:
            W_h = W_h.bfloat16()
        every = (states[:-1], cells[:-1], states[1:], cells[1:], gates, squashed)
        for h, c, h_next, c_next, gate, squash in zip(*(each.unbind() for each in every), strict=True):
            if half:
                gate += h.bfloat16() @ W_h
            else:
                torch.addmm(gate, h, W_h, out=gate)
            i, f, o, g = gate.sigmoid_().chunk(4, dim=1)
            torch.mul(f, c, out=c_next).addcmul_(i, g, value=2).sub_(i)
            torch.mul(c_next, 2, out=squash).sigmoid_()
            torch.mul(o, squash, out=h_next).mul_(2).sub_(o)
        ctx.save_for_backward(x, W_x, W_h, gates, states, cells, squashed)
        return states[1:], cells[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor, grad_cells: Tensor) -> tuple[Tensor | None, ...]:
        x, W_x, W_h, gates, states, cells, squashed = ctx.saved_tensors
        hidden, half = len(W_h), W_h.dtype == torch.bfloat16
        grad_gates = torch.empty_like(gates)
        grad_gate = torch.empty_like(gates[0])  # of i, f, o, and of σ(2g)
        grad_i, grad_f, grad_o, grad_g = grad_gate.chunk(4, dim=1)
        grad_h, grad_c = torch.zeros_like(states[0]), torch.zeros_like(states[0])
        tanh_c, tanh_g = torch.empty_like(grad_h), torch.empty_like(grad_h)
        every = (cells[:-1], gates, squashed, grad_states, grad_cells, grad_gates)
        for c, gate, squash, d_state, d_cell, d_gate in zip(*(reversed(each.unbind()) for each in every), strict=True):
            i, f, o, g = gate.chunk(4, dim=1)
            grad_h += d_state
            torch.mul(squash, 2, out=tanh_c).sub_(1)
            torch.mul(grad_h, tanh_c, out=grad_o)
            # d tanh(c) = 4 σ(2c) (1 - σ(2c)) dc
            squashed_slope = torch.ops.aten.sigmoid_backward(grad_h, squash)
            grad_c.add_(d_cell).addcmul_(squashed_slope, o, value=4)
            torch.mul(g, 2, out=tanh_g).sub_(1)
            torch.mul(grad_c, tanh_g, out=grad_i)
            torch.mul(grad_c, c, out=grad_f)
            torch.mul(grad_c, i, out=grad_g).mul_(2)
            torch.ops.aten.sigmoid_backward.grad_input(grad_gate, gate, grad_input=d_gate)
            grad_c *= f
            if half:
                grad_h = (d_gate.bfloat16() @ W_h.T).float()
            else:
                torch.mm(d_gate, W_h.T, out=grad_h)
        flat = grad_gates.flatten(0, 1)  # of the doubled inputs of all gates, (TB,4n)
        before = states[:-1].reshape(-1, hidden)
        grad_W_h = (before.T.bfloat16() @ flat.bfloat16()).float() if half else before.T @ flat
        grad_x = (flat @ W_x.T).view_as(x) if ctx.needs_input_grad[0] else None
        return (
            grad_x,
            grad_h,
            grad_c,
            _doubled(x.flatten(0, 1).T @ flat),
            _doubled(grad_W_h),
            _doubled(flat.sum(0)),
            None,
        )
