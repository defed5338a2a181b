"""Vaswani et al. 2017: "Attention Is All You Need"."""

from functools import partial
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from baselines.beam import repeat, search, valid_beam_size
from baselines.encoding import require_symbols
from baselines.losses import token_loss
from baselines.optimisation import adam
from baselines.sequences import shifted_right, valid_positions
from harness.families import Batch
from harness.families.transduction import BOS, Inputs, Prediction, Spec


class Pairs(NamedTuple):
    """What an attention reads: ``key`` and ``value (B,heads,S,d)`` of each position, projected once."""

    key: Tensor
    value: Tensor


class Memory(NamedTuple):
    """What the decoder reads: pairs of the source for each layer of the decoder; ``mask (B,1,1,S)``: -inf on pads."""

    layers: tuple[Pairs, ...]
    mask: Tensor


State = tuple[Pairs, ...]
"""For each layer of the decoder, the pairs of the tokens so far: a step adds one and computes none again."""


class Transformer(pl.LightningModule):
    """Every position reads all others at once; order enters through positions that are added to the words (§3).

    Attention of a position x to positions m, for each head h of size d (§3.2)::

        head_h = softmax_m((W_Q x)_h · (W_K m)_h / √d) (W_V m)_h,    W_O · concat_h head_h

    An encoder layer is self-attention, then a feed-forward network W_2 max(0, W_1 x); a decoder layer has attention to
    the encoder's output between the two, and sees no later token. Each of these is added to its input. Positions are
    sines and cosines of pos / 10000^(2i/width) (§3.5), a function that does not end where the training lengths do.

    Deviations: a layer's input is normalised instead of its sum with the output (*pre-norm*), with one more
    normalisation after each stack; embeddings and the output's weights are separate matrices; no dropout, no label
    smoothing; warm-up, then constant and half a cosine down, instead of the inverse square root. Paper: 6 layers each,
    width 512, 8 heads.
    """

    families = ("transduction",)
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
        self.source_embedding = nn.Embedding(spec.source_vocabulary, width)
        self.encoder: Any = nn.ModuleList(EncoderLayer(width, heads) for _ in range(encoder_layers))
        self.encoder_norm = nn.LayerNorm(width)
        self.target_embedding = nn.Embedding(spec.target_vocabulary, width)
        self.decoder: Any = nn.ModuleList(DecoderLayer(width, heads) for _ in range(decoder_layers))
        self.decoder_norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, spec.target_vocabulary)
        self.initialise()

    def initialise(self) -> None:
        """Draw matrices by Glorot, words with variance 1/width: scaled by √width they are as large as positions."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.width**-0.5)

    def embed(self, embedding: nn.Embedding, tokens: Tensor, first: int = 0) -> Tensor:
        """Return ``(B,T,width)``: words times √width (§3.4) plus their positions, ``first`` being that of column 0."""
        return embedding(tokens) * self.width**0.5 + sinusoids(first, tokens.shape[1], self.width, tokens.device)

    def encode(self, inputs: Inputs) -> tuple[Memory, State]:
        """Return what the decoder reads, and its state before the first token: no pairs."""
        require_symbols(inputs.source_length)
        valid = valid_positions(inputs.source_length, inputs.source.shape[1])  # (B,S)
        x = self.embed(self.source_embedding, inputs.source)  # (B,S,width)
        mask = torch.zeros_like(valid, dtype=x.dtype).masked_fill(~valid, -torch.inf)[:, None, None]  # (B,1,1,S)
        for layer in self.encoder:
            x = layer(x, mask)
        x = self.encoder_norm(x)
        memory = Memory(tuple(layer.source_attention.pairs(x) for layer in self.decoder), mask)
        return memory, tuple(layer.self_attention.pairs(x[:, :0]) for layer in self.decoder)

    def forward(self, tokens: Tensor, state: State, memory: Memory) -> tuple[Tensor, State]:
        """Return logits ``(B,T,V)`` after each of ``tokens (B,T)``, and the next state.

        ``state`` holds the tokens before these; it is empty, or there is a single new token.
        """
        x = self.embed(self.target_embedding, tokens, first=state[0].key.shape[2])  # (B,T,width)
        after = []
        for layer, past, source in zip(self.decoder, state, memory.layers, strict=True):
            x, past = layer.read_answer(x, past)
            x = layer.feed_forward(layer.read_source(x, source, memory.mask))
            after.append(past)
        return self.output(self.decoder_norm(x)), tuple(after)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Teacher forcing: every step of the answer sees the right previous tokens."""
        memory, state = self.encode(batch.inputs)
        logits, _ = self(shifted_right(batch.targets.target, BOS), state, memory)
        return token_loss(logits, batch.targets.target)

    def step(self, y: Tensor, state: State, memory: Memory) -> tuple[Tensor, State]:
        """Return ``logits (B,V)`` and the next state after the tokens ``y (B,)``."""
        logits, state = self(y[:, None], state, memory)
        return logits[:, 0], state

    def predict_step(self, inputs: Inputs, batch_idx: int = 0) -> Prediction:
        """Search for the best answer; greedily with a beam of 1."""
        memory, state = self.encode(inputs)
        step = partial(self.step, memory=repeat(memory, self.beam_size))
        limit = self.spec.output_limit(inputs.source_length)
        return Prediction(search(step, state, limit, self.beam_size))

    def explain(self, inputs: Inputs) -> dict[str, Tensor]:
        """Return the answer ``tokens (B,T')`` and the ``attention (B,T',S)`` of the last layer, a mean over heads."""
        tokens = self.predict_step(inputs).tokens
        memory, state = self.encode(inputs)
        x = self.embed(self.target_embedding, shifted_right(tokens, BOS))  # (B,T',width)
        for layer, past, source in zip(self.decoder, state, memory.layers, strict=True):
            x, _ = layer.read_answer(x, past)
            weights = layer.source_attention.weights(layer.source_norm(x), source, memory.mask)  # (B,heads,T',S)
            x = layer.feed_forward(layer.read_source(x, source, memory.mask))
        return {"tokens": tokens, "attention": weights.mean(1)}

    def configure_optimizers(self) -> dict[str, Any]:
        """Adam (β2 = 0.98, §5.3) with the shared schedule."""
        return adam(
            self,
            self.learning_rate,
            betas=(0.9, 0.98),
            warm_up=self.warm_up,
            decay_from=self.decay_from,
            decay="cosine",
            final=0.01,
        )


class Attention(nn.Module):
    """Attention with several heads (§3.2.2); matrices without biases, W_K and W_V side by side."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.W_Q = nn.Linear(width, width, bias=False)
        self.W_KV = nn.Linear(width, 2 * width, bias=False)
        self.W_O = nn.Linear(width, width, bias=False)

    def split(self, x: Tensor) -> Tensor:
        """Return ``x (B,T,width)`` as ``(B,heads,T,d)``."""
        return x.unflatten(2, (self.heads, x.shape[2] // self.heads)).transpose(1, 2)

    def pairs(self, x: Tensor) -> Pairs:
        """Return the keys and values of the positions ``x (B,S,width)``."""
        key, value = self.W_KV(x).chunk(2, dim=2)
        return Pairs(self.split(key), self.split(value))

    def forward(self, x: Tensor, pairs: Pairs, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """Return what the positions ``x (B,T,width)`` read, of the same shape.

        ``mask (B,1,1,S)`` is added to the scores; with ``causal`` position t sees none after t.
        """
        mixed = F.scaled_dot_product_attention(self.split(self.W_Q(x)), *pairs, attn_mask=mask, is_causal=causal)
        return self.W_O(mixed.transpose(1, 2).flatten(2))  # (B,heads,T,d) -> (B,T,width)

    def weights(self, x: Tensor, pairs: Pairs, mask: Tensor) -> Tensor:
        """Return the attention ``(B,heads,T,S)`` with which ``forward`` mixes the values."""
        query = self.split(self.W_Q(x))
        return torch.softmax(query @ pairs.key.mT / query.shape[3] ** 0.5 + mask, dim=3)


class EncoderLayer(nn.Module):
    """Self-attention over the source, then a feed-forward network."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.self_norm, self.self_attention = nn.LayerNorm(width), Attention(width, heads)
        self.feed_forward = FeedForward(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map ``x (B,S,width)`` to the same shape; ``mask (B,1,1,S)`` hides pads."""
        normal = self.self_norm(x)
        return self.feed_forward(x + self.self_attention(normal, self.self_attention.pairs(normal), mask))


class DecoderLayer(nn.Module):
    """Self-attention over the answer so far, attention to the source, then a feed-forward network."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.self_norm, self.self_attention = nn.LayerNorm(width), Attention(width, heads)
        self.source_norm, self.source_attention = nn.LayerNorm(width), Attention(width, heads)
        self.feed_forward = FeedForward(width)

    def read_answer(self, x: Tensor, past: Pairs) -> tuple[Tensor, Pairs]:
        """Add what ``x (B,T,width)`` reads of the tokens before and itself; return also ``past`` with its pairs."""
        normal = self.self_norm(x)
        new = self.self_attention.pairs(normal)
        pairs = Pairs(*(torch.cat(both, dim=2) for both in zip(past, new, strict=True)))  # (B,heads,t+T,d)
        return x + self.self_attention(normal, pairs, causal=x.shape[1] > 1), pairs

    def read_source(self, x: Tensor, source: Pairs, mask: Tensor) -> Tensor:
        """Add what ``x (B,T,width)`` reads of the source."""
        return x + self.source_attention(self.source_norm(x), source, mask)


class FeedForward(nn.Sequential):
    """Add W_2 max(0, W_1 x), four times as wide inside (§3.3), of the normalised input."""

    def __init__(self, width: int):
        super().__init__(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x (...,width)`` to the same shape."""
        return x + super().forward(x)


def sinusoids(first: int, count: int, width: int, device: torch.device | None = None) -> Tensor:
    """Return ``(count,width)``, from position ``first`` on: sin(pos / 10000^(2i/width)) in column 2i, cos beside it."""
    frequency = 10_000 ** (-torch.arange(0, width, 2, device=device) / width)  # (width/2,)
    angle = torch.arange(first, first + count, device=device)[:, None] * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)
