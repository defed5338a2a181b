"""The differentiable neural computer of the package dnc as it is (``pip install dnc``)."""

import pytorch_lightning as pl
import torch
from dnc import DNC
from torch import nn

from harness.families.tape import Prediction


class PackagedDNC(pl.LightningModule):
    """Graves et al. 2016: an LSTM controller, and a fresh memory for every tape."""

    families, version = ("tape",), 1

    def __init__(self, spec, *, hidden: int = 100, slots: int = 32, width: int = 16, learning_rate: float = 1e-3):
        super().__init__()
        self.learning_rate = learning_rate
        self.dnc = DNC(spec.input_channels, hidden, num_hidden_layers=1, nr_cells=slots, cell_size=width, read_heads=1)
        self.output = nn.Linear(spec.input_channels, spec.output_bits)  # the package answers in the input's channels

    def forward(self, tape):
        """Return logits; the controller starts at 0, for left alone the package draws its first state at random."""
        h = tape.new_zeros(1, len(tape), self.dnc.output_size)
        return self.output(self.dnc(tape, ([(h, h)], None, None), reset_experience=True)[0])

    def training_step(self, batch, batch_idx):
        """Cross-entropy of the bits that are asked for."""
        answer = batch.targets.answer
        return nn.functional.binary_cross_entropy_with_logits(
            self(batch.inputs.inputs)[answer], batch.targets.bits[answer]
        )

    def predict_step(self, inputs, batch_idx=0):
        """The logits at every step."""
        return Prediction(self(inputs.inputs))

    def configure_optimizers(self):
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate)
