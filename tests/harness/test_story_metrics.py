"""Metrics of answers about stories, by hand."""

import math

import numpy as np
import pytest
from stories import stories

from harness.metrics import Metric
from harness.metrics.story import STORY_METRICS, failed_tasks, list_score, story_metrics

ERROR, RECIPROCAL_RANK, UNREAD, UNREAD_SUPPORT = STORY_METRICS


def stored(ranks: list[int], **arrays: list[int]) -> dict[str, np.ndarray]:
    known = {"rank": ranks, "answer": [0] * len(ranks), "unread": [0] * len(ranks)} | arrays
    return {name: np.array(array, np.uint8) for name, array in known.items()}


def score(metric: Metric, answers: dict[str, np.ndarray], examples=None) -> float:
    return metric.score(metric.statistics(answers, examples))


def test_error_is_the_share_of_wrong_answers_in_per_cent():
    assert score(ERROR, stored([0, 3, 0, 1])) == 50
    assert score(ERROR, stored([0] * 19 + [1])) == 5
    assert ERROR.is_solved(5)
    assert not ERROR.is_solved(5.1)
    assert ERROR.better(1, 2)


def test_reciprocal_rank_is_its_mean():
    assert score(RECIPROCAL_RANK, stored([0, 1, 3])) == pytest.approx((1 + 1 / 2 + 1 / 4) / 3)


def test_what_was_not_read_is_a_share_of_all_sentences():
    examples = stories([10, 2, 8])
    assert score(UNREAD, stored([0, 0, 0], unread=[5, 0, 0]), examples) == 25
    assert UNREAD.direction is UNREAD_SUPPORT.direction is None


def test_support_is_lost_if_one_supporting_sentence_was_not_read():
    examples = stories([9, 9, 9, 9])
    examples.targets["support"] = np.array([[8, 2, -1], [4, -1, -1], [3, 0, 5], [8, -1, -1]])
    assert score(UNREAD_SUPPORT, stored([0] * 4, unread=[3, 4, 0, 8]), examples) == 25
    assert score(UNREAD_SUPPORT, stored([0] * 4, unread=[2, 5, 1, 9]), examples) == 75


def test_lists_are_scored_place_by_place():
    answers = ("nothing", "milk", "milk,apple", "apple,milk", "milk,apple,football")
    metric = list_score(answers)

    def one(answer: str, right: str) -> float:
        examples = stories([1])
        examples.targets["answer"] = np.array([answers.index(right)])
        return score(metric, stored([0], answer=[answers.index(answer)]), examples)

    assert one("milk,apple", "milk,apple") == 1
    assert one("milk", "milk,apple") == one("milk,apple", "milk") == 1 / 2
    assert one("apple,milk", "milk,apple") == 0  # the order counts
    assert one("milk,apple,football", "milk,apple") == pytest.approx(2 / 3)
    assert one("nothing", "milk") == 0
    assert one("milk,apple,football", "apple,milk") == 0


def test_lists_are_scored_where_there_are_lists():
    assert story_metrics(("yes", "no")) == STORY_METRICS
    assert [metric.name for metric in story_metrics(("n,n", "s,s"))] == [
        "error",
        "list_score",
        "reciprocal_rank",
        "unread",
        "unread_support",
    ]


def test_a_task_fails_with_more_than_five_per_cent_of_errors():
    metric = failed_tasks(3)
    examples = stories([1] * 60)
    examples.sizes[:] = np.repeat([1, 2, 3], 20)
    wrong = np.zeros(60, int)
    wrong[[0, 20, 21]] = 2  # 5 % of task 1, 10 % of task 2
    assert score(metric, stored(wrong.tolist()), examples) == 1
    wrong[[1, 40, 41, 42]] = 1
    assert score(metric, stored(wrong.tolist()), examples) == 3
    assert metric.statistics(stored(wrong.tolist()), examples).shape == (60, 6)


def test_a_task_without_questions_has_not_failed():
    metric = failed_tasks(3)
    examples = stories([1] * 2)
    examples.sizes[:] = 2
    assert score(metric, stored([1, 1]), examples) == 1
    assert score(metric, stored([0, 0]), examples) == 0


def test_scores_of_resamples_come_from_sums():
    sums = np.array([[[1.0, 20.0], [2.0, 20.0]], [[0.0, 20.0], [20.0, 20.0]]])
    assert ERROR.value(sums).tolist() == [[5, 10], [0, 100]]
    assert failed_tasks(1).value(sums).tolist() == [[0, 1], [0, 1]]


def test_metrics_that_need_no_targets_are_told_apart():
    assert [metric.name for metric in STORY_METRICS if metric.from_stored] == ["error", "reciprocal_rank"]
    for metric in STORY_METRICS[:2]:
        assert not math.isnan(metric.score(metric.statistics(stored([0, 1]), None)))
