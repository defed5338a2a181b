"""Validation score against training examples: every seed thin, their mean or median bold."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from harness.groups import Group
from harness.markdown import number
from harness.plots.style import label, legend, mark_undefined, panels, score_axis, style_of, thin_lines
from harness.ranking import centre_of
from harness.standings import Board, Contest
from harness.statistics import Centre


def curves(group: Group) -> list[np.ndarray]:
    """Return examples and validation score ``(2, points)`` of every seed that has a curve, NaN where undefined."""
    return [
        np.stack([table[name].to_numpy(float) for name in ("examples", "validation")])
        for table in group.curves.values()
    ]


def middle(seeds: Sequence[np.ndarray], centre: Centre) -> np.ndarray:
    """Return the mean or median ``(2, points)`` of the curves that end with a value, where each of them has one."""
    finished = [seed for seed in seeds if seed.size and not np.isnan(seed[1, -1])]
    at: dict[float, list[float]] = {}
    for seed in finished:
        for examples, score in seed.T[~np.isnan(seed[1])].tolist():
            at.setdefault(examples, []).append(score)
    of = np.median if centre == "median" else np.mean
    shared = [(examples, of(at[examples])) for examples in sorted(at) if len(at[examples]) == len(finished)]
    return np.array(shared, float).reshape(-1, 2).T


def draw(board: Board, contest: Contest) -> Figure:
    """Return the figure; a seed that diverged ends in a cross at the foot of the panel."""
    figure, (axis,) = panels(1)
    values, centre = [np.empty(0)], centre_of(contest.task)
    for ranked in board.contests[contest]:
        group = board.row(contest, ranked.row)
        if group is not None:
            seeds = curves(group)
            _row(axis, group, seeds, centre)
            values += [score for _, score in seeds]
    score_axis(axis, contest.task.headline, np.concatenate(values))
    axis.set_xlabel("training examples")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value, "count")))
    caption = f"on validation; thin: each seed; bold: {centre} of the seeds that finished; ×: diverged or undefined"
    legend(figure, axis, " · ".join(contest.key), caption)
    return figure


def _row(axis: Axes, group: Group, seeds: Sequence[np.ndarray], centre: Centre) -> None:
    style = style_of(group.first.identity.row)
    thin_lines(axis, [(examples, score) for examples, score in seeds], style)
    mark_undefined(axis, [x for examples, score in seeds for x in examples[np.isnan(score)]], style.colour)
    examples, score = middle(seeds, centre)
    axis.plot(
        examples,
        score,
        color=style.colour,
        linestyle=style.dashes,
        linewidth=1.8,
        marker=style.marker,
        markersize=4,
        markevery=max(1, len(score) // 10),
        label=label(group),
    )
