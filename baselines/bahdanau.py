"""Bahdanau, Cho, Bengio 2015: "Neural Machine Translation by Jointly Learning to Align and Translate"."""

from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from baselines.additive_attention import attention_recurrence
from baselines.beam import repeat, search, valid_beam_size
from baselines.encoding import require_symbols
from baselines.losses import token_loss
from baselines.optimisation import adam
from baselines.recurrent import BidirectionalGRU, initialise_blocks
from baselines.sequences import shifted_right, valid_positions
from harness.families import Batch
from harness.families.transduction import BOS, Inputs, Prediction, Spec


class Memory(NamedTuple):
    """What the decoder reads: annotations ``h (B,S,2n)``, keys ``U_a h (B,S,a)``; ``mask (B,S)``: -inf on pads."""

    annotations: Tensor
    keys: Tensor
    mask: Tensor


class Bahdanau(pl.LightningModule):
    """RNNsearch: the decoder reads the source through an alignment that it computes anew for every word (§3, A.1–A.2).

    With annotations h_j from a bidirectional GRU and s_0 = tanh(W_s h←_1), step i computes::

        e_ij = v_a · tanh(W_a s_{i-1} + U_a h_j)       alignment, from the previous state
        α_ij = softmax_j(e_ij)                          over the source, pads excluded
        c_i = Σ_j α_ij h_j                              context
        z_i = σ(W_z E y_{i-1} + U_z s_{i-1} + C_z c_i)  update gate
        r_i = σ(W_r E y_{i-1} + U_r s_{i-1} + C_r c_i)  reset gate
        s~_i = tanh(W E y_{i-1} + U (r_i∘s_{i-1}) + C c_i)
        s_i = (1 - z_i)∘s_{i-1} + z_i∘s~_i
        t_i = max of pairs of U_o s_i + V_o E y_{i-1} + C_o c_i
        p(y_i) = softmax(W_o t_i)

    Deviations: the readout sees s_i as in equation 4 (the appendix writes s_{i-1}); gates, readout and output have
    biases; Glorot and orthogonal initialisation instead of N(0, 0.01²); Adam instead of Adadelta.
    """

    families = ("transduction",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        embedding: int = 64,
        hidden: int = 128,
        attention: int = 128,
        maxout: int = 64,
        beam_size: int = 1,
        learning_rate: float = 2e-3,
        warm_up: float = 0.02,
        decay_from: float = 0.5,
    ):
        super().__init__()
        self.spec, self.hidden, self.beam_size = spec, hidden, valid_beam_size(beam_size)
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        self.encoder = BidirectionalGRU(spec.source_vocabulary, embedding, hidden)
        self.W_s = nn.Linear(hidden, hidden)
        self.E = nn.Embedding(spec.target_vocabulary, embedding)
        self.W_a = nn.Parameter(torch.empty(hidden, attention))
        self.U_a = nn.Parameter(torch.empty(2 * hidden, attention))
        self.v_a = nn.Parameter(torch.empty(attention))
        self.W = nn.Linear(embedding, 3 * hidden)  # [W_z | W_r | W]
        self.C = nn.Parameter(torch.empty(2 * hidden, 3 * hidden))  # [C_z | C_r | C]
        self.U_zr = nn.Parameter(torch.empty(hidden, 2 * hidden))  # [U_z | U_r]
        self.U = nn.Parameter(torch.empty(hidden, hidden))
        self.U_o = nn.Linear(hidden, 2 * maxout)
        self.C_o = nn.Linear(2 * hidden, 2 * maxout, bias=False)
        self.V_o = nn.Linear(embedding, 2 * maxout, bias=False)
        self.W_o = nn.Linear(maxout, spec.target_vocabulary)
        self.initialise()

    def initialise(self) -> None:
        """Draw the weights: orthogonal where a state meets itself, Glorot elsewhere, each gate as its own matrix."""
        nn.init.orthogonal_(self.U)
        initialise_blocks(self.U_zr, 2, nn.init.orthogonal_)
        initialise_blocks(self.W.weight.T, 3, nn.init.xavier_uniform_)
        initialise_blocks(self.C, 3, nn.init.xavier_uniform_)
        for weight in (self.W_a, self.U_a, self.W_s.weight):
            nn.init.xavier_uniform_(weight)
        nn.init.uniform_(self.v_a, -(self.v_a.numel() ** -0.5), self.v_a.numel() ** -0.5)
        for linear in (self.W, self.W_s, self.U_o, self.W_o):
            nn.init.zeros_(linear.bias)

    def encode(self, inputs: Inputs) -> tuple[Memory, Tensor]:
        """Return what the decoder reads, and its first state ``s_0 (B,n)``."""
        require_symbols(inputs.source_length)
        valid = valid_positions(inputs.source_length, inputs.source.shape[1])  # (B,S)
        annotations, first_backward = self.encoder(inputs.source, valid)  # (B,S,2n), (B,n)
        mask = torch.zeros_like(valid, dtype=annotations.dtype).masked_fill(~valid, -torch.inf)
        return Memory(annotations, annotations @ self.U_a, mask), torch.tanh(self.W_s(first_backward))

    def attend(self, s: Tensor, memory: Memory) -> Tensor:
        """Return the alignment ``α (B,S)`` of the state ``s (B,n)`` with every source position."""
        e = torch.tanh((s @ self.W_a)[:, None] + memory.keys) @ self.v_a  # (B,S,a) -> (B,S)
        return torch.softmax(e + memory.mask, dim=1)

    def step(self, y: Tensor, s: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """Return ``logits (B,V)``, the next state ``(B,n)`` and the alignment ``(B,S)`` after the tokens ``y (B,)``."""
        alpha = self.attend(s, memory)  # (B,S)
        c = torch.bmm(alpha[:, None], memory.annotations)[:, 0]  # (B,2n)
        gates = self.W(self.E(y)) + c @ self.C  # (B,3n)
        z, r = torch.sigmoid(gates[:, : 2 * self.hidden] + s @ self.U_zr).chunk(2, dim=1)
        candidate = torch.tanh(gates[:, 2 * self.hidden :] + (r * s) @ self.U)  # s~
        s = (1 - z) * s + z * candidate
        return self.readout(s, y, c), s, alpha

    def readout(self, s: Tensor, y: Tensor, c: Tensor) -> Tensor:
        """Return logits ``(...,V)`` from states ``(...,n)``, previous tokens ``(...)`` and contexts ``(...,2n)``."""
        t = self.U_o(s) + F.embedding(y, self.V_o(self.E.weight)) + self.C_o(c)  # (...,2l)
        first, second = t.chunk(2, dim=-1)  # unit k is the larger of k and l + k
        return self.W_o(second + torch.relu(first - second))  # max(a, b), with a cheaper gradient than torch.maximum

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Teacher forcing: every step of the answer sees the right previous token."""
        memory, s_0 = self.encode(batch.inputs)
        previous = shifted_right(batch.targets.target, BOS).T  # (T,B)
        table = self.W(self.E.weight)  # (V,3n): every word projected once, not every token
        s, c = attention_recurrence(previous, table, s_0, *memory, self.W_a, self.v_a, self.C, self.U_zr, self.U)
        return token_loss(self.readout(s, previous, c), batch.targets.target.T)  # s (T,B,n), c (T,B,2n)

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Search for the best answer; greedily with a beam of 1."""
        memory, s_0 = self.encode(inputs)
        memory = repeat(memory, self.beam_size)
        limit = self.spec.output_limit(inputs.source_length)
        return Prediction(search(lambda y, s: self.step(y, s, memory)[:2], s_0, limit, self.beam_size))

    def explain(self, inputs: Inputs) -> dict[str, Tensor]:
        """Return the answer ``tokens (B,T')`` and the ``attention (B,T',S)`` that each token was read with."""
        tokens = self.predict_step(inputs).tokens
        memory, s = self.encode(inputs)
        alignments = []
        for y in shifted_right(tokens, BOS).T:  # (B,)
            _, s, alpha = self.step(y, s, memory)
            alignments.append(alpha)
        return {"tokens": tokens, "attention": torch.stack(alignments, dim=1)}

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from)
