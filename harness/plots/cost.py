"""Score against what it cost: seconds of a run, and its training FLOPs."""

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from harness.efficiency import PASSES
from harness.groups import Group
from harness.markdown import number
from harness.plots.style import label, legend, mark_undefined, panels, score_axis, style_of
from harness.ranking import centre_of
from harness.standings import Board, Contest
from harness.statistics import Centre

AXES = {"seconds": "seconds a run", "flops": "training FLOPs"}


@dataclass(frozen=True)
class Spent:
    """The costs and the headline of every seed of a row, ``(seeds,)`` each; NaN where not known."""

    seconds: np.ndarray
    flops: np.ndarray
    score: np.ndarray


def spent(group: Group, contest: Contest) -> Spent:
    """Return what the seeds of a row spent and reached; a seed without a cost is not in it."""
    known = [(member.run, member.run.cost) for member in group.members if member.run.cost is not None]
    phased = next((cost.flops_in_training for _, cost in known if cost.flops_in_training is not None), None)
    flops = [cost.flops if phased is None else phased for _, cost in known]  # older runs of a row may lack its own
    counted = np.array([math.nan if one is None else one for one in flops])
    return Spent(
        np.array([cost.seconds for _, cost in known]),
        PASSES * counted * np.array([cost.examples for _, cost in known]),
        np.array([contest.score(run) for run, _ in known]),
    )


def draw(board: Board, contest: Contest) -> Figure:
    """Return the figure: a panel a kind of cost, a large marker a row, a small one each seed."""
    figure, axes = panels(len(AXES))
    centre = centre_of(contest.task)
    groups = [group for ranked in board.contests[contest] if (group := board.row(contest, ranked.row)) is not None]
    rows = [(group, spent(group, contest)) for group in groups]
    for axis, (name, title) in zip(axes, AXES.items(), strict=True):
        axis.set_xscale("log")
        for group, costs in rows:
            _row(axis, group, getattr(costs, name), costs.score, centre)
        score_axis(axis, contest.task.headline, np.concatenate([np.empty(0), *(costs.score for _, costs in rows)]))
        axis.set_xlabel(title)
        _cost_axis(axis)
    axes[1].set_ylabel("")
    legend(
        figure,
        axes[0],
        " · ".join(contest.key),
        f"large: {centre} over seeds; small: each seed; ×: diverged or undefined",
    )
    return figure


def _cost_axis(axis: Axes) -> None:
    """Label 1, 2 and 5 of each decade where few decades are shown, else 1 alone; leave room at both ends."""
    low, high = axis.get_xlim()
    axis.set_xlim(low / 1.15, high * 1.15)
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 100 else (1.0,)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value, "count")))
    axis.xaxis.set_minor_locator(NullLocator())


def _row(axis: Axes, group: Group, cost: np.ndarray, score: np.ndarray, centre: Centre) -> None:
    style, known = style_of(group.first.identity.row), ~np.isnan(cost) & ~np.isnan(score)
    look = {"color": style.colour, "marker": style.marker, "linestyle": "none"}
    axis.plot(cost[known], score[known], **look, markersize=3, alpha=0.5)
    mark_undefined(axis, cost[~np.isnan(cost) & np.isnan(score)].tolist(), style.colour)
    of = np.median if centre == "median" else np.mean
    middle = (of(cost[known]), of(score[known])) if known.any() else (math.nan, math.nan)
    axis.plot(*middle, **look, markersize=8, markeredgecolor="white", label=label(group))
