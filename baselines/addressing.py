"""How the heads of a Neural Turing Machine are addressed, read and write (Graves, Wayne, Danihelka 2014, §3.1–3.3).

Every function works on all heads H of a batch at once. Slots are i = 0..N-1, of M components each.
"""

from typing import NamedTuple

import torch
from torch import Tensor

COSINE_EPSILON = 1e-8
"""Added to squared norms, so that the cosine with an empty slot, or of an empty key, is 0 and has a gradient."""

SHARPEN_EPSILON = 1e-16
"""Added to a weight before its logarithm is taken; a slot without weight keeps none."""


class Projection(NamedTuple):
    """What the controller tells the heads at a step, ``(...,P)``, by kind."""

    k: Tensor  # keys, (...,H,M)
    e: Tensor  # what writing heads erase, (...,W,M)
    e_column: Tensor  # the same as (...,W,M,1)
    a: Tensor  # what they add, (...,W,M)
    g: Tensor  # gates, (...,H,1)
    beta: Tensor  # strengths of the keys, (...,H,1)
    gamma: Tensor  # exponents less 1, (...,H,1)
    s: Tensor  # shifts by r, r-1, ..., -r slots, (...,H,2r+1)
    s_column: Tensor  # the same as (...,H,2r+1,1)
    p: Tensor  # all of it, (...,P)
    sigmoid: Tensor  # e and g, which lie side by side
    softplus: Tensor  # beta and gamma, too


class Heads(NamedTuple):
    """R heads that read, then W that write; N slots of M components; shifts of up to r slots either way."""

    R: int
    W: int
    N: int
    M: int
    r: int

    @property
    def H(self) -> int:
        """The number of heads."""
        return self.R + self.W

    @property
    def P(self) -> int:
        """How many numbers the heads are told at a step: k, β, g, s, γ for each, e and a for those that write."""
        return self.H * (self.M + 3 + 2 * self.r + 1) + self.W * 2 * self.M

    def split(self, p: Tensor) -> Projection:
        """View ``p (...,P)`` by kind."""
        H, W, M, S = self.H, self.W, self.M, 2 * self.r + 1
        k, sigmoid, softplus, s, a = p.split([H * M, W * M + H, 2 * H, H * S, W * M], dim=-1)
        e, g = sigmoid.split([W * M, H], dim=-1)
        beta, gamma = softplus[..., None].split([H, H], dim=-2)
        k, e, a, s = (x.unflatten(-1, (count, -1)) for x, count in ((k, H), (e, W), (a, W), (s, H)))
        return Projection(k, e, e[..., None], a, g[..., None], beta, gamma, s, s[..., None], p, sigmoid, softplus)


def content_weights(k: Tensor, beta: Tensor, memory: Tensor) -> Tensor:
    """Return ``w^c (B,H,N)``, equations 5 and 6: softmax_i(β K[k, M(i)]), where K is the cosine.

    ``k (B,H,M)``, ``beta (B,H,1)`` not negative, ``memory (B,N,M)``.
    """
    product = k @ memory.mT  # (B,H,N)
    k_norm = (k.square().sum(2, keepdim=True) + COSINE_EPSILON).sqrt()  # (B,H,1)
    memory_norm = (memory.square().sum(2) + COSINE_EPSILON).sqrt()[:, None]  # (B,1,N)
    return torch.softmax(beta * product / (k_norm * memory_norm), dim=2)


def interpolate(content: Tensor, previous: Tensor, g: Tensor) -> Tensor:
    """Return ``w^g (B,H,N)``, equation 7: g w^c + (1 - g) w_{t-1}, with ``g (B,H,1)`` in [0,1]."""
    return torch.lerp(previous, content, g)


def shift(w: Tensor, s: Tensor) -> Tensor:
    """Return ``w~ (B,H,N)``, equation 8: w~(i) = Σ_j w(i - j) s(j), slots counted modulo N.

    ``s (B,H,2r+1)`` is a distribution over the shifts j = r, r-1, ..., -r, in this order. A shift of +1 moves the focus
    from slot i to slot i + 1, and from the last slot to slot 0; weight is moved, never lost.
    """
    r = s.shape[2] // 2
    moved = torch.stack([w.roll(j, dims=2) for j in range(r, -r - 1, -1)], dim=2)  # (B,H,2r+1,N)
    return (moved * s[..., None]).sum(2)


def sharpen(w: Tensor, gamma: Tensor) -> Tensor:
    """Return ``w (B,H,N)``, equation 9: w~(i)^γ / Σ_j w~(j)^γ, with ``gamma (B,H,1)`` at least 1.

    Computed as softmax_i(γ log w~(i)): for a large γ the powers themselves would all be 0.
    """
    return torch.softmax(gamma * torch.log(w + SHARPEN_EPSILON), dim=2)


def read(w: Tensor, memory: Tensor) -> Tensor:
    """Return ``r (B,H,M)``, equation 2: r = Σ_i w(i) M(i), for ``memory (B,N,M)``."""
    return w @ memory


def write(memory: Tensor, w: Tensor, e: Tensor, a: Tensor) -> Tensor:
    """Return the next memory ``(B,N,M)``, equations 3 and 4: all heads erase, then all heads add.

    M~(i) = M(i) ∘ Π_h (1 - w_h(i) e_h); M'(i) = M~(i) + Σ_h w_h(i) a_h. The order of the heads does not matter.
    ``w (B,H,N)``, ``e (B,H,M)`` in [0,1], ``a (B,H,M)``.
    """
    kept = torch.prod(1 - w[..., None] * e[:, :, None], dim=1)  # (B,H,N,M) -> (B,N,M)
    return memory * kept + w.mT @ a
