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
        tokens = torch.stack([source.T, source.T.flip(0) + table.shape[1]])  # (2,S,B)
        states = _Recurrence.apply(tokens, table.flatten(0, 1), self.U_zr, self.U)  # (2,S,B,n)
        annotations = torch.cat([states[0], states[1].flip(0)], dim=2)  # (S,B,2n)
        return annotations.transpose(0, 1).contiguous(), states[1, -1]


def initialise_blocks(weight: Tensor, blocks: int, initialise: Any) -> None:
    """Initialise each of ``blocks`` equal column blocks of ``weight`` as a matrix of its own."""
    with torch.no_grad():
        for block in weight.chunk(blocks, dim=-1):
            block.copy_(initialise(torch.empty_like(block, memory_format=torch.contiguous_format)))


class _Recurrence(torch.autograd.Function):
    """All steps of D independent GRUs: ``tokens (D,T,B)`` with gate inputs ``table (V,3n)`` to states ``(D,T,B,n)``.

    Written by hand for speed: the loop back only carries the state's gradient, and the gradients of the weights are one
    matrix product each after it.
    """

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, table: Tensor, U_zr: Tensor, U: Tensor) -> Tensor:
        (directions, steps, batch), hidden = tokens.shape, U.shape[2]
        gates = F.embedding(tokens, table)  # (D,T,B,3n): inputs, turned in place into z, r and h~
        update_reset, candidates = gates.split([2 * hidden, hidden], dim=3)
        states = gates.new_zeros(directions, steps + 1, batch, hidden)
        resets = gates.new_empty(directions, steps, batch, hidden)  # r∘h
        every = (states[:, :-1], states[:, 1:], update_reset, candidates, resets)
        for h, h_next, zr, candidate, reset in zip(*(each.unbind(1) for each in every), strict=True):
            torch.baddbmm(zr, h, U_zr, out=zr).sigmoid_()
            z, r = zr.chunk(2, dim=2)
            torch.mul(r, h, out=reset)
            torch.baddbmm(candidate, reset, U, out=candidate).tanh_()
            torch.lerp(h, candidate, z, out=h_next)
        ctx.save_for_backward(tokens, U_zr, U, gates, states, resets)
        ctx.vocabulary = len(table)
        return states[:, 1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        tokens, U_zr, U, gates, states, resets = ctx.saved_tensors
        hidden = U.shape[2]
        update_reset, candidates = gates.split([2 * hidden, hidden], dim=3)
        grad_gates = torch.empty_like(gates)
        grad_zr, grad_a = grad_gates.split([2 * hidden, hidden], dim=3)
        before = torch.empty_like(update_reset[:, 0])
        before_z, before_r = before.chunk(2, dim=2)
        grad = torch.zeros_like(states[:, 0])
        every = (states[:, :-1], update_reset, candidates, grad_states, grad_zr, grad_a)
        backwards = zip(*(reversed(each.unbind(1)) for each in every), strict=True)
        for h, zr, candidate, d_state, d_zr, d_a in backwards:
            z, r = zr.chunk(2, dim=2)
            grad += d_state
            grad_z = grad * z
            torch.ops.aten.tanh_backward.grad_input(grad_z, candidate, grad_input=d_a)
            grad_reset = torch.bmm(d_a, U.mT)
            torch.mul(grad, candidate - h, out=before_z)
            torch.mul(grad_reset, h, out=before_r)
            torch.ops.aten.sigmoid_backward.grad_input(before, zr, grad_input=d_zr)
            grad.sub_(grad_z).addcmul_(grad_reset, r).baddbmm_(d_zr, U_zr.mT)
        return (
            None,
            torch.ops.aten.embedding_dense_backward(grad_gates, tokens, ctx.vocabulary, -1, False),
            torch.bmm(states[:, :-1].flatten(1, 2).mT, grad_zr.flatten(1, 2)),
            torch.bmm(resets.flatten(1, 2).mT, grad_a.flatten(1, 2)),
        )
