"""What Pointer Networks replaced: Sutskever, Vinyals, Le 2014, with positions as the words of the answer."""

from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from baselines.beam import valid_beam_size
from baselines.lstm_recurrence import LSTM, valid_precision
from baselines.optimisation import adam
from baselines.pointing import allowed_slots, point, slot_loss, taken_slots, target_slots
from baselines.sequences import shifted_right
from harness.families import Batch
from harness.families.pointing import Inputs, Prediction, Spec

State = tuple[Tensor, Tensor]
"""State and cell of the decoder, ``(B,n)`` each."""


def fixed_vocabulary(spec: Spec, size: float) -> str | None:
    """Return why a model whose answers are words cannot be run at ``size``, None if it can."""
    return None if size <= spec.max_train_size else f"fixed vocabulary of {spec.max_train_size}"


def word_slots(logits: Tensor, slots: int) -> Tensor:
    """Return the logits ``(...,V+1)`` of words as those of N + 1 ``slots``: the first N positions and the stop."""
    return torch.cat([logits[..., : slots - 1], logits[..., -1:]], dim=-1)


class IndexSeq2Seq(pl.LightningModule):
    """Two LSTMs and a vocabulary of positions (Pointer Networks, §2.1).

    The encoder reads the elements in the order given; the decoder goes on from its last state and chooses position
    after position from a softmax over a fixed vocabulary of V positions and the stop, being fed an embedding of the
    position chosen before::

        d_i = LSTM(E C_{i-1}, d_{i-1}),   p(C_i) = softmax(W_o d_i)

    V is the largest size in training: there is no word for a position beyond it. Positions beyond an example's own size
    are not allowed, nor, in permutations, those that have been named; so it can do nothing that a Pointer Network can
    not. Deviations: Adam instead of SGD; forget gates begin at 1, input weights in ±1/√D; the width of E is not in the
    paper.
    """

    families = ("pointing",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        hidden: int = 256,
        embedding: int = 64,
        beam_size: int = 1,
        precision: str = "fp32",
        learning_rate: float = 1e-3,
        warm_up: float = 0.0,
        decay_from: float = 0.3,
    ):
        super().__init__()
        self.spec, self.beam_size, self.precision = spec, valid_beam_size(beam_size), valid_precision(precision)
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        self.vocabulary = spec.max_train_size  # V; word V is the stop, and what the decoder is fed at first
        self.encoder = LSTM(spec.dimensions, hidden)
        self.E = nn.Embedding(self.vocabulary + 1, embedding)
        self.decoder = LSTM(embedding, hidden)
        self.W_o = nn.Linear(hidden, self.vocabulary + 1)

    @classmethod
    def supports(cls, spec: Spec, size: float) -> str | None:
        """Return the reason why sets beyond the training sizes cannot be answered."""
        return fixed_vocabulary(spec, size)

    @property
    def half(self) -> bool:
        """Whether products are in bfloat16 now: in training, where ``precision`` asks for it."""
        return self.precision == "bf16" and self.training

    def encode(self, inputs: Inputs) -> tuple[Tensor, State]:
        """Return which slots may be chosen, ``(B,N+1)``, and the decoder's first state."""
        allowed = allowed_slots(inputs, self.spec)
        _, state = self.encoder.read(inputs.elements, inputs.length, self.half)
        return allowed, state

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Teacher forcing: every step of the answer is fed the right previous position."""
        allowed, (h, c) = self.encode(batch.inputs)
        slots = allowed.shape[1]
        target, there = target_slots(batch.targets.indices, slots, self.spec)  # (B,M)
        fed = self.E(shifted_right(target, self.vocabulary))  # (B,M,m)
        d, _ = self.decoder(fed.transpose(0, 1), h, c, self.half)  # (M,B,n)
        scores = word_slots(self.W_o(d.transpose(0, 1)), slots) + allowed[:, None]  # (B,M,N+1)
        if self.spec.permutation:
            scores = scores + taken_slots(target, there, slots)
        return slot_loss(scores, target, there)

    def step(self, slot: Tensor | None, state: State, slots: int) -> tuple[Tensor, State]:
        """Return scores ``(R,N+1)`` and the next state after the slots ``slot (R,)``, None at first."""
        word = torch.full_like(state[0][:, 0], self.vocabulary, dtype=torch.int64) if slot is None else slot
        h, c = (each[0] for each in self.decoder(self.E(word)[None], *state))
        return word_slots(self.W_o(h), slots), (h, c)

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Search for the best answer; greedily with a beam of 1."""
        allowed, state = self.encode(inputs)
        step = partial(self.step, slots=allowed.shape[1])
        return Prediction(point(step, state, allowed, inputs, self.spec, self.beam_size))

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(
            self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from, decay="cosine", final=0.01
        )
