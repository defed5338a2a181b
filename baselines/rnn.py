"""Elman 1990: "Finding Structure in Time", its network as encoder and decoder."""

from typing import Any

import pytorch_lightning as pl
from torch import Tensor, nn

from baselines.beam import search, valid_beam_size
from baselines.encoding import read
from baselines.losses import token_loss
from baselines.optimisation import adam
from baselines.recurrent import initialise_blocks
from baselines.sequences import reverse_by_length, shifted_right
from harness.families import Batch
from harness.families.transduction import BOS, Inputs, Prediction, Spec


class RNN(pl.LightningModule):
    """The simplest recurrent encoder and decoder: what there was before gates. A vector of fixed size links the two.

    h_t = tanh(W x_t + U h_{t-1} + b), over the source and then, from its last state, over the answer::

        h_0 = state after the source      p(y_t | x, y_1..y_{t-1}) = softmax(V h_t),  x_t = E y_{t-1}

    Nothing in this recurrence protects what was read from what comes after, nor a gradient from vanishing (Bengio,
    Simard, Frasconi 1994). The source is read in its order, or backwards with ``reverse_source`` as in Sutskever et al.
    2014.

    Deviations: Elman's context units were trained one step back, here the gradient flows through the whole sequence;
    recurrent weights start orthogonal, one bias is 0 (torch has two); Adam.
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
        learning_rate: float = 1e-3,
        warm_up: float = 0.02,
        decay_from: float = 0.5,
    ):
        super().__init__()
        self.spec, self.reverse_source, self.beam_size = spec, reverse_source, valid_beam_size(beam_size)
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        self.source_embedding = nn.Embedding(spec.source_vocabulary, embedding)
        self.encoder = nn.RNN(embedding, hidden, layers)
        self.target_embedding = nn.Embedding(spec.target_vocabulary, embedding)
        self.decoder = nn.RNN(embedding, hidden, layers)
        self.output = nn.Linear(hidden, spec.target_vocabulary)
        self.initialise()

    def initialise(self) -> None:
        """Draw U orthogonal and set its bias to 0; the rest stays as torch draws it, U(-1/√n, 1/√n)."""
        for name, weight in (*self.encoder.named_parameters(), *self.decoder.named_parameters()):
            if name.startswith("weight_hh"):
                initialise_blocks(weight, 1, nn.init.orthogonal_)
            elif name.startswith("bias_hh"):
                nn.init.zeros_(weight)

    def encode(self, inputs: Inputs) -> Tensor:
        """Return the state ``(layers,B,n)`` after each source's last symbol."""
        source, length = inputs.source, inputs.source_length
        if self.reverse_source:
            source = reverse_by_length(source, length)
        return read(self.encoder, self.source_embedding(source.T), length)[1]  # over (S,B,m)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Teacher forcing: every step of the answer sees the right previous token."""
        previous = shifted_right(batch.targets.target, BOS).T  # (T,B)
        states, _ = self.decoder(self.target_embedding(previous), self.encode(batch.inputs))  # (T,B,n)
        return token_loss(self.output(states), batch.targets.target.T)

    def step(self, y: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``logits (B,V)`` and the next state ``(layers,B,n)`` after the tokens ``y (B,)``."""
        states, h = self.decoder(self.target_embedding(y[None]), h)  # (1,B,n)
        return self.output(states[0]), h

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Search for the best answer; greedily with a beam of 1."""
        limit = self.spec.output_limit(inputs.source_length)
        return Prediction(search(self.step, self.encode(inputs), limit, self.beam_size, axis=1))

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from)
