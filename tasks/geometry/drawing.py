"""Examples of the suite as text and as pictures."""

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from harness.families.base import Examples, Stored
from harness.families.pointing import INVALID, STOP

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EXPLAINED = ("indices", "pointer")
"""What an explanation holds: the answer ``indices (M',)`` and, step by step, ``pointer (M',N)`` over the elements."""

TRUTH, ANSWER = "#b0b0b0", "#0173b2"


def text(examples: Examples, row: int, stored: Stored | None = None) -> str:
    """Show elements with their positions, target and answer."""
    elements = examples.inputs["elements"][row, : int(examples.inputs["length"][row])]
    shown = [f"{index} ({','.join(f'{value:.3f}' for value in values)})" for index, values in enumerate(elements)]
    lines = [("input", "  ".join(shown)), ("target", _answer(examples.targets["indices"][row]))]
    lines += [] if stored is None else [("answer", _answer(stored["indices"][row]))]
    wrapper = textwrap.TextWrapper(width=110, subsequent_indent=" " * 8, break_on_hyphens=False)
    return "\n".join(wrapper.fill(f"{title:8}{line}") for title, line in lines)


def _answer(indices: np.ndarray) -> str:
    return " ".join("?" if index == INVALID else str(index) for index in indices.tolist() if index != STOP) or "-"


def polygons(axis: "Axes", examples: Examples, row: int, explanation: Stored) -> None:
    """Draw points, the target grey and the answer blue, both closed; beside them the pointer, a line a step."""
    axis.set_axis_off()
    plane, heat = axis.inset_axes((0.0, 0.0, 0.54, 1.0)), axis.inset_axes((0.74, 0.12, 0.26, 0.8))
    elements = examples.inputs["elements"][row, : int(examples.inputs["length"][row])]
    target, answer = examples.targets["indices"][row], explanation["indices"].astype(np.int64)
    for indices, colour, width in ((target, TRUTH, 4.0), (answer, ANSWER, 1.0)):
        corners = elements[indices[(indices >= 0) & (indices < len(elements))]]
        x, y = np.concatenate([corners, corners[:1]]).T
        plane.plot(x, y, color=colour, linewidth=width, solid_joinstyle="round")
    plane.scatter(elements[:, 0], elements[:, 1], s=6, color="black", zorder=3)
    plane.set_aspect("equal")
    plane.set_axis_off()
    plane.text(
        0.5,
        -0.03,
        "grey: right; blue: answer",
        transform=plane.transAxes,
        ha="center",
        va="top",
        fontsize=7,
        color="#555555",
    )
    pointer(heat, explanation)


def pointer(axis: "Axes", explanation: Stored) -> None:
    """Draw the pointer's distribution: a line a step of the answer, a column an element, darker for more."""
    axis.imshow(explanation["pointer"].astype(np.float32), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axis.set_xlabel("element")
    axis.set_ylabel("step")
