"""Validation score against training examples: every seed thin, their mean or median bold."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from harness.groups import Group
from harness.markdown import number
from harness.plots.style import centre_of, label, legend, mark_undefined, panels, score_axis, style_of, thin_lines
from harness.results import read_curve
from harness.standings import Board, Contest
from harness.statistics import Centre


def curves(group: Group) -> list[pd.Series]:
    """Return the validation score by examples of every seed that has a curve, NaN where undefined."""
    tables = [read_curve(m.folder, m.run) if "curve.csv" in m.run.files else None for m in group.members]
    return [table.set_index("examples")["validation"] for table in tables if table is not None]


def middle(seeds: list[pd.Series], centre: Centre) -> pd.Series:
    """Return the mean or median of the curves that end with a value, where each of them has one; empty without any."""
    finished = [seed for seed in seeds if len(seed) and not np.isnan(seed.iloc[-1])]
    if not finished:
        return pd.Series(dtype=float)
    return pd.concat(finished, axis=1).dropna().agg(centre, axis=1).sort_index()


def draw(board: Board, contest: Contest) -> Figure:
    """Return the figure; a seed that diverged ends in a cross at the foot of the panel."""
    figure, (axis,) = panels(1)
    values, centre = [np.empty(0)], centre_of(contest.task)
    for ranked in board.contests[contest]:
        group = board.row(contest, ranked.row)
        if group is not None:
            seeds = curves(group)
            _row(axis, group, seeds, centre)
            values += [seed.to_numpy(float) for seed in seeds]
    score_axis(axis, contest.task.headline, np.concatenate(values))
    axis.set_ylabel(f"validation {axis.get_ylabel()}")
    axis.set_xlabel("training examples")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value, "count")))
    caption = f"thin: each seed; bold: {centre} of the seeds that finished; ×: diverged or undefined"
    legend(figure, axis, contest, caption)
    return figure


def _row(axis: Axes, group: Group, seeds: list[pd.Series], centre: Centre) -> None:
    style = style_of(group.first.identity.row)
    thin_lines(axis, [(seed.index.to_numpy(float), seed.to_numpy(float)) for seed in seeds], style)
    mark_undefined(axis, [examples for seed in seeds for examples in seed.index[seed.isna()]], style.colour)
    line = middle(seeds, centre)
    axis.plot(
        line.index.to_numpy(float),
        line.to_numpy(),
        color=style.colour,
        linestyle=style.dashes,
        linewidth=1.8,
        marker=style.marker,
        markersize=4,
        markevery=max(1, len(line) // 10),
        label=label(group),
    )
