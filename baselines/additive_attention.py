"""The recurrence of a decoder with additive attention, for all steps of a teacher-forced answer at once.

The equations are those of ``Bahdanau.step``. They are here a second time, with a backward pass by hand, because this
loop is where training spends its time. Gradients of weights and annotations are one matrix product each after the loop;
the tanh layer (B,S,a) is computed again on the way back, which is cheaper than keeping it for every step.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def attention_recurrence(
    gates: Tensor,
    s_0: Tensor,
    annotations: Tensor,
    keys: Tensor,
    mask: Tensor,
    W_a: Tensor,
    v_a: Tensor,
    C: Tensor,
    U_zr: Tensor,
    U: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the states ``s_i (T,B,n)`` and contexts ``c_i (T,B,2n)`` for i = 1..T.

    ``gates (T,B,3n)``: the previous token's part of the gates; ``s_0 (B,n)``; ``annotations (B,S,2n)``;
    ``keys (B,S,a)``; ``mask (B,S)``: 0, or -inf on pads; weights as in ``Bahdanau``.

    tanh(x) = 2σ(2x) - 1, and σ is twice as fast: the scores become 2v·σ(2x) up to a constant that softmax ignores.
    """
    from_state = torch.cat([2 * W_a, U_zr], dim=1)  # (n,a+2n)
    return _AttentionRecurrence.apply(gates, s_0, annotations, 2 * keys, mask, from_state, 2 * v_a, C, U)


class _AttentionRecurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        s_0: Tensor,
        annotations: Tensor,
        keys: Tensor,
        mask: Tensor,
        from_state: Tensor,
        v: Tensor,
        C: Tensor,
        U: Tensor,
    ) -> tuple[Tensor, Tensor]:
        (steps, batch, _), hidden, (width, attention) = gates.shape, s_0.shape[1], keys.shape[1:]
        states = gates.new_empty(steps + 1, batch, hidden)
        states[0] = s_0
        contexts = gates.new_empty(steps, batch, 1, 2 * hidden)
        projected = gates.new_empty(steps, batch, attention + 2 * hidden)  # [2W_a s | U_z s | U_r s]
        alphas = gates.new_empty(steps, batch, width)
        zr = gates.new_empty(steps, batch, 2 * hidden)
        reset = gates.new_empty(steps, batch, hidden)  # r∘s
        candidate = torch.empty_like(reset)  # s~
        layer = torch.empty_like(keys)  # σ(2(W_a s + U_a h)), (B,S,a)
        for t in range(steps):
            torch.mm(states[t], from_state, out=projected[t])
            torch.add(keys, projected[t, :, None, :attention], out=layer).sigmoid_()
            e = torch.addmv(mask.view(-1), layer.view(-1, attention), v).view(batch, width)
            torch.softmax(e, dim=1, out=alphas[t])
            torch.bmm(alphas[t, :, None], annotations, out=contexts[t])
            inputs = torch.addmm(gates[t], contexts[t, :, 0], C)  # (B,3n)
            torch.add(inputs[:, : 2 * hidden], projected[t, :, attention:], out=zr[t]).sigmoid_()
            z, r = zr[t].chunk(2, dim=1)
            torch.mul(r, states[t], out=reset[t])
            torch.addmm(inputs[:, 2 * hidden :], reset[t], U, out=candidate[t]).tanh_()
            torch.lerp(states[t], candidate[t], z, out=states[t + 1])
        contexts = contexts.squeeze(2)
        ctx.save_for_backward(
            annotations, keys, from_state, v, C, U, states, contexts, projected, alphas, zr, reset, candidate
        )
        return states[1:], contexts

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor, grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        annotations, keys, from_state, v, C, U, states, contexts, projected, alphas, zr, reset, candidate = (
            ctx.saved_tensors
        )
        (steps, batch, hidden), attention = reset.shape, keys.shape[2]
        # Gradients of [W_a s | z | r | s~] before their nonlinearities: the first three meet s, the last three c and y.
        grad_all = reset.new_empty(steps, batch, attention + 3 * hidden)
        grad_query, grad_zr, grad_a = grad_all.split([attention, 2 * hidden, hidden], dim=2)
        grad_projected, grad_gates = grad_all[:, :, : attention + 2 * hidden], grad_all[:, :, attention:]
        grad_contexts = torch.empty_like(contexts)
        grad_keys, grad_v = torch.zeros_like(keys), torch.zeros_like(v)
        layer, slope = torch.empty_like(keys), torch.empty_like(keys)
        grad = torch.zeros_like(states[0])  # of s_i
        for t in reversed(range(steps)):
            s = states[t]
            z, r = zr[t].chunk(2, dim=1)
            grad = grad + grad_states[t]
            torch.ops.aten.tanh_backward.grad_input(grad * z, candidate[t], grad_input=grad_a[t])
            grad_reset = grad_a[t] @ U.T
            before = torch.cat([grad * (candidate[t] - s), grad_reset * s], dim=1)
            torch.ops.aten.sigmoid_backward.grad_input(before, zr[t], grad_input=grad_zr[t])
            torch.addmm(grad_outputs[t], grad_gates[t], C.T, out=grad_contexts[t])
            grad_alpha = torch.bmm(grad_contexts[t, :, None], annotations.mT)[:, 0]  # (B,S)
            grad_e = torch.ops.aten._softmax_backward_data(grad_alpha, alphas[t], 1, alphas.dtype)
            torch.add(keys, projected[t, :, None, :attention], out=layer).sigmoid_()
            torch.ops.aten.sigmoid_backward.grad_input(grad_e[:, :, None].expand_as(layer), layer, grad_input=slope)
            grad_keys += slope
            torch.mul(slope.sum(dim=1), v, out=grad_query[t])
            grad_v.addmv_(layer.view(-1, attention).T, grad_e.view(-1))
            grad = torch.addmm(grad - grad * z + grad_reset * r, grad_projected[t], from_state.T)
        by_row = grad_all.flatten(0, 1)
        return (
            grad_gates,
            grad,
            torch.bmm(alphas.permute(1, 2, 0), grad_contexts.transpose(0, 1)),
            grad_keys * v,
            None,
            states[:-1].flatten(0, 1).T @ by_row[:, : attention + 2 * hidden],
            grad_v,
            contexts.flatten(0, 1).T @ by_row[:, attention:],
            reset.flatten(0, 1).T @ by_row[:, attention + 2 * hidden :],
        )
