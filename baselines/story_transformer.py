"""A transformer over sentences, as Dehghani et al. 2019 ("Universal Transformers") feed bAbI stories to one."""

from typing import Any

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from baselines.optimisation import adam
from baselines.sentences import by_sentence, newest, unread
from baselines.transformer import EncoderLayer
from harness.families import Batch
from harness.families.story import PAD, Inputs, Prediction, Spec


class StoryTransformer(pl.LightningModule):
    """Sentences and the question look at each other in a stack of self-attention; the question's place answers.

    A sentence becomes one vector, Σ_j f_j∘(E x_j) with a learned mask f_j by the word's place (Universal Transformers,
    appendix D), plus a learned vector of its age, counted back from the question; the question has an age of its own.
    Layers are those of ``transformer`` (Vaswani et al. 2017), before which they normalise::

        x = [question; sentences],    x = layer_L(...layer_1(x)),    scores = W LayerNorm(x_question) + b

    It reads the last ``memory`` sentences. Dropout is before the first layer and before the answer.

    Deviations from Universal Transformers: layers do not share their weights and do not halt by themselves.
    """

    families = ("story",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        width: int = 64,
        heads: int = 4,
        layers: int = 3,
        memory: int = 50,
        dropout: float = 0.1,
        learning_rate: float = 1e-3,
        warm_up: float = 0.05,
        decay_from: float = 0.3,
    ):
        super().__init__()
        if width % heads:
            raise ValueError(f"width = {width} is not valid: it must be a multiple of heads = {heads}")
        if type(memory) is not int or memory < 1:
            raise ValueError(f"memory = {memory!r} is not valid: a whole number, 1 or more")
        self.memory, self.learning_rate, self.warm_up, self.decay_from = memory, learning_rate, warm_up, decay_from
        self.embedding = nn.Embedding(spec.vocabulary, width, padding_idx=PAD)
        longest = max(spec.max_sentence_length, spec.max_question_length)
        self.mask = nn.Parameter(torch.ones(longest, width))  # f
        self.age = nn.Embedding(memory + 1, width)  # 0 for the question
        self.layers: Any = nn.ModuleList(EncoderLayer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, spec.answers)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        with torch.no_grad():
            for table in (self.embedding, self.age):
                table.weight.normal_(std=width**-0.5)
            self.embedding.weight[PAD] = 0

    def encode(self, words: Tensor) -> Tensor:
        """Return one vector a sentence: ``(...,W)`` to ``(...,w)``."""
        words = words[..., : len(self.mask)]
        return (self.embedding(words) * self.mask[: words.shape[-1]] * (words != PAD)[..., None]).sum(-2)

    def places(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the vectors of the question and of the last sentences, newest first, and which there are.

        ``(B,1+N,w)`` and ``(B,1,1,1+N) bool``.
        """
        words, real = newest(inputs, self.memory)  # (B,N,W), (B,N)
        x = torch.cat([self.encode(inputs.question)[:, None], self.encode(words)], 1)
        return self.dropout(x + self.age.weight[: x.shape[1]]), F.pad(real, (1, 0), value=True)[:, None, None]

    def forward(self, inputs: Inputs) -> Tensor:
        """Return the answers' scores ``(B,A)``."""
        x, mask = self.places(inputs)
        for layer in self.layers:
            x = layer(x, mask)
        return self.output(self.dropout(self.norm(x[:, 0])))

    def explain(self, inputs: Inputs) -> dict[str, Tensor]:
        """Return ``attention (B,layers,S)``: what the question's place reads of each sentence, a mean over heads."""
        x, mask = self.places(inputs)
        hidden, weights = torch.zeros_like(mask, dtype=x.dtype).masked_fill(~mask, -torch.inf), []
        for layer in self.layers:
            normal = layer.self_norm(x)
            attention = layer.self_attention.weights(normal[:, :1], layer.self_attention.pairs(normal), hidden)
            weights.append(attention[:, :, 0, 1:].mean(1))  # (B,N)
            x = layer(x, mask)
        return {"attention": by_sentence(torch.stack(weights, 1), inputs)}

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the cross-entropy a question."""
        return F.cross_entropy(self(batch.inputs), batch.targets.answer)

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Return the answers' scores, and how many old sentences were not read."""
        return Prediction(self(inputs), unread(inputs, self.memory))

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from)
