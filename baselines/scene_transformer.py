"""A Transformer (Vaswani et al. 2017) over the objects of a scene and the question."""

from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from baselines.objects import Objects, answer_loss
from baselines.optimisation import adam
from baselines.transformer import EncoderLayer
from harness.families import Batch
from harness.families.scene import Inputs, Prediction, Spec


class SceneTransformer(pl.LightningModule):
    """The question is one more object, and every object reads all others, layer after layer::

        x_0 = W_q q,   x_i = W_o o_i,   x ← EncoderLayer(x) ...,   answer = W x_0

    Self-attention looks at all pairs, as the Relation Network does, but weighs them, and several layers of it compose
    relations. No positions are added: objects carry their place, and their order means nothing.

    Deviations from Vaswani et al.: the encoder's stack alone; pre-norm, as in ``transformer``; no dropout.
    """

    families = ("scene",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        conv: Sequence[int] = (24, 24, 24, 24),
        width: int = 128,
        heads: int = 4,
        layers: int = 4,
        learning_rate: float = 1e-3,
        warm_up: float = 0.05,
        decay_from: float = 0.3,
    ):
        super().__init__()
        if width % heads:
            raise ValueError(f"width = {width} is not valid: it must be a multiple of heads = {heads}")
        self.spec = spec
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        self.objects = Objects(spec, conv)
        self.W_o = nn.Linear(self.objects.width, width)
        self.W_q = nn.Linear(spec.question_bits, width)
        self.layers: Any = nn.ModuleList(EncoderLayer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, spec.answers)

    def tokens(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the question and the objects ``(B·Q,1+N,width)``, and a mask ``(B·Q,1,1,1+N)``: -inf on none."""
        objects = self.objects(inputs)  # (B,N,C)
        scenes, asked = inputs.question.shape[:2]
        seen = self.W_o(objects)[:, None].expand(-1, asked, -1, -1)  # (B,Q,N,width)
        x = torch.cat([self.W_q(inputs.question)[:, :, None], seen], dim=2).flatten(0, 1)
        missing = self.objects.missing(objects)
        mask = x.new_zeros(scenes, x.shape[1])
        if missing is not None:
            mask[:, 1:].masked_fill_(missing, -torch.inf)
        return x, mask.repeat_interleave(asked, dim=0)[:, None, None]

    def forward(self, inputs: Inputs) -> Tensor:
        """Return scores ``(B,Q,A)``."""
        x, mask = self.tokens(inputs)
        for layer in self.layers:
            x = layer(x, mask)
        return self.output(self.norm(x[:, 0])).unflatten(0, inputs.question.shape[:2])

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss over the questions of the batch."""
        return answer_loss(self(batch.inputs), batch.targets.answer)

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Return the scores of all answers."""
        return Prediction(self(inputs))

    def explain(self, inputs: Inputs) -> dict[str, Tensor]:
        """Return ``answers (B,Q)`` and how much of all ``pairs (B,Q,N,N)`` was read; of pictures, ``places (B,N,2)``.

        That is what the question reads of object i in the last layer, times what i reads of j in the layer before it,
        each a mean over heads.
        """
        x, mask = self.tokens(inputs)
        read = []
        for layer in self.layers:
            normal = layer.self_norm(x)
            attention = layer.self_attention
            read.append(attention.weights(normal, attention.pairs(normal), mask).mean(1))  # (B·Q,1+N,1+N)
            x = layer(x, mask)
        pairs = read[-1][:, 0, 1:, None] * read[-2 if len(read) > 1 else -1][:, 1:, 1:]
        answers = self.output(self.norm(x[:, 0])).argmax(1)
        shape = inputs.question.shape[:2]
        return {
            "answers": answers.unflatten(0, shape),
            "pairs": pairs.unflatten(0, shape),
            **self.objects.explain(shape[0]),
        }

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(
            self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from, decay="cosine", final=0.01
        )
