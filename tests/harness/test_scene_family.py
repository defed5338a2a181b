"""Family ``scene``: canonical storage, refused predictions and inputs, padding, accuracy by kind of question."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import CorruptBundleError, PredictionError, UserError
from harness.families import SCENE, scene, tape
from harness.families.base import Examples
from harness.families.scene import BLANK, Inputs, Prediction, check_inputs
from harness.metrics.scene import accuracy

STATES = scene.Spec(4, 6, image=None, channels=3, objects=4, question=(3, 2), answers=4)
PIXELS = scene.Spec(4, 6, image=(9, 7), channels=3, objects=4, question=(3, 2), answers=4)


def one_hot(size: int, code: np.ndarray) -> np.ndarray:
    return np.eye(size, dtype=np.float32)[code]


def states(objects: list[int], asked: list[int] | None = None, seed: int = 0) -> Examples:
    """Scenes of ``objects`` random states and ``asked`` questions, padded to one width."""
    rng = np.random.RandomState(seed)
    asked = [3] * len(objects) if asked is None else asked
    count = len(objects)
    shown = np.zeros((count, max(objects), 3), np.float32)
    question = np.zeros((count, max(asked), 5), np.float32)
    answer = np.full((count, max(asked)), BLANK)
    for row, (n, q) in enumerate(zip(objects, asked, strict=True)):
        shown[row, :n] = rng.randint(1, 9, (n, 3))
        question[row, :q] = np.concatenate([one_hot(3, rng.randint(0, 3, q)), one_hot(2, rng.randint(0, 2, q))], 1)
        answer[row, :q] = rng.randint(0, 4, q)
    return Examples({"scene": shown, "question": question}, {"answer": answer}, np.array(objects))


def pictures(count: int, seed: int = 0) -> Examples:
    examples = states([2] * count, seed=seed)
    shown = np.random.RandomState(seed).randint(0, 256, (count, 3, 9, 7)).astype(np.uint8)
    return dataclasses.replace(examples, inputs={**examples.inputs, "scene": shown})


def equal(a: Examples, b: Examples) -> bool:
    ours, theirs = ({**e.inputs, **e.targets, "sizes": e.sizes} for e in (a, b))
    return all(ours[k].dtype == theirs[k].dtype and np.array_equal(ours[k], theirs[k]) for k in ours)


def store(scores: torch.Tensor, examples: Examples) -> np.ndarray:
    return SCENE.store(Prediction(scores), SCENE.batch(examples), STATES)["answers"]


# What is stored


def test_the_highest_score_is_stored_and_the_first_of_several():
    examples = states([2, 2])
    scores = torch.zeros(2, 3, 4)
    scores[0, 1] = torch.tensor([1.0, 3.0, 3.0, 2.0])
    scores[1, 2, 3] = 0.5
    scores[1, 0] = torch.tensor([-torch.inf, -2.0, -torch.inf, -3.0])
    stored = store(scores, examples)
    assert stored.dtype == np.uint8
    assert stored.tolist() == [[0, 1, 0], [1, 0, 3]]
    SCENE.check_stored({"answers": stored}, examples)


def test_a_question_that_is_not_asked_is_stored_as_zero_whatever_its_scores():
    examples = states([2, 2], asked=[3, 1])
    scores = torch.zeros(2, 3, 4)
    scores[..., 2] = 1
    scores[1, 1:] = torch.nan
    stored = store(scores, examples)
    assert stored.tolist() == [[2, 2, 2], [2, 0, 0]]
    SCENE.check_stored({"answers": stored}, examples)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_float_types_and_gradients_are_taken(dtype):
    examples = states([2, 3])
    scores = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    plain = store(scores.float(), examples)
    assert np.array_equal(store(scores.requires_grad_(), examples), plain)


@pytest.mark.parametrize(
    ("prediction", "message"),
    [
        (torch.zeros(2, 3, 4), "returned a Tensor; return harness.families.scene.Prediction"),
        (tape.Prediction(torch.zeros(2, 3, 4)), "returned a Prediction; return harness.families.scene"),
        (Prediction([[1.0]]), "returned scores as a list"),
        (Prediction(torch.zeros(2, 3, 5)), r"shape \(2, 3, 5\); expected \(B,Q,A\) = \(2, 3, 4\)"),
        (Prediction(torch.zeros(3, 2, 4)), r"shape \(3, 2, 4\)"),
        (Prediction(torch.zeros(2, 3)), r"shape \(2, 3\)"),
        (Prediction(torch.zeros(2, 3, 4, dtype=torch.int64)), "dtype torch.int64; expected torch.float32"),
        (Prediction(torch.full((2, 3, 4), torch.nan)), "NaN scores"),
    ],
)
def test_a_broken_prediction_is_refused(prediction, message):
    with pytest.raises(PredictionError, match=message):
        SCENE.store(prediction, SCENE.batch(states([2, 2])), STATES)


@pytest.mark.parametrize(
    "answers",
    [
        None,
        np.zeros((2, 2), np.uint8),
        np.zeros((3, 3), np.uint8),
        np.zeros(6, np.uint8),
        np.zeros((2, 3), np.int64),
        np.zeros((2, 3), np.float32),
        np.ones((2, 3), np.uint8),  # the last question of the second scene is not asked
    ],
    ids=["missing", "questions", "scenes", "rank", "int64", "float", "unasked"],
)
def test_stored_answers_that_cannot_be_scored_are_corrupt(answers):
    examples = states([2, 2], asked=[3, 2])
    with pytest.raises(CorruptBundleError, match="answers"):
        SCENE.check_stored({} if answers is None else {"answers": answers}, examples)
    SCENE.check_stored({"answers": np.zeros((2, 3), np.uint8)}, examples)


# What is refused of a task


def test_examples_of_a_task_pass():
    SCENE.check_examples(states([2, 5], asked=[3, 1]))
    SCENE.check_examples(pictures(2))


@pytest.mark.parametrize(
    ("side", "field", "place", "value", "message"),
    [
        ("inputs", "scene", (1, 0, 2), np.nan, "example 1 has a state that is not finite"),
        ("inputs", "question", (0, 2, 1), 0.5, "example 0 has a question bit that is neither 0 nor 1"),
        ("inputs", "question", (1, 1), 0, "example 1 has an answer without a question"),
        ("targets", "answer", (1, 0), BLANK, "example 1 has a question without an answer"),
    ],
)
def test_examples_that_break_the_contract_are_named(side, field, place, value, message):
    examples = states([2, 5], asked=[3, 2])
    getattr(examples, side)[field][place] = value
    with pytest.raises(UserError, match=message):
        SCENE.check_examples(examples)


@pytest.mark.parametrize(("made", "wanted"), [(states([2]), "states are float32"), (pictures(1), "pixels are uint8")])
def test_scenes_of_another_type_are_refused(made, wanted):
    other = dataclasses.replace(made, inputs={**made.inputs, "scene": made.inputs["scene"].astype(np.float64)})
    with pytest.raises(UserError, match=f"scenes of {wanted}, not float64"):
        SCENE.check_examples(other)


# What is refused of inputs


def inputs(examples: Examples, **changes: torch.Tensor) -> Inputs:
    return dataclasses.replace(SCENE.batch(examples).inputs, **changes)


def test_inputs_of_the_spec_pass():
    check_inputs(inputs(states([2, 5], asked=[3, 1])), STATES)
    check_inputs(inputs(pictures(2)), PIXELS)


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (torch.zeros(2, 3, 64, 64, dtype=torch.uint8), r"\(2, 3, 64, 64\) uint8; .*\(B,C,H,W\) = \(B,3,9,7\) uint8"),
        (torch.zeros(2, 3, 7, 9, dtype=torch.uint8), r"\(2, 3, 7, 9\)"),
        (torch.zeros(2, 9, 7, 3, dtype=torch.uint8), r"\(2, 9, 7, 3\)"),
        (torch.zeros(2, 1, 9, 7, dtype=torch.uint8), r"\(2, 1, 9, 7\)"),
        (torch.zeros(2, 3, 9, 7), r"\(2, 3, 9, 7\) float32"),
        (torch.zeros(2, 4, 3), r"\(2, 4, 3\) float32"),
    ],
)
def test_images_of_another_size_or_type_are_refused(shown, message):
    with pytest.raises(UserError, match=f"scene is {message}"):
        check_inputs(inputs(pictures(2), scene=shown), PIXELS)


@pytest.mark.parametrize("shown", [torch.zeros(2, 4, 2), torch.zeros(2, 3), torch.zeros(2, 4, 3, dtype=torch.int64)])
def test_states_of_another_size_or_type_are_refused(shown):
    with pytest.raises(UserError, match=r"this model reads object states \(B,N,3\) float32"):
        check_inputs(inputs(states([2, 2]), scene=shown), STATES)


@pytest.mark.parametrize(
    "vector", [[1, 1, 0, 1, 0], [1, 0, 0, 0, 0], [0, 0, 0, 1, 0], [1, 0, 0, 0.5, 0.5], [2, 0, 0, 1, 0], [1, 0, 0, 1, 1]]
)
def test_a_question_that_is_not_one_hot_is_named(vector):
    batch = inputs(states([2, 2], asked=[3, 2]))
    batch.question[1, 1] = torch.tensor(vector)
    with pytest.raises(UserError, match=r"question 1 of scene 1 is \[.*\]; it must be one-hot codes of 3, 2 bits"):
        check_inputs(batch, STATES)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 5), (3, 3, 5)])
def test_questions_of_another_shape_are_refused(shape):
    with pytest.raises(UserError, match=r"question is .*; expected \(B,Q,E\) = \(2,Q,5\) float32"):
        check_inputs(inputs(states([2, 2]), question=torch.zeros(shape)), STATES)


# Padding

counts = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(first=counts, second=counts, seed=st.integers(0, 100))
def test_joining_examples_changes_none_of_them(first, second, seed):
    a, b = (states(n, [max(1, k - 1) for k in n], s) for n, s in ((first, seed), (second, seed + 1)))
    joined = SCENE.concatenate([a, b])
    assert equal(SCENE.trim(joined.take(slice(0, len(first)))), SCENE.trim(a))
    assert equal(SCENE.trim(joined.take(slice(len(first), None))), SCENE.trim(b))
    assert equal(SCENE.trim(SCENE.trim(joined)), SCENE.trim(joined))
    assert ((joined.targets["answer"] == BLANK) == ~joined.inputs["question"].any(2)).all()


def test_pictures_are_never_trimmed():
    examples = pictures(2)
    examples.inputs["scene"][..., -3:] = 0
    assert SCENE.batch(examples).inputs.scene.shape == (2, 3, 9, 7)


def test_batches_have_the_types_that_the_family_states():
    batch = SCENE.batch(pictures(2))
    assert (batch.inputs.scene.dtype, batch.inputs.question.dtype) == (torch.uint8, torch.float32)
    assert batch.targets.answer.dtype == torch.int64
    assert SCENE.batch(states([2])).inputs.scene.dtype == torch.float32


def test_a_model_that_writes_into_its_inputs_does_not_change_the_examples():
    examples, kept = pictures(3), pictures(3)
    batch = SCENE.batch(examples.take(slice(0, 2)))
    for tensor in (batch.inputs.scene, batch.inputs.question, batch.targets.answer):
        tensor.zero_()
    assert equal(examples, kept)


# Accuracy


def test_accuracy_counts_the_questions_of_its_kind():
    examples = states([2, 2], asked=[3, 2])
    codes = np.array([[0, 0, 1], [0, 0, 1]])  # the last question of the second scene is not asked
    examples.inputs["question"][..., 3:] = one_hot(2, codes)
    examples.targets["answer"][:] = [[1, 2, 3], [0, 2, BLANK]]
    stored = {"answers": np.array([[1, 0, 3], [0, 2, 0]], np.uint8)}
    first = accuracy("first", "first", lambda question: question[..., 3] == 1)
    second = accuracy("second", "second", lambda question: question[..., 4] == 1)
    assert first.statistics(stored, examples).tolist() == [[1, 2], [2, 2]]
    assert second.statistics(stored, examples).tolist() == [[1, 1], [0, 0]]
    assert first.score(first.statistics(stored, examples)) == 0.75
    assert second.score(second.statistics(stored, examples)) == 1
    assert np.isnan(second.score(second.statistics({"answers": stored["answers"][1:]}, examples.take([1]))))


def test_every_question_weighs_the_same():
    """Not every scene: one with many questions counts for more."""
    examples = states([1, 1], asked=[3, 1])
    stored = {"answers": np.where(examples.targets["answer"] == BLANK, 0, examples.targets["answer"]).astype(np.uint8)}
    stored["answers"][1, 0] = (stored["answers"][1, 0] + 1) % 4
    metric = accuracy("all", "all", lambda question: question.any(2))
    assert metric.score(metric.statistics(stored, examples)) == 0.75
