"""What the recurrent baselines share: a bidirectional GRU that skips pads, and the LSTM's forget bias."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from harness.families.transduction import PAD


def set_forget_bias(lstm: nn.LSTM, value: float = 1.0) -> None:
    """Set the forget gate's bias of every layer to ``value``.

    torch adds two bias vectors, gates in the order i, f, g, o; one gets the value, the other 0.
    """
    forget = slice(lstm.hidden_size, 2 * lstm.hidden_size)
    with torch.no_grad():
        for name, bias in lstm.named_parameters():
            if name.startswith("bias_ih"):
                bias[forget] = value
            elif name.startswith("bias_hh"):
                bias[forget] = 0.0


class BidirectionalGRU(nn.Module):
    """The encoder of Bahdanau et al. 2015 (appendix A.2.1): a GRU forwards, a GRU backwards, side by side.

    For each direction, with x = E w_t::

        z = σ(W_z x + U_z h + b_z)      r = σ(W_r x + U_r h + b_r)
        h~ = tanh(W x + U (r∘h) + b)    h' = (1 - z)∘h + z∘h~

    Both directions advance in the same step of one loop: the weights have a leading axis D = 2. A pad leaves the state
    as it is, because its update gate is exactly 0.
    """

    def __init__(self, vocabulary: int, embedding: int, hidden: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)  # E
        self.W = nn.Parameter(torch.empty(2, embedding, 3 * hidden))  # [W_z | W_r | W]
        self.b = nn.Parameter(torch.zeros(2, 1, 3 * hidden))
        self.U_zr = nn.Parameter(torch.empty(2, hidden, 2 * hidden))  # [U_z | U_r]
        self.U = nn.Parameter(torch.empty(2, hidden, hidden))
        closed = torch.zeros(vocabulary, 3 * hidden)
        closed[PAD, :hidden] = -torch.inf  # z = σ(-∞) = 0
        self.closed: Tensor
        self.register_buffer("closed", closed, persistent=False)
        for direction in range(2):
            initialise_blocks(self.W[direction], 3, nn.init.xavier_uniform_)
            initialise_blocks(self.U_zr[direction], 2, nn.init.orthogonal_)
            nn.init.orthogonal_(self.U[direction])

    def forward(self, source: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
        """Return the annotations ``(B,S,2n)`` and the backward state at the first position, ``(B,n)``.

        ``source (B,S)``; ``valid (B,S)`` is false on pads, which are at the end.
        """
        # Every symbol of the vocabulary is projected once, not every token of the batch.
        table = torch.baddbmm(self.b + self.closed, self.embedding.weight.expand(2, -1, -1), self.W)  # (2,V,3n)
        source = source.masked_fill(~valid, PAD)
        tokens = torch.stack([source.T, source.T.flip(0) + table.shape[1]], dim=1)  # (S,2,B)
        gates = F.embedding(tokens, table.flatten(0, 1))  # (S,2,B,3n)
        states = _Recurrence.apply(gates, self.U_zr, self.U)  # (S,2,B,n)
        annotations = torch.cat([states[:, 0], states[:, 1].flip(0)], dim=2)  # (S,B,2n)
        return annotations.transpose(0, 1).contiguous(), states[-1, 1]


def initialise_blocks(weight: Tensor, blocks: int, initialise: Any) -> None:
    """Initialise each of ``blocks`` equal column blocks of ``weight`` as a matrix of its own."""
    with torch.no_grad():
        for block in weight.chunk(blocks, dim=-1):
            block.copy_(initialise(torch.empty_like(block, memory_format=torch.contiguous_format)))


class _Recurrence(torch.autograd.Function):
    """All steps of D independent GRUs over T steps, from gate inputs ``(T,D,B,3n)`` to states ``(T,D,B,n)``.

    Written by hand for speed: the loop back only carries the state's gradient, and the gradients of the weights are one
    matrix product each after it.
    """

    @staticmethod
    def forward(ctx: Any, gates: Tensor, U_zr: Tensor, U: Tensor) -> Tensor:
        steps, directions, batch, hidden = *gates.shape[:3], U.shape[2]
        states = gates.new_zeros(steps + 1, directions, batch, hidden)
        zr = gates.new_empty(steps, directions, batch, 2 * hidden)
        reset = gates.new_empty(steps, directions, batch, hidden)  # r∘h
        candidate = torch.empty_like(reset)  # h~
        for t in range(steps):
            torch.baddbmm(gates[t, ..., : 2 * hidden], states[t], U_zr, out=zr[t]).sigmoid_()
            z, r = zr[t].chunk(2, dim=2)
            torch.mul(r, states[t], out=reset[t])
            torch.baddbmm(gates[t, ..., 2 * hidden :], reset[t], U, out=candidate[t]).tanh_()
            torch.lerp(states[t], candidate[t], z, out=states[t + 1])
        ctx.save_for_backward(U_zr, U, states, zr, reset, candidate)
        return states[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        U_zr, U, states, zr, reset, candidate = ctx.saved_tensors
        steps, directions, batch, hidden = reset.shape
        grad_gates = reset.new_empty(steps, directions, batch, 3 * hidden)
        grad_zr, grad_a = grad_gates.split([2 * hidden, hidden], dim=3)
        grad = torch.zeros_like(states[0])
        for t in reversed(range(steps)):
            h = states[t]
            z, r = zr[t].chunk(2, dim=2)
            grad = grad + grad_states[t]
            torch.ops.aten.tanh_backward.grad_input(grad * z, candidate[t], grad_input=grad_a[t])
            grad_reset = torch.bmm(grad_a[t], U.mT)
            before = torch.cat([grad * (candidate[t] - h), grad_reset * h], dim=2)
            torch.ops.aten.sigmoid_backward.grad_input(before, zr[t], grad_input=grad_zr[t])
            grad = torch.baddbmm(grad - grad * z + grad_reset * r, grad_zr[t], U_zr.mT)
        grad_U_zr, grad_U = torch.empty_like(U_zr), torch.empty_like(U)
        for d in range(directions):
            torch.mm(states[:-1, d].flatten(0, 1).T, grad_zr[:, d].flatten(0, 1), out=grad_U_zr[d])
            torch.mm(reset[:, d].flatten(0, 1).T, grad_a[:, d].flatten(0, 1), out=grad_U[d])
        return grad_gates, grad_U_zr, grad_U
