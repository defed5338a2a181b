"""Additive attention between all decoder states and all elements at once, in pieces that fit into the cache.

The layer tanh(W_1 e_j + W_2 d_i), ``(B,T,N,a)``, is what costs: it is made a few rows at a time, in place, and made
again on the way back, which is cheaper than keeping it. tanh(x) = 2σ(2x) - 1, and σ is six times as fast: the scores
become 2v·σ(2x) less Σv.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CACHED = 2**18
"""Numbers of the layer that are made at once: with their gradient they fill a second-level cache."""


def pointer_scores(queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
    """Return ``u_ij = v · tanh(k_j + q_i)``, ``(B,T,N)``, for ``queries (B,T,a)``, ``keys (B,N,a)`` and ``v (a,)``."""
    return _Scores.apply(2 * queries, 2 * keys, 2 * v) - v.sum()


def _pieces(queries: Tensor, keys: Tensor) -> Iterator[tuple[slice, slice]]:
    """Yield slices of examples and of steps such that a piece of the layer has about ``CACHED`` numbers."""
    batch, steps = queries.shape[:2]
    per_step = keys.shape[1] * keys.shape[2]
    examples = max(1, min(batch, CACHED // (per_step * steps)))
    length = max(1, min(steps, CACHED // per_step)) if examples == 1 else steps
    for example in range(0, batch, examples):
        for step in range(0, steps, length):
            yield slice(example, example + examples), slice(step, step + length)


class _Scores(torch.autograd.Function):
    """``v · σ(k_j + q_i)`` for all i and j."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, v: Tensor) -> Tensor:
        scores = queries.new_empty(*queries.shape[:2], keys.shape[1])
        for rows, steps in _pieces(queries, keys):
            layer = (keys[rows, None] + queries[rows, steps, None]).sigmoid_()  # (b,t,N,a)
            torch.matmul(layer, v, out=scores[rows, steps])
        ctx.save_for_backward(queries, keys, v)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        queries, keys, v = ctx.saved_tensors
        grad_queries, grad_keys, grad_v = torch.empty_like(queries), torch.zeros_like(keys), torch.zeros_like(v)
        for rows, steps in _pieces(queries, keys):
            grad = grad_scores[rows, steps]  # (b,t,N)
            layer = (keys[rows, None] + queries[rows, steps, None]).sigmoid_()  # (b,t,N,a)
            grad_v.addmv_(layer.flatten(0, 2).T, grad.reshape(-1))
            slope = torch.ops.aten.sigmoid_backward(grad[..., None].expand_as(layer), layer)
            torch.sum(slope, dim=2, out=grad_queries[rows, steps])
            grad_keys[rows] += slope.sum(1)
        return grad_queries * v, grad_keys * v, grad_v
