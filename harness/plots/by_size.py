"""Score against size: inside the training range and up the ladder."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harness.cells import size_range
from harness.curves import Curve, curves
from harness.groups import Group
from harness.metrics import Metric
from harness.plots.style import (
    GREY,
    Style,
    draw_curve,
    label,
    legend,
    panels,
    reference_style,
    score_axis,
    style_of,
    thin_lines,
)
from harness.ranking import centre_of
from harness.results import REFERENCE_BUDGET
from harness.standings import Board, Contest

FAR = 6
"""A reference so many times worse than every row leaves the frame."""
LONG = 6
"""A ladder that goes so many times beyond the sizes trained on is drawn in logarithms."""


def draw(board: Board, contest: Contest) -> Figure:
    """Return the figure: a panel a plotted metric, a line a row with its interval as a band, or each of its seeds."""
    lines = curves(board, contest)
    figure, axes = panels(len(contest.task.plotted))
    counts: set[int] = set()
    for axis, name in zip(axes, contest.task.plotted, strict=True):
        metric = contest.task.metric(name)
        rows = list(_rows(axis, board, contest, metric, lines))
        references = list(_references(axis, contest, metric, lines))
        score_axis(axis, metric, _in_frame(rows, references, metric))
        drawn = rows + references
        _sizes(axis, contest, drawn)
        counts |= {int(n) for c in drawn for n in c.n if n}
    legend(figure, axes[0], " · ".join(contest.key), _caption(contest, counts))
    return figure


def _in_frame(rows: list[Curve], references: list[Curve], metric: Metric) -> np.ndarray:
    """Return the values that the frame holds: all but references that are far worse than every row.

    Bits are drawn in logarithms, where they do no harm.
    """
    largest = max((np.nanmax(curve.centre, initial=0) for curve in rows), default=0)
    near = [
        c for c in references if np.nanmax(c.centre, initial=0) <= FAR * largest or metric.unit == "bits" or not rows
    ]
    return np.concatenate([np.empty(0), *(curve.centre for curve in (*rows, *near))])


def _sizes(axis: Axes, contest: Contest, drawn: list[Curve]) -> None:
    """Label the axis of sizes; in logarithms where the ladder goes many times beyond the sizes trained on."""
    axis.set_xlabel(contest.task.size_name)
    sizes = sorted({float(size) for curve in drawn for size in curve.size})
    if sizes and sizes[-1] > LONG * size_range(contest.task, contest.test)[1]:
        axis.set_xscale("log")
        axis.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axis.minorticks_off()
    else:
        axis.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))


def _caption(contest: Contest, counts: set[int]) -> str:
    n = f"{min(counts)}–{max(counts)}" if len(counts) > 1 else "".join(map(str, counts))
    seeds = "thin: each seed" if centre_of(contest.task) == "median" else "band: 95 % t interval"
    line = f"line: {centre_of(contest.task)} over seeds; {seeds}"
    return f"{line}; shaded: sizes trained on; {n} examples a point; ×: no value"


def _rows(
    axis: Axes, board: Board, contest: Contest, metric: Metric, lines: dict[tuple[str, str, str], Curve]
) -> Iterator[Curve]:
    """Draw the rows of a table in one metric, and yield what was drawn."""
    smallest, largest = size_range(contest.task, contest.test)
    axis.axvspan(smallest, largest, color="#f2f2f2", zorder=0)
    if smallest == largest:  # which has no width to shade
        axis.axvline(largest, color="#ececec", linewidth=6, zorder=0)
    for ranked in board.contests[contest]:
        if (line := lines.get((contest.budget, ranked.row, metric.name))) is not None:
            group = board.row(contest, ranked.row)
            draw_curve(axis, line, style_of(ranked.row), label(group) if group else ranked.row)
            if group is not None and centre_of(contest.task) == "median":
                _draw_seeds(axis, line, style_of(ranked.row), group, metric)
            yield line


def _references(
    axis: Axes, contest: Contest, metric: Metric, lines: dict[tuple[str, str, str], Curve]
) -> Iterator[Curve]:
    """Draw the references, and what counts as solved."""
    for index, row in enumerate(contest.task.references()):
        if (line := lines.get((REFERENCE_BUDGET, row, metric.name))) is not None:
            axis.plot(line.size, line.centre, label=row, **reference_style(index))
            yield line
    if metric is contest.task.headline and metric.solved is not None:
        _draw_threshold(axis, metric.solved)


def _draw_seeds(axis: Axes, line: Curve, style: Style, group: Group, metric: Metric) -> None:
    """Draw each seed thin at the points of ``line``: where runs succeed or fail, a mean describes none of them."""
    seeds = []
    for member in group.members:
        values = {(score.split, score.size): score.values.get(metric.name) for score in member.run.scores}
        own = [values.get((split, float(size))) for split, size in zip(line.split, line.size, strict=True)]
        seeds.append((line.size, np.array([np.nan if value is None else value for value in own])))
    thin_lines(axis, seeds, style, zorder=2.5)


def _draw_threshold(axis: Axes, solved: float) -> None:
    axis.axhline(solved, color=GREY, linewidth=0.7, linestyle=":", zorder=1)
    look: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": 7, "color": GREY}
    at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (0, 1), "textcoords": "offset points"}
    axis.annotate(f"solved: {solved:g}", (1, solved), **at, **look)
