"""A loss and its gradients, some scenes at a time: what the next scenes need overwrites what the last ones did."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

ROWS = 16_384
"""Pairs of objects with a question that are in work at once; of 256 features in bf16 they take 8 MB a layer."""


def pieces(scenes: int, rows: int) -> Iterator[slice]:
    """Yield slices of ``scenes``, a scene having ``rows``: each of at most ``ROWS`` rows, or of one scene."""
    step = max(1, ROWS // max(1, rows))
    yield from (slice(start, start + step) for start in range(0, scenes, step))


def loss_in_pieces(
    loss: Callable[[slice, Tensor], Tensor], objects: Tensor, parameters: Sequence[Tensor], rows: int
) -> Tensor:
    """Return the sum over the pieces of ``loss(piece, objects[piece])``, with its gradients computed on the way.

    ``objects`` has the scene axis first; ``parameters`` are all others that ``loss`` depends on; ``rows`` is how many
    rows a scene takes. Each piece goes forward and at once backward, so that its activations are still in cache and
    memory does not grow with the batch. The gradients wait for ``backward`` to be scaled and handed on.
    """
    return _InPieces.apply(loss, rows, torch.is_grad_enabled(), objects, *parameters)


class _InPieces(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, loss: Callable[[slice, Tensor], Tensor], rows: int, learning: bool, objects: Tensor, *others: Tensor
    ) -> Tensor:
        total = objects.new_zeros(())
        if not learning:
            for piece in pieces(len(objects), rows):
                total += loss(piece, objects[piece])
            return total
        sums = [torch.zeros_like(tensor) for tensor in (objects, *others)]
        for piece in pieces(len(objects), rows):
            with torch.enable_grad():
                own = objects[piece].detach().requires_grad_()
                value = loss(piece, own)
            found = torch.autograd.grad(value, (own, *others))
            sums[0][piece] = found[0]
            for whole, part in zip(sums[1:], found[1:], strict=True):
                whole += part
            total += value.detach()
        ctx.save_for_backward(*sums)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *outer: Tensor) -> Any:
        return None, None, None, *(outer[0] * gradient for gradient in ctx.saved_tensors)  # type: ignore[attr-defined]
