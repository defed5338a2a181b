"""What models show of themselves on fixed test examples: attention, memory weights, redrawn from git."""

from collections.abc import Iterator

from matplotlib.figure import Figure

from harness.errors import CorruptBundleError
from harness.families.base import Stored
from harness.groups import Group
from harness.plots.style import WIDTH, label
from harness.results import read_arrays
from harness.standings import Board, Contest

DRAWING_ERRORS = (ValueError, IndexError, KeyError, TypeError)
"""What drawing raises where what is stored has another shape: a stranger's, perhaps."""
PANEL = 2.6
"""Inches a row of panels is high."""


def explaining(board: Board, contest: Contest) -> list[Group]:
    """Return the rows of a table that explain themselves in a way the task can draw, best first."""
    groups = [board.row(contest, ranked.row) for ranked in board.contests[contest]] if contest.task.draws else []
    return [group for group in groups if group is not None and _drawable(contest, group)]


def _drawable(contest: Contest, group: Group) -> bool:
    if "examples.npz" not in group.first.files:
        return False
    return all(set(contest.task.draws) <= set(explanation) for _, _, explanation in _examples(group))


def _examples(group: Group) -> Iterator[tuple[str, int, Stored]]:
    """Yield split, example and explanation of the row's first seed."""
    member = group.members[0]
    for place, explanation in read_arrays(member.folder, member.run, "examples.npz").items():
        split, _, row = place.rpartition("/")
        if not row.isdecimal():
            raise CorruptBundleError(f"{member.folder}: {place} in examples.npz is no example of a split")
        yield split, int(row), explanation


def draw(board: Board, contest: Contest) -> Figure:
    """Return the figure: a line of panels a row that explains itself, a panel an example.

    Raises ``CorruptBundleError`` where what is stored has not the shape of what the task draws.
    """
    rows = explaining(board, contest)
    shown = [list(_examples(group)) for group in rows]
    figure = Figure(figsize=(WIDTH, PANEL * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), max(map(len, shown)), squeeze=False)
    for group, examples, axes in zip(rows, shown, grid, strict=True):
        for axis in axes[len(examples) :]:
            axis.set_axis_off()
        for (split, row, explanation), axis in zip(examples, axes, strict=False):
            data = contest.task.load(split)
            try:
                contest.task.draw(axis, data, row, explanation)
            except DRAWING_ERRORS as error:
                folder = group.members[0].folder
                raise CorruptBundleError(f"{folder}: {split}/{row} in examples.npz cannot be drawn: {error}") from error
            axis.set_title(f"{label(group)}\n{split}, example {row}", fontsize=8)
    return figure
