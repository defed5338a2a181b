"""Stories for people: as text, and as a picture of what a model read at each hop."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from harness.families.base import Examples, Stored
from harness.families.story import NO_SUPPORT
from tasks.babi.encoding import Encoder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 16
"""Statements of a longer story that are shown: the last ones, and those that support the answer."""


def _shown(sentences: int, support: Sequence[int]) -> list[int]:
    """Return which statements are shown, in order."""
    return sorted({*range(max(0, sentences - SHOWN), sentences), *support})


def _support(examples: Examples, row: int) -> list[int]:
    return [int(fact) for fact in examples.targets["support"][row] if fact != NO_SUPPORT]


def render(encoder: Encoder, examples: Examples, row: int, stored: Stored | None) -> str:
    """Return a story's statements by number from 1, ``*`` at those that support the answer, question and answer."""
    story, support = examples.inputs["story"][row], _support(examples, row)
    lines, last = [], -1
    for index in _shown(len(story), support):
        if index > last + 1:
            lines.append(f"      ({index - last - 1} statements)")
        lines.append(f"{index + 1:4}{'*' if index in support else ' '} {encoder.text(story[index])}")
        last = index
    facts = " ".join(str(fact + 1) for fact in support)
    answer = encoder.answers[examples.targets["answer"][row]]
    lines.append(f"      {encoder.text(examples.inputs['question'][row])}?  {answer}  (supported by {facts})")
    if stored is not None:
        given = encoder.answers[stored["answer"][row]]
        lines.append(f"      answered: {given} (the right one has rank {int(stored['rank'][row]) + 1})")
    return "\n".join(lines)


def draw_attention(axis: "Axes", encoder: Encoder, examples: Examples, row: int, explanation: Stored) -> None:
    """Draw ``attention (hops,S)`` as a grid, a statement a line and a hop a column; ``*`` supports the answer.

    Below stand question, answer, and the model's own answer, the highest of its ``scores (A,)``.
    """
    attention = explanation["attention"]
    story, support = examples.inputs["story"][row], _support(examples, row)
    rows = _shown(len(story), support)
    weights = np.asarray(attention, float)[:, rows].T  # (shown,hops)
    axis.imshow(weights, aspect="auto", cmap="Blues", vmin=0, vmax=1)
    for (line, hop), weight in np.ndenumerate(weights):
        axis.text(hop, line, f"{weight:.2f}", ha="center", va="center", fontsize=5, color="w" if weight > 0.5 else "k")
    labels = [f"{'* ' if index in support else ''}{encoder.text(story[index])}" for index in rows]
    axis.set_yticks(range(len(rows)), labels, fontsize=5)
    axis.set_xticks(range(weights.shape[1]), [f"hop {hop + 1}" for hop in range(weights.shape[1])], fontsize=6)
    answer = encoder.answers[examples.targets["answer"][row]]
    said = encoder.answers[int(np.argmax(explanation["scores"]))]
    question = encoder.text(examples.inputs["question"][row])
    axis.set_xlabel(f"{question}? {answer}; the model: {said}", fontsize=6)
