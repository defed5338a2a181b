"""The optimiser and learning-rate schedule that the baselines share: Adam, warm-up, constant, decay."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import pytorch_lightning as pl
import torch

Decay = Literal["linear", "cosine"]


@dataclass(frozen=True)
class Schedule:
    """The learning rate over a run of ``steps``, as a factor of its peak.

    It rises linearly over the first ``warm_up`` of the run, stays at 1 until ``decay_from`` of the run, and falls from
    there to ``final`` along a line or half a cosine. All shares are of steps, never of time.
    """

    steps: float
    warm_up: float
    decay_from: float
    decay: Decay
    final: float

    def __call__(self, step: int) -> float:
        """Return the factor at ``step``, counted from 0."""
        done = step / self.steps
        rise = min((step + 1) / max(self.warm_up * self.steps, 1), 1.0)
        fallen = min(max(done - self.decay_from, 0.0) / max(1 - self.decay_from, 1e-9), 1.0)
        if self.decay == "cosine":
            fallen = (1 - math.cos(math.pi * fallen)) / 2
        return rise * (1 - (1 - self.final) * fallen)


def adam(
    model: pl.LightningModule,
    learning_rate: float,
    *,
    betas: tuple[float, float] = (0.9, 0.999),
    warm_up: float = 0.0,
    decay_from: float = 0.5,
    decay: Decay = "linear",
    final: float = 0.02,
) -> dict[str, Any]:
    """Return what ``configure_optimizers`` returns: Adam over all parameters of ``model``, and its ``Schedule``."""
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate, betas=betas, fused=True)
    schedule = Schedule(float(model.trainer.estimated_stepping_batches), warm_up, decay_from, decay, final)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, schedule)
    return {"optimizer": optimiser, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}
