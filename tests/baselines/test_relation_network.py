"""The Relation Network against its equation, its pieces, its phases, and the pairs that it and its kin point to."""

import dataclasses
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from batches import count_parameters, gradients
from scenes import PIXELS, STATES, scene_batch

from baselines import pieces
from baselines.attention_pool import AttentionPool
from baselines.pieces import loss_in_pieces
from baselines.relation_network import RelationNetwork
from baselines.scene_transformer import SceneTransformer
from harness.families import scene
from harness.families.scene import Inputs
from harness.registry import get_task

SIZES = {"conv": (6, 8), "g": (16, 12, 16), "f": (16, 12)}
SORT_OF_CLEVR = get_task("sort-of-clevr/pixels").spec("default")


@pytest.fixture(params=["pixels", "state"])
def spec(request) -> scene.Spec:
    return {"pixels": PIXELS, "state": STATES}[request.param]


def naive(model: RelationNetwork, inputs: Inputs) -> torch.Tensor:
    """Equation 1 to the letter: for every question and every pair, g of [o_i, o_j, q]; then the sum; then f."""
    objects = model.objects(inputs)
    weights = [torch.cat([model.g.W_i.weight, model.g.W_j.weight, model.g.W_q.weight], dim=1)]
    weights += [layer.weight for layer in model.g.layers]
    biases = [model.g.W_q.bias, *(layer.bias for layer in model.g.layers)]
    found = []
    for b in range(len(objects)):
        for question in inputs.question[b]:
            pairs = [torch.cat([o_i, o_j, question]) for o_i in objects[b] for o_j in objects[b]]
            x = torch.stack(pairs)
            for weight, bias in zip(weights, biases, strict=True):
                x = F.relu(x @ weight.T + bias)
            found.append(model.f(x.sum(0) / model.objects.count**2))
    return torch.stack(found).view(*inputs.question.shape[:2], -1)


def test_it_is_the_papers_equation(spec):
    model = RelationNetwork(spec, **SIZES).eval()
    inputs = scene_batch(spec).inputs
    with torch.no_grad():
        assert torch.allclose(model.predict_step(inputs).scores, naive(model, inputs), atol=1e-5, rtol=0)


def test_its_gradients_are_those_of_the_papers_equation(spec):
    model = RelationNetwork(spec, **SIZES, dropout=0.0).eval()
    batch = scene_batch(spec)
    ours = gradients(model, model.training_step(batch, 0))
    loss = F.cross_entropy(naive(model, batch.inputs).flatten(0, 1), batch.targets.answer.flatten())
    theirs = gradients(model, loss)
    for name, gradient in ours.items():
        assert torch.allclose(gradient, theirs[name], atol=1e-5, rtol=0), name


def test_full_size_agrees_with_the_naive_form():
    """Twenty-five cells, widths 256: differences add up over 625 pairs and stay below 1e-5."""
    model = RelationNetwork(SORT_OF_CLEVR).eval()
    task = get_task("sort-of-clevr/pixels")
    inputs = task.family.batch(task.load("test-200").take(slice(0, 2))).inputs
    inputs = dataclasses.replace(inputs, question=inputs.question[:, 8:12])
    with torch.no_grad():
        found, expected = model.predict_step(inputs).scores, naive(model, inputs)
    assert torch.allclose(found, expected, atol=1e-5, rtol=0)
    assert found.std() > 0.05


def test_bfloat16_is_near_and_for_training_alone(spec):
    torch.manual_seed(1)
    low = RelationNetwork(spec, **SIZES, dropout=0.0, precision="bf16")
    full = RelationNetwork(spec, **SIZES, dropout=0.0)
    full.load_state_dict(low.state_dict())
    batch = scene_batch(spec)
    a, b = (model.training_step(batch, 0) for model in (low, full))
    assert not torch.equal(a, b)
    assert float(a.detach()) == pytest.approx(float(b.detach()), rel=0.02)
    scores = [model.eval().predict_step(batch.inputs).scores for model in (low, full)]
    assert torch.equal(*scores)
    with pytest.raises(ValueError, match="precision 'fp16' is not valid: fp32 or bf16"):
        RelationNetwork(spec, precision="fp16")


# Pieces


@pytest.mark.parametrize("kind", [RelationNetwork, AttentionPool])
@pytest.mark.parametrize("rows", [1, 150, 10_000])
def test_pieces_change_nothing(monkeypatch, spec, kind, rows):
    model = kind(spec, **SIZES, dropout=0.0)
    batch = scene_batch(spec, scenes=5)

    def results() -> dict[str, torch.Tensor]:
        model.train()
        found = gradients(model, model.training_step(batch, 0))
        model.eval()
        return found | {"scores": model.predict_step(batch.inputs).scores}

    state = {name: value.clone() for name, value in model.state_dict().items()}
    whole = results()
    model.load_state_dict(state)
    monkeypatch.setattr(pieces, "ROWS", rows)
    for name, value in results().items():
        assert torch.allclose(value, whole[name], atol=1e-6), name


def test_pieces_hold_no_more_rows_than_they_may(monkeypatch):
    monkeypatch.setattr(pieces, "ROWS", 100)
    assert list(pieces.pieces(5, 40)) == [slice(0, 2), slice(2, 4), slice(4, 6)]
    assert list(pieces.pieces(2, 101)) == [slice(0, 1), slice(1, 2)]
    assert list(pieces.pieces(0, 10)) == []


def test_a_loss_in_pieces_is_scaled_by_what_comes_after():
    objects = torch.randn(4, 3, requires_grad=True)
    w = torch.randn(3, requires_grad=True)

    def loss(piece: slice, part: torch.Tensor) -> torch.Tensor:
        return (part @ w).square().sum()

    value = 3 * loss_in_pieces(loss, objects, [w], pieces.ROWS)
    found = torch.autograd.grad(value, (objects, w))
    expected = torch.autograd.grad(3 * (objects @ w).square().sum(), (objects, w))
    assert torch.allclose(value, 3 * (objects @ w).square().sum())
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)
    with torch.no_grad():
        assert not loss_in_pieces(loss, objects, [w], 1).requires_grad


def test_no_activation_outlives_its_piece():
    """What is kept until the backward pass is gradients: as many numbers for one scene as for many."""
    model = RelationNetwork(STATES, **SIZES)

    def kept(scenes: int) -> int:
        loss = model.training_step(scene_batch(STATES, scenes=scenes), 0)
        return sum(tensor.numel() for tensor in loss.grad_fn.saved_tensors[1:])

    assert kept(1) == kept(9) == count_parameters(model)


# Phases


@pytest.mark.parametrize("kind", [RelationNetwork, AttentionPool])
@pytest.mark.parametrize("objects", [2, 3])
def test_one_object_is_all_pairs_with_the_second_unread(kind, objects):
    """The shortcut of training gives what all pairs give, of scenes with missing objects, too."""
    model = kind(STATES, **SIZES, dropout=0.0)
    if kind is AttentionPool:
        torch.nn.init.normal_(model.u)
    batch = scene_batch(STATES, objects=3)
    batch.inputs.scene[1, objects:] = 0
    model.on_phase("one-object")
    asked = batch.inputs.question
    calls = []
    model.g.layers[0].register_forward_hook(lambda module, inputs, output: calls.append(output.shape[2]))
    short = model.train()(model.objects(batch.inputs), asked)
    full = model.eval()(model.objects(batch.inputs), asked)
    assert calls == [3, 9]
    assert torch.allclose(short, full, atol=1e-6)
    model.train().on_phase("all-pairs")
    assert torch.allclose(model(model.objects(batch.inputs), asked), full, atol=1e-6)


def test_gradients_of_the_shortcut_are_those_of_all_pairs():
    model = RelationNetwork(STATES, **SIZES, dropout=0.0)
    batch = scene_batch(STATES, objects=3)
    model.on_phase("one-object")
    short = gradients(model, model.training_step(batch, 0))
    model.on_phase("all-pairs")
    full = gradients(model, model.training_step(batch, 0))
    assert not short["g.W_j.weight"].any()
    assert full["g.W_j.weight"].any()
    for name, gradient in short.items():
        if name != "g.W_j.weight":
            assert torch.allclose(gradient, full[name], atol=1e-6), name


def test_the_second_object_is_unread_for_a_phase_and_learned_after_it(spec):
    model = RelationNetwork(spec, **SIZES, dropout=0.0)
    model.on_phase("one-object")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for phase in ("one-object", "one-object", "all-pairs"):
        model.on_phase(phase)
        optimizer.zero_grad()
        model.training_step(scene_batch(spec, objects=3), 0).backward()
        optimizer.step()
        assert bool(model.g.W_j.weight.any()) == (phase == "all-pairs")


# What they point to


def explained(model, spec: scene.Spec, objects: int = 3) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        return model.explain(scene_batch(spec, objects=objects).inputs)


@pytest.mark.parametrize("kind", [RelationNetwork, AttentionPool, SceneTransformer])
def test_an_explanation_has_what_the_tasks_draw(spec, kind):
    model = kind(spec, **(SIZES if kind is not SceneTransformer else {"conv": (6, 8), "width": 16})).eval()
    found = explained(model, spec)
    N = 3 if spec.image is None else 25
    assert found["pairs"].shape == (3, 4, N, N)
    scores = model.predict_step(scene_batch(spec, objects=3).inputs).scores
    assert torch.equal(found["answers"], scores.argmax(2))
    if spec.image is None:
        assert set(found) == {"answers", "pairs"}
    else:
        assert found["places"].shape == (3, N, 2)
        assert found["places"][1, 6].tolist() == [4, 4]


def test_relevance_is_how_the_score_moves_with_a_pair():
    """Strengthen one pair a little: the answer's score moves by its relevance."""
    model = RelationNetwork(STATES, **SIZES).eval().double()
    inputs = scene_batch(STATES, objects=3).inputs.to(torch.float64)
    with torch.no_grad():
        relations = model.g(inputs.scene, inputs.question)
        pooled = relations.sum(2) / model.objects.count**2
        relevance = model.relevance(relations, pooled, None)
        scores = model.f(pooled)
        answer = scores.argmax(2, keepdim=True)
        for pair in (0, 1, 5):
            step = 1e-6 * relations[:, :, pair] / model.objects.count**2
            moved = (model.f(pooled + step) - scores).gather(2, answer)[..., 0] / 1e-6
            assert torch.allclose(moved, relevance[:, :, pair], atol=1e-6)
    assert relevance.abs().amax() > 1e-3


def test_attention_weights_are_shares_and_begin_even(spec):
    model = AttentionPool(spec, **SIZES).eval()
    N = 3 if spec.image is None else 25
    assert torch.allclose(explained(model, spec)["pairs"], torch.full((3, 4, N, N), N**-2.0))
    torch.nn.init.normal_(model.u)
    pairs = explained(model, spec)["pairs"]
    assert torch.allclose(pairs.sum((2, 3)), torch.ones(3, 4))
    assert pairs.std() > 1e-4


def test_a_weighted_mean_by_hand():
    model = AttentionPool(STATES, conv=(), g=(2, 2), f=(2,)).eval()
    model.u.data = torch.tensor([1.0, 0.0])
    relations = torch.tensor([[[[0.0, 5.0], [1.0, 7.0], [2.0, 9.0]]]])
    e = torch.exp(torch.tensor([0.0, 1.0, 2.0]))
    expected = torch.stack([(e * torch.tensor([0.0, 1.0, 2.0])).sum(), (e * torch.tensor([5.0, 7.0, 9.0])).sum()])
    assert torch.allclose(model.pool(relations, None)[0, 0], expected / e.sum())
    absent = torch.tensor([[[False, False, True]]])
    expected = torch.stack([e[1] * 1, e[0] * 5 + e[1] * 7]) / (e[0] + e[1])
    assert torch.allclose(model.pool(relations, absent)[0, 0], expected)


def test_objects_that_are_none_have_no_share():
    batch = scene_batch(STATES, objects=3)
    padded = dataclasses.replace(batch.inputs, scene=F.pad(batch.inputs.scene, (0, 0, 0, 2)))
    transformer = SceneTransformer(STATES, width=16, layers=2)
    for model in (RelationNetwork(STATES, **SIZES), AttentionPool(STATES, **SIZES), transformer):
        model.eval()
        with torch.no_grad():
            plain, wide = model.explain(batch.inputs)["pairs"], model.explain(padded)["pairs"]
        assert torch.allclose(wide[..., :3, :3], plain, atol=1e-6)
        assert (wide[..., :, 3:] == 0).all()


# Sizes


def mlp(widths: list[int]) -> int:
    return sum(a * b + b for a, b in pairwise(widths))


def conv(widths: list[int]) -> int:
    return sum(9 * a * b + b + 2 * b for a, b in pairwise(widths))  # with the scale and shift of the normalisation


def test_parameters_of_the_small_public_form_and_of_the_papers():
    small = conv([3, 24, 24, 24, 24]) + mlp([2 * 26 + 11, 256, 256, 256, 256]) + mlp([256, 256, 256, 10])
    assert count_parameters(RelationNetwork(SORT_OF_CLEVR)) == small
    sizes = {"conv": (32, 64, 128, 256), "g": (2000,) * 4, "f": (2000, 1000, 500, 100)}
    paper = conv([3, 32, 64, 128, 256]) + mlp([2 * 258 + 11, *[2000] * 4]) + mlp([2000, 2000, 1000, 500, 100, 10])
    assert count_parameters(RelationNetwork(SORT_OF_CLEVR, **sizes)) == paper
    assert count_parameters(AttentionPool(SORT_OF_CLEVR)) == small + 256


def test_a_picture_of_75_pixels_has_25_cells():
    model = RelationNetwork(SORT_OF_CLEVR)
    assert (model.objects.count, model.objects.width) == (25, 26)
    assert model.objects.places[[0, 4, 24]].tolist() == [[0, 0], [0, 64], [64, 64]]
