"""Suite ``sort-of-clevr``: splits, forms, crowds, unseen pairs, references."""

import numpy as np
import pytest
from numpy.random import RandomState
from sort_of_clevr_scenes import BLUE, PAIRS, PLAIN, RED, by_colour, same, scene

from harness.families.scene import BLANK
from harness.registry import get_task
from harness.splits import Split, generator
from tasks.sort_of_clevr.questions import ANSWERS, decode
from tasks.sort_of_clevr.scenes import (
    CIRCLE,
    COLOURS,
    SQUARE,
    UNSEEN,
    crowded,
    one_a_colour_with_unseen,
)


@pytest.mark.parametrize(("pixels", "state"), [PLAIN, PAIRS])
def test_both_forms_show_the_same_scenes_and_questions(pixels, state):
    pixels, state = get_task(pixels), get_task(state)
    for split in state.regimes["default"].tests:
        seen, told = pixels.load(split), state.load(split)
        assert np.array_equal(seen.inputs["question"], told.inputs["question"])
        assert np.array_equal(seen.targets["answer"], told.targets["answer"])
        few = slice(0, 40)
        assert same(pixels.recognise(seen.inputs["scene"][few]), state.recognise(told.inputs["scene"][few]))


def test_a_state_by_hand():
    shown = get_task("sort-of-clevr/state").show(scene((15, 40, BLUE, CIRCLE), (69, 5, RED, SQUARE)))
    assert shown[0].tolist() == [
        [0, 0, 1, 0, 0, 0, 0, 1, -22 / 32, 3 / 32],
        [1, 0, 0, 0, 0, 0, 1, 0, 1, -1],
    ]
    assert shown.dtype == np.float32


def test_sizes_of_the_splits():
    task = get_task("sort-of-clevr/pixels")
    sizes = {split.name: len(split) for split in task.splits if isinstance(split, Split)}
    crowds = {"test-8": 200, "test-10": 200, "test-12": 200}
    assert sizes == {"train": 9800, "validation": 200, "test": 2000, "test-200": 200, **crowds}
    examples = task.load("test-200")
    metric = [m.statistics({"answers": np.zeros((200, 20), np.uint8)}, examples)[:, 1].sum() for m in task.metrics]
    assert metric[:2] == [2000, 2000]  # every question is scored, whatever the batch
    assert sum(metric[2:]) == 4000


@pytest.mark.parametrize("name", [PLAIN[1], PAIRS[1]])
def test_no_scene_occurs_twice(name):
    task = get_task(name)
    names = [split.name for split in task.splits if isinstance(split, Split)]
    scenes = [by_colour(task.recognise(task.load(split).inputs["scene"])) for split in names]
    keys = [row.tobytes() for s in scenes for row in np.concatenate([s.centre, s.shape[..., None]], 2).astype(np.uint8)]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("objects", [8, 10, 12])
def test_crowds_are_of_two_colours_and_the_questions_about_the_others(objects):
    task = get_task("sort-of-clevr/state")
    examples = task.load(f"test-{objects}")
    shown = task.recognise(examples.inputs["scene"])
    held = (shown.colour[..., None] == np.arange(6)).sum(1)  # (n,6)
    assert (np.sort(held, axis=1) == [1, 1, 1, 1, objects // 2 - 2, objects // 2 - 2]).all()
    colour, _, _ = decode(examples.inputs["question"])
    asked = examples.targets["answer"] != BLANK
    assert (np.take_along_axis(held, colour, 1)[asked] == 1).all()
    assert asked[:, :17].all()
    assert asked.mean() > 0.96
    assert (examples.inputs["question"].any(2) == asked).all()


def test_crowds_colours_and_places_in_the_list_are_drawn():
    scenes = crowded(RandomState(0), 600, 8)
    held = (scenes.colour[..., None] == np.arange(6)).sum(1) == 2
    assert held.sum(0) == pytest.approx(np.full(6, 200), abs=50)
    assert len(np.unique(scenes.colour, axis=0)) > 550


@pytest.mark.parametrize("name", PAIRS)
def test_unseen_pairs_occur_in_the_ladder_alone(name):
    task = get_task(name)
    limit = None if name.startswith("sort-of-clevr/state") else 100
    for split, unseen in (("train", 0), ("validation", 0), ("test", 0), ("test-2", 2), ("test-4", 4)):
        shown = task.recognise(task.load(split).inputs["scene"][:limit])
        held_out = [(shown.colour == COLOURS.index(c)) & (shown.shape == s) for c, s in UNSEEN.items()]
        assert (np.any(held_out, axis=0).sum(1) == unseen).all()
        assert (task.load(split).sizes == unseen).all()


def test_unseen_pairs_leave_the_number_of_squares_as_it_is():
    for unseen in (0, 2, 4):
        scenes = one_a_colour_with_unseen(RandomState(5), 500, unseen)
        bound = scenes.colour < 4
        assert (((scenes.shape == SQUARE) & bound).sum(1) == 2).all()
        free = scenes.shape[scenes.colour >= 4]
        assert free.mean() == pytest.approx(0.5, abs=0.065)
    two = one_a_colour_with_unseen(RandomState(5), 2000, 2)
    turned = [((two.colour == COLOURS.index(c)) & (two.shape == s)).any(1).mean() for c, s in UNSEEN.items()]
    assert turned == pytest.approx([0.5] * 4, abs=0.05)


def test_the_spec_describes_what_is_shown():
    for name in PLAIN + PAIRS:
        task = get_task(name)
        spec = task.spec("default")
        batch = task.family.batch(task.load("test-200" if name in PLAIN else "test-4").take(slice(0, 3)))
        shape = batch.inputs.scene.shape
        assert shape[1:] == (3, *spec.image) if spec.image else shape[1:] == (6, spec.channels)
        assert batch.inputs.question.shape == (3, 20, spec.question_bits)
        assert spec.answers == len(ANSWERS) == 10
        answers_seen = np.unique(task.load("train").targets["answer"])
        assert answers_seen.max() < spec.answers
    assert np.array_equal(np.unique(get_task(PLAIN[1]).load("train").targets["answer"]), np.arange(10))
    assert (get_task(PLAIN[0]).spec("default").max_train_size, get_task(PLAIN[0]).spec("default").max_test_size) == (
        6,
        12,
    )
    assert (get_task(PAIRS[0]).spec("default").max_train_size, get_task(PAIRS[0]).spec("default").max_test_size) == (
        0,
        4,
    )


def scores(name: str, row: str, split: str) -> dict[str, float]:
    task = get_task(name)
    examples = task.load(split)
    stored = task.references()[row].predict(examples, generator("t", 1, row, split))
    task.family.check_stored(stored, examples)
    return task.score(stored, examples)


@pytest.mark.parametrize("name", PLAIN + PAIRS)
def test_the_oracle_answers_everything(name):
    for split in get_task(name).regimes["default"].tests[1:]:
        assert set(scores(name, "oracle", split).values()) == {1.0}


def test_majority_shares_of_a_thousand_pictures():
    """Half for shape, side, closest, furthest; 31 % for counts, whose distribution is that of five fair coins."""
    examples = get_task("sort-of-clevr/state").load("test").take(slice(0, 1000))
    task = get_task("sort-of-clevr/state")
    found = task.score(task.references()["majority"].predict(examples, RandomState(0)), examples)
    for name in ("shape", "left", "top", "closest", "furthest"):
        assert 0.5 <= found[name] < 0.54, name
    assert found["count"] == pytest.approx(0.3125, abs=0.03)
    assert found["non_relational"] == pytest.approx(0.5, abs=0.03)
    assert found["relational"] == pytest.approx((0.5 + 0.5 + 0.3125) / 3, abs=0.03)
    colour, kind, subtype = decode(examples.inputs["question"])
    for name, k, s in (("count", 1, 2), ("shape", 0, 0)):
        given_answers = examples.targets["answer"][(kind == k) & (subtype == s)]
        assert found[name] == pytest.approx(np.bincount(given_answers).max() / len(given_answers))
    assert colour.shape == (1000, 20)


def test_bounds_and_headline():
    task = get_task("sort-of-clevr/pixels")
    assert {row: r.bound for row, r in task.references().items()} == {"majority": "expected", "oracle": "exact"}
    assert task.headline.name == "relational"
    assert [m.name for m in task.metrics[2:]] == ["closest", "furthest", "count", "shape", "left", "top"]
