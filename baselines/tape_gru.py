"""Cho et al. 2014: "Learning Phrase Representations using RNN Encoder–Decoder", its gated units on a tape."""

from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from baselines.losses import sequence_cost
from baselines.optimisation import adam
from harness.families import Batch
from harness.families.tape import Inputs, Prediction, Spec


class TapeGRU(pl.LightningModule):
    """Layers of gated units read the tape and write a bit vector at every step; they have no memory beside their state.

    With a layer's input x_t, which is the tape or the state of the layer below (appendix A.1.2, without a context)::

        z = σ(W_z x_t + U_z h_{t-1} + b_z)            update gate: how much is kept
        r = σ(W_r x_t + U_r h_{t-1} + b_r)            reset gate
        h~ = tanh(W x_t + b + r∘(U h_{t-1} + b_U))
        h_t = z∘h_{t-1} + (1 - z)∘h~
        y_t = W_y h_t + b_y                           log-odds of the bits, from the last layer

    The loss is the cross-entropy of a whole sequence, as in ``TapeLSTM``.

    Deviations: the reset gate acts on U h, as in the appendix's decoder, not on h, as in its encoder; biases (z and r
    have two each, which are summed); learned initial states; Adam instead of Adadelta.
    """

    families = ("tape",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        hidden: int = 256,
        layers: int = 2,
        learning_rate: float = 1e-3,
        warm_up: float = 0.02,
        decay_from: float = 0.5,
    ):
        super().__init__()
        self.spec = spec
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        self.gru = nn.GRU(spec.input_channels, hidden, layers)
        self.h_0 = nn.Parameter(torch.zeros(layers, 1, hidden))
        self.output = nn.Linear(hidden, spec.output_bits)

    def forward(self, tape: Tensor) -> Tensor:
        """Return logits ``(B,T,K)`` for a ``tape (B,T,C)``."""
        h_0 = self.h_0.expand(-1, len(tape), -1).contiguous()  # (layers,B,n)
        states, _ = self.gru(tape.transpose(0, 1), h_0)  # (T,B,n)
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
