"""Cho et al. 2014: "Learning Phrase Representations using RNN Encoder–Decoder for Statistical Machine Translation"."""

from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from baselines.beam import repeat, search, valid_beam_size
from baselines.encoding import require_symbols
from baselines.losses import token_loss
from baselines.optimisation import adam
from baselines.recurrent import initialise_blocks
from baselines.sequences import shifted_right
from harness.families import Batch
from harness.families.transduction import BOS, Inputs, Prediction, Spec


class GRU(pl.LightningModule):
    """RNN Encoder–Decoder: gated units, and one context vector that every step of the decoder sees (§2.2–2.3, A.1).

    The encoder, from h_0 = 0, over the source of N symbols::

        z = σ(W_z e(x_t) + U_z h_{t-1})       update gate: how much is kept
        r = σ(W_r e(x_t) + U_r h_{t-1})       reset gate
        h~ = tanh(W e(x_t) + U (r∘h_{t-1}))
        h_t = z∘h_{t-1} + (1 - z)∘h~
        c = tanh(V h_N)                       the source, as one vector

    The decoder, from h'_0 = tanh(V' c)::

        z' = σ(W'_z e(y_{t-1}) + U'_z h'_{t-1} + C_z c)
        r' = σ(W'_r e(y_{t-1}) + U'_r h'_{t-1} + C_r c)
        h~' = tanh(W' e(y_{t-1}) + r'∘(U' h'_{t-1} + C c))
        h'_t = z'∘h'_{t-1} + (1 - z')∘h~'
        s_t = max of pairs of O_h h'_t + O_y y_{t-1} + O_c c
        p(y_t) = softmax(G s_t)

    Deviations: gates, V, V', readout and output have biases; the first previous token is a learned BOS, not a vector of
    zeros; G and the embeddings are not factored into matrices of low rank; Glorot initialisation instead of
    N(0, 0.01²) where no state meets itself; Adam instead of Adadelta.
    """

    families = ("transduction",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        embedding: int = 64,
        hidden: int = 256,
        maxout: int = 128,
        beam_size: int = 1,
        learning_rate: float = 2e-3,
        warm_up: float = 0.02,
        decay_from: float = 0.5,
    ):
        super().__init__()
        self.spec, self.hidden, self.beam_size = spec, hidden, valid_beam_size(beam_size)
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        self.source_embedding = nn.Embedding(spec.source_vocabulary, embedding)
        self.W = nn.Linear(embedding, 3 * hidden)  # [W_z | W_r | W]
        self.U_zr = nn.Parameter(torch.empty(hidden, 2 * hidden))  # [U_z | U_r]
        self.U = nn.Parameter(torch.empty(hidden, hidden))
        self.V = nn.Linear(hidden, hidden)
        self.V_prime = nn.Linear(hidden, hidden)
        self.target_embedding = nn.Embedding(spec.target_vocabulary, embedding)
        self.W_prime = nn.Linear(embedding, 3 * hidden)  # [W'_z | W'_r | W']
        self.U_prime = nn.Parameter(torch.empty(hidden, 3 * hidden))  # [U'_z | U'_r | U']
        self.C = nn.Parameter(torch.empty(hidden, 3 * hidden))  # [C_z | C_r | C]
        self.O_h = nn.Linear(hidden, 2 * maxout)
        self.O_y = nn.Embedding(spec.target_vocabulary, 2 * maxout)
        self.O_c = nn.Linear(hidden, 2 * maxout, bias=False)
        self.G = nn.Linear(maxout, spec.target_vocabulary)
        self.initialise()

    def initialise(self) -> None:
        """Draw the weights: orthogonal where a state meets itself, Glorot elsewhere, each gate as its own matrix."""
        for weight, blocks in ((self.U_zr, 2), (self.U, 1), (self.U_prime, 3)):
            initialise_blocks(weight, blocks, nn.init.orthogonal_)
        for gates in (self.W.weight.T, self.W_prime.weight.T, self.C):
            initialise_blocks(gates, 3, nn.init.xavier_uniform_)
        for linear in (self.V, self.V_prime):
            nn.init.xavier_uniform_(linear.weight)
        nn.init.xavier_uniform_(self.O_y.weight)
        for linear in (self.W, self.W_prime, self.V, self.V_prime, self.O_h, self.G):
            nn.init.zeros_(linear.bias)

    def encode(self, inputs: Inputs) -> Tensor:
        """Return the context vector ``c (B,n)``."""
        require_symbols(inputs.source_length)
        table = self.W(self.source_embedding.weight)  # (V,3n): every word projected once, not every token
        words = F.embedding(inputs.source.T, table)  # (S,B,3n)
        h = words.new_zeros(words.shape[1], self.hidden)
        states = []
        for gates, candidate in zip(*words.split([2 * self.hidden, self.hidden], dim=2), strict=True):
            z, r = torch.sigmoid(torch.addmm(gates, h, self.U_zr)).chunk(2, dim=1)
            h = torch.lerp(torch.tanh(torch.addmm(candidate, r * h, self.U)), h, z)  # z∘h + (1 - z)∘h~
            states.append(h)
        last = inputs.source_length - 1  # pads come after it
        h_N = torch.stack(states)[last, torch.arange(len(last), device=last.device)]  # (B,n)
        return torch.tanh(self.V(h_N))

    def initial_state(self, c: Tensor) -> Tensor:
        """Return the decoder's first state ``h'_0 (B,n)``."""
        return torch.tanh(self.V_prime(c))

    def recur(self, word: Tensor, h: Tensor, context: Tensor) -> Tensor:
        """Return ``h'_t (B,n)`` from a previous word's gates ``(B,3n)``, ``h'_{t-1}`` and the context's ``(B,3n)``."""
        kept = torch.addmm(context, h, self.U_prime)  # (B,3n): U' h + C c, for z', r' and h~'
        z, r = torch.sigmoid(word[:, : 2 * self.hidden] + kept[:, : 2 * self.hidden]).chunk(2, dim=1)
        candidate = torch.tanh(torch.addcmul(word[:, 2 * self.hidden :], r, kept[:, 2 * self.hidden :]))
        return torch.lerp(candidate, h, z)

    def readout(self, h: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """Return logits ``(...,V)`` from states ``(...,n)``, previous tokens ``(...)`` and contexts ``(B,n)``."""
        first, second = (self.O_h(h) + self.O_y(y) + self.O_c(c)).chunk(2, dim=-1)  # unit k: larger of k and l + k
        return self.G(second + torch.relu(first - second))  # max(a, b), with a cheaper gradient than torch.maximum

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Teacher forcing: every step of the answer sees the right previous token."""
        c = self.encode(batch.inputs)
        context, h = c @ self.C, self.initial_state(c)
        previous = shifted_right(batch.targets.target, BOS).T  # (T,B)
        states = []
        for word in F.embedding(previous, self.W_prime(self.target_embedding.weight)):  # (B,3n)
            h = self.recur(word, h, context)
            states.append(h)
        return token_loss(self.readout(torch.stack(states), previous, c), batch.targets.target.T)

    def step(self, y: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``logits (B,V)`` and the next state ``(B,n)`` after the tokens ``y (B,)``."""
        h = self.recur(self.W_prime(self.target_embedding(y)), h, c @ self.C)
        return self.readout(h, y, c), h

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Search for the best answer; greedily with a beam of 1."""
        c = self.encode(inputs)
        step = partial(self.step, c=repeat(c, self.beam_size))
        limit = self.spec.output_limit(inputs.source_length)
        return Prediction(search(step, self.initial_state(c), limit, self.beam_size))

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from)
