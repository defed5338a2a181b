"""Small story models: one keeps the contract, the others break it in one way each."""

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional as F

from harness.families.story import PAD, Prediction

MEMORY = 3


class Sound(pl.LightningModule):
    """Adds up the words of the last sentences and of the question; says which sentences had no room."""

    families = ("story",)
    version = 1

    def __init__(self, spec, *, width: int = 8):
        super().__init__()
        self.spec = spec
        self.words = nn.Embedding(spec.vocabulary, width, padding_idx=PAD)
        self.output = nn.Linear(2 * width, spec.answers)

    def read(self, inputs):
        """Return which sentences are read, ``(B,S)``."""
        place = torch.arange(inputs.story.shape[1])
        return (place >= inputs.story_length[:, None] - MEMORY) & (place < inputs.story_length[:, None])

    def scores(self, inputs):
        story = (self.words(inputs.story).sum(2) * self.read(inputs)[:, :, None]).sum(1)
        return self.output(torch.cat([story, self.words(inputs.question).sum(1)], 1))

    def training_step(self, batch, batch_idx):
        return F.cross_entropy(self.scores(batch.inputs), batch.targets.answer)

    def predict_step(self, inputs, batch_idx=0):
        return Prediction(self.scores(inputs), (inputs.story_length - MEMORY).clamp(min=0))

    def explain(self, inputs):
        weights = self.read(inputs).float()
        return {"attention": (weights / weights.sum(1, keepdim=True))[:, None].expand(-1, 2, -1)}

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class SeesPads(Sound):
    """Divides by the width of the batch."""

    def scores(self, inputs):
        return super().scores(inputs) / inputs.story.shape[1]


class SaysTooMuch(Sound):
    """Says that it did not read what it did."""

    def predict_step(self, inputs, batch_idx=0):
        return Prediction(self.scores(inputs), (inputs.story_length - 1).clamp(min=0))


class TooMany(Sound):
    """Scores one answer more than there are."""

    def predict_step(self, inputs, batch_idx=0):
        return Prediction(F.pad(self.scores(inputs), (0, 1)))


class NanScores(Sound):
    """Answers with NaN."""

    def predict_step(self, inputs, batch_idx=0):
        return Prediction(self.scores(inputs) * torch.nan)
