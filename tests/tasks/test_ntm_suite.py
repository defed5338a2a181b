"""What the tape tasks share: stored answers, the memory picture, what is shown, and bundles small enough for git."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from numpy.random import RandomState

from harness import api
from harness.registry import get_task, task_names
from harness.results import npz_bytes
from tasks.ntm.suite import store, stored_logits, visited

TASKS = [name for name in task_names() if name.startswith("ntm/")]


def test_the_suite_has_the_papers_tasks():
    assert {"ntm/copy", "ntm/repeat-copy", "ntm/associative-recall", "ntm/dynamic-ngrams"} <= set(TASKS)


@pytest.mark.parametrize("name", TASKS)
def test_one_examples_answer_is_found_among_all(name):
    task = get_task(name)
    examples = task.load(task.regime("default").validation)
    logits = RandomState(0).standard_normal(examples.targets["bits"].shape) * 5
    stored = store(logits, examples)
    task.family.check_stored(stored, examples)
    for row in (0, 1, len(examples) // 2, len(examples) - 1):
        own = stored_logits(stored, examples, row)
        expected = logits[row][examples.targets["answer"][row]]
        assert own.shape == expected.shape
        assert own == pytest.approx(np.clip(expected, -16, 16), abs=8 / 127 + 1e-9)


@pytest.mark.parametrize("name", TASKS)
def test_storing_is_what_the_family_does_with_a_prediction(name):
    task = get_task(name)
    examples = task.load("validation").take(slice(0, 9))
    batch = task.family.batch(examples)
    logits = torch.randn(batch.targets.bits.shape, generator=torch.Generator().manual_seed(0))
    through = task.family.store(task.family.Prediction(logits), batch, task.spec("default"))
    wide = np.zeros(examples.targets["bits"].shape)
    wide[:, : logits.shape[1]] = logits.numpy()
    assert np.array_equal(through["logits"], store(wide, examples)["logits"])


@pytest.mark.parametrize("name", TASKS)
def test_predictions_stay_below_200_kb_whatever_they_are(name):
    task = get_task(name)
    rng = RandomState(0)
    arrays = {}
    for split in task.regime("default").tests:
        targets = task.load(split).targets
        arrays[split] = rng.randint(0, 255, int(targets["answer"].sum()) * targets["bits"].shape[2]).astype(np.uint8)
    assert len(npz_bytes(arrays)) < 200_000


@pytest.mark.parametrize("name", TASKS)
def test_the_oracle_has_no_wrong_bit_and_reads_as_the_target(name):
    task = get_task(name)
    examples = task.load("test")
    stored = task.references()["oracle"].predict(examples, RandomState(0))
    assert task.metric("wrong_bits").score(task.metric("wrong_bits").statistics(stored, examples)) == 0
    text = task.render(examples, len(examples) - 1, stored).splitlines()
    if name != "ntm/dynamic-ngrams":
        bits = task.spec("default").output_bits
        assert [line[8:] for line in text[-bits:]] == [line[8:] for line in text[-2 * bits : -bits]]


EXPLAINED = {
    "ntm/copy": ((20, 41), (120, 241)),
    "ntm/repeat-copy": ((112, 112), (222, 222)),
    "ntm/associative-recall": ((6, 32), (20, 88)),
    "ntm/dynamic-ngrams": ((200, 200),),
}
"""Sizes and steps of the examples that models are asked about."""


@pytest.mark.parametrize("name", EXPLAINED)
def test_the_largest_size_trained_on_and_the_hardest_test_are_shown(name):
    task = get_task(name)
    found = []
    for split, row in task.explained("default"):
        examples = task.load(split)
        found.append((int(examples.sizes[row]), int(examples.inputs["length"][row])))
    assert tuple(found) == EXPLAINED[name]


def test_places_that_no_head_visits_are_left_out():
    peak = np.zeros(128)
    peak[[3, 5, 9]] = 0.1, 1, 0.5
    peak[50] = 0.0999
    assert visited(peak).tolist() == [3, 4, 5, 6, 7, 8, 9]


def test_the_memory_is_a_circle():
    peak = np.zeros(10)
    peak[[0, 1, 8, 9]] = 1
    assert visited(peak).tolist() == [8, 9, 0, 1]


def test_a_memory_without_focus_is_shown_whole():
    assert visited(np.full(6, 1 / 6)).tolist() == [0, 1, 2, 3, 4, 5]
    assert visited(np.full(6, 0.05)).tolist() == [0, 1, 2, 3, 4, 5]
    assert visited(np.array([0.0, 0, 1])).tolist() == [2]


@given(st.sets(st.integers(0, 19), min_size=1), st.integers(0, 19))
def test_the_visited_run_is_the_shortest_and_turns_with_the_memory(used, turn):
    peak = np.zeros(20)
    peak[sorted(used)] = 1
    found = visited(peak).tolist()
    assert used <= set(found)
    assert [(b - a) % 20 for a, b in pairwise(found)] == [1] * (len(found) - 1)
    shortest = min(
        max((place - start) % 20 for place in used) + 1 for start in used
    )  # by trying every place to start from
    assert len(found) == shortest
    turned = visited(np.roll(peak, turn)).tolist()
    assert len(turned) == shortest


def drawn(name: str, split: str, row: int, heads: int = 1) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Draw an explanation of one example; return the panels' images by name and the explanation."""
    task = get_task(name)
    examples = task.load(split)
    steps, bits = int(examples.inputs["length"][row]), task.spec("default").output_bits
    rng = RandomState(0)
    focus = np.eye(128)[(100 + np.arange(steps)) % 128] * 0.9
    explanation = {
        "logits": rng.standard_normal((steps, bits)).astype(np.float16),
        "write": np.stack([focus] + [np.full_like(focus, 1 / 128)] * (heads - 1), 1).astype(np.float16),
        "read": np.stack([focus[::-1]] * heads, 1).astype(np.float16),
    }
    figure = Figure(layout="constrained")
    axis = figure.subplots()
    task.draw(axis, examples, row, explanation)
    figure.draw_without_rendering()
    return {inset.get_ylabel(): inset.images[0].get_array() for inset in axis.child_axes}, explanation


@pytest.mark.parametrize("name", EXPLAINED)
@pytest.mark.parametrize("heads", [1, 4])
def test_the_memory_picture(name, heads):
    task = get_task(name)
    for split, row in task.explained("default"):
        images, explanation = drawn(name, split, row, heads)
        examples = task.load(split)
        steps = int(examples.inputs["length"][row])
        assert list(images) == ["input", "output", "error", "write", "read"]
        assert np.array_equal(images["input"], examples.inputs["inputs"][row, :steps].T)
        answer = examples.targets["answer"][row, :steps]
        assert np.array_equal(~np.ma.getmaskarray(images["output"])[0], answer)
        shares = 1 / (1 + np.exp(-explanation["logits"].astype(float)))
        assert np.asarray(images["output"])[:, answer] == pytest.approx(shares[answer].T)
        off = np.abs(shares - examples.targets["bits"][row, :steps])
        assert np.asarray(images["error"])[:, answer] == pytest.approx(off[answer].T)
        for head in ("write", "read"):
            largest = explanation[head].max(1).T
            assert images[head].shape == (min(steps, 128), steps)
            assert images[head].max() == largest.max()
            shown = np.sort(np.asarray(images[head]), axis=0)[-1]
            assert shown == pytest.approx(
                largest.max(0).astype(np.float32)
            )  # the focus of every step is in the picture


def test_a_run_that_explains_itself_gets_its_memory_picture(models, tmp_path):
    model = f"{models / 'tape_models.py'}:Shows"
    (done,) = api.run(
        model, "ntm/copy", budget="smoke", seeds=[0], settings=["examples=64"], results=tmp_path, mlflow=False
    )
    assert done.run is not None
    assert done.run.unsupported  # it declines more than 40 vectors, so one example of two is left
    with np.load(done.folder / "examples.npz") as archive:
        assert {name.rpartition("/")[0] for name in archive.files} == {"test/475"}
        assert {"test/475/logits", "test/475/read", "test/475/write", "test/475/reads", "test/475/adds"} == set(archive)
    written = api.leaderboard(results=tmp_path)
    picture = next(path for path in written if path.name == "ntm-copy-default-smoke-explained.svg")
    assert picture.read_text().count("<image ") == 5
