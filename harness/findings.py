"""What a study found, as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.curves import Curve, curves
from harness.grids import PUBLISHED, columns
from harness.grids import lines as grid_lines
from harness.markdown import DASH, Notes, code, number, table
from harness.metrics import Metric
from harness.standings import Board
from harness.statistics import Comparison
from harness.studies import Place, Study, compared

SIZES_SHOWN = 8
"""Most sizes in a table of curves; the figure has them all."""


@dataclass(frozen=True)
class Finding:
    """A study's section of the board; ``notes`` explain its dashes."""

    study: Study
    table: str
    notes: list[str]


def find(study: Study, board: Board) -> Finding | None:
    """Return what a study found, None where the board holds nothing of it."""
    if study.curves:
        return _curves(study, board)
    return _differences(study, board) if study.differences else _grid(study, board)


def _differences(study: Study, board: Board) -> Finding | None:
    """Tabulate a line a pair and a column a task; bold where the interval excludes 0."""
    notes = Notes()
    found = [compared(study, board, place) for place in study.places]
    if not any(found):
        return None
    lines = []
    for pair in study.differences:
        cells = [
            _difference(here[pair], place.metric) if pair in here else DASH + notes.mark(_reason(pair, board, place))
            for place, here in zip(study.places, found, strict=True)
        ]
        lines.append([f"{code(pair[0])} − {code(pair[1])}", *cells])
    header = ["difference", *(f"{place.label}: {place.metric.title}" for place in study.places)]
    return Finding(study, table(header, lines, range(1, len(header))), notes.lines())


def _reason(pair: tuple[str, str], board: Board, place: Place) -> str:
    missing = [row for row in pair if board.row(place.contest, row) is None]
    return f"no run of {' and '.join(missing)} here" if missing else "a row without a finished seed"


def _difference(found: Comparison, metric: Metric) -> str:
    """Return a difference with its sign and its interval."""
    ends = [("+" if value > 0 else "") + number(value, metric.unit) for value in (found.low, found.high)]
    sign = "+" if found.difference > 0 else ""
    text = f"{sign}{number(found.difference, metric.unit)} ({ends[0]} to {ends[1]})".replace("-", "−")
    return f"**{text}**" if found.separated else text


def lines_of(study: Study, board: Board) -> list[tuple[str, Place, Curve]]:
    """Return row, place and curve of every line that a study draws, in its order of rows, then of tasks."""
    found = [(place, curves(board, place.contest)) for place in study.places]
    keys = [(row, place, here) for row in study.curves for place, here in found]
    drawn = [(row, place, here.get((study.budget, row, place.metric.name))) for row, place, here in keys]
    return [(row, place, curve) for row, place, curve in drawn if curve is not None]


def _curves(study: Study, board: Board) -> Finding | None:
    """Tabulate a line a row and task, by the mean over the sizes that all have, best first."""
    drawn = lines_of(study, board)
    if not drawn:
        return None
    sizes = sorted(set.intersection(*(set(curve.size.tolist()) for _, _, curve in drawn)))
    shown = _spread(sizes)
    sign = -1 if study.places[0].metric.direction == "max" else 1

    def at(curve: Curve, wanted: Sequence[float]) -> np.ndarray:
        values = dict(zip(curve.size.tolist(), curve.centre.tolist(), strict=True))
        return np.array([values[size] for size in wanted])

    drawn.sort(key=lambda line: sign * at(line[2], sizes).mean())
    body = [
        [
            code(row),
            place.label,
            *(number(value, place.metric.unit) for value in [at(curve, sizes).mean(), *at(curve, shown)]),
        ]
        for row, place, curve in drawn
    ]
    header = [
        "row",
        "trained on",
        f"{study.places[0].metric.title}: mean over sizes",
        *(f"at {size:g}" for size in shown),
    ]
    return Finding(study, table(header, body, range(2, len(header))), [])


def _grid(study: Study, board: Board) -> Finding | None:
    """Tabulate a line a row and kind of number, a column a test; nothing where none of the rows was run."""
    shown = grid_lines(study, board, study.rows)
    if all(line.kind == PUBLISHED for line in shown):
        return None
    head, unit = columns(study), study.places[0].metric.unit
    several = len(study.places) > 1  # tasks: their mean first, where a line has them all
    body = [
        [
            code(line.row),
            line.kind or "mean over seeds",
            *([number(float(line.values.mean()), unit)] * several),
            *(number(value, unit) for value in line.values),
        ]
        for line in shown
    ]
    header = ["row", study.places[0].metric.title, *(["mean"] * several), *(column.label for column in head)]
    return Finding(study, table(header, body, range(2, len(header))), [])


def _spread(sizes: Sequence[float]) -> list[float]:
    """Return at most ``SIZES_SHOWN`` of ``sizes``, evenly chosen, the ends among them."""
    chosen = np.unique(np.linspace(0, len(sizes) - 1, min(SIZES_SHOWN, len(sizes))).round().astype(int))
    return [sizes[index] for index in chosen]
