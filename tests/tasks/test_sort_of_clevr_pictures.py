"""Suite ``sort-of-clevr``: a scene in words, pair relevance, and a table of answers."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.random import RandomState
from sort_of_clevr_scenes import BLUE, PLAIN, RED, scene

from harness.families.scene import BLANK
from harness.registry import get_task
from tasks.sort_of_clevr.pictures import draw_pairs
from tasks.sort_of_clevr.questions import ANSWERS, encode, of_kind, text
from tasks.sort_of_clevr.raster import RGB
from tasks.sort_of_clevr.scenes import (
    CIRCLE,
    SQUARE,
)


def test_a_scene_in_words():
    task = get_task("sort-of-clevr/state")
    shown = scene((12, 20, RED, SQUARE), (60, 60, BLUE, CIRCLE))
    question = encode(np.array([[RED, BLUE, RED]]), np.array([[0, 1, 0]]), np.array([[0, 0, 1]]))
    question[0, 2] = 0
    examples = task.load("validation").take(slice(0, 1))
    examples.inputs.update(scene=task.show(shown), question=question)
    examples.targets.update(answer=np.array([[2, 2, BLANK]]))
    lines = task.render(examples, 0, {"answers": np.array([[3, 2, 0]], np.uint8)}).splitlines()
    assert lines[1][5:9] == "RRRR"
    assert lines[2][5:9] == "RRRR"
    assert [line[17:23] for line in lines[10:14]] == ["......", "..bbb.", ".bbbb.", "......"]
    assert sum(line.count("R") for line in lines[:15]) == 12
    assert lines[15] == "objects at (row, column): red square at (12, 20), blue circle at (60, 60)"
    assert lines[16].split() == [*"What shape is the red?".split(), "square", "answered", "circle"]
    assert lines[17].startswith("What shape is closest to the blue?")
    assert len(lines) == 18


@pytest.mark.parametrize("name", PLAIN)
def test_pair_relevance_is_drawn_over_the_picture(name):
    task = get_task(name)
    examples = task.load("test-8" if name == PLAIN[1] else "test-200").take(slice(0, 2))
    objects = 25 if name == PLAIN[0] else 8
    rng = RandomState(0)
    explanation = {
        "answers": examples.targets["answer"][1].astype(np.float16),
        "pairs": rng.standard_normal((20, objects, objects)).astype(np.float16),
        "places": np.argwhere(np.ones((5, 5))) * 16.0,
    }
    assert set(task.draws) <= set(explanation)
    axis = Figure().subplots()
    task.draw(axis, examples, 1, explanation)
    chosen = int(np.argmax(of_kind(examples.inputs["question"][1], 1, 0)))
    assert chosen >= 10
    assert axis.get_xlabel().startswith(text(examples.inputs["question"][1, chosen]))
    assert axis.get_xlabel().endswith(f"the model: {ANSWERS[examples.targets['answer'][1, chosen]]}")
    (image,) = axis.get_images()
    assert image.get_array().shape == (75, 75, 3)
    strongest = np.unravel_index(np.abs(explanation["pairs"][chosen]).argmax(), (objects, objects))
    places = task.places(task.recognise(examples.inputs["scene"][1:2]), explanation)[list(strongest)]
    first = axis.get_lines()[0].get_xydata()
    assert sorted(map(tuple, first[:, ::-1])) == sorted({tuple(p) for p in places.astype(float)})
    assert len(axis.get_lines()) == 8
    assert RGB.shape == (6, 3)


def test_relevance_that_does_not_depend_on_the_second_object_is_drawn_as_rings():
    places = np.array([[10.0, 10.0], [10.0, 60.0], [60.0, 10.0]])
    axis = Figure().subplots()
    draw_pairs(axis, scene((12, 20, RED, SQUARE)), places, np.array([[3.0, 3, 3], [1, 1, 1], [-2, -2, -2]]))
    rings = {tuple(line.get_xydata()[0, ::-1]): line for line in axis.get_lines() if len(line.get_xydata()) == 1}
    assert set(rings) == {tuple(place) for place in places}
    widths = [rings[tuple(place)].get_markeredgewidth() for place in places]
    assert widths == pytest.approx([2, 2 / 3, 4 / 3])
    assert all(line.get_linewidth() == 0 for line in axis.get_lines() if len(line.get_xydata()) == 2)


def test_answers_are_tabulated_beside_the_scene_and_wrong_ones_are_red():
    task = get_task("sort-of-clevr/pixels")
    examples = task.load("test-200")
    right = task.references()["oracle"].predict(examples, RandomState(0))
    wrong = {"answers": right["answers"].copy()}
    wrong["answers"][3, 7] ^= 1
    axis = Figure().subplots()
    task.draw_answers(axis, examples, 3, {"good": right, "a-name-that-is-much-too-long": wrong})
    texts = [(t.get_text(), t.get_color()) for t in axis.texts]
    assert len(texts) == 20 + 3 * 21
    red = [t for t, colour in texts if colour != "black" and t not in {q for q, _ in texts if q.endswith("?")}]
    assert ANSWERS[wrong["answers"][3, 7]] in red
    assert sum(t.get_weight() == "bold" for t in axis.texts) == 1
    assert {"answer", "good", "a-name-that-is-much-too…"} <= {t for t, _ in texts}
    assert texts[7][0] == text(examples.inputs["question"][3, 7])
    (picture,) = axis.child_axes
    assert picture.get_images()[0].get_array().shape == (75, 75, 3)
