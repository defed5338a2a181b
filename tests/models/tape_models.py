"""Small tape models: some keep the contract, the others break it in one way each."""

import os
import random

import numpy as np
import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional as F

from harness.families.tape import Prediction


class Sound(pl.LightningModule):
    """A recurrent layer and a read-out."""

    families = ("tape",)
    version = 1

    def __init__(self, spec, *, width: int = 8):
        super().__init__()
        self.spec = spec
        self.recurrent = nn.GRU(spec.input_channels, width, batch_first=True)
        self.output = nn.Linear(width, spec.output_bits)

    def logits(self, inputs):
        return self.output(self.recurrent(inputs.inputs)[0])

    def training_step(self, batch, batch_idx):
        cost = F.binary_cross_entropy_with_logits(self.logits(batch.inputs), batch.targets.bits, reduction="none")
        return (cost.sum(-1) * batch.targets.answer).sum() / len(batch)

    def predict_step(self, inputs, batch_idx=0):
        return Prediction(self.logits(inputs))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class SeededNoise(Sound):
    """Draws from every global generator while it is built and trained: all of them are seeded."""

    def __init__(self, spec):
        super().__init__(spec)
        nn.init.constant_(self.output.bias, random.random() + np.random.rand())  # noqa: NPY002

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * (1 + random.random() + np.random.rand())  # noqa: NPY002


class Manual(Sound):
    """Optimises by hand, with two optimisers and a schedule."""

    def __init__(self, spec):
        super().__init__(spec)
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        for optimizer in self.optimizers():
            optimizer.zero_grad()
        self.manual_backward(loss)
        for optimizer in self.optimizers():
            optimizer.step()
        self.lr_schedulers().step()
        return loss

    def configure_optimizers(self):
        optimizers = [torch.optim.SGD(part.parameters(), 0.01) for part in (self.recurrent, self.output)]
        return optimizers, [torch.optim.lr_scheduler.ExponentialLR(optimizers[0], 0.9)]


class Logging(Sound):
    """Logs from its training step and asks for the length of the run, as Lightning models do."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        total = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / (total + 1))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class LossInDict(Sound):
    """Returns its loss as Lightning allows too."""

    def training_step(self, batch, batch_idx):
        return {"loss": super().training_step(batch, batch_idx)}


class BothWays(Sound):
    """Reads the tape from its end too."""

    def __init__(self, spec):
        super().__init__(spec)
        self.recurrent = nn.GRU(spec.input_channels, 4, batch_first=True, bidirectional=True)


class SeesTheSum(Sound):
    """Is told the sum of its whole tape: padding changes nothing, the future does."""

    def logits(self, inputs):
        return super().logits(inputs) + inputs.inputs.sum((1, 2))[:, None, None]


class SeesTheWidth(Sound):
    """Scales by the width of the batch."""

    def logits(self, inputs):
        return super().logits(inputs) * inputs.inputs.shape[1]


class SeesTheBatch(Sound):
    """Subtracts the mean over the batch."""

    def logits(self, inputs):
        logits = super().logits(inputs)
        return 100 * (logits - logits.mean(0))


class PadsInLoss(Sound):
    """Averages its loss over all steps, padding included."""

    def training_step(self, batch, batch_idx):
        return F.binary_cross_entropy_with_logits(self.logits(batch.inputs), batch.targets.bits)


class NanLoss(Sound):
    """Divides zero by zero."""

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * torch.zeros(()) / torch.zeros(())


class NanGradient(Sound):
    """The loss is finite, its gradient is not: the root of zero."""

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss + torch.sqrt(0 * self.output.weight.sum())


class NoGradient(Sound):
    """Its loss does not depend on a parameter."""

    def training_step(self, batch, batch_idx):
        return 0 * super().training_step(batch, batch_idx)


class VectorLoss(Sound):
    """One loss an example."""

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx).expand(len(batch))


class NoLoss(Sound):
    """Forgets to return it."""

    def training_step(self, batch, batch_idx):
        super().training_step(batch, batch_idx)


class WrongShape(Sound):
    """Drops the first step."""

    def predict_step(self, inputs, batch_idx=0):
        return Prediction(self.logits(inputs)[:, 1:])


class BareTensor(Sound):
    """Does not wrap its logits."""

    def predict_step(self, inputs, batch_idx=0):
        return self.logits(inputs)


class UnseededInit(Sound):
    """Takes its initial bias from the operating system."""

    def __init__(self, spec):
        super().__init__(spec)
        nn.init.constant_(self.output.bias, int.from_bytes(os.urandom(4), "little") / 2**32)


class UnseededTraining(Sound):
    """Trains with noise from a generator of its own without a seed."""

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) * (1 + np.random.default_rng().random())


class NoisyPrediction(Sound):
    """Adds a random number to its answer."""

    def predict_step(self, inputs, batch_idx=0):
        return Prediction(self.logits(inputs) + 4 * random.random())


class Remembers(Sound):
    """Keeps what it saw in training in a plain attribute."""

    def __init__(self, spec):
        super().__init__(spec)
        self.seen = torch.zeros(())

    def training_step(self, batch, batch_idx):
        self.seen = self.seen + 1
        return super().training_step(batch, batch_idx)

    def predict_step(self, inputs, batch_idx=0):
        return Prediction(self.logits(inputs) + self.seen)


class Unregistered(Sound):
    """Projects through random weights that are neither parameter nor buffer."""

    def __init__(self, spec):
        super().__init__(spec)
        self.mix = torch.randn(spec.output_bits, spec.output_bits)

    def logits(self, inputs):
        return super().logits(inputs) @ self.mix * 10


class Refuses(Sound):
    """Cannot be built."""

    def __init__(self, spec):
        super().__init__(spec)
        raise ValueError("no room")


class Fails(Sound):
    """Raises in its prediction."""

    def predict_step(self, inputs, batch_idx=0):
        return {}["logits"]


class Small(Sound):
    """Holds 40 vectors."""

    @classmethod
    def supports(cls, spec, size):
        return "memory of 40" if size > 40 else None


class Shows(Small):
    """Two heads on 128 locations, that write forwards from 120 on and read it again; and it declines long tapes."""

    def explain(self, inputs):
        steps = torch.arange(inputs.inputs.shape[1])
        focus = F.one_hot((120 + steps) % 128, 128).float()  # (T,N)
        weights = torch.stack([focus, torch.full_like(focus, 1 / 128)], dim=1)  # (T,H,N)
        batch = weights.expand(len(inputs), -1, -1, -1)
        return {"read": 0.8 * batch, "write": batch, "reads": batch[..., :20], "adds": -batch[..., :20]}


class WrongFamily(Sound):
    """A tape model that claims to be another."""

    families = ("transduction",)

    def __init__(self, spec):
        super().__init__(spec)


class NoFamily(Sound):
    """Claims a family that there is not."""

    families = ("tapes",)
