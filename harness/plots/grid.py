"""The grid of a study: rows by tests as a heat map, the papers' numbers below ours."""

import numpy as np
from matplotlib.figure import Figure

from harness.grids import columns, lines
from harness.markdown import number
from harness.plots.style import GREY, WIDTH
from harness.standings import Board
from harness.studies import Study

LINE = 0.22
"""Inches a line of the grid is high."""
MARGINS = 0.95
"""Inches above and below the grid."""


def draw(board: Board, study: Study) -> Figure:
    """Return the figure: a line a row and kind of number, a column a test, coloured from best to worst."""
    shown, head, metric = lines(study, board, study.grid), columns(study), study.places[0].metric
    values = np.array([line.values for line in shown])  # (lines,C)
    low, high = metric.bounds if np.isfinite(metric.bounds).all() else (np.nanmin(values), np.nanmax(values))
    figure = Figure(figsize=(WIDTH, MARGINS + LINE * len(shown)), layout="constrained")
    axis = figure.subplots()
    image = axis.imshow(
        values, aspect="auto", cmap="viridis_r" if metric.direction == "min" else "viridis", vmin=low, vmax=high
    )
    for (line, column), value in np.ndenumerate(values):
        dark = (value - low) / (high - low) > 0.5 if metric.direction == "min" else (value - low) / (high - low) < 0.5
        text = number(value, metric.unit) if np.isfinite(value) else ""
        axis.text(column, line, text, ha="center", va="center", fontsize=5.5, color="w" if dark else "k")
    axis.set_xticks(range(len(head)), [column.label for column in head], fontsize=6.5, rotation=45)
    axis.set_yticks(range(len(shown)), [line.label for line in shown], fontsize=6.5)
    for line in range(1, len(shown)):
        if shown[line].row != shown[line - 1].row:
            axis.axhline(line - 0.5, color="w", linewidth=2)
    bar = figure.colorbar(image, ax=axis, pad=0.01, aspect=30)
    bar.set_label(f"{metric.title} ({metric.unit})", fontsize=7)
    bar.ax.tick_params(labelsize=6)
    axis.set_title(f"{study.title} · {study.budget}", fontsize=8, color=GREY, loc="left")
    return figure
