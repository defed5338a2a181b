"""What Pointer Networks replaced: attention that is mixed into the state, with positions as the words of the answer."""

from functools import partial
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from baselines.beam import valid_beam_size
from baselines.index_seq2seq import fixed_vocabulary, word_slots
from baselines.lstm_recurrence import LSTM, valid_precision
from baselines.optimisation import adam
from baselines.pointer_scores import pointer_scores
from baselines.pointing import allowed_slots, point, slot_loss, taken_slots, target_slots
from baselines.sequences import shifted_right
from harness.families import Batch
from harness.families.pointing import Inputs, Prediction, Spec


class Memory(NamedTuple):
    """What the decoder reads: encoder states ``e (B,N,n)``, ``W_1 e (B,N,n)``, and ``allowed (B,N+1)`` slots."""

    e: Tensor
    keys: Tensor
    allowed: Tensor


class State(NamedTuple):
    """State and cell of the decoder, and what its attention read, ``(B,n)`` each."""

    h: Tensor
    c: Tensor
    read: Tensor


class IndexAttention(pl.LightningModule):
    """Content-based input attention (Pointer Networks, §2.2): the weights blend the encoder's states into one vector.

    ::

        u_ij = v · tanh(W_1 e_j + W_2 d_i),   a_i = softmax(u_i)
        d'_i = Σ_j a_ij e_j
        p(C_i) = softmax(W_o [d_i, d'_i]),   d_{i+1} = LSTM([E C_i, d'_i], d_i)

    The softmax of the answer is over a fixed vocabulary of V positions, the largest size in training, and the stop.
    Positions beyond an example's own size are not allowed, nor, in permutations, those that have been named.
    Deviations: Adam instead of SGD; forget gates begin at 1, input weights in ±1/√D; the width of
    E is not in the paper.
    """

    families = ("pointing",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        hidden: int = 256,
        embedding: int = 64,
        beam_size: int = 1,
        precision: str = "fp32",
        learning_rate: float = 1e-3,
        warm_up: float = 0.0,
        decay_from: float = 0.3,
    ):
        super().__init__()
        self.spec, self.beam_size, self.precision = spec, valid_beam_size(beam_size), valid_precision(precision)
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        self.vocabulary = spec.max_train_size  # V; word V is the stop, and what the decoder is fed at first
        self.encoder = LSTM(spec.dimensions, hidden)
        self.E = nn.Embedding(self.vocabulary + 1, embedding)
        self.decoder = LSTM(embedding + hidden, hidden)
        self.W_1, self.W_2 = (nn.Linear(hidden, hidden, bias=False) for _ in range(2))
        self.v = nn.Parameter(torch.empty(hidden).uniform_(-(hidden**-0.5), hidden**-0.5))
        self.W_o = nn.Linear(2 * hidden, self.vocabulary + 1)

    @classmethod
    def supports(cls, spec: Spec, size: float) -> str | None:
        """Return the reason why sets beyond the training sizes cannot be answered."""
        return fixed_vocabulary(spec, size)

    @property
    def half(self) -> bool:
        """Whether products are in bfloat16 now: in training, where ``precision`` asks for it."""
        return self.precision == "bf16" and self.training

    def encode(self, inputs: Inputs) -> tuple[Memory, State]:
        """Return what the decoder reads, and its first state; it has read nothing."""
        allowed = allowed_slots(inputs, self.spec)
        e, (h, c) = self.encoder.read(inputs.elements, inputs.length, self.half)  # (B,N,n), (B,n) each
        return Memory(e, self.W_1(e), allowed), State(h, c, torch.zeros_like(h))

    def attend(self, d: Tensor, memory: Memory) -> Tensor:
        """Return the weights ``a (R,N)`` of the encoder's states for ``d (R,n)``, R / B of them an example."""
        queries = self.W_2(d).view(len(memory.e), -1, d.shape[1])  # (B,R/B,n)
        own = memory.allowed[:, None, :-1]  # an example's own elements, whatever has been named
        return torch.softmax(pointer_scores(queries, memory.keys, self.v) + own, dim=2).flatten(0, 1)

    def advance(self, word: Tensor, state: State, memory: Memory) -> tuple[Tensor, State, Tensor]:
        """Return ``[d, d'] (R,2n)``, the next state and the attention ``(R,N)`` after the words ``word (R,)``."""
        fed = torch.cat([self.E(word), state.read], dim=1)
        h, c = (each[0] for each in self.decoder(fed[None], state.h, state.c, self.half))
        a = self.attend(h, memory)
        read = torch.bmm(a.view(len(memory.e), -1, a.shape[1]), memory.e).flatten(0, 1)
        return torch.cat([h, read], dim=1), State(h, c, read), a

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Teacher forcing: every step of the answer is fed the right previous position."""
        memory, state = self.encode(batch.inputs)
        slots = memory.allowed.shape[1]
        target, there = target_slots(batch.targets.indices, slots, self.spec)  # (B,M)
        outputs = []
        for word in shifted_right(target, self.vocabulary).T:  # (B,)
            output, state, _ = self.advance(word, state, memory)
            outputs.append(output)
        scores = word_slots(self.W_o(torch.stack(outputs, dim=1)), slots) + memory.allowed[:, None]  # (B,M,N+1)
        if self.spec.permutation:
            scores = scores + taken_slots(target, there, slots)
        return slot_loss(scores, target, there)

    def step(self, slot: Tensor | None, state: State, memory: Memory) -> tuple[Tensor, State]:
        """Return scores ``(R,N+1)`` and the next state after the slots ``slot (R,)``, None at first."""
        word = torch.full_like(state.h[:, 0], self.vocabulary, dtype=torch.int64) if slot is None else slot
        output, state, _ = self.advance(word, state, memory)
        return word_slots(self.W_o(output), memory.allowed.shape[1]), state

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Search for the best answer; greedily with a beam of 1."""
        memory, state = self.encode(inputs)
        step = partial(self.step, memory=memory)
        return Prediction(point(step, state, memory.allowed, inputs, self.spec, self.beam_size))

    def explain(self, inputs: Inputs) -> dict[str, Tensor]:
        """Return the answer ``indices (B,M')`` and the attention that it was read with as ``pointer (B,M',N)``."""
        indices = self.predict_step(inputs).indices
        memory, state = self.encode(inputs)
        weights = []
        for word in shifted_right(indices, self.vocabulary).T:  # (B,)
            _, state, a = self.advance(word.clamp(min=0), state, memory)
            weights.append(a)
        return {"indices": indices, "pointer": torch.stack(weights, dim=1)}

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(
            self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from, decay="cosine", final=0.01
        )
