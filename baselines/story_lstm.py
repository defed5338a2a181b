"""The LSTM baseline of Weston et al. 2015: "Towards AI-Complete Question Answering"."""

from typing import Any

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from baselines.lstm_recurrence import LSTM
from baselines.optimisation import adam
from baselines.sentences import running_text, unread
from harness.families import Batch
from harness.families.story import PAD, Inputs, Prediction, Spec

READ_AT_ONCE = 32
"""Words after which the texts that have ended leave the batch."""


class StoryLSTM(pl.LightningModule):
    """An LSTM reads the story word by word, then the question, and answers from its last state (§5)::

        h_t, c_t = LSTM(E w_t, h_{t-1}, c_{t-1}),    scores = W h_T + b

    All that it knows of the story is in one vector when the question comes. It reads the last ``memory`` sentences.

    Texts differ much in length. They are read a piece at a time, each piece of those alone that have not ended.

    Deviations: the paper names no sizes; the forget bias starts at 1; Adam.
    """

    families = ("story",)
    version = 2

    def __init__(
        self,
        spec: Spec,
        *,
        embedding: int = 50,
        hidden: int = 100,
        memory: int = 50,
        learning_rate: float = 2e-3,
        warm_up: float = 0.02,
        decay_from: float = 0.3,
    ):
        super().__init__()
        if type(memory) is not int or memory < 1:
            raise ValueError(f"memory = {memory!r} is not valid: a whole number, 1 or more")
        self.memory, self.learning_rate, self.warm_up, self.decay_from = memory, learning_rate, warm_up, decay_from
        self.embedding = nn.Embedding(spec.vocabulary, embedding, padding_idx=PAD)
        self.lstm = LSTM(embedding, hidden)
        self.output = nn.Linear(hidden, spec.answers)

    def forward(self, inputs: Inputs) -> Tensor:
        """Return the answers' scores ``(B,A)``."""
        text, length = running_text(inputs, self.memory)  # (B,T)
        length, order = length.sort(descending=True, stable=True)
        words = self.embedding(text[order].T)  # (T,B,m)
        h = c = words.new_zeros(len(order), self.lstm.hidden)
        ended = []  # states of the texts that ended, longest last
        for start in range(0, int(length[0]), READ_AT_ONCE):
            going = int((length > start).sum())  # texts
            ended.append(h[going:])
            states, cells = self.lstm(words[start : start + READ_AT_ONCE, :going], h[:going], c[:going])
            last, row = (length[:going] - 1 - start).clamp(max=len(states) - 1), torch.arange(going, device=h.device)
            h, c = states[last, row], cells[last, row]  # (going,n)
        h = torch.cat([h, *ended[::-1]])
        return self.output(h[order.argsort()])

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the cross-entropy a question."""
        return F.cross_entropy(self(batch.inputs), batch.targets.answer)

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Return the answers' scores, and how many old sentences were not read."""
        return Prediction(self(inputs), unread(inputs, self.memory))

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from)
