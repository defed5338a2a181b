"""Vaswani et al. 2017: "Attention Is All You Need", its decoder stack alone, as a causal model of a tape."""

from typing import Any

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from baselines.losses import sequence_cost
from baselines.optimisation import adam
from harness.families import Batch
from harness.families.tape import Inputs, Prediction, Spec


class TapeTransformer(pl.LightningModule):
    """A causal transformer: at every step it reads all earlier steps of the tape, which stay as they are.

    Pre-norm blocks of masked self-attention and a feed-forward network of four times the width (§3.1–3.3)::

        x += W_O · concat_h softmax(q_h k_h^T / √d, future excluded) v_h
        x += W_2 GELU(W_1 x)

    Positions enter by rotating queries and keys (Su et al. 2021), so that a score depends on the distance of two steps
    and no table ends where the training lengths do.

    Deviations: decoder without an encoder; rotary instead of added sinusoidal positions; pre-norm; GELU; no dropout.
    """

    families = ("tape",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        width: int = 128,
        heads: int = 4,
        layers: int = 3,
        learning_rate: float = 1e-3,
        warm_up: float = 0.05,
        decay_from: float = 0.3,
    ):
        super().__init__()
        self.spec = spec
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        self.input = nn.Linear(spec.input_channels, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, spec.output_bits)

    def forward(self, tape: Tensor) -> Tensor:
        """Return logits ``(B,T,K)`` for a ``tape (B,T,C)``."""
        return self.output(self.norm(self.blocks(self.input(tape))))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the cost of the batch's sequences."""
        return sequence_cost(self(batch.inputs.inputs), batch.targets.bits, batch.targets.answer)

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Return the logits at every step."""
        return Prediction(self(inputs.inputs))

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(
            self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from, decay="cosine", final=0.01
        )


class Block(nn.Module):
    """Masked self-attention, then a feed-forward network, each on its normalised input and added to it."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.attention_output = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x (B,T,width)`` to the same shape; a step sees no later one."""
        x = x + self.attend(self.attention_norm(x))
        return x + self.feed_forward(x)

    def attend(self, x: Tensor) -> Tensor:
        """Return the attention's contribution ``(B,T,width)``."""
        batch, steps, width = x.shape
        projected = self.query_key_value(x).view(batch, steps, 3, self.heads, width // self.heads)
        query, key, value = projected.permute(2, 0, 3, 1, 4)  # (B,heads,T,d) each
        query, key = rotate(query), rotate(key)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)  # (B,heads,T,d)
        return self.attention_output(mixed.transpose(1, 2).reshape(batch, steps, width))


def rotate(x: Tensor) -> Tensor:
    """Turn ``x (B,heads,T,d)`` at step t by the angles t·10000^(-2i/d), in pairs of components (i, i + d/2)."""
    steps, half = x.shape[2], x.shape[3] // 2
    frequency = 10_000 ** (-torch.arange(half, device=x.device) / half)
    angle = torch.arange(steps, device=x.device)[:, None] * frequency  # (T,d/2)
    cos, sin = angle.cos(), angle.sin()
    first, second = x.chunk(2, dim=3)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=3)
