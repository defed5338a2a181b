"""One table of the board as Markdown: its rows, its costs, its notes."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from harness.beside import Beside, beside, beside_table
from harness.cells import size_range, split_size
from harness.efficiency import Efficiency, at_most, efficiencies
from harness.markdown import DASH, Notes, code, escape, interval, number, table
from harness.metrics import Metric
from harness.ranking import Ranked, centre_of, ranks_by_solved_rate
from harness.records import RE_RUN, SELF_REPORTED
from harness.results import EXTERNAL_BUDGET, REFERENCE_BUDGET
from harness.standings import Board, Contest
from harness.task import Task

LADDER_SHOWN = 4
"""Most sizes of the ladder in a table; the figure has them all."""

ARROWS = {"max": " ↑", "min": " ↓", None: ""}
ORIGINS = {
    SELF_REPORTED: "self-reported: nobody has re-run it here, so it has no rank",
    RE_RUN: "community row, re-run here",
}
BOUNDS = {"exact": "exact bound", "expected": "expected value", "none": "no bound"}


def origin_notes(origins: pd.Series) -> list[str]:
    """Return what is said of where a row's runs come from, none of one that comes with a package."""
    found, again = sorted(set(origins) - {""}), int((origins == RE_RUN).sum())
    if len(found) > 1:
        return [f"self-reported: {again} of {len(origins)} seeds re-run here; it has a rank once all are"]
    return [ORIGINS[origin] for origin in found]


@dataclass(frozen=True)
class Line:
    """One row of a table: competing (``ranked``), external, reference or published; ``budget`` names its cells."""

    row: str
    budget: str
    ranked: Ranked | None = None


@dataclass(frozen=True)
class Section:
    """A table of the board in Markdown."""

    title: str
    about: str
    scores: str
    beside: str
    costs: str
    equal: list[str]
    notes: list[str]


def ladder(task: Task, regime: str) -> list[tuple[str, float]]:
    """Return the tests beyond the first one's sizes with their size, at most ``LADDER_SHOWN``, evenly chosen."""
    first, *others = task.regime(regime).tests
    _, largest = size_range(task, first)
    beyond = [(split, size) for split in others if (size := _rung_size(task, split)) > largest]
    chosen = np.unique(np.linspace(0, len(beyond) - 1, min(LADDER_SHOWN, len(beyond))).round().astype(int))
    return [beyond[index] for index in chosen]


def _rung_size(task: Task, split: str) -> float:
    """Return the one size of a test, or what its rung of the ladder is called where its sizes differ; NaN off it."""
    one, rung = split_size(task, split), task.bounded(split).ladder
    return one if rung is None or not math.isnan(one) else rung


def lines(board: Board, contest: Contest) -> list[Line]:
    """Return the rows of a table: competing ones best first, external ones, references, then what is only published."""
    ranked = [Line(each.row, contest.budget, each) for each in board.contests[contest]]
    external = [Line(key[3], EXTERNAL_BUDGET) for key in board.groups if key[:3] == (*contest.key[:2], EXTERNAL_BUDGET)]
    external = [line for line in external if contest.budget != EXTERNAL_BUDGET]  # of whose table they are the rows
    references = [Line(row, REFERENCE_BUDGET) for row in contest.task.references()]
    published = {
        key[3]: Line(key[3], key[2])
        for key, cell in board.cells.items()
        if key[:2] == contest.key[:2] and cell.kind == "published"
    }
    known = {line.row for line in ranked}
    return ranked + external + references + [line for row, line in published.items() if row not in known]


class SectionWriter:
    """Writes one table; collects the notes of its cells on the way."""

    def __init__(self, board: Board, contest: Contest) -> None:
        self.board, self.contest, self.task = board, contest, contest.task
        self.notes = Notes()
        self.lines = lines(board, contest)
        self.ladder = ladder(contest.task, contest.regime)
        self.efficiencies = efficiencies(board, contest)

    def section(self) -> Section:
        """Return the whole section."""
        scores, beside = self.scores(), self.beside()
        return Section(self.contest.title, self.about(), scores, beside, self.costs(), self.equal(), self.notes.lines())

    def about(self) -> str:
        """Return one line on examples, tests and metric signatures."""
        budget, test = self.contest.budget, self.task.bounded(self.contest.test)
        known = budget in self.task.budgets
        examples = number(self.task.budget(budget, self.contest.regime), "count") if known else ""
        parts = [f"{examples} training examples" if known else ""]
        sizes = "–".join(f"{size:g}" for size in size_range(self.task, test.name))
        parts.append(f"test: {len(test)} examples, {self.task.size_name} {sizes}")
        if self.task.headline.solved is not None:
            most = "at most" if self.task.headline.direction == "min" else "at least"
            parts.append(f"solved: {most} {self.task.headline.solved:g} {self.task.headline.unit}")
        return "; ".join([part for part in parts if part] + self.signatures()) + "."

    def signatures(self) -> list[str]:
        """Return how a metric was computed, as the table's runs recorded it: more than once where they differ."""
        recorded = {text for line in self.lines for text in self.runs(line)["signatures"]}
        found = sorted({pair for text in recorded for pair in json.loads(text).items()})
        return [f"{self.task.metric(name).title}: `{signature}`" for name, signature in found]

    def scores(self) -> str:
        """Return the table of scores."""
        headline, first = self.task.headline, ranks_by_solved_rate(self.task)
        own = ["solved", f"median {heading(headline)}", "mean", "worst"] if first else [heading(headline)]
        header = ["rank", "row", *own, *(heading(metric) for metric in self.task.metrics[1:])]
        header += [f"at {_rung(split)}" for split, _ in self.ladder]
        header += ["solved"] * (headline.solved is not None and not first) + ["seeds", "published"]
        return table(header, [self.score_line(line, first) for line in self.lines], range(2, len(header) - 1))

    def score_line(self, line: Line, first: bool) -> list[str]:
        """Return one row of the table of scores, with what rows rank by ``first``: how many seeds solved the task."""
        headline, test = self.task.headline, self.contest.test
        cell = self.cell(line, test, headline)
        solved = _of_seeds(cell, cell.solved_rate * _seeds(cell)) if cell else ""
        shown, mean = [self.rank(line), self.label(line)], self.value(cell)
        if first:
            median, worst = (cell.median, cell.worst) if cell else (math.nan, math.nan)
            shown += [solved, number(median, headline.unit), mean, number(worst, headline.unit)]
        else:
            shown.append(mean)
        shown += [self.value(self.cell(line, test, metric), spread=False) for metric in self.task.metrics[1:]]
        shown += [self.value(self.cell(line, split, headline), spread=False) for split, _ in self.ladder]
        shown += [solved] * (headline.solved is not None and not first)
        return [*shown, _of_seeds(cell, cell.n_seeds) if cell else "", self.published(line)]

    def cell(self, line: Line, split: str, metric: Metric) -> Any:
        """Return a cell of the table, None where there is none."""
        return self.board.cells.get((self.task.name, self.contest.regime, line.budget, line.row, split, metric.name))

    def rank(self, line: Line) -> str:
        """Return a row's rank, ``=`` where it is shared with the leader."""
        if line.ranked is None or line.ranked.rank is None:
            return ""
        return f"{line.ranked.rank}{'=' if line.ranked.tied else ''}"

    def label(self, line: Line) -> str:
        """Return a row's title and name, with the marks of what is special about its runs."""
        runs = self.runs(line)
        title = runs["title"].iloc[0] if len(runs) else line.row
        name = f"{escape(title)} {code(line.row)}" if title != line.row else code(line.row)
        if line.budget == REFERENCE_BUDGET:
            bound = BOUNDS.get(runs["bound"].iloc[0], "") if len(runs) else ""
            return f"*{name}*{self.notes.mark(f'reference: {bound}' if bound else 'reference')}"
        special = [f"stale: {reason}" for reason in sorted(set(runs["stale"]) - {""})]
        special += (
            ["not trained on the budget's number of examples"] if (runs["departs_from_budget"] != "").any() else []
        )
        if len(runs) and self.board.row(self.contest, line.row) is None:
            special.append("from the installed package: its predictions are not here, so no tie is tested")
        special += origin_notes(runs["origin"])
        special += ["its predictions were made elsewhere"] if line.budget == EXTERNAL_BUDGET else []
        marks = "".join(self.notes.mark(text) for text in special)
        return f"**{name}**{marks}" if len(runs) else name

    def runs(self, line: Line) -> pd.DataFrame:
        """Return the runs of one row."""
        return self.board.runs_of(self.task.name, self.contest.regime, line.budget, line.row)

    def value(self, cell: Any, spread: bool = True) -> str:
        """Return a cell's mean with or without its interval, or a dash with its reason."""
        if cell is None:
            return DASH
        if math.isnan(cell.mean):
            return DASH + self.notes.mark(cell.reason or "published only")
        shown = interval(cell.mean, cell.low, cell.high, cell.unit) if spread else number(cell.mean, cell.unit)
        return shown + (self.notes.mark(cell.reason) if spread and cell.n_failed > 0 else "")

    def published(self, line: Line) -> str:
        """Return the published numbers of a row but those that stand in the table ``beside``, save the headline's."""
        places = [(split, metric) for split in self.tests for metric in self.task.metrics]
        found = [(split, metric, self.cell(line, split, metric)) for split, metric in places]
        apart = [each.metric.name for each in self.several(line)]
        known = [each for each in found if each[2] is not None and not math.isnan(each[2].published)]
        kept = [each for each in known if each[1].name not in apart or each[0] == self.contest.test]
        return "; ".join([self._published(*each) for each in kept] + ["below"] * (len(known) > len(kept)))

    def _published(self, split: str, metric: Metric, cell: Any) -> str:
        what = "" if metric is self.task.headline else f"{metric.title} "
        where = "" if split == self.contest.test else f" at {_rung(split)}"
        return f"{what}{number(cell.published, cell.unit)}{where}{self.notes.mark(cell.published_source)}"

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests of the table's regime."""
        return self.task.regime(self.contest.regime).tests

    def several(self, line: Line) -> list[Beside]:
        """Return the metrics in which a row has several published numbers."""
        return beside(line.row, self.tests, self.task.metrics, lambda test, metric: self.cell(line, test, metric))

    def beside(self) -> str:
        """Return the table of rows beside several published numbers, empty if none has them."""
        found = [each for line in self.lines for each in self.several(line)]
        return beside_table(found, self.tests, _rung, self.notes.mark, centre_of(self.task))

    def costs(self) -> str:
        """Return the table of costs; bold on the front of score and cost."""
        header = ["row", "parameters", "FLOPs an example", "training FLOPs", "examples", *self.needed()]
        body = [self.cost_line(found) for found in self.efficiencies]
        return table([*header, "seconds a run", "weights scored"], body, range(1, len(header) + 1))

    def needed(self) -> list[str]:
        """Return the heading of the examples to the task's threshold, none where it has no threshold."""
        if self.task.threshold is None:
            return []
        unit = "" if self.task.headline.unit == "share" else f" {self.task.headline.unit}"
        return [f"examples to {'≥' if self.task.headline.direction == 'max' else '≤'} {self.task.threshold:g}{unit}"]

    def cost_line(self, found: Efficiency) -> list[str]:
        """Return one row of the table of costs: means over the seeds, the median of the examples to the threshold."""
        parameters, training = number(found.parameters, "count"), number(found.training_flops, "FLOPs")
        shown = [code(found.row), _bold(parameters, found.parameters_front), number(found.flops, "FLOPs")]
        shown += [_bold(training, found.flops_front), number(found.examples, "count")]
        if self.needed():
            reached = found.seeds > 0 and math.isfinite(found.examples_to)
            count = f" ({found.reached}/{found.seeds})" if found.reached < found.seeds else ""
            shown.append((number(found.examples_to, "count") if reached else DASH) + count)
        checkpoints = set(self.board.runs_of(*self.contest.key, found.row)["checkpoint"]) - {""}
        return [*shown, number(found.seconds, "s"), "/".join(sorted(checkpoints)) or DASH]

    def equal(self) -> list[str]:
        """Return the best row at every number of parameters and of training FLOPs, a line each; none for one row."""
        return [
            f"Best with at most so many {what}: "
            + "; ".join(
                f"{number(cost, unit)} {code(one.row)} {number(one.score, self.task.headline.unit)}"
                for cost, one in rows
            )
            + "."
            for name, what, unit in (("parameters", "parameters", "count"), ("flops", "training FLOPs", "FLOPs"))
            if (rows := at_most(self.efficiencies, name))
        ]


def _bold(text: str, strong: bool) -> str:
    return f"**{text}**" if strong else text


def _rung(split: str) -> str:
    """Return the label of a test of the ladder: its size, or what stands for it."""
    return split.removeprefix("test-")


def heading(metric: Metric) -> str:
    """Return a metric's title with the way that is better, and its unit."""
    unit = f" ({metric.unit})" if metric.unit not in metric.title and metric.unit not in ("share", "ratio") else ""
    return f"{metric.title}{ARROWS[metric.direction]}{unit}"


def _seeds(cell: Any) -> int:
    """Return how many seeds were started; none of a reference or of a number that was only published."""
    return 0 if cell.kind in ("reference", "published") else cell.n_seeds + cell.n_failed


def _of_seeds(cell: Any, count: float) -> str:
    seeds = _seeds(cell)
    if not seeds:
        return ""
    return DASH if math.isnan(count) else f"{count:.0f}/{seeds}"


def elsewhere(cells: Sequence[Any]) -> str:
    """Return the table of published numbers whose task is not installed."""
    header = ["row", "data", "metric", "value", "source"]
    body = [
        [code(c.row), f"{c.task} {c.split}", c.metric, number(c.published, c.unit), escape(c.published_source)]
        for c in cells
    ]
    return table(header, body, range(3, 4))
