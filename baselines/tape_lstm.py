"""Graves, Wayne, Danihelka 2014: "Neural Turing Machines", the LSTM baseline of §4."""

from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from baselines.losses import sequence_cost
from baselines.optimisation import adam
from baselines.recurrent import set_forget_bias
from harness.families import Batch
from harness.families.tape import Inputs, Prediction, Spec


class TapeLSTM(pl.LightningModule):
    """Stacked LSTM layers read the tape and write a bit vector at every step; they have no memory beside their state.

    The loss is the cross-entropy of a whole sequence, summed over the answered bits and averaged over the batch, which
    is the cost the paper reports. Paper: three layers of 256 cells, learned initial state, RMSProp.

    Deviations: the forget bias starts at 1; Adam instead of RMSProp; gradients are clipped by norm, not by value.
    """

    families = ("tape",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        hidden: int = 256,
        layers: int = 3,
        learning_rate: float = 1e-3,
        warm_up: float = 0.02,
        decay_from: float = 0.5,
    ):
        super().__init__()
        self.spec = spec
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        self.lstm = nn.LSTM(spec.input_channels, hidden, layers)
        self.initial = nn.Parameter(torch.zeros(2, layers, 1, hidden))  # hidden and cell state before the tape
        self.output = nn.Linear(hidden, spec.output_bits)
        set_forget_bias(self.lstm)

    def forward(self, tape: Tensor) -> Tensor:
        """Return logits ``(B,T,K)`` for a ``tape (B,T,C)``."""
        hidden, cell = self.initial.expand(-1, -1, len(tape), -1).contiguous()  # (layers,B,n) each
        states, _ = self.lstm(tape.transpose(0, 1), (hidden, cell))  # (T,B,n)
        return self.output(states).transpose(0, 1)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the cost of the batch's sequences."""
        return sequence_cost(self(batch.inputs.inputs), batch.targets.bits, batch.targets.answer)

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Return the logits at every step."""
        return Prediction(self(inputs.inputs))

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from)
