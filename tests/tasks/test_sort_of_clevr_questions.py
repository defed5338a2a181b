"""Suite ``sort-of-clevr``: answers against plain Python, and which questions are asked."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import RandomState
from sort_of_clevr_scenes import BLUE, GRAY, GREEN, PAIRS, PLAIN, RED, scene

from harness.families.scene import BLANK
from harness.registry import get_task
from tasks.sort_of_clevr.questions import ANSWERS, SUBTYPES, answers, ask, decode, encode, of_kind, text
from tasks.sort_of_clevr.scenes import (
    CIRCLE,
    SHAPES,
    SQUARE,
    one_a_colour,
)


def slow_answer(objects: list[tuple[int, int, int, int]], asked: int, kind: int, subtype: int) -> int:
    """The rule in plain Python; exact fractions for the middle, squared distances for ties."""
    row, column, _, shape = objects[asked]
    name = SUBTYPES[kind][subtype]
    if name == "shape":
        return ANSWERS.index(SHAPES[shape])
    if name in ("left", "top"):
        at = Fraction(2 * (column if name == "left" else row) + 1, 2)  # the pixel's middle
        if at == Fraction(75, 2):
            return BLANK
        return ANSWERS.index("yes" if at < Fraction(75, 2) else "no")
    others = [o for i, o in enumerate(objects) if i != asked]
    if name == "count":
        count = sum(o[3] == shape for o in others)
        return ANSWERS.index(str(count)) if count <= 5 else BLANK
    distances = [(o[0] - row) ** 2 + (o[1] - column) ** 2 for o in others]
    best = (min if name == "closest" else max)(distances)
    chosen = [o for o, d in zip(others, distances, strict=True) if d == best]
    return ANSWERS.index(SHAPES[chosen[0][3]]) if len(chosen) == 1 else BLANK


spots = st.tuples(st.integers(34, 40), st.integers(34, 40), st.integers(0, 5), st.integers(0, 1))


@given(st.lists(spots, min_size=2, max_size=9))
def test_answers_follow_the_rule_object_by_object(objects):
    found = answers(scene(*objects))[0]
    for asked, kind, subtype in itertools.product(range(len(objects)), range(2), range(3)):
        assert found[asked, kind, subtype] == slow_answer(objects, asked, kind, subtype)


def test_an_object_is_never_its_own_neighbour_however_far_the_others_are():
    """Squared distances beyond 999, the stand-in for infinity of a popular generator."""
    far = scene((5, 5, RED, SQUARE), (69, 69, BLUE, CIRCLE), (69, 60, GRAY, CIRCLE))
    assert ANSWERS[answers(far)[0, 0, 1, 0]] == "circle"
    assert ANSWERS[answers(far)[0, 0, 1, 1]] == "circle"
    assert ANSWERS[answers(far)[0, 0, 1, 2]] == "0"


def test_a_tie_is_not_asked_even_between_equal_shapes():
    tied = scene((30, 30, RED, SQUARE), (30, 45, BLUE, CIRCLE), (45, 30, GRAY, CIRCLE), (60, 60, GREEN, SQUARE))
    assert answers(tied)[0, 0, 1].tolist() == [BLANK, ANSWERS.index("square"), ANSWERS.index("1")]
    question, _ = ask(RandomState(0), tied)
    assert "What shape is closest to the red?" not in {text(q) for q in question[0]}


def test_the_middle_has_no_side():
    middle = scene((37, 20, RED, SQUARE), (20, 37, BLUE, CIRCLE), (36, 38, GREEN, CIRCLE))
    assert answers(middle)[0, :, 0, 1:].tolist() == [[0, BLANK], [BLANK, 0], [1, 0]]


# Questions


def test_questions_are_coded_by_hand():
    vector = encode(np.array(3), np.array(1), np.array(2))
    assert vector.tolist() == [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1]
    assert text(vector) == "How many others have the shape of the orange?"
    assert text(np.zeros(11)) == ""
    assert [int(code) for code in decode(vector)] == [3, 1, 2]


@pytest.mark.parametrize("name", PLAIN + PAIRS)
def test_every_scene_has_ten_different_questions_of_each_kind(name):
    task = get_task(name)
    for split in ("validation", "test"):
        examples = task.load(split)
        question, answer = examples.inputs["question"], examples.targets["answer"]
        assert question.shape == (len(examples), 20, 11)
        assert (of_kind(question, 0).sum(1) == 10).all()
        assert of_kind(question, 0)[:, :10].all()
        assert (of_kind(question, 1).sum(1) == 10).all()
        assert (answer != BLANK).all()
        assert all(len(np.unique(q, axis=0)) == 20 for q in question)
        for code in np.split(question, [6, 8], axis=2):
            assert (code.sum(2) == 1).all()


def test_questions_that_can_be_asked_are_evenly_likely():
    question, _ = ask(RandomState(0), one_a_colour(RandomState(0), 4000))
    colour, kind, subtype = decode(question)
    for k in range(2):
        counts = np.bincount((colour * 3 + subtype)[kind == k], minlength=18)
        assert counts == pytest.approx(np.full(18, 40_000 / 18), rel=0.05)
    for place_in_list in (0, 9):  # their order says nothing
        first = np.bincount(subtype[:, place_in_list], minlength=3)
        assert first == pytest.approx(np.full(3, 4000 / 3), rel=0.1)


def test_no_answer_is_wrong_in_any_split():
    """Every question of every test, against plain Python."""
    for name, split in [("sort-of-clevr/state", "test-200"), *((n, s) for n, s in CROWDED_AND_PAIRED)]:
        task = get_task(name)
        examples = task.load(split).take(slice(0, 60))
        shown = task.recognise(examples.inputs["scene"])
        colour, kind, subtype = decode(examples.inputs["question"])
        for row in range(len(examples)):
            objects = np.column_stack([shown.centre[row], shown.colour[row], shown.shape[row]]).tolist()
            for q in np.flatnonzero(examples.targets["answer"][row] != BLANK):
                (asked,) = np.flatnonzero(shown.colour[row] == colour[row, q])
                expected = slow_answer(objects, int(asked), int(kind[row, q]), int(subtype[row, q]))
                assert examples.targets["answer"][row, q] == expected


CROWDED_AND_PAIRED = [("sort-of-clevr/state", f"test-{n}") for n in (8, 10, 12)] + [
    ("sort-of-clevr/state-pairs", split) for split in ("test", "test-2", "test-4")
]
