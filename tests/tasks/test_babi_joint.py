"""``babi/joint``: the twenty tasks together, with one vocabulary and one list of candidates."""

from pathlib import Path

import numpy as np
import pytest
from numpy.random import RandomState

from harness.plan import make_plan
from harness.registry import get_task
from harness.splits import TrainingBatches
from tasks.babi.joint import ANSWERS, EACH, QA, WORDS
from tasks.babi.text import parse


@pytest.fixture(scope="module")
def joint():
    return get_task("babi/joint")


def texts(task, examples, row):
    """Return story, question, answer and support of an example as text."""
    story = [task.encoder.text(ids) for ids in examples.inputs["story"][row]]
    question, answer = task.encoder.text(examples.inputs["question"][row]), examples.targets["answer"][row]
    return story, question, task.answers[answer], [int(s) for s in examples.targets["support"][row] if s >= 0]


def test_vocabulary_and_candidates_are_those_of_all_tasks(joint):
    assert len(WORDS) == 145
    assert len(ANSWERS) == 60
    spec = joint.spec("1k")
    assert (spec.vocabulary, spec.answers) == (149, 60)
    assert (spec.max_train_size, spec.max_test_size) == (20, 20)
    assert spec.max_sentence_length == spec.max_question_length == 11
    specs = [get_task(f"babi/qa{number}").spec("1k") for number in range(1, 21)]
    assert spec.max_train_story == max(own.max_train_story for own in specs)
    assert spec.max_test_story == max(own.max_test_story for own in specs)


@pytest.mark.parametrize("number", [1, 3, 8, 19, 20])
def test_each_test_holds_the_questions_of_its_task(joint, number):
    own = get_task(f"babi/qa{number}")
    together, alone = joint.load(f"test-qa{number}"), own.load("test")
    assert (together.sizes == number).all()
    assert len(together) == len(alone)
    for row in range(0, len(alone), 83):
        assert texts(joint, together, row) == texts(own, alone, row)


def test_the_test_of_all_is_the_tests_of_each(joint):
    every = joint.load("test")
    assert np.bincount(every.sizes).tolist() == [0, *[1000] * 20]
    for number in (2, 17):
        own = get_task(f"babi/qa{number}")
        rows = np.flatnonzero(every.sizes == number)
        for row in range(0, 1000, 211):
            assert texts(joint, every, rows[row]) == texts(own, own.load("test"), row)


def test_the_training_questions_are_those_of_each_task(joint):
    train = joint.load("train-1k")
    assert np.bincount(train.sizes).tolist() == [0, *[900] * 20]
    own = get_task("babi/qa16")
    rows = np.flatnonzero(train.sizes == 16)
    assert texts(joint, train, rows[899]) == texts(own, own.load("train-1k"), 899)
    assert np.bincount(joint.load("validation-1k").sizes).tolist() == [0, *[100] * 20]


def test_batches_mix_tasks_and_are_padded_to_their_longest_story(joint):
    batches = list(TrainingBatches(joint, joint.split("train-1k"), seed=0, batch_size=32).iterate(0, 5))
    for batch in batches:
        assert len(batch) == 32
        assert batch.inputs.story.shape[1] == int(batch.inputs.story_length.max())
        assert batch.inputs.story.shape[2] == int(batch.inputs.sentence_length.max())
        assert len(set(batch.inputs.story_length.tolist())) > 3


def test_the_references_of_all_tasks(joint):
    examples = joint.load("test")
    scores = {
        row: joint.score(reference.predict(examples, RandomState(0)), examples)
        for row, reference in joint.references().items()
    }
    assert scores["oracle"]["error"] == scores["oracle"]["failed"] == 0
    assert scores["oracle"]["list_score"] == 1
    assert scores["majority"]["failed"] == scores["question-only"]["failed"] == 20
    assert 0 < scores["last-5"]["failed"] < 10
    assert scores["last-5"]["error"] < scores["question-only"]["error"] < scores["majority"]["error"]
    assert joint.headline.solved is None  # a mean of tasks solves none of them


def test_a_score_a_task_lies_in_the_scores_by_size(joint):
    """The size of an example is its task, so run.json has each task's error, and figures show them."""
    assert joint.size_name == "task"
    assert [joint.bounded(split).ladder for split in EACH] == list(range(1, 21))
    assert all(joint.regime(regime).tests == ("test", *EACH) for regime in ("1k", "10k"))


def test_hops_are_shown_on_tasks_that_the_paper_shows(joint):
    shown = joint.explained("1k")
    assert [split for split, _ in shown] == ["test-qa1", "test-qa2", "test-qa16"]
    assert all(joint.load(split).inputs["story_length"][row] >= 9 for split, row in shown)


@pytest.mark.parametrize(
    ("name", "regime", "epochs"),
    [
        ("babi/qa7", "1k", 100),
        ("babi/qa7", "10k", 100),
        ("babi/joint", "1k", 60),
        ("babi/joint", "10k", 20),
        ("babi-official/qa7", "en", 100),
        ("babi-official/qa7", "en-10k", 100),
    ],
)
def test_the_standard_budget_is_the_papers_epochs(name, regime, epochs):
    task = get_task(name)
    assert task.budget("standard", regime) == epochs * len(task.bounded(task.regime(regime).train))
    assert task.budget("smoke", regime) == task.budget("smoke") < 5_000
    if task.missing(regime) is None:
        model = f"{Path(__file__).parents[1] / 'models' / 'story_models.py'}:Sound"
        (planned,) = make_plan(model, name, regime, "standard", [0]).runs
        assert planned.identity.examples == task.budget("standard", regime)


def test_export_is_that_of_the_tasks(joint):
    assert joint.export("test-qa4") == get_task("babi/qa4").export("test")
    stories = parse(joint.export("validation-1k"), "file")
    assert stories == [story for task in QA for story in task().stories(task().bounded("validation-1k"))]
