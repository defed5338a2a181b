"""A transformer (Vaswani et al. 2017) whose output distribution is attention over its input (Vinyals et al. 2015)."""

from functools import partial
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from baselines.beam import repeat, valid_beam_size
from baselines.optimisation import adam
from baselines.pointing import allowed_slots, point, previous_elements, slot_loss, taken_slots, target_slots
from baselines.transformer import DecoderLayer, EncoderLayer, Pairs, sinusoids
from harness.families import Batch
from harness.families.pointing import Inputs, Prediction, Spec

State = tuple[Pairs, ...]
"""For each layer of the decoder, the pairs of the steps so far."""


class Memory(NamedTuple):
    """What the decoder reads: ``e (B,N,w)`` of the elements, pairs of them for each layer of the decoder, which of them
    there are, ``mask (B,1,1,N)``, what its pointer compares with, ``keys (B,N+1,w)``, and ``allowed (B,N+1)`` slots.
    """

    e: Tensor
    layers: tuple[Pairs, ...]
    mask: Tensor
    keys: Tensor
    allowed: Tensor


class PointingTransformer(pl.LightningModule):
    """Every element sees all others; each step of the answer sees all earlier ones and the elements, and points.

    The encoder is a stack of self-attention over linear maps of the elements, to which the sinusoids of their positions
    are added: where an answer begins depends on them. The decoder is a causal stack over the encoder's outputs at the
    positions pointed at so far, a learned vector at first, with the sinusoids of their steps. It points by one more
    attention, whose weights are the answer::

        u_ij = (W_Q d_i) · (W_K e_j) / √width,   p(C_i) = softmax_j(u_ij)

    A learned vector more among the e_j is the stop, where the task has one. In permutations what has been named cannot
    be named again. Pre-norm layers, no dropout, as in ``transformer``. Kool, van Hoof, Welling 2019 point from such an
    encoder, too, but with one attention layer for a decoder, and learn by reinforcement.
    """

    families = ("pointing",)
    version = 1

    def __init__(
        self,
        spec: Spec,
        *,
        width: int = 128,
        heads: int = 4,
        encoder_layers: int = 2,
        decoder_layers: int = 2,
        beam_size: int = 1,
        learning_rate: float = 1e-3,
        warm_up: float = 0.05,
        decay_from: float = 0.3,
    ):
        super().__init__()
        if width % (2 * heads):
            raise ValueError(f"width = {width} is not valid: it must be a multiple of 2 · heads = {2 * heads}")
        self.spec, self.width, self.beam_size = spec, width, valid_beam_size(beam_size)
        self.learning_rate, self.warm_up, self.decay_from = learning_rate, warm_up, decay_from
        self.input = nn.Linear(spec.dimensions, width)
        self.encoder: Any = nn.ModuleList(EncoderLayer(width, heads) for _ in range(encoder_layers))
        self.encoder_norm = nn.LayerNorm(width)
        self.start = nn.Parameter(torch.randn(width) * width**-0.5)
        self.stop = nn.Parameter(torch.randn(width) * width**-0.5)
        self.fed = nn.Linear(width, width)
        self.decoder: Any = nn.ModuleList(DecoderLayer(width, heads) for _ in range(decoder_layers))
        self.decoder_norm = nn.LayerNorm(width)
        self.W_Q, self.W_K = (nn.Linear(width, width, bias=False) for _ in range(2))
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def encode(self, inputs: Inputs) -> tuple[Memory, State]:
        """Return what the decoder reads, and its state before the first step: no pairs."""
        allowed = allowed_slots(inputs, self.spec)  # (B,N+1)
        mask = allowed[:, None, None, :-1]  # (B,1,1,N)
        x = self.input(inputs.elements)  # (B,N,w)
        x = x + sinusoids(0, x.shape[1], self.width, x.device)
        for layer in self.encoder:
            x = layer(x, mask)
        e = self.encoder_norm(x)
        keys = self.W_K(torch.cat([e, self.stop.expand(len(e), 1, -1)], dim=1))  # (B,N+1,w)
        memory = Memory(e, tuple(layer.source_attention.pairs(e) for layer in self.decoder), mask, keys, allowed)
        return memory, tuple(layer.self_attention.pairs(e[:, :0]) for layer in self.decoder)

    def forward(self, fed: Tensor, state: State, memory: Memory) -> tuple[Tensor, State]:
        """Return ``u (B,T,N+1)`` after each of the vectors ``fed (B,T,w)``, and the next state.

        ``state`` holds the steps before these; it is empty, or there is a single new step.
        """
        x = self.fed(fed) + sinusoids(state[0].key.shape[2], fed.shape[1], self.width, fed.device)
        after = []
        for layer, past, elements in zip(self.decoder, state, memory.layers, strict=True):
            x, past = layer.read_answer(x, past)
            x = layer.feed_forward(layer.read_source(x, elements, memory.mask))
            after.append(past)
        query = self.W_Q(self.decoder_norm(x))  # (B,T,w)
        return query @ memory.keys.mT / self.width**0.5, tuple(after)

    def forced(self, inputs: Inputs, indices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return masked ``u (B,M,N+1)`` for the answers ``indices (B,M)``, their slots, and which steps there are."""
        memory, state = self.encode(inputs)
        slots = memory.allowed.shape[1]
        target, there = target_slots(indices, slots, self.spec)  # (B,M)
        u, _ = self(previous_elements(self.start, memory.e, target), state, memory)
        u = u + memory.allowed[:, None]
        if self.spec.permutation:
            u = u + taken_slots(target, there, slots)
        return u, target, there

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Teacher forcing: every step of the answer sees the right earlier ones."""
        return slot_loss(*self.forced(batch.inputs, batch.targets.indices))

    def step(self, slot: Tensor | None, state: State, memory: Memory) -> tuple[Tensor, State]:
        """Return ``u (R,N+1)`` and the next state after the slots ``slot (R,)``, None at first."""
        rows = torch.arange(len(memory.e), device=memory.e.device)
        fed = self.start.expand(len(rows), -1) if slot is None else memory.e[rows, slot]  # (R,w)
        u, state = self(fed[:, None], state, memory)
        return u[:, 0], state

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Search for the best answer; greedily with a beam of 1."""
        memory, state = self.encode(inputs)
        step = partial(self.step, memory=repeat(memory, self.beam_size))
        return Prediction(point(step, state, memory.allowed, inputs, self.spec, self.beam_size))

    def explain(self, inputs: Inputs) -> dict[str, Tensor]:
        """Return the answer ``indices (B,M')`` and the ``pointer (B,M',N)``: p(C_i = j), without the stop's share."""
        indices = self.predict_step(inputs).indices
        u, _, _ = self.forced(inputs, indices)
        return {"indices": indices, "pointer": torch.softmax(u, dim=2)[..., :-1]}

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam (β2 = 0.98) with the shared schedule."""
        return adam(
            self,
            self.learning_rate,
            betas=(0.9, 0.98),
            warm_up=self.warm_up,
            decay_from=self.decay_from,
            decay="cosine",
            final=0.01,
        )
