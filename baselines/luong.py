"""Luong, Pham, Manning 2015: "Effective Approaches to Attention-based Neural Machine Translation"."""

from functools import partial
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from baselines.beam import repeat, search, valid_beam_size
from baselines.encoding import read
from baselines.losses import token_loss
from baselines.luong_attention import Attention, Memory, Score, Window
from baselines.optimisation import adam
from baselines.recurrent import set_forget_bias
from baselines.sequences import reverse_by_length, shifted_right, valid_positions
from harness.families import Batch
from harness.families.transduction import BOS, Inputs, Prediction, Spec


class State(NamedTuple):
    """After a step: ``hidden`` and ``cell`` of every layer ``(layers,B,n)``, ``h~ (1,B,n)``, and the next step's t."""

    hidden: Tensor
    cell: Tensor
    attentional: Tensor
    t: int


class Luong(pl.LightningModule):
    """Stacked LSTMs; the decoder moves first, then reads the source with its new top state (§3).

    The encoder's last states are the decoder's first. At step t, with source states h̄_s of the encoder's top layer::

        h_t = LSTM([E y_{t-1}; h~_{t-1}], h_{t-1})    h~_{t-1} is part of it with input feeding (§3.3), 0 at first
        a_t = align(h_t, h̄)                           see ``Attention``: score and window
        c_t = Σ_s a_t(s) h̄_s                          context
        h~_t = tanh(W_c [c_t; h_t])                   attentional vector
        p(y_t) = softmax(W_s h~_t)

    With ``reverse_source`` the encoder reads backwards, as in most of the paper's systems; positions are counted in the
    order of the source all the same.

    Deviations: the paper's four layers of 1,000 cells are parameters; no dropout; W_s has a bias; the forget bias
    starts at 1; Adam instead of SGD; torch's initialisation, uniform by fan-in, instead of U(-0.1, 0.1). The paper
    keeps a part of W_a in *concat* fixed to the identity (footnote 15), here all of it is learned.
    """

    families = ("transduction",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        embedding: int = 64,
        hidden: int = 128,
        layers: int = 1,
        score: Score = "general",
        window: Window = "global",
        half_window: int = 10,
        input_feeding: bool = True,
        reverse_source: bool = True,
        beam_size: int = 1,
        learning_rate: float = 2e-3,
        warm_up: float = 0.02,
        decay_from: float = 0.5,
    ):
        super().__init__()
        self.spec, self.input_feeding, self.reverse_source = spec, input_feeding, reverse_source
        self.beam_size = valid_beam_size(beam_size)
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        self.source_embedding = nn.Embedding(spec.source_vocabulary, embedding)
        self.encoder = nn.LSTM(embedding, hidden, layers)
        self.target_embedding = nn.Embedding(spec.target_vocabulary, embedding)
        self.decoder = nn.LSTM(embedding + hidden * input_feeding, hidden, layers)
        self.attention = Attention(hidden, score, window, half_window, spec.max_test_size)
        self.W_c = nn.Linear(2 * hidden, hidden, bias=False)
        self.W_s = nn.Linear(hidden, spec.target_vocabulary)
        set_forget_bias(self.encoder)
        set_forget_bias(self.decoder)

    def encode(self, inputs: Inputs) -> tuple[Memory, State]:
        """Return what the decoder reads, and its state before the first step."""
        source, length = inputs.source, inputs.source_length
        valid = valid_positions(length, source.shape[1])  # (B,S)
        if self.reverse_source:
            source = reverse_by_length(source, length)
        states, (hidden, cell) = read(self.encoder, self.source_embedding(source.T), length)  # (S,B,n)
        states = states.transpose(0, 1)  # (B,S,n)
        if self.reverse_source:  # back into the order of the source
            order = reverse_by_length(torch.arange(source.shape[1], device=source.device).expand_as(source), length)
            states = states.gather(1, order[:, :, None].expand_as(states))
        memory = self.attention.memory(states, valid)
        return memory, State(hidden, cell, torch.zeros_like(hidden[:1]), 1)

    def read(self, h: Tensor, memory: Memory, t: int) -> tuple[Tensor, Tensor]:
        """Return ``h~ (T,B,n)`` and ``a (B,T,S)`` for the decoder's top states ``h (T,B,n)`` from step ``t`` on."""
        h = h.transpose(0, 1)  # (B,T,n)
        a = self.attention(h, memory, t)  # (B,T,S)
        c = torch.bmm(a, memory.states)  # (B,T,n)
        return torch.tanh(self.W_c(torch.cat([c, h], dim=2))).transpose(0, 1), a

    def advance(self, embedded: Tensor, state: State, memory: Memory) -> tuple[State, Tensor]:
        """Return the state after one step on an embedded token ``(1,B,m)``, and the step's ``a (B,1,S)``."""
        if self.input_feeding:
            embedded = torch.cat([embedded, state.attentional], dim=2)  # (1,B,m+n)
        h, (hidden, cell) = self.decoder(embedded, (state.hidden, state.cell))  # (1,B,n)
        attentional, a = self.read(h, memory, state.t)
        return State(hidden, cell, attentional, state.t + 1), a

    def forced(self, previous: Tensor, state: State, memory: Memory) -> tuple[Tensor, Tensor]:
        """Return ``h~ (T,B,n)`` and ``a (B,T,S)`` of all steps, each after the given token of ``previous (T,B)``."""
        embedded = self.target_embedding(previous)  # (T,B,m)
        if not self.input_feeding:  # no step waits for the attention of the one before
            return self.read(self.decoder(embedded, (state.hidden, state.cell))[0], memory, state.t)
        attentional, alignments = [], []
        for word in embedded.split(1):  # (1,B,m)
            state, a = self.advance(word, state, memory)
            attentional.append(state.attentional)
            alignments.append(a)
        return torch.cat(attentional), torch.cat(alignments, dim=1)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Teacher forcing: every step of the answer sees the right previous token."""
        memory, state = self.encode(batch.inputs)
        attentional, _ = self.forced(shifted_right(batch.targets.target, BOS).T, state, memory)
        return token_loss(self.W_s(attentional), batch.targets.target.T)

    def step(self, y: Tensor, state: State, memory: Memory) -> tuple[Tensor, State]:
        """Return ``logits (B,V)`` and the next state after the tokens ``y (B,)``."""
        state, _ = self.advance(self.target_embedding(y[None]), state, memory)
        return self.W_s(state.attentional[0]), state

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Search for the best answer; greedily with a beam of 1."""
        memory, state = self.encode(inputs)
        step = partial(self.step, memory=repeat(memory, self.beam_size))
        limit = self.spec.output_limit(inputs.source_length)
        return Prediction(search(step, state, limit, self.beam_size, axis=1))

    def explain(self, inputs: Inputs) -> dict[str, Tensor]:
        """Return the answer ``tokens (B,T')`` and the ``attention (B,T',S)`` that each token was read with."""
        tokens = self.predict_step(inputs).tokens
        memory, state = self.encode(inputs)
        return {"tokens": tokens, "attention": self.forced(shifted_right(tokens, BOS).T, state, memory)[1]}

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from)
