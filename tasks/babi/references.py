"""Floor and ceiling of the suite: what answers alone are worth, what questions alone, and what a memory of five is."""

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import RandomState

from harness.families.base import Examples, Stored
from harness.families.story import stored_scores
from harness.task import Bound, Reference
from tasks.babi.reader import Reader

if TYPE_CHECKING:
    from tasks.babi.suite import BabiTask

RECENT = 5
"""Statements that the reader of ``last-5`` remembers."""


def references(task: "BabiTask", oracle: Bound) -> dict[str, Reference]:
    """Return the references of a task; counts are those of the first regime's training questions."""
    return {
        "majority": Reference("the most frequent answer", "none", _Counting(task).majority),
        "question-only": Reference("the most frequent answer to the same question", "none", _Counting(task).question),
        "last-5": Reference(
            f"a symbolic reader of the last {RECENT} statements", "none", _Reading(task, RECENT).answer
        ),
        "oracle": Reference("a symbolic reader of the whole story", oracle, _Reading(task, None).answer),
    }


class _Counting:
    """Answers by how often they were right in training; it reads no statement."""

    def __init__(self, task: "BabiTask"):
        self.task = task
        self.counts = cache(self._counts)

    def _counts(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return how often each answer is right, ``(A,)``, at all and by question."""
        regime = next(iter(self.task.regimes.values()))
        train = self.task.load(regime.train)
        by_question: dict[str, np.ndarray] = {}
        for ids, answer in zip(train.inputs["question"], train.targets["answer"], strict=True):
            own = by_question.setdefault(self.task.encoder.text(ids), np.zeros(len(self.task.answers)))
            own[answer] += 1
        return np.sum(list(by_question.values()), axis=0), by_question

    def scores(self, examples: Examples, use_question: bool) -> np.ndarray:
        """Return counts as scores ``(n,A)``; those at all decide where those by question are equal."""
        overall, by_question = self.counts()
        scores = np.tile(overall / (overall.sum() + 1), (len(examples), 1))
        if use_question:
            for row, ids in enumerate(examples.inputs["question"]):
                scores[row] += by_question.get(self.task.encoder.text(ids), 0)
        return scores

    def majority(self, examples: Examples, rng: RandomState) -> Stored:
        """Answer every question alike."""
        return _stored(self.scores(examples, False), examples, examples.inputs["story_length"])

    def question(self, examples: Examples, rng: RandomState) -> Stored:
        """Answer by the question alone."""
        return _stored(self.scores(examples, True), examples, examples.inputs["story_length"])


class _Reading(_Counting):
    """A symbolic reader of the last ``recent`` statements (None: of all); else by the question alone."""

    def __init__(self, task: "BabiTask", recent: int | None):
        super().__init__(task)
        self.recent = recent

    def answer(self, examples: Examples, rng: RandomState) -> Stored:
        """Answer from the statements."""
        encoder, candidates = self.task.encoder, {a.lower(): i for i, a in enumerate(self.task.answers)}
        scores = self.scores(examples, True)
        story_length = examples.inputs["story_length"]
        unread = np.zeros_like(story_length) if self.recent is None else np.maximum(story_length - self.recent, 0)
        for row in range(len(examples)):
            statements = [encoder.text(ids) for ids in examples.inputs["story"][row][unread[row] :]]
            found = Reader(statements).answer(encoder.text(examples.inputs["question"][row]))
            if found in candidates:
                scores[row, candidates[found]] += 1 + scores[row].max()
        return _stored(scores, examples, unread)


def _stored(scores: np.ndarray, examples: Examples, unread: np.ndarray) -> Stored:
    return stored_scores(scores, examples.targets["answer"]) | {"unread": unread.astype(np.uint16)}
