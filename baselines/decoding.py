"""Free-running decoding of token sequences."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from harness.families.transduction import BOS, EOS, PAD

State = TypeVar("State")


def greedy(step: Callable[[Tensor, State], tuple[Tensor, State]], state: State, limit: Tensor) -> Tensor:
    """Return the most probable token at each step, ``(B,T') int64``; pads follow a row's EOS.

    ``step`` maps the previous tokens ``(B,)`` and the state to ``logits (B,V)`` and the next state. A row that has not
    ended itself is cut at its ``limit (B,)``; decoding stops when every row has ended.
    """
    token = torch.full_like(limit, BOS)
    ended = torch.zeros_like(limit, dtype=torch.bool)
    tokens = []
    for position in range(int(limit.max())):
        logits, state = step(token, state)
        token = logits.argmax(dim=1).masked_fill(ended, PAD)  # (B,)
        tokens.append(token)
        ended = ended | (token == EOS) | (position + 1 >= limit)
        if bool(ended.all()):
            break
    return torch.stack(tokens, dim=1)
