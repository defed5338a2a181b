"""Sukhbaatar, Szlam, Weston, Fergus 2015: "End-To-End Memory Networks"."""

from typing import Any, Literal

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from baselines.sentence_memory import Memory, Weights, read
from baselines.sentences import by_sentence, unread
from harness.families import Batch
from harness.families.story import FIRST_WORD, PAD, Inputs, Prediction, Spec


class MemN2N(pl.LightningModule):
    """A question reads a memory of sentences several times, by soft attention learned from answers alone (§2)::

        u_1 = Σ_j l_j∘(B q_j)                                                  the question
        m_i = Σ_j l_j∘(A^k x_ij) + T_A^k(i)    c_i = Σ_j l_j∘(C^k x_ij) + T_C^k(i)
        p_i = softmax(u_k·m_i)    o_k = Σ_i p_i c_i    u_{k+1} = u_k + o_k     hop k of K  (1, 2, 4)
        a = softmax(W u_{K+1})                                                 the answer  (3)

    ``encoding``: position, l_kj = (1 - j/J) - (k/d)(1 - 2j/J) for word j of J and component k of d (§4.1), or bow,
    l = 1. T(i) are temporal encodings, i counted back from the question. ``tying`` (§2.2): adjacent, A^{k+1} = C^k,
    B = A^1 and W^T = C^K; or layer-wise, A and C the same for all hops and u_{k+1} = H u_k + o_k. The memory has
    ``memory`` slots at most, for the sentences told last; the others hold null symbols, whose embedding stays zero, so
    that they score 0 and add nothing.

    ``noise`` (§4.1): in training an empty memory comes before a sentence with this probability, so that the times of
    older ones move up. ``linear_start`` (§4.1): no softmax in the hops at first, at ``linear_rate``; it comes back,
    once, when the validation error has not fallen for ``patience`` validations in a row, or after this share of the run
    at the latest; 0: there from the beginning.

    Training (§4.2): SGD on the loss summed over a batch, at ``learning_rate``, halved after each quarter of the run,
    counted from the return of the softmax. Weights start as N(0, ``init``²).

    Deviations: position encoding is the paper's times ``scale``, 2 as in the authors' code (where 1 + 4(k - (d+1)/2)
    (j - (J+1)/2)/(dJ), nearly 2 l_kj, stands for it: at 1 sentences weigh half as much, and less is learned at the
    paper's rates); the validation error decides on the softmax, not the loss; answers that are no words of the
    vocabulary (lists, numbers) have rows of W of their own.
    """

    families = ("story",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        hops: int = 3,
        width: int = 20,
        tying: Literal["adjacent", "layer-wise"] = "adjacent",
        encoding: Literal["position", "bow"] = "position",
        scale: float = 2.0,
        memory: int = 50,
        noise: float = 0.1,
        linear_start: float = 0.0,
        patience: int = 20,
        linear_rate: float = 0.005,
        learning_rate: float = 0.01,
        halve_every: float = 0.25,
        init: float = 0.1,
    ):
        super().__init__()
        _require_one_of("tying", tying, ("adjacent", "layer-wise"))
        _require_one_of("encoding", encoding, ("position", "bow"))
        for name, value in {"hops": hops, "width": width, "memory": memory, "patience": patience}.items():
            if type(value) is not int or value < 1:
                raise ValueError(f"{name} = {value!r} is not valid: a whole number, 1 or more")
        for name, share in {"noise": noise, "linear_start": linear_start}.items():
            if not 0 <= share <= 1:
                raise ValueError(f"{name} = {share!r} is not valid: a share, 0 to 1")
        self.spec, self.adjacent, self.noise = spec, tying == "adjacent", noise
        self.linear_start, self.patience, self.linear_rate = linear_start, patience, linear_rate
        self.learning_rate, self.halve_every = learning_rate, halve_every
        self.slots = min(memory, max(spec.max_train_story, spec.max_test_story))
        self.rows = spec.vocabulary + self.slots  # R: words, then times
        if self.adjacent:
            self.question, self.reads = 0, [(hop, hop + 1) for hop in range(hops)]  # A^1, A^2 = C^1, ..., C^K
        else:
            self.question, self.reads = 2, [(0, 1)] * hops  # A, C, B
        tables = hops + 1 if self.adjacent else 3
        self.embeddings = nn.Parameter(torch.empty(tables, self.rows, width))
        self.answers = nn.Parameter(torch.empty(spec.answers, width))
        self.H = None if self.adjacent else nn.Parameter(torch.empty(width, width))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=init)
        with torch.no_grad():
            self.embeddings[:, PAD] = 0
        longest = max(spec.max_sentence_length, spec.max_question_length)
        self.weights = Weights(longest, width, encoding == "position", scale)
        words = torch.tensor(spec.answer_words or [PAD] * spec.answers)
        own = self.rows + torch.arange(spec.answers)
        self.answer_rows: Tensor
        self.register_buffer("answer_rows", torch.where(words >= FIRST_WORD, words, own), persistent=False)
        self.linear: Tensor
        self.restarted: Tensor
        self.stalled: Tensor
        self.lowest: Tensor
        self.register_buffer("linear", torch.tensor(linear_start > 0))
        self.register_buffer("restarted", torch.tensor(0))
        self.register_buffer("stalled", torch.tensor(0))
        self.register_buffer("lowest", torch.tensor(torch.inf))

    def remember(self, inputs: Inputs) -> Memory:
        """Return the memories of a batch: the last sentences, each in the slot of its age."""
        (B, S, W), device = inputs.story.shape, inputs.story.device
        age = inputs.story_length[:, None] - torch.arange(1, S + 1, device=device)  # (B,S), 0 for the newest
        flat = ((age >= 0) & (age < self.slots)).flatten().nonzero()[:, 0]  # (n,)
        example, time = flat // S, age.flatten().index_select(0, flat)
        slot = example * self.slots + time
        if self.training and self.noise > 0:
            empty = torch.rand(B, self.slots, device=device) < self.noise
            time = (time + empty.cumsum(1).take(slot)).clamp_(max=self.slots - 1)
        words = inputs.story.reshape(-1, W).index_select(0, flat)  # (n,W)
        length = inputs.sentence_length.reshape(-1).index_select(0, flat)  # (n,)
        shape = (self.weights.parts * B, self.rows)
        bags = self.weights.bags(words, length, example, time + self.spec.vocabulary, shape)
        return Memory(bags, slot, self.slots)

    def forward(self, inputs: Inputs) -> tuple[Tensor, Tensor]:
        """Return the answers' scores ``(B,A)`` and the weights of all slots at each hop, ``(B,K,N)``."""
        B = len(inputs)
        example, shape = torch.arange(B, device=inputs.question.device), (self.weights.parts * B, self.rows)
        question = self.weights.bags(inputs.question, inputs.question_length, example, None, shape)
        softmax = not bool(self.linear)
        u, p = read(self.embeddings, self.H, question, self.remember(inputs), self.question, self.reads, softmax)
        W: Tensor = self.answers
        if self.adjacent:
            W = torch.cat([self.embeddings[-1], W]).index_select(0, self.answer_rows)  # (A,d)
        return u @ W.T, p

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the cross-entropy, summed over the batch."""
        return F.cross_entropy(self(batch.inputs)[0], batch.targets.answer, reduction="sum")

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Return the answers' scores, and how many old sentences had no room in the memory."""
        return Prediction(self(inputs)[0], unread(inputs, self.slots))

    def explain(self, inputs: Inputs) -> dict[str, Tensor]:
        """Return ``attention (B,K,S)``: the weight of each sentence at each hop; empty memories have the rest."""
        return {"attention": by_sentence(self(inputs)[1], inputs)}

    def on_validated(self, value: float) -> None:
        """Bring the softmax back when the validation error has stopped falling, and start the schedule again."""
        if not bool(self.linear):
            return
        self.stalled.copy_(torch.where(self.lowest <= value, self.stalled + 1, 0))
        self.lowest.clamp_(max=value)
        steps = self.trainer.global_step
        late = steps >= self.linear_start * float(self.trainer.estimated_stepping_batches)
        if int(self.stalled) >= self.patience or late:
            self.linear.fill_(False)
            self.restarted.fill_(steps)

    def rate(self, step: int) -> float:
        """Return the learning rate at ``step``, as a factor of ``learning_rate``."""
        if bool(self.linear):
            return self.linear_rate / self.learning_rate
        start = int(self.restarted)
        done = (step - start) / max(float(self.trainer.estimated_stepping_batches) - start, 1.0)
        return 0.5 ** int(done / self.halve_every)

    def configure_optimizers(self) -> dict[str, Any]:
        """SGD without momentum."""
        optimiser = torch.optim.SGD(self.parameters(), lr=self.learning_rate)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, self.rate)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def _require_one_of(name: str, value: str, valid: tuple[str, ...]) -> None:
    """Raise a ``ValueError`` unless ``value`` is one of ``valid``."""
    if value not in valid:
        raise ValueError(f"{name} = {value!r} is not valid: choose one of {', '.join(valid)}")
