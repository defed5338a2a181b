"""Training losses, one a family."""

import torch.nn.functional as F
from torch import Tensor

from harness.families.transduction import PAD


def token_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Return the cross-entropy (nats) of ``logits (B,T,V)``, a mean over the tokens of ``target (B,T)``.

    Pads are no tokens: they add neither to the sum nor to its divisor.
    """
    summed = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="sum")
    return summed / (target != PAD).sum()


def sequence_cost(logits: Tensor, bits: Tensor, answer: Tensor) -> Tensor:
    """Return the binary cross-entropy (nats) of a whole tape, averaged over the batch.

    ``logits`` and ``bits (B,T,K)``, ``answer (B,T)``: summed over the bits of the answer steps, because the cost that
    is reported is a sequence's, not a bit's.
    """
    cost = F.binary_cross_entropy_with_logits(logits[answer], bits[answer], reduction="sum")
    return cost / len(logits)
