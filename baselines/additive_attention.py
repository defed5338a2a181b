"""The recurrence of a decoder with additive attention, for all steps of a teacher-forced answer at once.

The equations are those of ``Bahdanau.step``. They are here a second time, with a backward pass by hand, because this
loop is where training spends its time. Gradients of weights and annotations are one matrix product each after the loop;
the tanh layer (B,S,a) is computed again on the way back, which is cheaper than keeping it for every step.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable


def attention_recurrence(
    previous: Tensor,
    table: Tensor,
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

    ``previous (T,B)``: the tokens y_{i-1}; ``table (V,3n)``: their part of the gates; ``s_0 (B,n)``;
    ``annotations (B,S,2n)``; ``keys (B,S,a)``; ``mask (B,S)``: 0, or -inf on pads; weights as in ``Bahdanau``.

    tanh(x) = 2σ(2x) - 1, and σ is twice as fast: the scores become 2v·σ(2x) up to a constant that softmax ignores.
    """
    return _AttentionRecurrence.apply(previous, table, s_0, annotations, 2 * keys, mask, 2 * W_a, 2 * v_a, C, U_zr, U)


class _AttentionRecurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        previous: Tensor,
        table: Tensor,
        s_0: Tensor,
        annotations: Tensor,
        keys: Tensor,
        mask: Tensor,
        W: Tensor,
        v: Tensor,
        C: Tensor,
        U_zr: Tensor,
        U: Tensor,
    ) -> tuple[Tensor, Tensor]:
        (steps, batch), hidden, (width, attention) = previous.shape, len(U), keys.shape[1:]
        gates = F.embedding(previous, table)  # (T,B,3n): inputs, turned in place into z, r and s~
        update_reset, candidates = gates.split([2 * hidden, hidden], dim=2)
        states = gates.new_empty(steps + 1, batch, hidden)
        states[0] = s_0
        contexts = gates.new_empty(steps, batch, 2 * hidden)
        queries = gates.new_empty(steps, batch, attention)
        alphas = gates.new_empty(steps, batch, width)
        resets = gates.new_empty(steps, batch, hidden)  # r∘s
        layer = torch.empty_like(keys)  # σ(2(W_a s + U_a h)), (B,S,a)
        forwards = zip(
            states[:-1], states[1:], contexts, queries, alphas, gates, update_reset, candidates, resets, strict=True
        )
        for s, s_next, c, query, alpha, gate, zr, candidate, reset in forwards:
            torch.mm(s, W, out=query)
            torch.add(keys, query[:, None], out=layer).sigmoid_()
            e = torch.addmv(mask.view(-1), layer.view(-1, attention), v).view(batch, width)
            torch.softmax(e, dim=1, out=alpha)
            torch.bmm(alpha[:, None], annotations, out=c[:, None])
            torch.addmm(gate, c, C, out=gate)
            torch.addmm(zr, s, U_zr, out=zr).sigmoid_()
            z, r = zr.chunk(2, dim=1)
            torch.mul(r, s, out=reset)
            torch.addmm(candidate, reset, U, out=candidate).tanh_()
            torch.lerp(s, candidate, z, out=s_next)
        ctx.save_for_backward(
            previous, annotations, keys, W, v, C, U_zr, U, gates, states, contexts, queries, alphas, resets
        )
        ctx.vocabulary = len(table)
        return states[1:], contexts

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor, grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        previous, annotations, keys, W, v, C, U_zr, U, gates, states, contexts, queries, alphas, resets = (
            ctx.saved_tensors
        )
        hidden, attention = len(U), len(v)
        update_reset, candidates = gates.split([2 * hidden, hidden], dim=2)
        grad_gates = torch.empty_like(gates)
        grad_zr, grad_a = grad_gates.split([2 * hidden, hidden], dim=2)
        grad_contexts, grad_queries = torch.empty_like(contexts), torch.empty_like(queries)
        grad_keys, grad_v = torch.zeros_like(keys), torch.zeros_like(v)
        layer, slope, before = torch.empty_like(keys), torch.empty_like(keys), torch.empty_like(update_reset[0])
        before_z, before_r = before.chunk(2, dim=1)
        grad = torch.zeros_like(states[0])  # of s_i
        saved = (states[:-1], queries, alphas, update_reset, candidates)
        gradients = (grad_states, grad_outputs, grad_gates, grad_zr, grad_a, grad_contexts, grad_queries)
        backwards = zip(*(reversed(each.unbind()) for each in (*saved, *gradients)), strict=True)
        for s, query, alpha, zr, candidate, d_state, d_output, d_gate, d_zr, d_a, d_context, d_query in backwards:
            z, r = zr.chunk(2, dim=1)
            grad += d_state
            grad_z = grad * z
            torch.ops.aten.tanh_backward.grad_input(grad_z, candidate, grad_input=d_a)
            grad_reset = d_a @ U.T
            torch.mul(grad, candidate - s, out=before_z)
            torch.mul(grad_reset, s, out=before_r)
            torch.ops.aten.sigmoid_backward.grad_input(before, zr, grad_input=d_zr)
            torch.addmm(d_output, d_gate, C.T, out=d_context)
            grad_alpha = torch.bmm(d_context[:, None], annotations.mT)[:, 0]  # (B,S)
            grad_e = torch.ops.aten._softmax_backward_data(grad_alpha, alpha, 1, alpha.dtype)
            torch.add(keys, query[:, None], out=layer).sigmoid_()
            torch.ops.aten.sigmoid_backward.grad_input(grad_e[:, :, None].expand_as(layer), layer, grad_input=slope)
            grad_keys += slope
            torch.mul(slope.sum(dim=1), v, out=d_query)
            grad_v.addmv_(layer.view(-1, attention).T, grad_e.view(-1))
            grad.sub_(grad_z).addcmul_(grad_reset, r).addmm_(d_zr, U_zr.T).addmm_(d_query, W.T)
        before_each = states[:-1].flatten(0, 1).T  # s_{i-1}, (n,TB)
        return (
            None,
            torch.ops.aten.embedding_dense_backward(grad_gates, previous, ctx.vocabulary, -1, False),
            grad,
            torch.bmm(alphas.permute(1, 2, 0), grad_contexts.transpose(0, 1)),
            grad_keys * v,
            None,
            before_each @ grad_queries.flatten(0, 1),
            grad_v,
            contexts.flatten(0, 1).T @ grad_gates.flatten(0, 1),
            before_each @ grad_zr.flatten(0, 1),
            resets.flatten(0, 1).T @ grad_a.flatten(0, 1),
        )
