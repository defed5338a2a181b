"""The curves of a study: several rows in several regimes against size, on one pair of axes."""

import numpy as np
from matplotlib.figure import Figure

from harness.cells import size_range
from harness.findings import lines_of
from harness.plots.style import draw_curve, legend, panels, score_axis, style_of
from harness.ranking import centre_of
from harness.standings import Board
from harness.studies import Study

DASHES: tuple[tuple[int, tuple[float, ...]], ...] = ((0, ()), (0, (4, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
"""One a task of the study, the last of them solid: regimes are listed in rising size."""


def draw(board: Board, study: Study) -> Figure:
    """Return the figure: a line a row and task, in the row's colour, dashed by task; training ranges shaded."""
    figure, (axis,) = panels(1)
    places = study.places
    for place in places:
        trained_on = size_range(place.contest.task, place.contest.test)
        axis.axvspan(*trained_on, color="#000000", alpha=0.05, linewidth=0, zorder=0)
    lines = lines_of(study, board)
    for row, place, curve in lines:
        dashes = DASHES[(len(places) - 1 - places.index(place)) % len(DASHES)]
        draw_curve(axis, curve, style_of(row), f"{row}, {place.label}", dashes)
    metric, task = places[0].metric, places[0].contest.task
    score_axis(axis, metric, np.concatenate([np.empty(0), *(curve.centre for _, _, curve in lines)]))
    axis.set_xlabel(task.size_name)
    caption = f"line: {centre_of(task)} over seeds; band: 95 % t interval; shaded: sizes trained on; ×: no value"
    legend(figure, axis, f"{study.suite} · {study.budget}", caption, handle=5.0)
    return figure
