"""A row's numbers and the papers', test by test, where a paper has several."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.markdown import code, number, table
from harness.metrics import Metric
from harness.published import ALSO
from harness.statistics import Centre

SEVERAL = 3
"""So many published numbers of a row in one metric stand in a table of their own."""

SOURCES_TOLD = 10
"""Most published numbers of a line whose notes say who else measured them; ``scores.csv`` says it of all."""


@dataclass(frozen=True)
class Beside:
    """One row in one metric: its cells, by test, of which some have a published number."""

    row: str
    metric: Metric
    cells: Mapping[str, Any]

    @property
    def published(self) -> Mapping[str, Any]:
        """The cells that have a published number, by test."""
        return {test: cell for test, cell in self.cells.items() if not math.isnan(cell.published)}


def beside(
    row: str, tests: Sequence[str], metrics: Sequence[Metric], cell: Callable[[str, Metric], Any]
) -> list[Beside]:
    """Return the metrics in which ``row`` has several published numbers; ``cell(test, metric)`` is None for no cell."""
    found = [
        Beside(row, metric, {test: own for test in tests if (own := cell(test, metric)) is not None})
        for metric in metrics
    ]
    return [each for each in found if len(each.published) >= SEVERAL]


def beside_table(
    found: Sequence[Beside],
    tests: Sequence[str],
    label: Callable[[str], str],
    mark: Callable[[str], str],
    centre: Centre,
) -> str:
    """Return the table, two lines a row and metric; empty for nothing found.

    ``label`` names a test, ``mark`` notes a source: of one source at the line's head, else at its numbers. Ours are the
    ``centre`` over seeds.
    """
    shown = [test for test in tests if any(test in each.published for each in found)]
    body = [line for each in found for line in _lines(each, shown, mark, centre)]
    return table(["row", "metric", "whose", *map(label, shown)], body, range(3, 3 + len(shown))) if body else ""


def _lines(found: Beside, shown: Sequence[str], mark: Callable[[str], str], centre: Centre) -> Iterator[list[str]]:
    unit, title = found.metric.unit, found.metric.title
    values = {test: getattr(cell, centre) for test, cell in found.cells.items()}
    if not all(map(math.isnan, values.values())):
        ours = [number(values.get(test, math.nan), unit) for test in shown]
        yield [code(found.row), title, f"ours, {centre}", *ours]
    known = {test: cell.published for test, cell in found.published.items()}
    sources = {test: cell.published_source for test, cell in found.published.items()}
    if len(known) > SOURCES_TOLD:
        sources = {test: source.partition(ALSO)[0] for test, source in sources.items()}
    one = mark(next(iter(sources.values()))) if len(set(sources.values())) == 1 else ""
    theirs = [number(known[t], unit) + ("" if one else mark(sources[t])) if t in known else "" for t in shown]
    yield [code(found.row), title, f"published{one}", *theirs]
