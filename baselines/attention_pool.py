"""A Relation Network that weighs its pairs: one step from Santoro et al. 2017 to attention between objects."""

import torch
from torch import Tensor, nn

from baselines.relation_network import RelationNetwork


class AttentionPool(RelationNetwork):
    """The same pairs as in the Relation Network, but read with softmax weights instead of added up alike::

        α_ij = softmax_ij( u · g_θ(o_i, o_j, q) ),      answer = f_φ( Σ_{i,j} α_ij g_θ(o_i, o_j, q) )

    The question is in g, and so in the weights. A mean cannot tell how many there were; a sum can.

    No paper's model: all but the weights is the Relation Network's (and a mean is not divided by N²).
    """

    version = 1

    def build_pool(self, width: int) -> None:
        """Make u, at first 0: the weights begin as those of a mean."""
        self.u = nn.Parameter(torch.zeros(width))

    def weights(self, relations: Tensor, absent: Tensor | None) -> Tensor:
        """Return the weights α ``(B,Q,P)`` of ``relations (B,Q,P,w)``; a pair that is ``absent (B,1,P)`` has none."""
        energy = (relations @ self.u.to(relations)).float()
        return torch.softmax(energy if absent is None else energy.masked_fill(absent, -torch.inf), dim=2)

    def pool(self, relations: Tensor, absent: Tensor | None) -> Tensor:
        """Return the weighted mean ``(B,Q,w)`` of the pairs."""
        weights = self.weights(relations, absent).to(relations.dtype)
        return (weights[:, :, None] @ relations).squeeze(2).float()

    def relevance(self, relations: Tensor, pooled: Tensor, absent: Tensor | None) -> Tensor:
        """Return the weights."""
        return self.weights(relations, absent)
