"""What the models of family ``pointing`` share: slots and masks, the loss, and the search for an answer.

A model scores *slots*: one an element, and behind them one for the stop, where a task has it. A batch of N columns of
elements has N + 1 slots, the last of which is the stop's; where there is none, it is never allowed.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from baselines.beam import repeat, select
from baselines.sequences import valid_positions
from harness.families.pointing import STOP, Inputs, Spec

TAKEN = -1e9
"""Added to the score of an element that was named before. Not -inf: behind an answer's end all may be taken, and a
softmax over nothing but -inf has no gradient. No score comes near it, so its probability is exactly 0."""


def require_elements(length: Tensor) -> None:
    """Raise a ``ValueError`` where a set is empty: there is nothing to point at."""
    empty = torch.nonzero(length < 1).flatten().tolist()
    if empty:
        raise ValueError(f"length is below 1 in rows {empty}; a set needs at least one element")


def allowed_slots(inputs: Inputs, spec: Spec) -> Tensor:
    """Return ``(B,N+1)``: 0 for the slots of an example's own elements and for a stop that there is, else -inf."""
    require_elements(inputs.length)
    valid = valid_positions(inputs.length, inputs.elements.shape[1])
    allowed = F.pad(valid, (0, 1), value=spec.has_stop)
    return torch.zeros(allowed.shape, device=allowed.device).masked_fill(~allowed, -torch.inf)


def target_slots(indices: Tensor, slots: int, spec: Spec) -> tuple[Tensor, Tensor]:
    """Return the right slot at each step, ``(B,M) int64``, and which steps there are, ``(B,M) bool``.

    ``indices (B,M)`` are targets; ``slots`` N + 1. The stop is a step of its own, where there is one.
    """
    named = indices != STOP
    there = named | (spec.has_stop & ((~named).cumsum(1) == 1))
    return torch.where(named, indices, slots - 1), there


def taken_slots(target: Tensor, there: Tensor, slots: int) -> Tensor:
    """Return what is added to the scores of permutations, ``(B,M,N+1)``: ``TAKEN`` where the answer has been before."""
    named = F.one_hot(target, slots) * there[..., None]
    return (named.cumsum(1) - named).clamp(max=1) * TAKEN


def slot_loss(scores: Tensor, target: Tensor, there: Tensor) -> Tensor:
    """Return the cross-entropy (nats) of ``scores (B,M,N+1)``, a mean over the steps of all answers."""
    ignored = target.masked_fill(~there, -100)
    summed = F.cross_entropy(scores.flatten(0, 1), ignored.flatten(), ignore_index=-100, reduction="sum")
    return summed / there.sum()


def previous_elements(start: Tensor, vectors: Tensor, target: Tensor) -> Tensor:
    """Return the inputs of teacher forcing ``(B,M,d)``: ``start (d,)``, then every right slot's vector but the last.

    ``vectors (B,N,d)``; ``target (B,M)`` slots. Behind a stop comes the first vector again, which no loss sees.
    """
    inside = target[:, :-1].remainder(vectors.shape[1])
    chosen = vectors.gather(1, inside[..., None].expand(-1, -1, vectors.shape[2]))
    return torch.cat([start.expand(len(target), 1, -1), chosen], dim=1)


Step = Callable[[Tensor | None, Any], tuple[Tensor, Any]]


def point(step: Step, state: Any, allowed: Tensor, inputs: Inputs, spec: Spec, beam_size: int = 1) -> Tensor:
    """Return the most probable answer found for each example, ``(B,M') int64``, -1 behind it.

    ``step(slot, state) -> scores (R,N+1), state`` for R = B · beam_size hypotheses, those of an example in a row, after
    the slots ``slot (R,)`` that they pointed at before, None at first. ``state`` has a row an example at first;
    ``allowed (B,N+1)`` is as ``allowed_slots`` gives it.

    At each step the ``beam_size`` most probable continuations of an example's hypotheses are kept, complete ones among
    them; a beam of 1 is greedy. An example is finished when its best hypothesis is complete, because probabilities only
    fall, or at the limit. For a permutation, what has been named cannot be named again, so that a beam holds the
    beginnings of permutations alone.
    """
    (batch, slots), width = allowed.shape, beam_size
    stop, limit = slots - 1, spec.output_limit(inputs.length)[:, None]
    first_row = torch.arange(batch, device=allowed.device)[:, None] * width  # (B,1)
    state = repeat(state, width)
    mask = allowed[:, None].expand(-1, width, -1)  # (B,k,N+1)
    total = torch.full((batch, width), -torch.inf, device=allowed.device)  # log p of a hypothesis
    total[:, 0] = 0.0
    ended = torch.zeros_like(total, dtype=torch.bool)
    history = limit.new_empty(batch, width, 0)
    slot = None
    for t in range(int(limit.max())):
        scores, state = step(slot, state)
        logp = torch.log_softmax(scores.view(batch, width, slots) + mask, dim=2)
        logp[ended] = -torch.inf
        logp[..., stop] = torch.where(ended, 0.0, logp[..., stop])  # an answer that is complete stays as it is
        total, choice = (total[:, :, None] + logp).flatten(1).topk(width, dim=1)  # (B,k), best first
        parent, chosen = choice // slots, choice % slots
        if width > 1:
            state = select(state, (first_row + parent).flatten())
            mask = mask.gather(1, parent[:, :, None].expand(-1, -1, slots))
            history = history.gather(1, parent[:, :, None].expand(-1, -1, t))
        history = torch.cat([history, chosen[:, :, None]], dim=2)
        ended = (chosen == stop) | (t + 1 >= limit)
        if bool(ended[:, 0].all()):
            break
        if spec.permutation:
            mask = mask.scatter_add(2, chosen[:, :, None], torch.full_like(total, TAKEN)[:, :, None])
        slot = chosen.clamp(max=stop - 1).flatten()
    best = history[:, 0]
    return best.masked_fill(best == stop, STOP)
