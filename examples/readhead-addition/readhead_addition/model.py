"""A Transformer that writes all of its answer at once: one learned query a place of the answer."""

from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harness.families import Batch
from harness.families.transduction import EOS, PAD, Inputs, Prediction, Spec


class AnswerSlots(pl.LightningModule):
    """Encode the source, then let a query for each place of the answer read it; no place sees another's symbol.

    Close to the non-autoregressive decoder of Gu et al. 2018 with learned queries, as in Carion et al. 2020 (§3.2)::

        h = Encoder(E x + P)          P a learned vector a position
        d = Decoder(Q, h)             Q a learned vector a place, all at once
        p(y_t) = softmax(W d_t)

    Positions are learned, so that there is none for a source beyond the training sizes: see ``supports``.
    """

    families = ("transduction",)
    version = 1

    def __init__(self, spec: Spec, *, width: int = 64, heads: int = 4, layers: int = 2, learning_rate: float = 1e-3):
        super().__init__()
        self.spec, self.learning_rate = spec, learning_rate
        longest = 2 * spec.max_train_size + 1  # a source of two numbers and a plus sign
        self.embedding = nn.Embedding(spec.source_vocabulary, width, padding_idx=PAD)  # E
        self.positions = nn.Parameter(0.02 * torch.randn(longest, width))  # P
        self.queries = nn.Parameter(0.02 * torch.randn(spec.output_limit(longest), width))  # Q
        options: dict[str, Any] = {"dim_feedforward": 4 * width, "dropout": 0.0, "batch_first": True}
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, heads, **options), layers)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(width, heads, **options), layers)
        self.output = nn.Linear(width, spec.target_vocabulary)  # W

    @classmethod
    def supports(cls, spec: Spec, size: float) -> str | None:
        """Return why a size cannot be run: none beyond the training sizes has positions."""
        return f"positions are learned up to size {spec.max_train_size}" if size > spec.max_train_size else None

    def forward(self, inputs: Inputs) -> Tensor:
        """Return logits ``(B,T',V)`` for as many places as the longest answer in training may have."""
        pads = inputs.source == PAD  # (B,S)
        h = self.embedding(inputs.source) + self.positions[: inputs.source.shape[1]]  # (B,S,d)
        h = self.encoder(h, src_key_padding_mask=pads)
        queries = self.queries.expand(len(h), -1, -1)  # (B,T',d): all of them, for they see each other
        return self.output(self.decoder(queries, h, memory_key_padding_mask=pads))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Cross-entropy of every place up to the EOS."""
        target = batch.targets.target  # (B,T)
        logits = self(batch.inputs)[:, : target.shape[1]]
        return F.cross_entropy(logits.transpose(1, 2), target, ignore_index=PAD)

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """The best symbol of every place; the harness cuts behind the first EOS."""
        tokens = self(inputs).argmax(2)
        return Prediction(tokens.masked_fill(tokens == PAD, EOS))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate)
