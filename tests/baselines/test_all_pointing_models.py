"""What must be true of every pointing model."""

from itertools import permutations, product

import pytest
import torch
from batches import gradients, point_batch

from baselines.index_attention import IndexAttention
from baselines.index_seq2seq import IndexSeq2Seq
from baselines.pointer_network import PointerNetwork
from baselines.pointing_transformer import PointingTransformer
from harness.families import Batch
from harness.families.pointing import STOP, Inputs, Targets

MODELS = {
    "pointer-network": (PointerNetwork, {"hidden": 6}),
    "pointer-network-glimpse": (PointerNetwork, {"hidden": 6, "glimpses": 1}),
    "read-process-write": (PointerNetwork, {"hidden": 6, "glimpses": 1, "process_steps": 2}),
    "index-seq2seq": (IndexSeq2Seq, {"hidden": 6, "embedding": 4}),
    "index-attention": (IndexAttention, {"hidden": 6, "embedding": 4}),
    "pointing-transformer": (PointingTransformer, {"width": 8, "heads": 2, "encoder_layers": 2}),
}


@pytest.fixture(params=["hull", "tour"])
def spec(request, hull_spec, tour_spec):
    return {"hull": hull_spec, "tour": tour_spec}[request.param]


@pytest.fixture(params=MODELS)
def kind(request):
    return MODELS[request.param]


@pytest.fixture(params=[*MODELS, *(f"{name} with a beam" for name in MODELS)])
def model(request, spec):
    name, _, beam = request.param.partition(" with ")
    build, sizes = MODELS[name]
    torch.manual_seed(1)
    model = build(spec, **sizes, **({"beam_size": 3} if beam else {})).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # further from even odds than fresh weights are
            parameter.mul_(3)
    return model


def answers(model, inputs):
    return [[i for i in row if i != STOP] for row in model.predict_step(inputs).indices.tolist()]


def test_an_example_is_the_same_alone_with_mates_and_with_padding(model):
    together = answers(model, point_batch([6, 2, 3]).inputs)
    assert answers(model, point_batch([6, 2, 3], extra=0).inputs) == together
    for row, length in enumerate((6, 2, 3)):
        assert answers(model, point_batch([length]).inputs) == [together[row]]
    if type(model) not in (IndexSeq2Seq, IndexAttention):  # they have no words for more than six positions
        assert answers(model, point_batch([6, 2, 3], extra=4).inputs) == together


def test_what_is_written_in_the_padding_does_not_matter(model):
    clean = point_batch([6, 2, 3])
    beyond = torch.arange(6) >= clean.inputs.length[:, None]
    dirty = Inputs(clean.inputs.elements.masked_fill(beyond[:, :, None], 7.0), clean.inputs.length)
    assert answers(model, clean.inputs) == answers(model, dirty)
    losses = [model.training_step(Batch(inputs, clean.targets), 0) for inputs in (clean.inputs, dirty)]
    assert torch.allclose(*losses)


def test_loss_and_gradients_do_not_see_padding(model):
    model.double()
    mates = point_batch([2, 5])
    plain, padded = (
        Batch(Inputs(inputs.elements[:1].double(), inputs.length[:1]), Targets(targets.indices[:1]))
        for inputs, targets in ((batch.inputs, batch.targets) for batch in (point_batch([2]), mates))
    )
    losses = [model.training_step(batch, 0) for batch in (plain, padded)]
    assert torch.allclose(*losses, atol=1e-9)
    alone, wide = (torch.autograd.grad(loss, list(model.parameters()), allow_unused=True) for loss in losses)
    for one, other in zip(alone, wide, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.allclose(one, other, atol=1e-6)


def test_loss_and_gradients_are_finite_with_mixed_sizes(model):
    loss = model.training_step(point_batch([6, 1, 3]), 0)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_answers_stay_inside_the_set_and_permutations_are_complete(model):
    for length, answer in zip((6, 2, 3), answers(model, point_batch([6, 2, 3]).inputs), strict=True):
        assert all(0 <= index < length for index in answer)
        if model.spec.permutation:
            assert sorted(answer) == list(range(length))
        else:
            assert len(answer) <= model.spec.output_limit(length)


def test_the_loss_is_the_log_probability_of_the_answer(model):
    """Summed over all answers that there can be, probability is one: masks, stop and softmax are all accounted for."""
    inputs = point_batch([2]).inputs
    if model.spec.permutation:
        every = [list(answer) for answer in permutations(range(2))]
        complete = 1.0
    else:
        every = [list(answer) for n in range(4) for answer in product(range(2), repeat=n)]
        complete = None
    total = 0.0
    for answer in every:
        indices = torch.tensor([[*answer, STOP]])
        steps = len(answer) + model.spec.has_stop
        loss = model.training_step(Batch(inputs, Targets(indices)), 0)
        total += float(torch.exp(-loss.detach().double() * steps))
    if complete is None:
        assert 0 < total < 1 + 1e-6
        longer = [list(answer) for answer in product(range(2), repeat=4)]
        for answer in longer:  # what goes on after four positions: their prefix without the stop
            indices = torch.tensor([[*answer, STOP]])
            loss = model.training_step(Batch(inputs, Targets(indices)), 0)
            total += float(torch.exp(-loss.detach().double() * 5))
        assert total <= 1 + 1e-6
    else:
        assert total == pytest.approx(complete, abs=1e-5)


def test_a_wide_beam_finds_the_permutation_of_lowest_loss(kind, tour_spec):
    build, sizes = kind
    torch.manual_seed(4)
    model = build(tour_spec, **sizes, beam_size=24).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    inputs = point_batch([4]).inputs
    every = [list(answer) for answer in permutations(range(4))]
    losses = [model.training_step(Batch(inputs, Targets(torch.tensor([answer]))), 0).detach() for answer in every]
    assert answers(model, inputs) == [every[int(torch.stack(losses).argmin())]]


def test_sizes_beyond_training_work_or_are_declined(model):
    """B03: the width of the distribution follows n, unless a fixed vocabulary forbids it, which the model says."""
    declined = getattr(type(model), "supports", lambda spec, size: None)(model.spec, 9)
    if type(model) in (IndexSeq2Seq, IndexAttention):
        assert declined == "fixed vocabulary of 6"
        assert type(model).supports(model.spec, 6) is None
    else:
        assert declined is None
        assert all(0 <= index < 9 for index in answers(model, point_batch([9]).inputs)[0])


def test_the_pointer_of_an_explanation_is_a_distribution_that_the_answer_follows(model):
    if not hasattr(model, "explain"):
        assert type(model) is IndexSeq2Seq
        return
    inputs = point_batch([5, 3]).inputs
    shown = model.explain(inputs)
    indices, pointer = shown["indices"], shown["pointer"]
    assert torch.equal(indices, model.predict_step(inputs).indices)
    assert pointer.shape == (2, indices.shape[1], 5)
    assert (pointer >= 0).all()
    assert (pointer.sum(2) <= 1 + 1e-5).all()
    assert (pointer[1, :, 3:] == 0).all()
    if type(model) is not IndexAttention and model.beam_size == 1:
        for row in range(2):
            for step, index in enumerate(indices[row].tolist()):
                if index == STOP:
                    break
                assert int(pointer[row, step].argmax()) == index


def test_state_dict_round_trip(kind, spec):
    build, sizes = kind
    first, second = build(spec, **sizes).eval(), build(spec, **sizes).eval()
    batch = point_batch([6, 3])
    assert first.training_step(batch, 0) != second.training_step(batch, 0)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.training_step(batch, 0), second.training_step(batch, 0))
    assert answers(first, batch.inputs) == answers(second, batch.inputs)


def test_it_learns_to_point_backwards(kind, hull_spec):
    """A rule of eight sets: all positions, from the last to the first, then the stop."""
    build, sizes = kind
    wide = {"hidden": 32} if "hidden" in sizes else {"width": 32}
    torch.manual_seed(0)
    model = build(hull_spec, **{**sizes, **wide})
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    batch = point_batch([2, 3, 4, 5])
    first = float(model.training_step(batch, 0).detach())
    for step in range(150):
        loss = model.training_step(batch, step)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    assert float(loss.detach()) < 0.1 * first
    assert answers(model.eval(), batch.inputs) == [[1, 0], [2, 1, 0], [3, 2, 1, 0], [4, 3, 2, 1, 0]]


def test_every_parameter_gets_a_gradient(kind, spec):
    build, sizes = kind
    model = build(spec, **sizes)
    unused = {"stop"} if spec.permutation else set()
    found = gradients(model, model.training_step(point_batch([6, 3]), 0))
    assert {name for name, grad in found.items() if not grad.any()} <= unused | {"process.weight_ih"}
