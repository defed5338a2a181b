"""A scene for people: in letters on a terminal, and in colour on axes with the pairs that a model looked at."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.sort_of_clevr.raster import paint
from tasks.sort_of_clevr.scenes import COLOURS, MASKS, RADIUS, SIDE, SQUARE, Scenes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTERS = [*(name[0] for name in COLOURS[:4]), "a", COLOURS[5][0]]
"""A letter a colour; gray is ``a``, for green has the g."""
ACROSS, DOWN = 3, 5
"""Pixels that a letter stands for; letters are about that much higher than wide."""
PAIRS_DRAWN = 8
LONGEST_NAME = 24
"""Letters of a row's name over its column."""


def letters(scene: Scenes) -> str:
    """Return one scene as text: a colour's letter, capital for a square, where its object covers a cell's middle."""
    picture = np.full((SIDE, SIDE), ".")
    for (row, column), colour, shape in zip(scene.centre[0], scene.colour[0], scene.shape[0], strict=True):
        letter = LETTERS[colour]
        around = np.ix_(range(row - RADIUS, row + RADIUS + 1), range(column - RADIUS, column + RADIUS + 1))
        picture[around] = np.where(MASKS[shape], letter.upper() if shape == SQUARE else letter, picture[around])
    return "\n".join("".join(line) for line in picture[DOWN // 2 :: DOWN, ACROSS // 2 :: ACROSS])


def draw_pairs(axis: "Axes", scene: Scenes, places: np.ndarray, relevance: np.ndarray) -> None:
    """Draw one scene and, over it, its most relevant pairs of places.

    ``places (N,2)`` in pixels, ``relevance (N,N)`` of either sign: black for the answer, white against it, thicker for
    more; an object with itself is a ring, and so is one whose relevance is the same whatever the second (a model that
    reads single objects).
    """
    axis.imshow(paint(scene)[0].transpose(1, 2, 0), interpolation="nearest")
    scale = max(float(np.abs(relevance).max()), 1e-12)
    if float(np.ptp(relevance, axis=1).max()) <= 1e-3 * scale:
        relevance = np.diag(relevance[:, 0])
    strongest = np.abs(relevance).ravel().argsort(kind="stable")[::-1][:PAIRS_DRAWN]
    for first, second in zip(*np.unravel_index(strongest, relevance.shape), strict=True):
        strength = relevance[first, second] / scale
        look: dict[str, Any] = {
            "color": "black" if strength > 0 else "#bbbbbb",
            "alpha": min(1.0, 0.25 + 0.75 * abs(strength)),
        }
        (row, column), (other_row, other_column) = places[first], places[second]
        if first == second:
            axis.plot(column, row, "o", fillstyle="none", markersize=7, markeredgewidth=2 * abs(strength), **look)
        else:
            axis.plot([column, other_column], [row, other_row], linewidth=2 * abs(strength), **look)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_xlim(-0.5, SIDE - 0.5)
    axis.set_ylim(SIDE - 0.5, -0.5)


def draw_answers(
    axis: "Axes", scene: Scenes, questions: Sequence[str], right: Sequence[str], given: Mapping[str, Sequence[str]]
) -> None:
    """Draw one scene at the left and a table at the right: a line a question, a column a row of the board."""
    axis.set_axis_off()
    axis.set_xlim(0, 1)
    axis.set_ylim(len(questions) + 0.5, -1.5)
    picture = axis.inset_axes((0, 0.14, 0.28, 0.72))
    picture.imshow(paint(scene)[0].transpose(1, 2, 0), interpolation="nearest")
    picture.set_xticks([])
    picture.set_yticks([])
    columns = {"answer": right, **given}
    left = np.linspace(0.66, 0.96, max(len(columns), 4))
    for line, question in enumerate(questions):
        axis.text(0.31, line, question, va="center", fontsize=7)
    for x, (name, said) in zip(left, columns.items(), strict=False):
        shown = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
        axis.text(x, -0.9, shown, va="bottom", fontsize=7, rotation=25, rotation_mode="anchor")
        for line, (answer, truth) in enumerate(zip(said, right, strict=True)):
            look: dict[str, Any] = {"color": "black"} if answer == truth else {"color": "#c00000", "weight": "bold"}
            axis.text(x, line, answer, va="center", fontsize=7, **look)
