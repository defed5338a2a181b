"""A memory of sentences that is read without writing its vectors out; fast on one core.

A sentence is m_i = Σ_j l_j∘(E x_ij) + T(i), so that u·m_i = Σ_j (l_j∘u)·(E x_ij) + u·T(i): one matrix product of all
states u with all rows of E and T, then a sum over the words of each sentence. For Σ_i p_i m_i, and backwards, likewise.
Position encoding, l_kj = α_j + β_j κ_k, takes two products, of u and of κ∘u, since l_j∘u = α_j u + β_j κ∘u.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Bags(NamedTuple):
    """``n`` weighted bags of rows of a table: of its products with the states of B examples, ``(P·B,R)``.

    P is 2 with position encoding (products with u, then with κ∘u), else 1; R counts words, then times.
    """

    place: Tensor  # in the flattened products, (n,L)
    weight: Tensor  # 0 at pads, (n,L)
    kappa: Tensor | None  # κ (d,); None where P is 1

    def dot(self, products: Tensor) -> Tensor:
        """Return each bag's weighted sum over ``products (P·B,R)``: ``(n,)``."""
        return products.take(self.place).mul_(self.weight).sum(1)

    def mix(self, p: Tensor, shape: tuple[int, int]) -> Tensor:
        """Return the ``(P·B,R)`` weights of rows in Σ_i p_i (bag i), for ``p (n,)``."""
        values = (p[:, None] * self.weight).view(-1)
        return values.new_zeros(shape[0] * shape[1]).index_add_(0, self.place.view(-1), values).view(shape)

    def stretch(self, u: Tensor) -> Tensor:
        """Return ``u (B,d)``, with κ∘u below it: ``(P·B,d)``."""
        return u if self.kappa is None else torch.cat([u, u * self.kappa])

    def fold(self, stretched: Tensor) -> Tensor:
        """Return ``(B,d)``: the adjoint of ``stretch``, for ``(P·B,d)``."""
        if self.kappa is None:
            return stretched
        plain, scaled = stretched.chunk(2)
        return torch.addcmul(plain, scaled, self.kappa)


class Weights(torch.nn.Module):
    """The weights of the words of a sentence by its length J, up to ``longest`` words.

    With ``position`` those of position encoding, times ``scale``: α_j = 1 - j/J, then β_j = 2j/J - 1, and κ_k = k/d;
    without, ones.
    """

    def __init__(self, longest: int, width: int, position: bool, scale: float = 1.0):
        super().__init__()
        J, j = torch.arange(longest + 1)[:, None], torch.arange(1, longest + 1)
        real, share = (j <= J).float(), j / J.clamp(min=1)
        table = scale * real[:, None] * torch.stack([1 - share, 2 * share - 1], 1) if position else real[:, None]
        self.table: Tensor  # (longest + 1,P,longest)
        self.kappa: Tensor | None
        self.register_buffer("table", table, persistent=False)
        self.register_buffer("kappa", torch.arange(1, width + 1) / width if position else None, persistent=False)

    @property
    def parts(self) -> int:
        """P."""
        return self.table.shape[1]

    def bags(self, words: Tensor, length: Tensor, owner: Tensor, time: Tensor | None, shape: tuple[int, int]) -> Bags:
        """Return the bags of sentences ``words (n,W)`` of ``length (n,)``, which belong to the examples ``owner (n,)``.

        ``time (n,)``, if given, is the row of each sentence's time. ``shape`` is that of the products, ``(P·B,R)``.
        """
        words, first = words[:, : self.table.shape[2]], owner[:, None] * shape[1]
        plain, weight = words + first, self.table[:, :, : words.shape[1]].index_select(0, length).flatten(1)
        place = [plain] if self.parts == 1 else [plain, plain + shape[0] * shape[1] // 2]
        if time is not None:
            place.append(time[:, None] + first)
            weight = torch.cat([weight, weight.new_ones(len(words), 1)], 1)
        return Bags(torch.cat(place, 1), weight, self.kappa)


class Memory(NamedTuple):
    """The sentences of a batch; ``slot (n,)``: the place of each in the flattened memories ``(B,N)``."""

    sentences: Bags
    slot: Tensor
    slots: int  # N


def read(
    tables: Tensor,
    H: Tensor | None,
    question: Bags,
    memory: Memory,
    embedding: int,
    hops: Sequence[tuple[int, int]],
    softmax: bool,
) -> tuple[Tensor, Tensor]:
    """Return the state after the last hop, ``u (B,d)``, and the weights of all slots, ``p (B,K,N)`` (§2).

    ``tables (T,R,d)``; number ``embedding`` of them embeds the questions, ``hops`` says which two are A and C at
    each hop. p = softmax(u·m_i) over all N slots, u' = u + Σ_i p_i c_i, or H u + Σ_i p_i c_i. A slot without a sentence
    holds zeros: it scores 0 and adds nothing. Without ``softmax``, p = u·m_i.
    """
    return _Read.apply(tables, H, question, memory, embedding, hops, softmax)


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        tables: Tensor,
        H: Tensor | None,
        question: Bags,
        memory: Memory,
        embedding: int,
        hops: Sequence[tuple[int, int]],
        softmax: bool,
    ) -> tuple[Tensor, Tensor]:
        E, (bag, slot, slots) = tables.unbind(), memory
        batch = len(question.weight)
        shape = (batch if bag.kappa is None else 2 * batch, tables.shape[1])  # (PB,R)
        asked = question.mix(question.weight.new_ones(batch), shape)
        u, states, weights, read = bag.fold(asked @ E[embedding]), [], [], []
        for A, C in hops:
            stretched = bag.stretch(u)  # (PB,d)
            own = bag.dot(stretched @ E[A].T)  # u·m_i, (n,)
            p = u.new_zeros(batch * slots).index_copy_(0, slot, own).view(batch, slots)
            if softmax:
                p = torch.softmax(p, 1)
                own = p.take(slot)
            z = bag.mix(own, shape)
            u = (u if H is None else u @ H.T) + bag.fold(z @ E[C])
            states.append(stretched)
            weights.append(p)
            read.append(z)
        ctx.save_for_backward(tables, H, asked, *states, *weights, *read)
        ctx.rest = memory, embedding, hops, softmax
        p = torch.stack(weights, 1)
        ctx.mark_non_differentiable(p)
        return u, p

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_u: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        tables, H, asked, *saved = ctx.saved_tensors
        (bag, slot, _), embedding, hops, softmax = ctx.rest
        E, grad = tables.unbind(), torch.zeros_like(tables)
        grad_E, grad_H = grad.unbind(), None if H is None else torch.zeros_like(H)
        states, weights, read = (saved[k * len(hops) : (k + 1) * len(hops)] for k in range(3))
        for (A, C), stretched, p, z in reversed(list(zip(hops, states, weights, read, strict=True))):
            grad_o = bag.stretch(grad_u)  # (PB,d)
            grad_E[C].addmm_(z.T, grad_o)
            grad_own = bag.dot(grad_o @ E[C].T)
            if softmax:
                grad_p = torch.zeros_like(p)
                grad_p.view(-1).index_copy_(0, slot, grad_own)
                grad_own = torch._softmax_backward_data(grad_p, p, 1, p.dtype).take(slot)
            grad_y = bag.mix(grad_own, z.shape)
            grad_E[A].addmm_(grad_y.T, stretched)
            if H is not None and grad_H is not None:
                grad_H.addmm_(grad_u.T, stretched[: len(grad_u)])
                grad_u = grad_u @ H
            grad_u = grad_u + bag.fold(grad_y @ E[A])
        grad_E[embedding].addmm_(asked.T, bag.stretch(grad_u))
        return grad, grad_H, None, None, None, None, None
