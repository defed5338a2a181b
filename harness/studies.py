"""Questions that a suite asks across rows, tasks and regimes, answered from the stored runs.

A study is one YAML file in a package's ``studies/``: which rows are set against each other, where, and by which metric.
What it finds is computed when the board is written, so that a study states a question and never an answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from pydantic import Field, model_validator

from harness.errors import unknown
from harness.groups import Group, installed_task, seed_statistics
from harness.metrics import Metric
from harness.recipe import Strict, read_mapping, recipe_paths, validated
from harness.registry import study_files, task_names
from harness.standings import Board, Contest
from harness.statistics import Comparison, Resampled, difference, resample


@dataclass(frozen=True)
class Place:
    """Where a study looks: a table of the board, and a metric."""

    contest: Contest
    metric: Metric

    @property
    def label(self) -> str:
        """The task's name, with the regime where there are several."""
        task = self.contest.task
        return task.name + (f":{self.contest.regime}" if len(task.regimes) > 1 else "")


class Against(Strict):
    """Rows that differ in one number, and what it is called ("hops")."""

    title: str
    rows: dict[str, float] = Field(min_length=2)


class Study(Strict):
    """One question; the file names it.

    ``tasks`` are tasks, with a regime after a colon where it is not the first. ``differences`` are pairs of rows, each
    read as first minus second; with ``fall``, two tests, a row's score is how far it falls from the first of them to
    the second. ``curves`` are rows to draw and tabulate against size, those of all ``tasks`` together. ``grid`` are
    rows to set beside the papers' numbers, a column a task, or a column a test where there is one task; ``against``
    rows to draw against a number of theirs, a line a task. ``metric`` is the headline where it is not given.
    """

    name: str
    title: str
    text: str
    tasks: list[str]
    budget: str = "standard"
    metric: str | None = None
    differences: list[tuple[str, str]] = Field([])
    fall: tuple[str, str] | None = None
    curves: list[str] = Field([])
    grid: list[str] = Field([])
    against: Against | None = None

    @model_validator(mode="after")
    def _asks_one_thing(self) -> "Study":
        if not self.tasks:
            raise ValueError("a study names at least one task")
        if sum(map(bool, (self.differences, self.curves, self.grid, self.against))) != 1:
            raise ValueError("a study has one of differences, curves, grid and against")
        if self.fall is not None and not self.differences:
            raise ValueError("fall says what differences are of; there are none")
        return self

    @property
    def rows(self) -> list[str]:
        """Every row that the study names, each once."""
        alone = [*self.curves, *self.grid, *(self.against.rows if self.against else ())]
        return list(dict.fromkeys([*alone, *(row for pair in self.differences for row in pair)]))

    @property
    def drawn(self) -> bool:
        """Whether the study has a figure."""
        return not self.differences

    @property
    def suite(self) -> str:
        """The suite that the study belongs to."""
        return self.tasks[0].split("/")[0]

    @property
    def slug(self) -> str:
        """What its figure is called."""
        return f"{self.suite}-{self.name}"

    @cached_property
    def places(self) -> list[Place]:
        """One place an entry of ``tasks``; a ``UserError`` names a task, regime or metric that does not exist."""
        found = []
        for entry in self.tasks:
            name, _, regime = entry.partition(":")
            task = installed_task(name)
            if task is None:
                raise unknown(f"task in study {self.name}", name, task_names())
            contest = Contest(task, regime or next(iter(task.regimes)), self.budget)
            task.regime(contest.regime)
            task.budget(self.budget)
            found.append(Place(contest, task.headline if self.metric is None else task.metric(self.metric)))
        return found


def read_studies(files: Sequence[Path] | None = None) -> list[Study]:
    """Return the studies of every installed package (or of ``files``); ``UserError`` for one that is not valid."""
    return [_read(path) for path in (study_files() if files is None else files)]


def _read(path: Path) -> Study:
    study: Study = validated(Study, {**read_mapping(path, "study", "title"), "name": path.stem}, f"study {path.name}")
    for row in study.rows:
        if row not in recipe_paths():
            raise unknown(f"row in study {study.name}", row, recipe_paths())
    for place in study.places:
        tests = place.contest.task.regime(place.contest.regime).tests
        for split in study.fall or ():
            if split not in tests:
                raise unknown(f"test in study {study.name}", split, tests)
    return study


def compared(study: Study, board: Board, place: Place) -> Mapping[tuple[str, str], Comparison]:
    """Return the difference, with its bootstrap interval, of every pair of rows that both have scores at ``place``."""
    resampled: dict[str, Resampled] = {}
    first, *second = study.fall or (place.contest.test,)
    for row in study.rows:
        group = board.row(place.contest, row)
        if group is not None and any(member.run.status == "completed" for member in group.members):
            minus = _statistics(group, place, second[0]) if second else None
            resampled[row] = resample(_statistics(group, place, first), place.metric, minus=minus)
    pairs = [pair for pair in study.differences if pair[0] in resampled and pair[1] in resampled]
    return {(a, b): difference(resampled[a], resampled[b]) for a, b in pairs}


def _statistics(group: Group, place: Place, split: str) -> list[np.ndarray]:
    """Return the metric's statistics ``(n,k)`` of every finished seed on one test; a seed that diverged has none."""
    finished = [member for member in group.members if member.run.status == "completed"]
    return [seed_statistics(member, place.contest.task, split, place.metric) for member in finished]
