"""Santoro et al. 2017: "A simple neural network module for relational reasoning", the CNN+MLP baseline."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytorch_lightning as pl
from torch import Tensor, nn

from baselines.objects import Objects, answer_loss
from baselines.optimisation import adam
from harness.families import Batch
from harness.families.scene import Inputs, Prediction, Spec


class CNNMLP(pl.LightningModule):
    """A multilayer perceptron on all objects side by side and the question: nothing in it is about pairs::

        a = MLP([o_1, ..., o_N, q])

    The objects are those of the Relation Network (cells of a feature map with their coordinates, or states), and the
    question is given in the same way, so that the two differ in how objects are put together alone. The first layer's
    share of the objects is computed once a scene for all its questions.

    Deviations: widths of the small public form (two hidden layers of 256, dropout before the output; the paper's widths
    are not all given); cells carry coordinates; of states it reads at most as many as a training scene holds, in the
    order of the list.
    """

    families = ("scene",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        conv: Sequence[int] = (24, 24, 24, 24),
        mlp: Sequence[int] = (256, 256),
        dropout: float = 0.5,
        learning_rate: float = 1e-3,
        warm_up: float = 0.02,
        decay_from: float = 0.3,
    ):
        super().__init__()
        self.spec = spec
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        self.objects = Objects(spec, conv)
        self.scene_layer = nn.Linear(self.objects.count * self.objects.width, mlp[0])
        self.question_layer = nn.Linear(spec.question_bits, mlp[0], bias=False)
        layers: list[nn.Module] = [nn.ReLU()]
        for before, after in pairwise(mlp):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.rest = nn.Sequential(*layers, nn.Dropout(dropout), nn.Linear(mlp[-1], spec.answers))

    @classmethod
    def supports(cls, spec: Spec, size: float) -> str | None:
        """Say so where the list is longer than in training: it has a weight for every place."""
        return f"reads {spec.objects} objects" if spec.image is None and size > spec.objects else None

    def forward(self, inputs: Inputs) -> Tensor:
        """Return scores ``(B,Q,A)``."""
        objects = self.objects(inputs)  # (B,N,C)
        missing = self.objects.count - objects.shape[1]
        everything = nn.functional.pad(objects, (0, 0, 0, missing)).flatten(1)  # (B,N·C)
        first = self.scene_layer(everything)[:, None] + self.question_layer(inputs.question)  # (B,Q,h)
        return self.rest(first)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss over the questions of the batch."""
        return answer_loss(self(batch.inputs), batch.targets.answer)

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Return the scores of all answers."""
        return Prediction(self(inputs))

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(
            self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from, decay="cosine", final=0.01
        )
