"""The attention of Luong, Pham, Manning 2015 (§3.1–3.2): four scores, and a window that is global or local."""

from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

Score = Literal["dot", "general", "concat", "location"]
Window = Literal["global", "local-m", "local-p"]


class Memory(NamedTuple):
    """What the decoder reads: states ``h̄ (B,S,n)``, ``keys (B,S,n)``, ``mask (B,S)``: -inf on pads, ``length (B,)``.

    The keys are the part of a score that only depends on h̄: h̄ itself, W_a h̄, or its half of W_a [h; h̄].
    """

    states: Tensor
    keys: Tensor
    mask: Tensor
    length: Tensor


class Attention(nn.Module):
    """Weights a_t(s) of the source positions s = 1..S for the decoder's state h_t at step t.

    Scores of h_t with a source state h̄_s (§3.1; *location* is equation 8)::

        dot       h_t · h̄_s
        general   h_t · W_a h̄_s
        concat    v_a · tanh(W_a [h_t; h̄_s])
        location  (W_a h_t)_s             does not look at the source

    a_t is their softmax over the positions of the window; it is exactly 0 outside. *global*: all of the source.
    *local*: positions within D (``half_window``) of p_t, where *local-m* has p_t = t, and *local-p* predicts it and
    favours what is near (§3.2, equations 9 and 10)::

        p_t = S · σ(v_p · tanh(W_p h_t))
        a_t(s) = softmax_s(score) · exp(-(s - p_t)² / 2σ²),  σ = D/2

    These weights of local-p are not normalised again. All scores are computed and those outside the window dropped,
    which costs nothing at the lengths here. *local-m* stays at the source's last position when t goes past it.

    *location* has a weight for each of ``positions`` positions; those that no training source reaches stay as they were
    drawn, and a longer source is an error.
    """

    def __init__(self, hidden: int, score: Score, window: Window, half_window: int, positions: int):
        super().__init__()
        _require("score", score, get_args(Score))
        _require("window", window, get_args(Window))
        if half_window < 1:
            raise ValueError(f"half_window = {half_window!r} is not valid: it must be 1 or more")
        self.score, self.window, self.half_window = score, window, half_window
        if score == "location":
            self.W_a = nn.Linear(hidden, positions, bias=False)
        elif score == "general":
            self.W_a = nn.Linear(hidden, hidden, bias=False)
        elif score == "concat":
            self.W_a = nn.Linear(2 * hidden, hidden, bias=False)
            self.v_a = nn.Parameter(torch.empty(hidden).uniform_(-(hidden**-0.5), hidden**-0.5))
        if window == "local-p":
            self.W_p = nn.Linear(hidden, hidden, bias=False)
            self.v_p = nn.Parameter(torch.empty(hidden).uniform_(-(hidden**-0.5), hidden**-0.5))

    def memory(self, states: Tensor, valid: Tensor) -> Memory:
        """Return what the decoder reads of source states ``(B,S,n)``; ``valid (B,S)`` is false on pads."""
        keys = states
        if self.score == "general":
            keys = self.W_a(states)  # (B,S,n)
        elif self.score == "concat":
            keys = states @ self.W_a.weight.chunk(2, dim=1)[1].T
        elif self.score == "location" and bool(valid[:, self.W_a.out_features :].any()):
            raise ValueError(
                f"a source of {int(valid.sum(1).max())} symbols is longer than the {self.W_a.out_features} positions "
                "that the location score has weights for (max_test_size of the task)"
            )
        mask = torch.zeros_like(valid, dtype=states.dtype).masked_fill(~valid, -torch.inf)
        return Memory(states, keys, mask, valid.sum(1))

    def forward(self, h: Tensor, memory: Memory, step: int = 1) -> Tensor:
        """Return ``a (B,T,S)`` for states ``h (B,T,n)`` at the steps ``step``, ``step`` + 1, ... (1 is the first)."""
        scores = self.scores(h, memory) + memory.mask[:, None]  # (B,T,S)
        if self.window == "global":
            return torch.softmax(scores, dim=2)
        positions = torch.arange(1, scores.shape[2] + 1, device=h.device)  # (S,)
        distance = positions - self.centre(h, memory, step)[:, :, None]  # (B,T,S): s - p_t
        a = torch.softmax(scores.masked_fill(distance.abs() > self.half_window, -torch.inf), dim=2)
        if self.window == "local-m":
            return a
        sigma = self.half_window / 2
        return a * torch.exp(-(distance**2) / (2 * sigma**2))

    def scores(self, h: Tensor, memory: Memory) -> Tensor:
        """Return the scores ``(B,T,S)`` of states ``h (B,T,n)``, pads included."""
        if self.score == "location":
            scores = self.W_a(h)[:, :, : memory.mask.shape[1]]
            return nn.functional.pad(scores, (0, memory.mask.shape[1] - scores.shape[2]))
        if self.score == "concat":
            queries = h @ self.W_a.weight.chunk(2, dim=1)[0].T  # (B,T,n)
            # One step at a time: a layer (B,S,n) stays in the cache, (B,T,S,n) would not.
            return torch.stack([torch.tanh(memory.keys + q[:, None]) @ self.v_a for q in queries.unbind(1)], dim=1)
        return torch.bmm(h, memory.keys.mT)

    def centre(self, h: Tensor, memory: Memory, step: int) -> Tensor:
        """Return the position ``p (B,T)`` around which each step's window lies, counted from 1."""
        if self.window == "local-m":
            steps = torch.arange(step, step + h.shape[1], device=h.device)
            return torch.minimum(steps, memory.length[:, None])
        return memory.length[:, None] * torch.sigmoid(torch.tanh(self.W_p(h)) @ self.v_p)


def _require(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise a ``ValueError`` unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} = {value!r} is not valid: choose one of {', '.join(choices)}")
