"""Scores against size, as data: what figures draw and studies tabulate."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from harness.cells import records, size_range
from harness.ranking import centre_of
from harness.results import REFERENCE_BUDGET
from harness.standings import Board, Contest
from harness.statistics import Centre


@dataclass(frozen=True)
class Curve:
    """One row's scores by size, ``(sizes,)`` each, NaN where undefined or unsupported; ``n`` examples a point.

    ``centre`` is the mean over seeds with ``low`` and ``high`` its interval, or the median without one.
    """

    size: np.ndarray
    centre: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n: np.ndarray
    split: list[str]


def curves(board: Board, contest: Contest) -> dict[tuple[str, str, str], Curve]:
    """Return the curves of a table by budget (its own or ``reference``), row and metric.

    One point a size: where the ladder repeats a size of the first test, the ladder's own stands, and where it repeats
    the smallest and the largest, its points alone: they have more examples. A test that is neither the first nor on the
    ladder is not drawn.
    """
    scores = board.scores
    first, *others = contest.task.regime(contest.regime).tests
    ladder = {split: rung for split in others if (rung := contest.task.bounded(split).ladder) is not None}
    own = size_range(contest.task, first)
    drawn = list(ladder) if set(own) <= set(ladder.values()) else [first, *ladder]
    chosen = scores[
        (scores["task"] == contest.task.name)
        & (scores["regime"] == contest.regime)
        & scores["budget"].isin([contest.budget, REFERENCE_BUDGET])
        & scores["split"].isin(drawn)
        & scores["size"].notna()
        & ~scores["status"].isin(["published", "missing"])
    ]
    points: dict[tuple[str, str, str], dict[float, Any]] = {}
    for cell in sorted(records(chosen), key=lambda cell: drawn.index(cell.split)):
        points.setdefault((cell.budget, cell.row, cell.metric), {})[cell.size] = cell
    centre = centre_of(contest.task)
    return {key: _curve([cells[size] for size in sorted(cells)], centre) for key, cells in points.items()}


def _curve(cells: list[Any], centre: Centre) -> Curve:
    """Return the curve of ``cells`` in order of size; one that was not measured has no examples."""
    n = np.array([0 if pd.isna(cell.n_examples) else cell.n_examples for cell in cells])
    size, middle, low, high = np.array([(c.size, getattr(c, centre), c.low, c.high) for c in cells], float).T
    if centre == "median":
        low = high = np.full(len(cells), np.nan)
    return Curve(size, middle, low, high, n, [cell.split for cell in cells])
