"""The score by kind of example: what a task's metrics of its kinds say, side by side, with the references as marks."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from harness.metrics import Metric
from harness.plots.style import label, legend, mark_undefined, panels, reference_style, score_axis, style_of
from harness.results import REFERENCE_BUDGET
from harness.standings import Board, Contest

SPREAD = 0.7
"""Share of a kind's place that its rows take."""


def draw(board: Board, contest: Contest) -> Figure:
    """Return the figure: a place a kind, in it a mark a row with its interval, and a line a reference across it."""
    figure, (axis,) = panels(1)
    task = contest.task
    metrics = [task.metric(name) for name in task.breakdown]
    places = np.arange(len(metrics))
    groups = [group for ranked in board.contests[contest] if (group := board.row(contest, ranked.row)) is not None]
    values = [np.empty(0)]
    for index, group in enumerate(groups):
        centre, low, high = _scores(board, contest, contest.budget, group.key[3], metrics)
        x = places + SPREAD * ((index + 0.5) / len(groups) - 0.5)
        style = style_of(group.key[3])
        axis.vlines(x, low, high, color=style.colour, linewidth=1.2)
        axis.plot(x, centre, style.marker, color=style.colour, markersize=4.5, label=label(group))
        mark_undefined(axis, x[np.isnan(centre)].tolist(), style.colour)
        values.append(centre)
    for index, row in enumerate(task.references()):
        centre, *_ = _scores(board, contest, REFERENCE_BUDGET, row, metrics)
        if not np.isnan(centre).all():
            ends = np.stack([places - 0.45, places + 0.45, np.full(len(places), np.nan)], axis=1)
            axis.plot(ends.ravel(), np.repeat(centre, 3), label=row, **reference_style(index))
            values.append(centre)
    score_axis(axis, metrics[0], np.concatenate(values))
    axis.set_ylabel(axis.get_ylabel().replace(metrics[0].title, f"score ({metrics[0].unit})", 1))
    axis.set_xticks(places, [metric.title for metric in metrics])
    axis.set_xlim(-0.5, len(places) - 0.5)
    legend(figure, axis, " · ".join(contest.key), "mark: mean over seeds; bar: 95 % t interval; lines: references")
    return figure


def _scores(board: Board, contest: Contest, budget: str, row: str, metrics: list[Metric]) -> np.ndarray:
    """Return mean, low and high ``(3, metrics)`` of a row on the first test, NaN where undefined."""
    place = (contest.task.name, contest.regime, budget, row, contest.test)
    cells: list[Any] = [board.cells.get((*place, metric.name)) for metric in metrics]
    return np.array([(c.mean, c.low, c.high) if c is not None else (np.nan,) * 3 for c in cells], float).T
