"""The scores of a study's rows against a number in which they differ."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from harness.grids import BEST, OF_SEEDS, PUBLISHED, columns, lines
from harness.plots.style import GREY, legend, panels, score_axis
from harness.standings import Board
from harness.studies import Study

LOOKS: dict[str, dict[str, Any]] = {
    OF_SEEDS: {"linestyle": "solid", "marker": "o"},
    BEST: {"linestyle": (0, (4, 1.5)), "marker": "v"},
    PUBLISHED: {"linestyle": (0, (1, 1.5)), "marker": "s", "color": GREY},
}


def draw(board: Board, study: Study) -> Figure:
    """Return the figure: on the first test of every task, a line for our mean, one for the best seed, the paper's."""
    assert study.against is not None
    figure, axes = panels(len(study.places))
    shown = lines(study, board, list(study.against.rows))
    first = {(column.place.label, column.split): index for index, column in enumerate(columns(study))}
    for axis, place in zip(axes, study.places, strict=True):
        at, drawn = first[place.label, place.contest.test], []
        for kind, look in LOOKS.items():
            own = [(study.against.rows[line.row], line.values[at]) for line in shown if line.kind == kind]
            if points := [(x, y) for x, y in own if np.isfinite(y)]:
                x, y = np.array(sorted(points)).T
                axis.plot(x, y, label=kind or "mean over seeds", **look)
                drawn.append(y)
        score_axis(axis, place.metric, np.concatenate(drawn) if drawn else np.empty(0))
        axis.set_xticks(sorted(set(study.against.rows.values())))
        axis.set_xlabel(study.against.title)
        axis.set_title(place.label, fontsize=8, loc="right")
    legend(figure, axes[0], f"{study.suite} · {study.budget}", f"rows: {', '.join(study.against.rows)}")
    return figure
