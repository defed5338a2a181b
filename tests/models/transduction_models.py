"""Small transduction models: one keeps the contract, the others break it in one way each."""

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional as F

from harness.families.transduction import EOS, PAD, Prediction


class Sound(pl.LightningModule):
    """Answers with one symbol, chosen from the mean of the source's embeddings, and stops."""

    families = ("transduction",)
    version = 1

    def __init__(self, spec):
        super().__init__()
        self.spec = spec
        self.embedding = nn.Embedding(spec.source_vocabulary, 8)
        self.output = nn.Linear(8, spec.target_vocabulary)

    def logits(self, inputs):
        real = (inputs.source != PAD)[..., None]
        return self.output((self.embedding(inputs.source) * real).sum(1) / inputs.source_length[:, None])

    def training_step(self, batch, batch_idx):
        target = batch.targets.target
        logits = self.logits(batch.inputs)[:, None].expand(-1, target.shape[1], -1)
        return F.cross_entropy(logits.transpose(1, 2), target, ignore_index=PAD)

    def predict_step(self, inputs, batch_idx=0):
        token = self.logits(inputs).argmax(-1, keepdim=True)
        return Prediction(torch.cat([token, torch.full_like(token, EOS)], 1))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class SeesPads(Sound):
    """Averages over the padding too."""

    def logits(self, inputs):
        return self.output(self.embedding(inputs.source).mean(1))


class OutOfVocabulary(Sound):
    """Answers with a token that there is not."""

    def predict_step(self, inputs, batch_idx=0):
        return Prediction(torch.full((len(inputs), 2), self.spec.target_vocabulary))


class Logits(Sound):
    """Returns scores instead of tokens."""

    def predict_step(self, inputs, batch_idx=0):
        return Prediction(self.logits(inputs))


class WidthOfTheBatch(Sound):
    """Repeats its symbol as often as the longest source of the batch is long, and never stops."""

    def predict_step(self, inputs, batch_idx=0):
        return Prediction(self.logits(inputs).argmax(-1, keepdim=True).expand(-1, inputs.source.shape[1]))
