"""Vinyals, Fortunato, Jaitly 2015: "Pointer Networks"; Vinyals, Bengio, Kudlur 2016: "Order Matters"."""

from functools import partial
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from baselines.beam import valid_beam_size
from baselines.lstm_recurrence import LSTM, valid_precision
from baselines.optimisation import adam
from baselines.pointer_scores import pointer_scores
from baselines.pointing import allowed_slots, point, previous_elements, slot_loss, taken_slots, target_slots
from harness.families import Batch
from harness.families.pointing import Inputs, Prediction, Spec

State = tuple[Tensor, Tensor]
"""State and cell of the decoder, ``(B,n)`` each."""


class Memory(NamedTuple):
    """What the decoder reads: the slots' vectors ``e (B,N+1,n)``, the stop's last; W_1 e, and W_3 e for a glimpse,
    ``(B,N+1,n)`` each; the ``elements (B,N,D)``; and ``allowed (B,N+1)``: -inf where nothing may be pointed at.
    """

    e: Tensor
    pointer_keys: Tensor
    glimpse_keys: Tensor
    elements: Tensor
    allowed: Tensor


class PointerNetwork(pl.LightningModule):
    """Attention as the answer: its weights over the input are the output distribution (2015, equation 3).

    An LSTM reads the elements in the order given, a second one, which goes on from the first's last state, writes the
    answer. With e_j the states of the first and d_i those of the second::

        u_ij = v · tanh(W_1 e_j + W_2 d_i)
        p(C_i | C_1 … C_{i-1}, P) = softmax_j(u_ij)

    d_i is fed the element P_{C_{i-1}} that was pointed at before, and a learned vector at first. A learned vector more
    among the e_j is the stop, where the task has one. Where the answer is a permutation, what has been named cannot be
    named again, in training (by the right answer so far) as in search. Search is greedy or by beam; a beam keeps the
    most probable answers a step.

    From "Order Matters" (§4): ``glimpses`` are attention steps before pointing, each of which adds what it reads to
    the query: q ← q + W_g Σ_j softmax_j(v_g · tanh(W_3 e_j + W_4 q)) e_j, from q = d_i on. With ``process_steps`` the
    encoder is the *read* and *process* blocks, which do not see the order of the elements: e_j is
    a small network of the element alone, and an LSTM without inputs takes so many steps of reading them all::

        q_t = LSTM(q*_{t-1}),  r_t = Σ_j softmax_j(e_j · q_t) e_j,  q*_t = [q_t, r_t]

    The decoder begins with the last q*, through a linear map; with 0 steps it begins with zeros.

    Deviations: Adam instead of SGD at 1.0 without momentum; forget gates begin at 1, input weights in ±1/√D instead of
    ±0.08, with which hulls were not begun to be learned after 200,000 sets; how a glimpse enters the query, the width
    of the read block (one hidden layer of ReLU), and how q* becomes a state of the decoder are not in the paper.
    ``precision`` bf16 trains with products of states and weights in bfloat16, elements and attention in float32;
    evaluation is in float32 always.
    """

    families = ("pointing",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        hidden: int = 256,
        glimpses: int = 0,
        process_steps: int | None = None,
        beam_size: int = 1,
        precision: str = "fp32",
        learning_rate: float = 1e-3,
        warm_up: float = 0.0,
        decay_from: float = 0.3,
    ):
        super().__init__()
        if glimpses < 0 or (process_steps is not None and process_steps < 0):
            raise ValueError(f"glimpses = {glimpses}, process_steps = {process_steps}: neither can be negative")
        self.spec, self.hidden, self.beam_size = spec, hidden, valid_beam_size(beam_size)
        self.glimpses, self.process_steps, self.precision = glimpses, process_steps, valid_precision(precision)
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        if process_steps is None:
            self.encoder = LSTM(spec.dimensions, hidden)
        else:
            self.read = nn.Sequential(nn.Linear(spec.dimensions, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
            self.process = nn.LSTMCell(hidden, hidden)  # input r_{t-1}, state q_{t-1}: together q*_{t-1}
            self.begin = nn.Linear(2 * hidden, 2 * hidden)
        self.decoder = LSTM(spec.dimensions, hidden)
        self.start = nn.Parameter(torch.empty(spec.dimensions).uniform_(-0.08, 0.08))
        self.stop = nn.Parameter(torch.empty(hidden).uniform_(-0.08, 0.08))
        self.W_1, self.W_2 = (nn.Linear(hidden, hidden, bias=False) for _ in range(2))
        self.v = nn.Parameter(torch.empty(hidden))
        vectors = [self.v]
        if glimpses:
            self.W_3, self.W_4, self.W_g = (nn.Linear(hidden, hidden, bias=False) for _ in range(3))
            self.v_g = nn.Parameter(torch.empty(hidden))
            vectors.append(self.v_g)
        for vector in vectors:
            nn.init.uniform_(vector, -(hidden**-0.5), hidden**-0.5)

    @property
    def half(self) -> bool:
        """Whether products are in bfloat16 now."""
        return self.precision == "bf16" and self.training

    def product(self, layer: nn.Linear, x: Tensor) -> Tensor:
        """Return ``layer(x)``, computed in the present precision, as ``x`` is."""
        with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
            return layer(x).to(x.dtype)

    def encode(self, inputs: Inputs) -> tuple[Memory, State]:
        """Return what the decoder reads, and its first state."""
        allowed = allowed_slots(inputs, self.spec)  # (B,N+1)
        if self.process_steps is None:
            e, state = self.encoder.read(inputs.elements, inputs.length, self.half)  # (B,N,n)
        else:
            e = self.read(inputs.elements)  # (B,N,n)
            state = self.processed(e, allowed[:, :-1])
        e = torch.cat([e, self.stop.expand(len(e), 1, -1)], dim=1)  # (B,N+1,n)
        pointer_keys = self.product(self.W_1, e)
        glimpse_keys = self.product(self.W_3, e) if self.glimpses else pointer_keys
        return Memory(e, pointer_keys, glimpse_keys, inputs.elements, allowed), state

    def processed(self, e: Tensor, allowed: Tensor) -> State:
        """Return the decoder's first state after the process block has read the memory ``e (B,N,n)``."""
        q = r = cell = e.new_zeros(len(e), self.hidden)
        for _ in range(self.process_steps or 0):
            q, cell = self.process(r, (q, cell))
            weights = torch.softmax((e @ q[:, :, None])[..., 0] + allowed, dim=1)  # (B,N)
            r = torch.bmm(weights[:, None], e)[:, 0]
        if not self.process_steps:
            return q, cell
        h, c = self.begin(torch.cat([q, r], dim=1)).chunk(2, dim=1)
        return torch.tanh(h), c

    def scores(self, d: Tensor, memory: Memory) -> Tensor:
        """Return ``u (B,T,N+1)`` for decoder states ``d (B,T,n)``; nothing is masked but in the glimpses."""
        q = d
        for _ in range(self.glimpses):
            u = pointer_scores(self.product(self.W_4, q), memory.glimpse_keys, self.v_g)
            weights = torch.softmax(u + memory.allowed[:, None], dim=2)  # (B,T,N+1)
            q = q + self.product(self.W_g, torch.bmm(weights, memory.e))
        return pointer_scores(self.product(self.W_2, q), memory.pointer_keys, self.v)

    def forced(self, inputs: Inputs, indices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return masked ``u (B,M,N+1)`` for the answers ``indices (B,M)``, their slots, and which steps there are."""
        memory, (h, c) = self.encode(inputs)
        slots = memory.allowed.shape[1]
        target, there = target_slots(indices, slots, self.spec)  # (B,M)
        fed = previous_elements(self.start, inputs.elements, target)  # (B,M,D)
        d, _ = self.decoder(fed.transpose(0, 1), h, c, self.half)  # (M,B,n)
        u = self.scores(d.transpose(0, 1), memory) + memory.allowed[:, None]
        if self.spec.permutation:
            u = u + taken_slots(target, there, slots)
        return u, target, there

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Teacher forcing: every step of the answer is fed the right previous element."""
        return slot_loss(*self.forced(batch.inputs, batch.targets.indices))

    def step(self, slot: Tensor | None, state: State, memory: Memory) -> tuple[Tensor, State]:
        """Return ``u (R,N+1)`` and the next state after the slots ``slot (R,)``, None at first.

        The R / B hypotheses of an example are neighbours.
        """
        (batch, _, hidden), rows = memory.e.shape, len(state[0])
        if slot is None:
            fed = self.start.expand(rows, -1)
        else:
            example = torch.arange(rows, device=slot.device) // (rows // batch)
            fed = memory.elements[example, slot]  # (R,D)
        h, c = (each[0] for each in self.decoder(fed[None], *state))
        return self.scores(h.view(batch, -1, hidden), memory).flatten(0, 1), (h, c)

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Search for the best answer; greedily with a beam of 1."""
        memory, state = self.encode(inputs)
        step = partial(self.step, memory=memory)
        return Prediction(point(step, state, memory.allowed, inputs, self.spec, self.beam_size))

    def explain(self, inputs: Inputs) -> dict[str, Tensor]:
        """Return the answer ``indices (B,M')`` and the ``pointer (B,M',N)``: p(C_i = j), without the stop's share."""
        indices = self.predict_step(inputs).indices
        u, _, _ = self.forced(inputs, indices)
        return {"indices": indices, "pointer": torch.softmax(u, dim=2)[..., :-1]}

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam with the shared schedule."""
        return adam(
            self, self.learning_rate, warm_up=self.warm_up, decay_from=self.decay_from, decay="cosine", final=0.01
        )
