"""Beam search over token sequences, the same for every model that can say what may come next.

A model brings a *stepper*: ``step(tokens (N,), state) -> logits (N,V), state`` and the state before the first token.
The state is a tensor, a number, or a tuple of states; its rows are the hypotheses. What all hypotheses of an example
share (the memory of an encoder) needs no reordering: ``repeat`` it once and let ``step`` hold it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from baselines.decoding import greedy
from harness.families.transduction import BOS, EOS, PAD

Step = Callable[[Tensor, Any], tuple[Tensor, Any]]


def search(step: Step, state: Any, limit: Tensor, beam_size: int = 1, axis: int = 0) -> Tensor:
    """Return the best answer found for each example, ``(B,T') int64``; pads follow its EOS.

    ``state`` holds one row an example, along ``axis`` of each of its tensors; ``limit (B,)`` is the most tokens of an
    answer, EOS included. A beam of 1 is greedy.
    """
    if valid_beam_size(beam_size) == 1:
        return greedy(step, state, limit)
    return beam_search(step, state, limit, beam_size, axis)


def beam_search(step: Step, state: Any, limit: Tensor, beam_size: int, axis: int = 0) -> Tensor:
    """Return what ``search`` does, for any size of the beam.

    An answer is scored by its mean log-probability a token, (1/T) Σ log p(y_t), EOS included. At each step the
    ``beam_size`` most probable extensions of the open hypotheses are kept; one that ends in EOS is complete and leaves
    the beam. An open hypothesis of log-probability s can at best become an answer of score s / limit, because s only
    falls; an example is finished when no open one can pass the best complete one so. Where none is complete at the
    limit, the most probable open one is cut there.
    """
    batch, width = len(limit), beam_size
    first_row = torch.arange(batch, device=limit.device)[:, None] * width  # (B,1)
    state = repeat(state, width, axis)
    tokens = limit.new_full((batch * width,), BOS)
    history = limit.new_empty(batch * width, 0)  # (Bk,t)
    total = torch.full((batch, width), -torch.inf, device=limit.device)  # log p of what is open, -inf where nothing is
    total[:, 0] = 0.0
    answer = limit.new_full((batch, int(limit.max())), PAD)
    best = total.new_full((batch,), -torch.inf)  # score of the answer so far
    length = torch.zeros_like(limit)  # of the answer so far
    for t in range(1, answer.shape[1] + 1):
        logits, state = step(tokens, state)
        extended = total[:, :, None] + torch.log_softmax(logits, dim=1).view(batch, width, -1)  # (B,k,V)
        total, choice = extended.flatten(1).topk(width, dim=1)  # (B,k)
        rows = (first_row + choice // extended.shape[2]).flatten()  # (Bk,): whom each hypothesis extends
        tokens = (choice % extended.shape[2]).flatten()
        state = select(state, rows, axis)
        history = torch.cat([history[rows], tokens[:, None]], dim=1)

        ended = (tokens.view(batch, width) == EOS) & ~total.isneginf()
        cut = ((limit == t) & ~ended.any(dim=1) & best.isneginf())[:, None]  # nothing is complete: take what is open
        score, slot = (total / t).masked_fill(~(ended | cut), -torch.inf).max(dim=1)  # (B,)
        better = score > best
        best = torch.where(better, score, best)
        length = torch.where(better, t, length)
        answer[better, :t] = history.view(batch, width, t)[better, slot[better]]

        total = total.masked_fill(ended, -torch.inf)
        finished = (total.amax(dim=1) / limit <= best) | (limit == t)
        total = total.masked_fill(finished[:, None], -torch.inf)
        if bool(finished.all()):
            break
    return answer[:, : int(length.max())]


def valid_beam_size(beam_size: int) -> int:
    """Return ``beam_size``; a ``ValueError`` says what it may be."""
    if type(beam_size) is not int or beam_size < 1:
        raise ValueError(f"beam_size = {beam_size!r} is not valid: a whole number, 1 (greedy) or more")
    return beam_size


def repeat(state: Any, count: int, axis: int = 0) -> Any:
    """Return ``state`` with each of its rows ``count`` times in a row: an example's hypotheses are neighbours."""
    if count == 1:
        return state
    return _map(lambda tensor: tensor.repeat_interleave(count, axis), state)


def select(state: Any, rows: Tensor, axis: int = 0) -> Any:
    """Return ``state`` with the given rows, in their order."""
    return _map(lambda tensor: tensor.index_select(axis, rows), state)


def _map(function: Callable[[Tensor], Tensor], state: Any) -> Any:
    """Apply ``function`` to every tensor of ``state``; what is neither tensor nor tuple belongs to all rows alike."""
    if isinstance(state, Tensor):
        return function(state)
    if not isinstance(state, tuple):
        return state
    parts = [_map(function, part) for part in state]
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
