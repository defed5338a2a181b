"""Validation score against training examples: every seed thin, their mean bold."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from harness.groups import Group
from harness.markdown import number
from harness.plots.style import label, legend, mark_undefined, panels, score_axis, style_of, thin_lines
from harness.results import read_curve
from harness.standings import Board, Contest


def curves(group: Group) -> list[pd.Series]:
    """Return the validation score by examples of every seed that has a curve, NaN where undefined."""
    tables = [read_curve(m.folder, m.run) if "curve.csv" in m.run.files else None for m in group.members]
    return [table.set_index("examples")["validation"] for table in tables if table is not None]


def mean_curve(seeds: list[pd.Series]) -> pd.Series:
    """Return the mean of the curves that end with a value, where each of them has one; empty without any."""
    finished = [seed for seed in seeds if len(seed) and not np.isnan(seed.iloc[-1])]
    return pd.concat(finished, axis=1).dropna().mean(axis=1).sort_index() if finished else pd.Series(dtype=float)


def draw(board: Board, contest: Contest) -> Figure:
    """Return the figure; a seed that diverged ends in a cross at the foot of the panel."""
    figure, (axis,) = panels(1)
    values = [np.empty(0)]
    for ranked in board.contests[contest]:
        group = board.row(contest, ranked.row)
        if group is not None:
            seeds = curves(group)
            _row(axis, group, seeds)
            values += [seed.to_numpy(float) for seed in seeds]
    score_axis(axis, contest.task.headline, np.concatenate(values))
    axis.set_ylabel(f"validation {axis.get_ylabel()}")
    axis.set_xlabel("training examples")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value, "count")))
    legend(figure, axis, "thin: each seed; bold: mean of the seeds that finished; ×: diverged or undefined")
    return figure


def _row(axis: Axes, group: Group, seeds: list[pd.Series]) -> None:
    style = style_of(group.first.identity.row)
    thin_lines(axis, [(seed.index.to_numpy(float), seed.to_numpy(float)) for seed in seeds], style)
    mark_undefined(axis, [examples for seed in seeds for examples in seed.index[seed.isna()]], style.colour)
    mean = mean_curve(seeds)
    axis.plot(
        mean.index.to_numpy(float),
        mean.to_numpy(),
        color=style.colour,
        linestyle=style.dashes,
        linewidth=1.8,
        marker=style.marker,
        markersize=4,
        markevery=max(1, len(mean) // 10),
        label=label(group),
    )
