"""What a study sets side by side in a grid or against a number of each row, as data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.cells import records
from harness.standings import Board
from harness.studies import Place, Study

OF_SEEDS, BEST, PUBLISHED = "", "best seed by training error", "published"
"""Kinds of line: a row's mean over seeds; the seed that a paper's protocol picks; the paper's own number."""


class Column(NamedTuple):
    """One test of one place."""

    label: str
    place: Place
    split: str


@dataclass(frozen=True)
class Line:
    """One row's ``values (C,)`` of one kind, NaN where there is none."""

    row: str
    kind: str
    values: np.ndarray

    @property
    def label(self) -> str:
        """The row's name, with the kind where it is not the mean."""
        return f"{self.row}, {self.kind}" if self.kind else self.row


def columns(study: Study) -> list[Column]:
    """Return the columns of a grid: the first test of every place, or all tests of the only one."""
    if len(study.places) > 1:
        return [Column(place.contest.task.name.split("/")[1], place, place.contest.test) for place in study.places]
    (place,) = study.places
    tests = place.contest.task.regime(place.contest.regime).tests
    return [Column(split.removeprefix("test-") if split != tests[0] else "all", place, split) for split in tests]


def lines(study: Study, board: Board, rows: Sequence[str]) -> list[Line]:
    """Return the lines of ``rows`` that hold a value; the best seed only where there are several."""
    published = _published(study, board)
    found = []
    for row in rows:
        cells = [board.cells.get(_key(column, row)) for column in columns(study)]
        kinds = {
            OF_SEEDS: [np.nan if cell is None else cell.mean for cell in cells],
            BEST: [np.nan if cell is None or cell.n_seeds < 2 else cell.best_of_k for cell in cells],
            PUBLISHED: [published.get(_joined(column, row), np.nan) for column in columns(study)],
        }
        found += [Line(row, kind, np.array(values, float)) for kind, values in kinds.items()]
    return [line for line in found if np.isfinite(line.values).any()]


def _key(column: Column, row: str) -> tuple[str, ...]:
    task, regime, budget = column.place.contest.key
    return task, regime, budget, row, column.split, column.place.metric.name


def _joined(column: Column, row: str) -> tuple[str, ...]:
    task, regime, _ = column.place.contest.key
    return task, regime, row, column.split, column.place.metric.name


def _published(study: Study, board: Board) -> dict[tuple[str, ...], float]:
    """Return the papers' numbers by task, regime, row, split and metric."""
    known = records(board.scores[board.scores["published"].notna()])
    return {(cell.task, cell.regime, cell.row, cell.split, cell.metric): cell.published for cell in known}
