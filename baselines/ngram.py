"""The N-gram baseline of Weston et al. 2015: "Towards AI-Complete Question Answering"."""

from typing import Any

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from baselines.optimisation import adam
from harness.families import Batch
from harness.families.story import PAD, Inputs, Prediction, Spec

MIXING = 0x9E3779B1
"""An odd multiplier (Knuth 1973, §6.4) that spreads the numbers of N-grams over the buckets."""


class NGram(pl.LightningModule):
    """A linear classifier of the bag of N-grams of all sentences that share a word with the question (§5)::

        scores = Σ_g W_g + b,    g over the N-grams, of 1 to ``n`` words, of those sentences

    The order of sentences is lost, and so is the question, but for the choice of sentences. An N-gram counts once,
    however often it occurs.

    Deviations: N-grams are told apart by a hash of ``buckets`` values; the paper says neither its N nor its solver
    (here cross-entropy and Adam).
    """

    families = ("story",)
    version = 1

    def __init__(
        self, spec: Spec, *, n: int = 3, buckets: int = 16384, learning_rate: float = 0.01, decay_from: float = 0.3
    ):
        super().__init__()
        for name, value in {"n": n, "buckets": buckets}.items():
            if type(value) is not int or value < 1:
                raise ValueError(f"{name} = {value!r} is not valid: a whole number, 1 or more")
        self.spec, self.n, self.buckets = spec, n, buckets
        self.learning_rate, self.decay_from = learning_rate, decay_from
        self.W = nn.Parameter(torch.zeros(buckets, spec.answers))
        self.b = nn.Parameter(torch.zeros(spec.answers))

    def sentences(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the sentences ``(n,W)`` of all stories that share a word with the question, and whose they are."""
        asked = torch.zeros(len(inputs), self.spec.vocabulary, dtype=torch.bool, device=inputs.story.device)
        asked.scatter_(1, inputs.question, True)[:, PAD] = False
        shared = asked.gather(1, inputs.story.flatten(1)).view(inputs.story.shape).any(2)  # (B,S)
        example, place = shared.nonzero(as_tuple=True)
        return inputs.story[example, place], example

    def features(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the distinct buckets of each example and the examples they belong to, ``(F,)`` each, sorted."""
        words, example = self.sentences(inputs)
        width, found = words.shape[1], []
        for n in range(1, min(self.n, width) + 1):
            number = torch.zeros_like(words[:, n - 1 :])
            for step in range(n):  # the words as digits
                number = number * self.spec.vocabulary + words[:, step : width - n + 1 + step]
            bucket = ((number * (self.n + 1) + n) * MIXING % 2**32) * self.buckets // 2**32
            real = words[:, n - 1 :] != PAD
            found.append((example[:, None] * self.buckets + bucket)[real])
        distinct = torch.cat(found).unique()
        return distinct % self.buckets, distinct // self.buckets

    def forward(self, inputs: Inputs) -> Tensor:
        """Return the answers' scores ``(B,A)``."""
        bucket, example = self.features(inputs)
        bag = self.W.new_zeros(len(inputs), self.buckets)
        bag[example, bucket] = 1.0
        return torch.addmm(self.b, bag, self.W)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the cross-entropy a question."""
        return F.cross_entropy(self(batch.inputs), batch.targets.answer)

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Return the answers' scores."""
        return Prediction(self(inputs))

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(self, self.learning_rate, decay_from=self.decay_from)
