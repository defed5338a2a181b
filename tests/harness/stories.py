"""Random stories for tests of the family: two questions a story, as lists and as examples."""

import numpy as np

from harness.families import Examples
from harness.families.ragged import Ragged
from harness.families.story import NO_SUPPORT, Spec

SPEC = Spec(
    max_train_size=5,
    max_test_size=9,
    vocabulary=20,
    answers=6,
    max_sentence_length=5,
    max_question_length=4,
    max_train_story=5,
    max_test_story=9,
)


def stories(lengths: list[int], seed: int = 0) -> Examples:
    """Questions after ``lengths`` sentences of 1 to 5 words; each has a story of its own that goes on after it."""
    rng = np.random.RandomState(seed)
    rows, first = [], []
    for length in lengths:
        first.append(len(rows))
        for _ in range(length + 1):
            words = rng.randint(4, 20, rng.randint(1, 6))
            rows.append(np.pad(words, (0, 5 - len(words))))
    table, starts, count = np.array(rows, np.uint8), np.array(first), np.array(lengths)
    question_length = rng.randint(1, 5, len(lengths))
    question = np.where(np.arange(4) < question_length[:, None], rng.randint(4, 20, (len(lengths), 4)), 0)
    support = np.full((len(lengths), 3), NO_SUPPORT, np.int16)
    for row, length in enumerate(lengths):
        facts = rng.permutation(length)[: rng.randint(1, 4)]
        support[row, : len(facts)] = facts
    return Examples(
        {
            "story": Ragged.of(table, starts, count),
            "story_length": count,
            "sentence_length": Ragged.of((table > 0).sum(1), starts, count),
            "question": question.astype(np.uint8),
            "question_length": question_length,
        },
        {"answer": rng.randint(0, 6, len(lengths)), "support": support},
        count,
    )
