"""Sutskever, Vinyals, Le 2014: "Sequence to Sequence Learning with Neural Networks"."""

from typing import Any

import pytorch_lightning as pl
from torch import Tensor, nn

from baselines.beam import search, valid_beam_size
from baselines.encoding import read
from baselines.losses import token_loss
from baselines.optimisation import adam
from baselines.recurrent import set_forget_bias
from baselines.sequences import reverse_by_length, shifted_right
from harness.families import Batch
from harness.families.transduction import BOS, Inputs, Prediction, Spec

State = tuple[Tensor, Tensor]
"""Hidden and cell state of every layer, each ``(layers,B,n)``: all that the decoder knows of the source."""


class LSTM(pl.LightningModule):
    """An LSTM reads the source into a vector of fixed size, another writes the answer from it (§2).

    p(y_1..y_T | x) = Π p(y_t | v, y_1..y_{t-1}), where v is the encoder's last state and the decoder's first. With
    ``reverse_source`` the source is read backwards (§3.3), so that its first symbols, needed first, were read last.

    Deviations: the paper's four layers of 1,000 cells are parameters; the forget bias starts at 1; Adam instead of SGD;
    torch's uniform initialisation, U(-1/√n, 1/√n), instead of U(-0.08, 0.08).
    """

    families = ("transduction",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        embedding: int = 64,
        hidden: int = 256,
        layers: int = 1,
        reverse_source: bool = False,
        beam_size: int = 1,
        learning_rate: float = 2e-3,
        warm_up: float = 0.02,
        decay_from: float = 0.5,
    ):
        super().__init__()
        self.spec, self.reverse_source, self.beam_size = spec, reverse_source, valid_beam_size(beam_size)
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        self.source_embedding = nn.Embedding(spec.source_vocabulary, embedding)
        self.encoder = nn.LSTM(embedding, hidden, layers)
        self.target_embedding = nn.Embedding(spec.target_vocabulary, embedding)
        self.decoder = nn.LSTM(embedding, hidden, layers)
        self.output = nn.Linear(hidden, spec.target_vocabulary)
        set_forget_bias(self.encoder)
        set_forget_bias(self.decoder)

    def encode(self, inputs: Inputs) -> State:
        """Return the encoder's state after each source's last symbol."""
        source, length = inputs.source, inputs.source_length
        if self.reverse_source:
            source = reverse_by_length(source, length)
        return read(self.encoder, self.source_embedding(source.T), length)[1]  # over (S,B,m)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Teacher forcing: every step of the answer sees the right previous token."""
        previous = shifted_right(batch.targets.target, BOS).T  # (T,B)
        states, _ = self.decoder(self.target_embedding(previous), self.encode(batch.inputs))  # (T,B,n)
        return token_loss(self.output(states), batch.targets.target.T)

    def step(self, y: Tensor, state: State) -> tuple[Tensor, State]:
        """Return ``logits (B,V)`` and the next state after the tokens ``y (B,)``."""
        states, state = self.decoder(self.target_embedding(y[None]), state)  # (1,B,n)
        return self.output(states[0]), state

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Search for the best answer; greedily with a beam of 1."""
        limit = self.spec.output_limit(inputs.source_length)
        return Prediction(search(self.step, self.encode(inputs), limit, self.beam_size, axis=1))

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from)
