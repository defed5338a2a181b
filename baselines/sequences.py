"""Helpers for batches of padded sequences."""

import torch
from torch import Tensor


def valid_positions(length: Tensor, width: int) -> Tensor:
    """Return ``(B,width) bool``: whether a position lies inside its sequence of ``length (B,)``."""
    return torch.arange(width, device=length.device) < length[:, None]


def reverse_by_length(tokens: Tensor, length: Tensor) -> Tensor:
    """Reverse each row of ``tokens (B,S)`` within its ``length (B,)``: ``1 2 3 . .`` becomes ``3 2 1 . .``."""
    position = torch.arange(tokens.shape[1], device=tokens.device)
    mirrored = length[:, None] - 1 - position  # (B,S), negative on pads
    return tokens.gather(1, torch.where(mirrored >= 0, mirrored, position))


def shifted_right(target: Tensor, first: int) -> Tensor:
    """Return the inputs of teacher forcing: ``first``, then ``target (B,T)`` without its last column."""
    return torch.cat([torch.full_like(target[:, :1], first), target[:, :-1]], dim=1)
