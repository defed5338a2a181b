"""What a model shows of itself: on which examples, together with its prediction, and how it is stored."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UserError
from harness.evaluation import explain, pictured
from harness.registry import get_task, load_model_class, task_names


@pytest.fixture
def copy():
    return get_task("ntm/copy")


@pytest.fixture
def tape_model(models):
    """Return a class of the file of tape models."""
    return lambda name: load_model_class(f"{models / 'tape_models.py'}:{name}")


def shown(model: torch.nn.Module, task, regime: str = "default") -> dict[str, dict[str, np.ndarray]]:
    found: dict[str, dict[str, np.ndarray]] = {}
    for key, array in explain(model, task, regime, task.spec(regime)).items():
        place, _, name = key.rpartition("/")
        found.setdefault(place, {})[name] = array
    return found


@pytest.mark.parametrize("name", task_names())
def test_models_are_asked_about_examples_of_the_tests(name):
    task = get_task(name)
    for regime, splits in task.regimes.items():
        if task.missing(regime) is not None:
            continue
        places = task.explained(regime)
        assert places
        assert len(set(places)) == len(places)
        for split, row in places:
            assert split in splits.tests
            assert 0 <= row < len(task.load(split))


def test_the_middle_and_the_largest_size_and_the_next_harder_test():
    task = get_task("seq2seq/copy")
    assert task.explained("default") == [("test", 500), ("test", 950), ("test-21", 0)]  # 50 of each length 1–20
    assert task.load("test").sizes[[499, 500, 949, 950]].tolist() == [10, 11, 19, 20]


def test_an_explanation_stands_beside_the_prediction(copy, tape_model, monkeypatch):
    monkeypatch.setattr(type(copy), "explained", lambda self, regime: [("test", 475), ("test-30", 0)])
    model = tape_model("Shows")(copy.spec("default"))
    found = shown(model, copy)
    assert list(found) == ["test/475", "test-30/0"]
    assert {name: array.shape for name, array in found["test-30/0"].items()} == {
        "logits": (61, 8),
        "read": (61, 2, 128),
        "write": (61, 2, 128),
        "reads": (61, 2, 20),
        "adds": (61, 2, 20),
    }
    assert {array.dtype for place in found.values() for array in place.values()} == {np.dtype(np.float16)}
    with torch.no_grad():
        logits = model.eval().logits(copy.family.batch(copy.load("test-30").take(slice(0, 1))).inputs)[0].numpy()
    assert found["test-30/0"]["logits"] == pytest.approx(logits, abs=float(np.abs(logits).max()) / 255)


def test_an_example_that_the_model_declines_is_left_out(copy, tape_model, monkeypatch):
    monkeypatch.setattr(type(copy), "explained", lambda self, regime: [("test", 0), ("test-50", 0)])
    assert list(shown(tape_model("Shows")(copy.spec("default")), copy)) == ["test/0"]


def test_a_model_without_an_explanation_shows_nothing(copy, tape_model):
    assert explain(tape_model("Sound")(copy.spec("default")), copy, "default", copy.spec("default")) == {}


def test_the_models_own_word_stands_before_its_prediction(models):
    task = get_task("seq2seq/copy")

    class Own(load_model_class(f"{models / 'transduction_models.py'}:Sound")):
        def explain(self, inputs):
            return {"tokens": torch.full((len(inputs), 2), 9)}

    found = shown(Own(task.spec("default")), task)
    assert all(place["tokens"].tolist() == [9, 9] for place in found.values())


def test_an_explanation_must_be_a_dict(copy, tape_model):
    class Tuple(tape_model("Sound")):
        def explain(self, inputs):
            return (inputs.inputs,)

    with pytest.raises(UserError, match="explain returned a tuple; return a dict of tensors"):
        shown(Tuple(copy.spec("default")), copy)


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=30))
def test_fractions_are_stored_in_255_steps_of_the_largest(values):
    array = np.array(values, np.float32)
    found = pictured(array)
    largest = float(np.abs(array).max())
    assert found.dtype == np.float16
    # Half a step, and float16's own rounding.
    assert found.astype(float) == pytest.approx(array.astype(float), abs=largest * (1 / 510 + 2**-11) + 1e-7)
    assert len(np.unique(np.abs(found))) <= 256


def test_what_is_stored_is_small_even_where_nothing_is_in_focus():
    """Weights of two heads over 128 locations and 241 steps, drawn from a softmax: half of what float16 takes."""
    import io

    weights = torch.softmax(torch.randn(241, 2, 128, generator=torch.Generator().manual_seed(0)), -1).numpy()
    sizes = []
    for array in (pictured(weights), weights.astype(np.float16)):
        buffer = io.BytesIO()
        np.savez_compressed(buffer, array=array)
        sizes.append(len(buffer.getvalue()))
    assert sizes[0] < 0.55 * sizes[1]
    assert sizes[0] < 62_000


def test_whole_numbers_are_stored_as_they_are():
    assert pictured(np.array([4, 235, 0])).tolist() == [4, 235, 0]
    assert pictured(np.array([True, False])).tolist() == [1, 0]


def test_nothing_infinite_spoils_the_rest():
    found = pictured(np.array([np.inf, -1.0, np.nan, 0.5], np.float32))
    assert found[[1, 3]].tolist() == pytest.approx([-1, 0.5], abs=0.002)
    assert np.isinf(found[0])
    assert np.isnan(found[2])
    assert pictured(np.zeros(3, np.float32)).tolist() == [0, 0, 0]
    assert pictured(np.zeros(0, np.float32)).tolist() == []
