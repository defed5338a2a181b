"""Graves, Wayne, Danihelka 2014: "Neural Turing Machines"."""

from typing import Any, Literal, NamedTuple

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from baselines.addressing import Heads, content_weights, interpolate, read, sharpen, shift, write
from baselines.losses import sequence_cost
from baselines.memory_recurrence import memory_recurrence
from baselines.optimisation import Schedule
from baselines.recurrent import initialise_blocks
from harness.families import Batch
from harness.families.tape import Inputs, Prediction, Spec

EMPTY = 1e-6
"""What every component of the memory holds before a tape begins."""


class State(NamedTuple):
    """What one step hands to the next."""

    r: Tensor  # what was read, (B,R,M)
    h: Tensor  # the controller's output, (B,n)
    c: Tensor  # an LSTM controller's cells, (B,n); (B,0) without
    w: Tensor  # weights of all heads, those that read first, (B,H,N)
    memory: Tensor  # (B,N,M)


class NTM(pl.LightningModule):
    """A controller with a memory of N slots, which heads read and write through weights over the slots (§3).

    With the input x_t, and for every head its own k, β, g, s, γ (and e, a where it writes)::

        h_t = LSTM([r_{t-1}, x_t], h_{t-1}), or tanh(W [r_{t-1}, x_t] + b)     controller
        k, β, g, s, γ, e, a from W_h h_t + b_h                                 squashed as below
        w^c(i) = softmax_i(β cos(k, M_{t-1}(i)))                               by content (5, 6)
        w^g(i) = g w^c(i) + (1 - g) w_{t-1}(i)                                 interpolation (7)
        w~(i) = Σ_j w^g(i - j) s(j)                                            circular shift (8)
        w_t(i) = w~(i)^γ / Σ_j w~(j)^γ                                         sharpening (9)
        r_t = Σ_i w_t(i) M_{t-1}(i)                                            heads that read (2)
        M_t(i) = M_{t-1}(i) ∘ Π (1 - w_t(i) e) + Σ w_t(i) a                    heads that write (3, 4)
        y_t = W_y [r_t, h_t] + b_y                                             log-odds of the bits

    k = tanh(·), g and e = σ(·), β = softplus(·), γ = 1 + softplus(·), s = softmax(·); a is as it comes.

    Order within a step: all heads are addressed by the memory that the step before left, then reads happen, then all
    heads erase, then all heads add; what is read answers at the same step and reaches the controller at the next. Every
    sequence starts with an empty memory, every head on slot 0, and learned r_0, h_0 and c_0.

    Deviations, or where the paper is silent: each head starts on one slot and the memory as a constant, neither learned
    (with soft learned weights few seeds converge); a small constant in the cosine, so that an empty slot resembles no
    key; RMSProp without centring; the learning rate falls towards the end; gradients are clipped by norm.
    """

    families = ("tape",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        controller: Literal["lstm", "feedforward"] = "lstm",
        hidden: int = 100,
        read_heads: int = 1,
        write_heads: int = 1,
        slots: int = 128,
        width: int = 20,
        shift_range: int = 1,
        learning_rate: float = 3e-4,
        epsilon: float = 1e-8,
        decay_from: float = 0.5,
    ):
        super().__init__()
        if controller not in ("lstm", "feedforward"):
            raise ValueError(f"controller = {controller!r} is not valid: choose one of lstm, feedforward")
        sizes = {"hidden": hidden, "read_heads": read_heads, "write_heads": write_heads, "slots": slots, "width": width}
        for name, value in sizes.items():
            _require_whole(name, value, 1)
        _require_whole("shift_range", shift_range, 0)
        if slots < 2 * shift_range + 1:
            raise ValueError(
                f"slots = {slots} is not valid with shift_range = {shift_range}: a head chooses from "
                f"{2 * shift_range + 1} shifts, which need at least as many slots"
            )
        self.spec, self.lstm = spec, controller == "lstm"
        self.learning_rate, self.epsilon, self.decay_from = learning_rate, epsilon, decay_from
        self.heads = Heads(read_heads, write_heads, slots, width, shift_range)
        gates, reads = 4 if self.lstm else 1, read_heads * width
        self.input = nn.Linear(spec.input_channels, gates * hidden)  # LSTM: gates i, f, o and the candidate
        self.W_controller = nn.Parameter(torch.empty(reads + self.lstm * hidden, gates * hidden))  # from [r | h]
        self.projection = nn.Linear(hidden, self.heads.P)
        self.output = nn.Linear(reads + hidden, spec.output_bits)
        self.r_0 = nn.Parameter(torch.zeros(read_heads, width))
        if self.lstm:
            self.h_0, self.c_0 = nn.Parameter(torch.zeros(hidden)), nn.Parameter(torch.zeros(hidden))
        initialise_blocks(self.W_controller, gates, nn.init.xavier_uniform_)

    def start(self, batch: int) -> State:
        """Return the state before a tape, for ``batch`` tapes."""
        hidden, device = self.projection.in_features, self.r_0.device
        h, c = (self.h_0, self.c_0) if self.lstm else (self.r_0.new_zeros(hidden), self.r_0.new_zeros(0))
        w = F.one_hot(torch.zeros(batch, self.heads.H, dtype=torch.int64, device=device), self.heads.N).to(self.r_0)
        memory = self.r_0.new_full((batch, self.heads.N, self.heads.M), EMPTY)
        return State(self.r_0.expand(batch, -1, -1), h.expand(batch, -1), c.expand(batch, -1), w, memory)

    def step(self, x: Tensor, state: State) -> tuple[State, Tensor]:
        """Return the state after the input ``x (B,C)``, and what the writing heads add, ``(B,W,M)``."""
        seen = torch.cat([state.r.flatten(1), state.h], dim=1)[:, : len(self.W_controller)]
        units = self.input(x) + seen @ self.W_controller  # (B,G)
        if self.lstm:
            i, f, o, candidate = units.chunk(4, dim=1)
            c = torch.sigmoid(f) * state.c + torch.sigmoid(i) * torch.tanh(candidate)
            h = torch.sigmoid(o) * torch.tanh(c)
        else:
            c, h = state.c, torch.tanh(units)
        head = self.heads.split(self.projection(h))
        content = content_weights(torch.tanh(head.k), F.softplus(head.beta), state.memory)
        gated = interpolate(content, state.w, torch.sigmoid(head.g))
        w = sharpen(shift(gated, torch.softmax(head.s, dim=2)), 1 + F.softplus(head.gamma))
        w_read, w_write = w.split([self.heads.R, self.heads.W], dim=1)
        memory = write(state.memory, w_write, torch.sigmoid(head.e), head.a)
        return State(read(w_read, state.memory), h, c, w, memory), head.a

    def forward(self, tape: Tensor) -> Tensor:
        """Return logits ``(B,T,K)`` for a ``tape (B,T,C)``: ``step`` repeated, but with one call for the whole tape."""
        start = self.start(len(tape))
        states = memory_recurrence(
            self.input(tape.transpose(0, 1)),
            torch.cat([start.r.flatten(1), start.h], dim=1),
            start.c if self.lstm else None,
            start.w,
            start.memory,
            self.W_controller,
            self.projection.weight.T,
            self.projection.bias,
            self.heads,
        )  # (T,B,R·M + n)
        return self.output(states).transpose(0, 1)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the cost of the batch's sequences."""
        return sequence_cost(self(batch.inputs.inputs), batch.targets.bits, batch.targets.answer)

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Return the logits at every step."""
        return Prediction(self(inputs.inputs))

    def explain(self, inputs: Inputs) -> dict[str, Tensor]:
        """Return the weights ``read (B,T,R,N)`` and ``write (B,T,W,N)``, and what was moved through them.

        ``reads (B,T,R,M)`` are the vectors r_t, ``adds (B,T,W,M)`` the vectors a_t, before they are weighted.
        """
        state = self.start(len(inputs))
        seen: dict[str, list[Tensor]] = {"read": [], "write": [], "reads": [], "adds": []}
        for x in inputs.inputs.unbind(1):
            state, a = self.step(x, state)
            w_read, w_write = state.w.split([self.heads.R, self.heads.W], dim=1)
            for name, value in zip(seen, (w_read, w_write, state.r, a), strict=True):
                seen[name].append(value)
        return {name: torch.stack(values, dim=1) for name, values in seen.items()}

    def configure_optimizers(self) -> dict[str, Any]:
        """RMSProp with momentum, as in the paper (§4.6), at a rate that falls after ``decay_from`` of the run.

        Once a task is solved gradients vanish. With a tiny ``epsilon`` they are still scaled up to full steps, and what
        holds beyond the training lengths can drift away unseen; with a larger one (Graves 2013: 1e-4, under the root)
        the weights rest, but a controller with many weights and small gradients learns more slowly.
        """
        optimiser = torch.optim.RMSprop(
            self.parameters(), lr=self.learning_rate, alpha=0.95, momentum=0.9, eps=self.epsilon, foreach=True
        )
        steps = float(self.trainer.estimated_stepping_batches)
        schedule = Schedule(steps, warm_up=0.0, decay_from=self.decay_from, decay="linear", final=0.02)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, schedule)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def _require_whole(name: str, value: int, least: int) -> None:
    """Raise a ``ValueError`` unless ``value`` is a whole number of at least ``least``."""
    if type(value) is not int or value < least:
        raise ValueError(f"{name} = {value!r} is not valid: a whole number, {least} or more")
