"""The generated tasks against the release's files, where ``READHEAD_BABI`` has them: what is told and asked how often.

Compared on the 10,000 training questions of each task (task 3: on the 2,000 of ``en``). Tolerances are stated beside
each figure; the data are fixed, so a test that passes goes on passing.
"""

from collections import Counter

import numpy as np
import pytest

from harness.registry import get_task
from tasks.babi import release
from tasks.babi.encoding import tokens
from tasks.babi.text import Question, Story, questions, statements

RELATIVE = 0.05
"""Of means: statements a story, statements before a question, words a statement."""
LOOK_BACK = {18: 0.12}
"""Of statements to look back to the earliest support; where two chains connect, the release goes further back."""
SHARE = 0.022
"""Of answers, absolute."""
SHARES = {3: 0.045, 5: 0.03}
"""Of answers where a story's questions have more in common: four standard errors of 2,000 stories (task 3: of 400)."""
YES_NO = 0.015
SUPPORTS = 0.02
"""Of questions with so many supporting statements, absolute."""


def files(number: int) -> list[str]:
    if number == 3:
        return [release.file_of("en", 3, part) for part in ("train", "test")]
    return [release.file_of("en-10k", number, "train")]


@pytest.fixture(scope="module", params=range(1, 21), ids=lambda number: f"qa{number}")
def pair(request) -> tuple[int, list[Story], list[Story]]:
    """The number of a task, its stories in the release, and its generated ones."""
    reason = release.missing(files(request.param))
    if reason is not None:
        pytest.skip(reason)
    task = get_task(f"babi/qa{request.param}")
    real = [story for path in files(request.param) for story in release.read(path)]
    return request.param, real, task.stories(task.bounded("train-10k"))


def asked(stories: list[Story]) -> list[tuple[Question, int]]:
    return [pair for story in stories for pair in questions(story)]


def shares(values) -> Counter:
    counts = Counter(values)
    return Counter({value: count / counts.total() for value, count in counts.items()})


def furthest(ours: Counter, theirs: Counter) -> float:
    return max(abs(ours[value] - theirs[value]) for value in {*ours, *theirs})


def test_vocabulary_and_answers_are_equal(pair):
    number, real, made = pair
    words, answers = (
        [
            {word for story in stories for line in story for word in tokens(getattr(line, "text", line))}
            for stories in (real, made)
        ],
        [{question.answer for question, _ in asked(stories)} for stories in (real, made)],
    )
    assert words[0] == words[1] == set(get_task(f"babi/qa{number}").words)
    assert answers[1] == set(get_task(f"babi/qa{number}").answers)
    assert answers[0] <= answers[1]


def test_stories_are_as_long(pair):
    _, real, made = pair
    told = [np.mean([len(statements(story)) for story in stories[:-1]]) for stories in (real, made)]  # the last is cut
    assert told[1] == pytest.approx(told[0], rel=RELATIVE)
    before = [np.mean([count for _, count in asked(stories)]) for stories in (real, made)]
    assert before[1] == pytest.approx(before[0], rel=RELATIVE)
    words = [
        np.mean([len(tokens(text)) for story in stories for text in statements(story)]) for stories in (real, made)
    ]
    assert words[1] == pytest.approx(words[0], rel=0.01)


def test_answers_are_as_frequent(pair):
    number, real, made = pair
    ours, theirs = (shares(question.answer for question, _ in asked(stories)) for stories in (made, real))
    tolerance = YES_NO if {"yes", "no"} <= set(theirs) else SHARES.get(number, SHARE)
    assert furthest(ours, theirs) < tolerance


def test_questions_have_as_many_supporting_statements_as_far_back(pair):
    number, real, made = pair
    ours, theirs = (shares(len(question.support) for question, _ in asked(stories)) for stories in (made, real))
    assert furthest(ours, theirs) < SUPPORTS
    back = [np.mean([count - min(q.support) for q, count in asked(stories)]) for stories in (real, made)]
    assert back[1] == pytest.approx(back[0], rel=LOOK_BACK.get(number, RELATIVE))
    recent = [np.mean([count - q.support[0] for q, count in asked(stories)]) for stories in (real, made)]
    assert recent[1] == pytest.approx(recent[0], rel=RELATIVE)


def test_the_question_alone_says_as_much(pair):
    """Guess the most frequent answer to the same question: within four points of the release, on as many questions."""
    _, real, made = pair
    count = min(len(asked(real)), len(asked(made)))
    right = []
    for stories in (real, made):
        by_question: dict[str, Counter] = {}
        for question, _ in asked(stories)[:count]:
            by_question.setdefault(question.text, Counter())[question.answer] += 1
        counts = by_question.values()
        right.append(sum(max(own.values()) for own in counts) / sum(own.total() for own in counts))
    assert right[1] == pytest.approx(right[0], abs=0.04)
