"""Suite ``sort-of-clevr``: training scenes turned to any side, and with fewer questions."""

import itertools

import numpy as np
import pytest
from numpy.random import RandomState
from sort_of_clevr_scenes import PLAIN, RED, same, scene

from harness.registry import get_task
from harness.splits import TrainingBatches
from tasks.sort_of_clevr.questions import encode, of_kind, text
from tasks.sort_of_clevr.raster import paint
from tasks.sort_of_clevr.scenes import (
    SQUARE,
    Scenes,
)


class Turns:
    """Turns every scene the same way."""

    def __init__(self, *turns: int):
        self.turns = turns

    def randint(self, low, high, size):
        assert (low, high) == (0, 2)
        return np.broadcast_to(np.array(self.turns)[:, None], size)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("turns", list(itertools.product((0, 1), repeat=3)))
def test_turned_scenes_have_the_answers_of_what_they_show(name, turns):
    task = get_task(name)
    examples = task.load("validation").take(slice(0, 40))
    turned = task.vary("train-augmented", examples, Turns(*turns))
    assert np.array_equal(
        task.references()["oracle"].predict(turned, RandomState(0))["answers"], turned.targets["answer"]
    )
    before, after = task.recognise(examples.inputs["scene"]), task.recognise(turned.inputs["scene"])
    centre = before.centre[..., ::-1] if turns[0] else before.centre
    centre = np.where(np.array(turns[1:], bool), 74 - centre, centre)
    assert same(Scenes(centre, before.colour, before.shape), after)
    if any(turns):
        assert not np.array_equal(turned.inputs["scene"], examples.inputs["scene"])
    kinds = [of_kind(e.inputs["question"], 1) for e in (examples, turned)]
    assert np.array_equal(*kinds)
    assert np.array_equal(turned.targets["answer"][:, 10:], examples.targets["answer"][:, 10:])


def test_one_turn_by_hand():
    task = get_task("sort-of-clevr/pixels")
    shown = scene((12, 20, RED, SQUARE))
    question = encode(np.array([[RED, RED, RED]]), np.array([[0, 0, 1]]), np.array([[1, 2, 1]]))  # left, top, furthest
    examples = task.load("validation").take(slice(0, 1))
    examples.inputs.update(scene=paint(shown), question=question)
    examples.targets.update(answer=np.array([[0, 0, 2]]))
    turned = task.vary("train-augmented", examples, Turns(1, 1, 0))  # rows and columns swapped, then upside down
    assert turned.inputs["scene"][0, :, 54, 12].tolist() == [255, 0, 0]
    assert [text(q) for q in turned.inputs["question"][0]] == [
        "Is the red at the top?",
        "Is the red on the left?",
        "What shape is furthest from the red?",
    ]
    assert turned.targets["answer"].tolist() == [[1, 0, 2]]
    assert examples.targets["answer"].tolist() == [[0, 0, 2]]


def test_all_eight_sides_are_drawn():
    task = get_task("sort-of-clevr/state")
    one = task.load("train").take(np.zeros(400, int))
    turned = task.vary("train-augmented", one, RandomState(0)).inputs["scene"]
    _, counts = np.unique(turned, axis=0, return_counts=True)
    assert counts == pytest.approx(np.full(8, 50), abs=28)


def test_relational_training_is_turned_and_keeps_three_of_the_other_questions():
    task = get_task("sort-of-clevr/state")
    examples = task.load("train").take(slice(0, 64))
    whole = task.vary("train-augmented", examples, RandomState(0))
    part = task.vary("train-relational", examples, RandomState(0))
    assert part.inputs["question"].shape == (64, 13, 11)
    np.testing.assert_array_equal(part.inputs["scene"], whole.inputs["scene"])
    np.testing.assert_array_equal(part.inputs["question"], whole.inputs["question"][:, 7:])
    np.testing.assert_array_equal(part.targets["answer"], whole.targets["answer"][:, 7:])
    assert of_kind(part.inputs["question"], 0).sum(1).tolist() == [3] * 64
    for subtype in range(3):  # each is asked, so none is forgotten
        assert of_kind(part.inputs["question"], 0, subtype).any()


def test_non_relational_training_has_the_first_ten_questions():
    task = get_task("sort-of-clevr/pixels")
    (batch,) = TrainingBatches(task, task.split("train-nonrelational"), 0, 32).iterate(0, 1)
    assert batch.inputs.question.shape == (32, 10, 11)
    assert of_kind(batch.inputs.question.numpy(), 0).all()
    (plain,) = TrainingBatches(task, task.split("train"), 0, 32).iterate(0, 1)
    assert plain.inputs.question.shape == (32, 20, 11)
