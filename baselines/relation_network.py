"""Santoro et al. 2017: "A simple neural network module for relational reasoning"."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from baselines.objects import Objects
from baselines.optimisation import adam
from baselines.pieces import loss_in_pieces, pieces
from harness.families import Batch
from harness.families.scene import BLANK, Inputs, Prediction, Spec


class RelationNetwork(pl.LightningModule):
    """Do not choose what to read: look at every pair of objects, with the question, and add up what is found (eq. 1)::

        RN(O, q) = f_φ( Σ_{i,j} g_θ(o_i, o_j, q) )

    over all N² ordered pairs, an object with itself included; g and f are multilayer perceptrons with ReLUs. Objects of
    a picture are the cells of a feature map with their coordinates, of states the states.

    A picture is seen once for all its questions, and few scenes at a time go forward and back (``pieces``).

    Deviations: the widths of the small public form are the default (the paper: conv 32, 64, 128, 256; g four times
    2000; f 2000, 1000, 500, 100); the sum is divided by the N² of training, a constant, so that f is not handed numbers
    of hundreds at the start; matrices are drawn by He et al. 2015; with ``precision: bf16`` training computes g in
    bfloat16 (f and all evaluation stay in float32). In a phase called ``one-object`` the matrix of g's first layer that
    acts on o_j is held at 0. Then the N terms of an o_i are alike, and one of them is computed for all: of a picture a
    25th of g's work, and the phase that follows begins with the very function this one ends with (but for Adam,
    whose first steps with that matrix are about three times as long: it has not seen a gradient of it yet).
    """

    families = ("scene",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        conv: Sequence[int] = (24, 24, 24, 24),
        g: Sequence[int] = (256, 256, 256, 256),
        f: Sequence[int] = (256, 256),
        dropout: float = 0.5,
        precision: Literal["fp32", "bf16"] = "fp32",
        learning_rate: float = 5e-4,
        warm_up: float = 0.02,
        decay_from: float = 0.3,
    ):
        super().__init__()
        if precision not in ("fp32", "bf16"):
            raise ValueError(f"precision {precision!r} is not valid: fp32 or bf16")
        self.spec, self.precision = spec, precision
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        self.objects = Objects(spec, conv)
        self.g = Relation(self.objects.width, spec.question_bits, g)
        layers: list[nn.Module] = []
        for before, after in pairwise([g[-1], *f]):
            layers += [he(nn.Linear(before, after)), nn.ReLU()]
        self.f = nn.Sequential(*layers, nn.Dropout(dropout), nn.Linear(f[-1], spec.answers))
        self.build_pool(g[-1])
        self.phase = ""

    def build_pool(self, width: int) -> None:
        """Make the parameters of ``pool`` for relations of ``width``: a sum has none."""

    def on_phase(self, name: str) -> None:
        """Hold W_j at 0 in the phase ``one-object``."""
        self.phase = name
        if name == "one-object":
            nn.init.zeros_(self.g.W_j.weight)

    @property
    def one_object(self) -> bool:
        """Whether one of N equal terms is computed for all; evaluation computes all pairs in any phase."""
        return self.training and self.phase == "one-object"

    def forward(self, objects: Tensor, question: Tensor) -> Tensor:
        """Return scores ``(B,Q,A)`` for ``objects (B,N,C)`` and ``question (B,Q,E)``."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.training and self.precision == "bf16"):
            relations = self.g(objects, question, self.one_object)  # (B,Q,P,w)
        return self.f(self.pool(relations, self.absent(objects)))

    def pool(self, relations: Tensor, absent: Tensor | None) -> Tensor:
        """Return the sum of ``relations (B,Q,P,w)`` over all pairs but ``absent (B,1,P)``, over N²: ``(B,Q,w)``."""
        total = relations if absent is None else relations.masked_fill(absent[..., None], 0)
        total = total.sum(2).float()  # bfloat16 is added up in float32, then rounded once
        if self.one_object:  # g(o_i) stands for as many pairs as there are o_j
            total = total * (relations.shape[2] if absent is None else (~absent).sum(2, keepdim=True))
        return total / self.objects.count**2

    def absent(self, objects: Tensor) -> Tensor | None:
        """Return ``(B,1,P) bool``: the pairs in which one is no object (P is N², or N); None if none is missing."""
        missing = self.objects.missing(objects)  # (B,N)
        if missing is None:
            return None
        pairs = missing if self.one_object else (missing[:, :, None] | missing[:, None]).flatten(1)
        return pairs[:, None]

    def rows(self, objects: Tensor, question: Tensor) -> int:
        """Return how many pairs with a question a scene has."""
        return question.shape[1] * objects.shape[1] ** (1 if self.one_object else 2)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the cross-entropy, a mean over the questions of the batch."""
        objects, question, answer = self.objects(batch.inputs), batch.inputs.question, batch.targets.answer
        asked = (answer != BLANK).sum()

        def loss(piece: slice, objects: Tensor) -> Tensor:
            scores = self(objects, question[piece]).flatten(0, 1)
            return F.cross_entropy(scores, answer[piece].flatten(), ignore_index=BLANK, reduction="sum") / asked

        parameters = [p for name, p in self.named_parameters() if not name.startswith("objects.")]
        return loss_in_pieces(loss, objects, parameters, self.rows(objects, question))

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Return the scores of all answers."""
        objects, question = self.objects(inputs), inputs.question
        parts = [self(objects[piece], question[piece]) for piece in pieces(len(objects), self.rows(objects, question))]
        return Prediction(torch.cat(parts))

    def explain(self, inputs: Inputs) -> dict[str, Tensor]:
        """Return ``answers (B,Q)`` and the relevance of all ``pairs (B,Q,N,N)``; of pictures, ``places (B,N,2)``."""
        objects = self.objects(inputs)
        relations, absent = self.g(objects, inputs.question), self.absent(objects)
        pooled = self.pool(relations, absent)
        pairs = self.relevance(relations, pooled, absent).unflatten(2, (objects.shape[1], -1))
        return {"answers": self.f(pooled).argmax(2), "pairs": pairs, **self.objects.explain(len(objects))}

    def relevance(self, relations: Tensor, pooled: Tensor, absent: Tensor | None) -> Tensor:
        """Return each pair's share ``(B,Q,P)`` of the answer's score, to first order: ∂score/∂sum · g(o_i, o_j, q)."""
        with torch.enable_grad():
            pooled = pooled.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.f(pooled).amax(2).sum(), pooled)  # (B,Q,w)
        share = (relations @ slope[..., None]).squeeze(3) / self.objects.count**2
        return share if absent is None else share.masked_fill(absent, 0)

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(
            self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from, decay="cosine", final=0.01
        )


class Relation(nn.Module):
    """g_θ(o_i, o_j, q) for all pairs and questions at once.

    The first layer acts on [o_i, o_j, q] and so is a sum, W_i o_i + W_j o_j + W_q q + b, whose terms are computed once
    an object or a question, not once a pair with a question.
    """

    def __init__(self, object_width: int, question_width: int, widths: Sequence[int]):
        super().__init__()
        fan_in = 2 * object_width + question_width
        self.W_i = he(nn.Linear(object_width, widths[0], bias=False), fan_in)
        self.W_j = he(nn.Linear(object_width, widths[0], bias=False), fan_in)
        self.W_q = he(nn.Linear(question_width, widths[0]), fan_in)
        self.layers = nn.ModuleList(he(nn.Linear(before, after)) for before, after in pairwise(widths))

    def forward(self, objects: Tensor, question: Tensor, one_object: bool = False) -> Tensor:
        """Return ``(B,Q,P,w)`` for ``objects (B,N,C)``, ``question (B,Q,E)``; P = N² pairs in the order of i, or N o_i.

        With ``one_object`` W_j has no say, and a gradient of 0.
        """
        first, second = self.W_i(objects), self.W_j(objects)  # (B,N,w)
        pair = first + 0 * second if one_object else (first[:, :, None] + second[:, None]).flatten(1, 2)  # (B,P,w)
        x = (pair[:, None] + self.W_q(question)[:, :, None]).relu()  # (B,Q,P,w)
        for layer in self.layers:
            x = layer(x).relu()
        return x


def he(linear: nn.Linear, fan_in: int | None = None) -> nn.Linear:
    """Draw a matrix that a ReLU follows by He et al. 2015, as a part of one with ``fan_in`` inputs; its bias is 0."""
    nn.init.normal_(linear.weight, std=(2 / (fan_in or linear.in_features)) ** 0.5)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)
    return linear
