"""The figures of one table of the board, as SVG files that are the same on every run."""

from collections.abc import Callable

from matplotlib.figure import Figure

from harness.plots import against, answers, breakdown, by_size, cost, explained, grid, learning, study
from harness.plots.style import plotting_versions, svg, themed
from harness.standings import Board, Contest
from harness.studies import Study

FIGURES: dict[str, tuple[str, Callable[[Board, Contest], Figure]]] = {
    "size": ("score against size", by_size.draw),
    "breakdown": ("score by kind of example", breakdown.draw),
    "learning": ("validation score against training examples", learning.draw),
    "cost": ("score against cost", cost.draw),
    "answers": ("one example and the rows' answers", answers.draw),
    "explained": ("what models show of themselves", explained.draw),
}
"""Kind of figure by the end of its file's name: what it shows, and how it is drawn."""


STUDY = "study"
"""The end of the name of a study's file."""


def kinds(board: Board, contest: Contest) -> list[str]:
    """Return the kinds of figure that one table has."""
    has = {
        "size": contest.task.sizes_ordered,
        "breakdown": contest.task.breakdown,
        "answers": contest.task.draws_answers,
        "explained": explained.explaining(board, contest),
    }
    return [kind for kind in FIGURES if has.get(kind, True)]


def figures(board: Board, contest: Contest) -> dict[str, bytes]:
    """Draw the figures of one table and return the files by name, in the order of ``FIGURES``."""
    with themed():
        return {f"{contest.slug}-{kind}.svg": svg(FIGURES[kind][1](board, contest)) for kind in kinds(board, contest)}


def study_figure(board: Board, asked: Study) -> dict[str, bytes]:
    """Draw a study and return the file by name."""
    with themed():
        draw = study.draw if asked.curves else grid.draw if asked.grid else against.draw
        return {f"{asked.slug}-{STUDY}.svg": svg(draw(board, asked))}


__all__ = ["FIGURES", "STUDY", "figures", "kinds", "plotting_versions", "study_figure"]
