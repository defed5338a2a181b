"""What the board says of a suite as a whole, in Markdown: suite scores, what was tuned, rows of older versions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from harness.groups import Group
from harness.markdown import DASH, Notes, code, escape, interval, number, table
from harness.ranking import Ranked
from harness.recipe import get_recipe, recipe_paths
from harness.results import EXTERNAL_BUDGET
from harness.standings import Board
from harness.statistics import t_interval
from harness.suites import SuiteRow, SuiteTable

TASKS_SHOWN = 10
"""Most tasks with a column of their own; ``suites.csv`` has them all."""
MISSING_SHOWN = 4
"""Most tasks that a note lists for one reason."""
NOT_SAID = "not said: neither an installed recipe nor a run tells it"


@dataclass(frozen=True)
class SuiteScore:
    """A table of suite scores in Markdown."""

    title: str
    about: str
    table: str
    notes: list[str]


def suite_score(board: Board, found: SuiteTable) -> SuiteScore:
    """Return the table of one suite at one budget: complete rows by rank, then the others with what they lack."""
    notes = Notes()
    shown = found.scales if len(found.scales) <= TASKS_SHOWN else []
    header = ["rank", "row", "suite score ↑", "tasks", "seeds"]
    header += [scale.label.removeprefix(f"{found.suite}/") for scale in shown]
    body = []
    for place in found.ranked:
        row = found.rows[place.row]
        cells = [_rank(place), _label(row, notes), _score(row, notes), f"{len(row.scores)}/{len(found.scales)}"]
        cells.append(_seeds(row, notes))
        body.append(cells + [number(row.at(scale), "share") for scale in shown])
    about = f"{len(found.scales)} tasks, each between two of its references: {_ends(found)}."
    return SuiteScore(f"Suite score · {found.budget}", about, table(header, body, range(2, len(header))), notes.lines())


def _ends(found: SuiteTable) -> str:
    """Return which references are 0 and 1, and on which tasks where these differ."""
    ends: dict[tuple[str, str], list[str]] = {}
    for scale in found.scales:
        ends.setdefault((scale.contest.task.floor, scale.contest.task.ceiling), []).append(scale.label)
    return "; ".join(
        f"0 is {code(floor)}, 1 is {code(ceiling)}" + (f" ({', '.join(labels)})" if len(ends) > 1 else "")
        for (floor, ceiling), labels in ends.items()
    )


def _rank(place: Ranked) -> str:
    return "" if place.rank is None else f"{place.rank}{'=' if place.tied else ''}"


def _label(row: SuiteRow, notes: Notes) -> str:
    name = f"{escape(row.title)} {code(row.row)}" if row.title != row.row else code(row.row)
    special = [f"stale on {_listed(row.stale)}"] if row.stale else []
    special += [f"not trained on the budget's number of examples on {_listed(row.departing)}"] if row.departing else []
    special += ["self-reported: it has no rank"] if row.self_reported else []
    return f"**{name}**" + "".join(notes.mark(text) for text in special)


def _score(row: SuiteRow, notes: Notes) -> str:
    """Return the score with its interval, or ``partial`` with what is missing."""
    if row.missing:
        lacking = "; ".join(f"{reason}: {_listed(labels)}" for reason, labels in row.missing.items())
        return "partial" + notes.mark(lacking)
    if row.status == "failed":
        return DASH + notes.mark("on some task no seed finished")
    return interval(row.score, *row.interval, "share")


def _listed(labels: Any) -> str:
    more = f" and {len(labels) - MISSING_SHOWN} more" if len(labels) > MISSING_SHOWN else ""
    return ", ".join(labels[:MISSING_SHOWN]) + more


def _seeds(row: SuiteRow, notes: Notes) -> str:
    """Return how many seeds finished, the fewest and the most where tasks differ, and how many runs failed."""
    if row.missing:
        return ""
    fewest, most = row.seeds
    mark = notes.mark(f"runs that failed: {row.failed}") if row.failed else ""
    return (f"{most}" if fewest == most else f"{fewest}–{most}") + mark


def tuned(board: Board, suite: str) -> str:
    """Return the table of what was tuned for the rows of a suite's tables; rows that say the same share a line.

    An installed recipe tells it of its row; of others their runs do, as their recipes told it then.
    """
    own = [contest for contest in board.contests if contest.task.suite == suite]
    keys: list[tuple[str, ...]] = [(*contest.key, line.row) for contest in own for line in board.contests[contest]]
    places = {contest.key[:2] for contest in own}
    keys += [key for key in board.groups if key[2] == EXTERNAL_BUDGET and key[:2] in places]
    said: dict[str, list[str]] = {}
    for row in sorted({key[3] for key in keys}):
        runs = pd.concat([board.runs_of(key[0], key[1], key[2], row) for key in keys if key[3] == row])
        if runs.empty:
            continue
        texts = [get_recipe(row).tuning] if row in recipe_paths() else runs["tuning"].unique().tolist()
        said.setdefault(" ".join("; ".join(filter(None, texts)).split()) or NOT_SAID, []).append(row)
    body = [[", ".join(map(code, rows)), escape(text)] for text, rows in said.items()]
    return table(["row", "what was tuned"], body, range(0)) if body else ""


def superseded(board: Board) -> str:
    """Return the table of rows scored on an older version of their task, with the headline as it was stored."""
    header = ["row", "task", "budget", "headline then", "seeds", "why"]
    body = [
        [
            code(group.first.identity.row),
            f"{group.first.identity.task}:{group.first.identity.regime}",
            group.first.identity.budget,
            _stored_headline(group),
            f"{sum(bool(member.run.scores) for member in group.members)}/{len(group.members)}",
            escape(group.doubt or ""),
        ]
        for group in board.superseded
    ]
    return table(header, body, range(3, 5)) if body else ""


def _stored_headline(group: Group) -> str:
    """Return the mean over seeds of the first metric on the first test, which is what a bundle names first."""
    firsts = [member.run.scores[0] for member in group.members if member.run.scores]
    if not firsts:
        return DASH
    name = next(iter(firsts[0].values))
    assert group.installed is not None
    known = {metric.name: metric for metric in group.installed.metrics}
    title, unit = (known[name].title, known[name].unit) if name in known else (name, "")
    values = np.array([value for first in firsts if (value := first.values.get(name)) is not None])
    if not len(values):
        return DASH
    return f"{escape(title)} {interval(float(values.mean()), *t_interval(values), unit)}"
