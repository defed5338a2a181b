"""Metrics of answers about stories, from the best candidate, the right one's rank and what was not read."""

from collections.abc import Sequence

import numpy as np

from harness.families.base import Examples, Stored
from harness.families.story import NO_SUPPORT
from harness.metrics import Metric, mean, ratio

SOLVED = 5.0
"""Error in per cent up to which Weston et al. 2015 count a task as solved."""


def percent(sums: np.ndarray) -> np.ndarray:
    """Return a ratio of sums ``(...,2)`` in per cent."""
    return 100 * ratio(sums)


def _unread(stored: Stored, examples: Examples) -> np.ndarray:
    return np.stack([stored["unread"], examples.inputs["story_length"]], axis=1).astype(np.float64)


def _unread_support(stored: Stored, examples: Examples) -> np.ndarray:
    support = examples.targets["support"].astype(np.int64)  # (n,K)
    return mean(((support != NO_SUPPORT) & (support < stored["unread"][:, None])).any(1))


ERROR = Metric(
    "error",
    "error",
    "%",
    "min",
    lambda s, e: mean(s["rank"] > 0),
    percent,
    bounds=(0, 100),
    solved=SOLVED,
    from_stored=True,
)
RECIPROCAL_RANK = Metric(
    "reciprocal_rank",
    "mean reciprocal rank",
    "share",
    "max",
    lambda s, e: mean(1 / (1.0 + s["rank"])),
    bounds=(0, 1),
    from_stored=True,
)
UNREAD = Metric("unread", "sentences not read", "%", None, _unread, percent, bounds=(0, 100))
UNREAD_SUPPORT = Metric(
    "unread_support", "questions with support not read", "%", None, _unread_support, percent, bounds=(0, 100)
)
STORY_METRICS = (ERROR, RECIPROCAL_RANK, UNREAD, UNREAD_SUPPORT)
"""What every story task reports, headline first."""


def story_metrics(answers: Sequence[str]) -> tuple[Metric, ...]:
    """Return what a story task reports; the score of lists is of it where candidates are lists with commas."""
    error, *others = STORY_METRICS
    return (error, list_score(answers), *others) if any("," in answer for answer in answers) else STORY_METRICS


def list_score(answers: Sequence[str]) -> Metric:
    """Return the score of answers that are lists: the share of places that are right, in order.

    ``answers`` are the candidates, items separated by commas. A list of one item where two are right has one of two
    places right; so has a list of two where one is right. A wrong order is wrong in the places that it moves.
    """
    lists = [answer.split(",") for answer in answers]
    table = np.zeros((len(lists), len(lists)))
    for row, ours in enumerate(lists):
        for column, theirs in enumerate(lists):
            right = sum(a == b for a, b in zip(ours, theirs, strict=False))
            table[row, column] = right / max(len(ours), len(theirs))

    def statistics(stored: Stored, examples: Examples) -> np.ndarray:
        return mean(table[stored["answer"].astype(np.int64), examples.targets["answer"].astype(np.int64)])

    return Metric("list_score", "ordered list score", "share", "max", statistics, bounds=(0, 1))


def failed_tasks(count: int) -> Metric:
    """Return how many of ``count`` tasks have more than 5 % errors; an example's size is its task, from 1 on."""

    def statistics(stored: Stored, examples: Examples) -> np.ndarray:
        """Return ``(n, 2·count)``: wrong by task, then questions by task."""
        own = examples.sizes[:, None] == np.arange(1, count + 1)  # (n,count)
        return np.concatenate([own & (stored["rank"] > 0)[:, None], own], axis=1).astype(np.float64)

    def value(sums: np.ndarray) -> np.ndarray:
        wrong, asked = sums[..., :count], sums[..., count:]
        return (100 * wrong > SOLVED * asked).sum(-1).astype(np.float64)

    return Metric("failed", f"failed tasks of {count} (error > {SOLVED:g} %)", "count", "min", statistics, value)
