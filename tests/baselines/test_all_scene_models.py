"""What holds for every model of scenes."""

import dataclasses

import numpy as np
import pytest
import torch
from batches import gradients
from scenes import PIXELS, STATES, scene_batch

from baselines.attention_pool import AttentionPool
from baselines.cnn_mlp import CNNMLP
from baselines.objects import Objects, answer_loss
from baselines.relation_network import RelationNetwork
from baselines.scene_transformer import SceneTransformer
from harness.errors import UserError
from harness.families import Batch, scene
from harness.families.scene import BLANK

CONV = (6, 8)
MODELS = {
    "cnn-mlp": (CNNMLP, {"conv": CONV, "mlp": (16, 12)}),
    "relation-network": (RelationNetwork, {"conv": CONV, "g": (16, 12, 16), "f": (16, 12)}),
    "attention-pool": (AttentionPool, {"conv": CONV, "g": (16, 12, 16), "f": (16, 12)}),
    "scene-transformer": (SceneTransformer, {"conv": CONV, "width": 16, "heads": 2, "layers": 2}),
}
FORMS = {"pixels": PIXELS, "state": STATES}


@pytest.fixture(params=FORMS)
def spec(request) -> scene.Spec:
    return FORMS[request.param]


@pytest.fixture(params=MODELS)
def model(request, spec):
    kind, sizes = MODELS[request.param]
    built = kind(spec, **sizes).eval()
    if isinstance(built, AttentionPool):
        torch.nn.init.normal_(built.u)
    return built


def scores(model, inputs: scene.Inputs) -> torch.Tensor:
    with torch.no_grad():
        return model.predict_step(inputs).scores


def with_padding(batch: Batch, objects: int, asked: int) -> Batch:
    """More rows of zeros in state scenes, more blank questions in all."""
    shown, question = batch.inputs.scene, batch.inputs.question
    if shown.dim() == 3:
        shown = torch.nn.functional.pad(shown, (0, 0, 0, objects))
    question = torch.nn.functional.pad(question, (0, 0, 0, asked))
    answer = torch.nn.functional.pad(batch.targets.answer, (0, asked), value=BLANK)
    return Batch(scene.Inputs(shown, question), scene.Targets(answer))


def test_scores_have_an_entry_an_answer(model, spec):
    assert scores(model, scene_batch(spec, scenes=5, asked=3).inputs).shape == (5, 3, 6)


def test_a_scene_is_the_same_alone_with_mates_and_with_padding(model, spec):
    batch = scene_batch(spec, objects=3)
    together = scores(model, batch.inputs)
    for row in range(3):
        alone = scene.Inputs(batch.inputs.scene[row : row + 1], batch.inputs.question[row : row + 1])
        assert torch.allclose(scores(model, alone)[0], together[row], atol=1e-5)
    padded = with_padding(batch, 1, 2)
    assert torch.allclose(scores(model, padded.inputs)[:, :4], together, atol=1e-5)
    assert torch.allclose(model.training_step(batch, 0), model.training_step(padded, 0), atol=1e-5)


def test_a_question_is_the_same_alone_and_among_others(model, spec):
    batch = scene_batch(spec)
    together = scores(model, batch.inputs)
    for q in range(4):
        alone = dataclasses.replace(batch.inputs, question=batch.inputs.question[:, q : q + 1])
        assert torch.allclose(scores(model, alone)[:, 0], together[:, q], atol=1e-5)


def test_the_question_is_heard(model, spec):
    batch = scene_batch(spec)
    for code in (slice(0, 3), slice(3, 5)):  # change one code alone, in every question
        question = batch.inputs.question.clone()
        question[..., code] = question[..., code].roll(1, dims=2)
        moved = scores(model, dataclasses.replace(batch.inputs, question=question)) - scores(model, batch.inputs)
        assert (moved.abs().amax(2) > 1e-4).all()


def test_the_scene_is_seen(model, spec):
    batch, other = scene_batch(spec, seed=0), scene_batch(spec, seed=1)
    swapped = dataclasses.replace(batch.inputs, scene=other.inputs.scene)
    assert not torch.allclose(scores(model, swapped), scores(model, batch.inputs), atol=1e-4)


def test_loss_is_the_mean_over_the_questions_asked(model, spec):
    batch = scene_batch(spec)
    batch.targets.answer[0, 2:] = BLANK
    batch.inputs.question[0, 2:] = 0
    logits = scores(model, batch.inputs).double().numpy()
    answer = batch.targets.answer.numpy()
    chance = np.exp(logits) / np.exp(logits).sum(2, keepdims=True)
    asked = np.argwhere(answer != BLANK)
    assert len(asked) == 10
    expected = -np.mean([np.log(chance[b, q, answer[b, q]]) for b, q in asked])
    assert float(model.training_step(batch, 0).detach()) == pytest.approx(expected, abs=1e-5)


def test_loss_and_gradients_are_finite(model, spec):
    model.train()
    found = gradients(model, model.training_step(scene_batch(spec), 0))
    assert all(torch.isfinite(gradient).all() for gradient in found.values())
    assert all(gradient.abs().max() > 0 for gradient in found.values())


def test_state_dict_round_trip(model, spec):
    kind, sizes = next(entry for entry in MODELS.values() if type(model) is entry[0])
    other = kind(spec, **sizes).eval()
    inputs = scene_batch(spec).inputs
    assert not torch.equal(scores(other, inputs), scores(model, inputs))
    other.load_state_dict(model.state_dict())
    assert torch.equal(scores(other, inputs), scores(model, inputs))


def test_other_scenes_and_questions_than_the_specs_are_refused(model, spec):
    batch = scene_batch(spec)
    with pytest.raises(UserError, match="scene is"):
        model.predict_step(dataclasses.replace(batch.inputs, scene=batch.inputs.scene[..., :2]))
    with pytest.raises(UserError, match="must be one-hot codes"):
        model.predict_step(dataclasses.replace(batch.inputs, question=batch.inputs.question + 1))
    wrong = dataclasses.replace(batch.inputs, question=batch.inputs.question / 2)
    with pytest.raises(UserError, match="must be one-hot codes"):
        model.training_step(Batch(wrong, batch.targets), 0)


def test_cells_carry_their_coordinates():
    objects = Objects(PIXELS, CONV)
    assert (objects.count, objects.width) == (25, 10)
    assert objects.places.tolist()[:3] == [[0, 0], [0, 4], [0, 8]]
    seen = objects(scene_batch(PIXELS).inputs)
    assert seen.shape == (3, 25, 10)
    assert seen[0, :, 8:].tolist() == [[r / 2, c / 2] for r in range(-2, 3) for c in range(-2, 3)]


def test_cells_are_in_the_order_of_rows_then_columns():
    """A mark at the top right is seen by the cells of the first row's end."""
    objects = Objects(PIXELS, CONV).eval()
    blank = torch.zeros(1, 3, 20, 20, dtype=torch.uint8)
    marked = blank.clone()
    marked[:, :, 0, 16] = 255
    question = scene_batch(PIXELS, scenes=1).inputs.question
    moved = (objects(scene.Inputs(marked, question)) - objects(scene.Inputs(blank, question))).abs().sum(2)[0]
    assert moved.argmax() == 4
    assert set(torch.nonzero(moved > 1e-9).flatten().tolist()) <= {3, 4, 8, 9}


def test_rows_of_zeros_are_no_objects():
    objects = torch.tensor([[[0.0, -1.0], [0.0, 0.0]], [[0.0, 0.0], [2.0, 0.0]]])
    assert Objects(STATES, CONV).missing(objects).tolist() == [[False, True], [True, False]]
    assert Objects(STATES, CONV).missing(objects[:, :1].abs() + 1) is None
    assert Objects(PIXELS, CONV).missing(objects) is None


@pytest.mark.parametrize("name", [name for name in MODELS if name != "cnn-mlp"])
def test_objects_in_another_order_with_their_coordinates_have_the_same_answers(name, spec):
    kind, sizes = MODELS[name]
    model = kind(spec, **sizes).eval()
    if name == "attention-pool":
        torch.nn.init.normal_(model.u)  # at first all weights are the same
    inputs = scene_batch(spec, objects=6).inputs
    before = scores(model, inputs)
    count = model.objects(inputs).shape[1]
    for seed in range(3):
        order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
        hook = model.objects.register_forward_hook(lambda module, arguments, found, order=order: found[:, order])
        assert torch.allclose(scores(model, inputs), before, atol=1e-5)
        hook.remove()


@pytest.mark.parametrize("name", MODELS)
def test_a_picture_whose_contents_move_by_one_cell_is_another(name):
    """Cells carry their place: without it a sum over all pairs could not tell left from right."""
    kind, sizes = MODELS[name]
    model = kind(PIXELS, **sizes).eval()
    inputs = scene_batch(PIXELS).inputs
    before = scores(model, inputs)

    def moved(module, arguments, output):
        return output.roll(1, dims=3)

    model.objects.convolutions.register_forward_hook(moved)
    assert ((scores(model, inputs) - before).abs().amax(2) > 1e-5).all()


def test_no_question_no_loss():
    score = torch.randn(2, 3, 4)
    answer = torch.tensor([[1, BLANK, 2], [0, BLANK, BLANK]])
    one = answer_loss(score[:1, :1], answer[:1, :1])
    assert torch.allclose(answer_loss(score, torch.tensor([[1, BLANK, BLANK]] * 1 + [[BLANK] * 3])), one)
    assert answer_loss(score, answer).isfinite()


def test_a_list_longer_than_in_training_is_declined_by_those_that_have_a_weight_a_place():
    assert CNNMLP.supports(STATES, 5) == "reads 4 objects"
    assert CNNMLP.supports(STATES, 4) is None
    assert CNNMLP.supports(PIXELS, 12) is None
