"""Santoro et al. 2017: "A simple neural network module for relational reasoning", for stories (bAbI)."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from baselines.lstm_recurrence import LSTM
from baselines.optimisation import adam
from baselines.sentences import newest, unread
from harness.families import Batch
from harness.families.story import PAD, Inputs, Prediction, Spec


class StoryRelationNetwork(pl.LightningModule):
    """Do not choose what to read: look at every pair of sentences, with the question, and add up what is found (§4.2)::

        o_i = [LSTM(x_i), tag_i],    q = LSTM'(question)
        RN(O, q) = f_φ( Σ_{i,j} g_θ(o_i, o_j, q) )                                     (eq. 1)

    over all ordered pairs of the last ``memory`` sentences, one with itself included. Every sentence is read by itself;
    its tag is a one-hot of its place, counted back from the question. g and f are multilayer perceptrons with ReLUs;
    the last layer of f, to the answers, is linear. The first layer of g acts on [o_i, o_j, q] and so is a sum of three
    terms, each computed once a sentence or question; only pairs that exist are computed.

    Deviations: the sum is divided by ``memory``, a constant, which keeps it near the size of few terms; matrices are
    drawn by He et al. 2015; with ``precision: bf16`` training computes g in bfloat16 (the rest, and all evaluation, in
    float32). In a phase called ``one-object`` the matrix of g's first layer that acts on o_j is held at 0, as in
    ``relation_network``: the terms of an o_i are alike then, and one is computed for all.
    """

    families = ("story",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        embedding: int = 32,
        hidden: int = 32,
        g: Sequence[int] = (256, 256, 256, 256),
        f: Sequence[int] = (256, 512),
        memory: int = 20,
        precision: Literal["fp32", "bf16"] = "fp32",
        learning_rate: float = 2e-4,
        warm_up: float = 0.02,
        decay_from: float = 0.5,
    ):
        super().__init__()
        if precision not in ("fp32", "bf16"):
            raise ValueError(f"precision = {precision!r} is not valid: choose one of fp32, bf16")
        if type(memory) is not int or memory < 1:
            raise ValueError(f"memory = {memory!r} is not valid: a whole number, 1 or more")
        self.memory, self.precision = memory, precision
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        self.embedding = nn.Embedding(spec.vocabulary, embedding, padding_idx=PAD)
        self.read_sentence, self.read_question = LSTM(embedding, hidden), LSTM(embedding, hidden)
        self.first, self.second = (nn.Linear(hidden + memory, g[0], bias=False) for _ in range(2))
        self.asked = nn.Linear(hidden, g[0])
        self.g: Any = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(g))
        self.f: Any = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise([g[-1], *f]))
        self.output = nn.Linear(f[-1], spec.answers)
        for layer in (self.first, self.second, self.asked, *self.g, *self.f):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        self.phase = ""

    def on_phase(self, name: str) -> None:
        """Hold the matrix on o_j at 0 in the phase ``one-object``."""
        self.phase = name
        if name == "one-object":
            nn.init.zeros_(self.second.weight)

    def objects(self, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
        """Return the sentences that exist, ``(n,c)``, the example of each, ``(n,)``, and how many one has, ``(B,)``."""
        words, real = newest(inputs, self.memory)  # (B,N,W)
        example, place = real.nonzero(as_tuple=True)  # (n,) each
        words = words[example, place]
        length = (words != PAD).sum(1)
        words = words[:, : int(length.max())]
        _, (read, _) = self.read_sentence.read(self.embedding(words), length)  # (n,h)
        return torch.cat([read, F.one_hot(place, self.memory).to(read)], 1), example, real.sum(1)

    def pairs(self, example: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pairs of sentences of one example each: the places of both among all sentences, ``(P,)`` each."""
        partners = count[example]  # (n,)
        first = torch.arange(len(example), device=example.device).repeat_interleave(partners)  # (P,)
        begin = count.cumsum(0) - count  # an example's first sentence, (B,)
        step = torch.arange(len(first), device=example.device) - (partners.cumsum(0) - partners)[first]
        return first, begin[example[first]] + step

    def forward(self, inputs: Inputs) -> Tensor:
        """Return the answers' scores ``(B,A)``."""
        objects, example, count = self.objects(inputs)
        question = self.embedding(inputs.question)
        _, (q, _) = self.read_question.read(question, inputs.question_length)  # (B,h)
        with torch.autocast(q.device.type, torch.bfloat16, enabled=self.training and self.precision == "bf16"):
            relation = self.first(objects) + self.asked(q).index_select(0, example)  # (n,w)
            one_object = self.training and self.phase == "one-object"
            if not one_object:
                i, j = self.pairs(example, count)
                relation = relation.index_select(0, i) + self.second(objects).index_select(0, j)  # (P,w)
                example = example.index_select(0, i)
            relation = F.relu(relation)
            for layer in self.g:
                relation = F.relu(layer(relation))
        relation = relation.float()
        if one_object:  # g(o_i) stands for as many pairs as there are o_j
            relation = relation * count.index_select(0, example)[:, None]
        pooled = relation.new_zeros(len(q), relation.shape[1]).index_add(0, example, relation) / self.memory  # (B,w)
        for layer in self.f:
            pooled = F.relu(layer(pooled))
        return self.output(pooled)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the cross-entropy a question."""
        return F.cross_entropy(self(batch.inputs), batch.targets.answer)

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Return the answers' scores, and how many old sentences were not read."""
        return Prediction(self(inputs), unread(inputs, self.memory))

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from)
