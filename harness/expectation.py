"""What a row's stored seeds lead to expect of a new one, and how new runs and published numbers stand to it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from harness.cells import records
from harness.groups import Group, seed_statistics
from harness.metrics import Metric
from harness.published import KEY
from harness.ranking import centre_of
from harness.records import Run
from harness.statistics import DECIMALS, prediction_interval, resample
from harness.task import Task

Verdict = Literal["reproduced", "drift", "failed", "not run"]
Place = tuple[str, Metric]
"""Where a number of a row stands: a split and a metric."""

WITHIN, AT_MOST = 0.95, 0.99
"""Inside the first prediction interval is *reproduced*, inside the second *drift*; chance puts 1 in 100 outside."""


@dataclass(frozen=True)
class Expectation:
    """What is known of a cell: the ``values (n,)`` of the stored seeds that have one; others are ``without``.

    ``sampling`` is the deviation that the choice of examples gives. It keeps equal seeds, or a single one, from making
    the expected interval a point. It is 0 where it takes data that are not here.
    """

    metric: Metric
    values: np.ndarray
    without: int
    sampling: float

    def interval(self, new: int = 1, confidence: float = WITHIN) -> tuple[float, float]:
        """Return where the mean of ``new`` more seeds is to be expected; NaN where no stored seed has a value."""
        if not len(self.values):
            return math.nan, math.nan
        return prediction_interval(self.values, new, self.sampling, confidence, self.metric.bounds)

    def verdict(self, values: Sequence[float], others: int) -> Verdict:
        """Return how new seeds' ``values`` stand to it; ``others``: how many cells share the 1 in 100, 0 for the first.

        Of a hundred cells one would always have failed, if each had that to itself. And where a row was not trained to
        be good, a single stored seed does not say how far seeds differ, nor do equal ones (all wrong, often), nor those
        of which some have no value: there nothing is worse than *drift*.
        """
        solved = not self.without and all(map(self.metric.is_solved, [*self.values, *values]))
        centre = float(np.mean(values))
        low, high = self.interval(len(values))
        if solved or low <= centre <= high:  # how well does not matter of what is solved
            return "reproduced"
        low, high = self.interval(len(values), 1 - (1 - AT_MOST) / max(others, 1))
        told = not others or (not self.without and bool(np.ptp(self.values)))
        return "failed" if told and not low <= centre <= high else "drift"


def expectation(group: Group, task: Task, split: str, metric: Metric) -> Expectation:
    """Return what the stored seeds of a row say of a cell."""
    found = [(member.run.whole(split, metric.name), member) for member in group.members]
    known = [(value, member) for value, member in found if not math.isnan(value)]
    sampling = 0.0
    if known and (metric.from_stored or not task.missing(group.key[1])):
        statistics = seed_statistics(known[0][1], task, split, metric)
        # No resample of answers that are all right has a wrong one; a single example could be wrong, or off by 1.
        span = metric.bounds[1] - metric.bounds[0]
        least = (span if math.isfinite(span) else 1.0) / len(statistics)
        resamples = resample([statistics], metric).resamples
        defined = resamples[~np.isnan(resamples)]
        sampling = max(float(defined.std()) if len(defined) else 0.0, least)
    return Expectation(metric, np.array([value for value, _ in known]), len(found) - len(known), sampling)


@dataclass(frozen=True)
class Again:
    """A cell and the ``values`` that new runs have there, where their mean was expected, and the verdict."""

    split: str
    metric: Metric
    values: Sequence[float]
    low: float
    high: float
    verdict: Verdict


def held_against(group: Group, task: Task, places: Sequence[Place], runs: Sequence[Run | None]) -> list[Again]:
    """Return how new runs of a row stand to its stored ones in every place, of which the first is the row's headline.

    A run that broke off is None, and has no value.
    """
    found = []
    for index, (split, metric) in enumerate(places):
        expected = expectation(group, task, split, metric)
        values = [math.nan if run is None else run.whole(split, metric.name) for run in runs]
        verdict = expected.verdict(values, others=len(places) - 1 if index else 0)
        found.append(Again(split, metric, values, *expected.interval(len(values)), verdict))
    return found


def places(group: Group, task: Task, published: pd.DataFrame) -> list[Place]:
    """Return where a row's new runs are judged: the headline on every test, and where an exact number was published.

    The headline on the first test is the first; what no stored seed has a value of is not among the others.
    """
    first, *tests = task.regime(group.key[1]).tests
    found = {(split, task.headline.name): task.headline for split in tests}
    found |= {(line.split, line.metric): task.metric(line.metric) for line in _exact(group, task, published)}
    found.pop((first, task.headline.name), None)
    runs = [member.run for member in group.members]
    known = [(split, metric) for (split, name), metric in found.items() if _any_value(runs, split, name)]
    return [(first, task.headline), *known]


def _any_value(runs: Sequence[Run], split: str, metric: str) -> bool:
    return not all(math.isnan(run.whole(split, metric)) for run in runs)


@dataclass(frozen=True)
class Against:
    """A published number of kind ``exact``, and what this benchmark's runs have where it stands."""

    split: str
    metric: Metric
    value: float
    source: str
    ours: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """``reached``: as good or better; ``near``: where a new seed might be; else by how much it is not."""
        if math.isnan(self.ours):
            return "no value here"
        if not self.metric.better(self.value, self.ours):
            return "reached"
        if self.low <= self.value <= self.high:
            return "near"
        return f"short by {abs(self.value - self.ours):.3g}"


def against_published(group: Group, published: pd.DataFrame) -> list[Against]:
    """Return the published numbers of kind ``exact`` of a row, each beside what the stored runs have."""
    if group.task is None:
        return []
    centre = np.mean if centre_of(group.task) == "mean" else np.median
    found = []
    for line in _exact(group, group.task, published):
        expected = expectation(group, group.task, line.split, group.task.metric(line.metric))
        ours = round(float(centre(expected.values)), DECIMALS) if len(expected.values) else math.nan
        found.append(Against(line.split, expected.metric, line.value, line.paper, ours, *expected.interval()))
    return found


def _exact(group: Group, task: Task, published: pd.DataFrame) -> list[Any]:
    """Return a row's published numbers of kind ``exact`` that can be better or worse, one for each place."""
    name, regime, _, row = group.key
    ours = (published["task"] == name) & (published["regime"] == regime) & (published["row"] == row)
    lines = records(published[ours & (published["kind"] == "exact")].drop_duplicates(list(KEY)))
    return [line for line in lines if task.metric(line.metric).direction is not None]
