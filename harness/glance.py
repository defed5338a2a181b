"""The board in one table: of every table who leads it, who comes next and last, and the ends of its scale."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from harness.findings import Finding
from harness.markdown import DASH, code, escape, interval, number, table
from harness.ranking import ranks_by_solved_rate
from harness.results import REFERENCE_BUDGET
from harness.sections import heading
from harness.standings import Board, Contest

LEADERS_SHOWN = 3
HEADER = ["table", "headline", "leader", "score", "next", "last", "floor", "ceiling"]


def at_a_glance(board: Board, folded: Iterable[str], findings: Sequence[Finding]) -> str:
    """Return the table, linked to the sections; empty for a board without ranks.

    Of a task and regime it has the largest budget that ranks anybody. Of the ``folded`` suites, whose tables are many
    and have no heading, it has those that a study of ``findings`` is about, and links to the suite.
    """
    folded = set(folded)
    studied = {found.study.places[0].contest.key for found in findings if len(found.study.places) == 1}
    largest: dict[tuple[str, str], Contest] = {}
    for contest, places in board.contests.items():  # a table's budgets stand together, the largest first
        ranks = any(place.rank is not None for place in places)
        if ranks and (contest.task.suite not in folded or contest.key in studied):
            largest.setdefault(contest.key[:2], contest)
    lines = [_line(board, contest, contest.task.suite in folded) for contest in largest.values()]
    return table(HEADER, lines, range(6, 8)) if lines else ""


def anchor(heading: str) -> str:
    """Return the fragment that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _line(board: Board, contest: Contest, folded: bool) -> list[str]:
    cells = {cell.row: cell for cell in board.headline_cells(contest)}
    ranked = [place for place in board.contests[contest] if place.rank is not None]
    leading = [code(place.row) for place in ranked if place.rank == 1]
    more = f" and {len(leading) - LEADERS_SHOWN} more" if len(leading) > LEADERS_SHOWN else ""
    behind = [place.row for place in ranked if place.rank != 1]
    return [
        f"[{escape(contest.title)}](#{anchor(contest.task.suite if folded else contest.title)})",
        heading(contest.task.headline),
        " = ".join(leading[:LEADERS_SHOWN]) + more,
        _score(cells[ranked[0].row], contest, spread=True),
        _behind(cells, contest, behind[0] if behind else None),
        _behind(cells, contest, behind[-1] if len(behind) > 1 else None),
        *(_reference(board, contest, name) for name in (contest.task.floor, contest.task.ceiling)),
    ]


def _behind(cells: dict[str, Any], contest: Contest, row: str | None) -> str:
    return DASH if row is None else f"{code(row)} {_score(cells[row], contest, spread=False)}"


def _score(cell: Any, contest: Contest, *, spread: bool) -> str:
    """Return what a row is ranked by: the mean, or the median with how many seeds solved the task; and who failed."""
    seeds = cell.n_seeds + cell.n_failed
    if ranks_by_solved_rate(contest.task):
        median = "median " if seeds > 1 else ""
        return f"{median}{number(cell.median, cell.unit)} (solved {cell.solved_rate * seeds:.0f}/{seeds})"
    shown = interval(cell.mean, cell.low, cell.high, cell.unit) if spread else number(cell.mean, cell.unit)
    return shown + (f" ({cell.n_failed} of {seeds} seeds failed)" if cell.n_failed else "")


def _reference(board: Board, contest: Contest, name: str) -> str:
    wanted = (*contest.key[:2], REFERENCE_BUDGET, name, contest.test, contest.task.headline.name)
    cell = board.cells.get(wanted)
    return DASH if cell is None else number(cell.mean, cell.unit)
