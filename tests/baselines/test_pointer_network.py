"""The Pointer Network, its glimpses and its process block against literal transcriptions."""

import numpy as np
import pytest
import torch
from batches import count_parameters, gradients, point_batch
from torch.utils.flop_counter import FlopCounterMode

from baselines.pointer_network import PointerNetwork
from baselines.pointing import TAKEN, allowed_slots, slot_loss, target_slots


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def lstm(p, name, x, h, c):
    i, f, o, g = np.split(x @ p[f"{name}.W_x"] + h @ p[f"{name}.W_h"] + p[f"{name}.b"], 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def literal_scores(model, points, answer):
    """u_ij of the paper for one set, step by step, unmasked; ``answer`` is what the decoder is fed."""
    p = {name: value.detach().numpy() for name, value in model.named_parameters()}
    n = model.hidden
    if model.process_steps is None:
        h = c = np.zeros(n)
        e = []
        for point in points:
            h, c = lstm(p, "encoder", point, h, c)
            e.append(h)
    else:
        hidden = [np.maximum(p["read.0.weight"] @ x + p["read.0.bias"], 0) for x in points]
        e = [p["read.2.weight"] @ x + p["read.2.bias"] for x in hidden]
        h, c = literal_process(p, e, n, model.process_steps)
    e = np.array([*e, p["stop"]])
    inside = np.arange(len(e)) < len(points) + model.spec.has_stop
    scores = []
    for fed in [p["start"], *(points[index] for index in answer[:-1])]:
        h, c = lstm(p, "decoder", fed, h, c)
        q = h
        for _ in range(model.glimpses):
            u = np.array([p["v_g"] @ np.tanh(p["W_3.weight"] @ e_j + p["W_4.weight"] @ q) for e_j in e])
            a = softmax(np.where(inside, u, -np.inf))
            q = q + p["W_g.weight"] @ (a @ e)
        scores.append([p["v"] @ np.tanh(p["W_1.weight"] @ e_j + p["W_2.weight"] @ q) for e_j in e])
    return np.array(scores)


def literal_process(p, e, n, steps):
    """Order Matters, equations 3 to 7; torch's gates have the order i, f, g, o."""
    q = r = cell = np.zeros(n)
    for _ in range(steps):
        gates = p["process.weight_ih"] @ r + p["process.bias_ih"] + p["process.weight_hh"] @ q + p["process.bias_hh"]
        i, f, g, o = np.split(gates, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        q = sigmoid(o) * np.tanh(cell)
        a = softmax(np.array([e_j @ q for e_j in e]))
        r = sum(a_j * e_j for a_j, e_j in zip(a, e, strict=True))
    if not steps:
        return q, cell
    h, c = np.split(p["begin.weight"] @ np.concatenate([q, r]) + p["begin.bias"], 2)
    return np.tanh(h), c


KINDS = [{}, {"glimpses": 1}, {"glimpses": 2}, {"process_steps": 0}, {"process_steps": 3, "glimpses": 1}]


@pytest.fixture(params=KINDS, ids=str)
def model(request, hull_spec):
    return PointerNetwork(hull_spec, hidden=6, **request.param).double()


def double(batch):
    return type(batch)(type(batch.inputs)(batch.inputs.elements.double(), batch.inputs.length), batch.targets)


def test_scores_are_the_papers_equations(model):
    answers = [[2, 0, 1, 3], [1, 0, 2]]
    batch = double(point_batch([4, 3], answers=answers))
    u, target, there = model.forced(batch.inputs, batch.targets.indices)
    for row, answer in enumerate(answers):
        length = len(answer)
        points = batch.inputs.elements[row, :length].numpy()
        expected = literal_scores(model, points, [*answer, 0])
        own = u[row, : length + 1].detach().numpy()
        np.testing.assert_allclose(own[:, [*range(length), -1]], expected, atol=1e-12)
        assert np.isinf(own[:, length:-1]).all()
        assert target[row, : length + 1].tolist() == [*answer, 4]
        assert there[row].tolist() == [True] * (length + 1) + [False] * (4 - length)


def test_permutations_take_out_what_the_right_answer_has_named(tour_spec):
    model = PointerNetwork(tour_spec, hidden=6).double()
    batch = double(point_batch([3], answers=[[2, 0, 1]]))
    u, _, _ = model.forced(batch.inputs, batch.targets.indices)
    p = torch.softmax(u, 2)[0]
    assert (p[:3] == 0).int().tolist() == [[0, 0, 0, 1], [0, 0, 1, 1], [1, 0, 1, 1]]
    assert p[2, 1] == 1
    expected = literal_scores(model, batch.inputs.elements[0].numpy(), [2, 0, 1])
    np.testing.assert_allclose(u[0, 0, :3].detach(), expected[0, :3], atol=1e-12)


def test_training_is_the_decoding_step_repeated_in_loss_and_gradients(model):
    batch = double(point_batch([4, 2, 3], extra=1))
    memory, state = model.encode(batch.inputs)
    target, there = target_slots(batch.targets.indices, 6, model.spec)
    slot, scores = None, []
    for chosen in target.T:
        u, state = model.step(slot, state, memory)
        scores.append(u + memory.allowed)
        slot = chosen.clamp(max=4)
    slow = slot_loss(torch.stack(scores, 1), target, there)
    fast = model.training_step(batch, 0)
    assert torch.allclose(slow, fast, atol=1e-12)
    used = {n: v for n, v in model.named_parameters() if not n.startswith("begin") or model.process_steps}
    if model.process_steps == 0:
        used = {n: v for n, v in used.items() if not n.startswith("process")}
    expected, got = (torch.autograd.grad(loss, list(used.values())) for loss in (slow, fast))
    for name, one, other in zip(used, expected, got, strict=True):
        assert torch.allclose(one, other, atol=1e-11), name


def test_a_beam_of_hypotheses_is_scored_as_each_alone(model):
    batch = double(point_batch([4, 4]))
    memory, (h, c) = model.encode(batch.inputs)
    h, c = (torch.stack([each, each + 0.1], 1).flatten(0, 1) for each in (h, c))
    slot = torch.tensor([0, 1, 2, 3])
    together, _ = model.step(slot, (h, c), memory)
    for row in range(4):
        own = type(memory)(*(part[row // 2 : row // 2 + 1] for part in memory))
        alone, _ = model.step(slot[row : row + 1], (h[row : row + 1], c[row : row + 1]), own)
        assert torch.allclose(alone[0], together[row], atol=1e-13)


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_read_and_process_do_not_see_the_order_of_a_set(hull_spec, steps):
    model = PointerNetwork(hull_spec, hidden=6, process_steps=steps).double()
    inputs = double(point_batch([5])).inputs
    order = torch.randperm(5)
    turned = type(inputs)(inputs.elements[:, order], inputs.length)
    (memory, state), (other, other_state) = model.encode(inputs), model.encode(turned)
    for one, another in zip(state, other_state, strict=True):
        assert torch.allclose(one, another, atol=1e-13)
    assert torch.allclose(memory.e[:, order], other.e[:, :5], atol=1e-13)


def test_an_lstm_encoder_does_see_it(hull_spec):
    model = PointerNetwork(hull_spec, hidden=6)
    inputs = point_batch([5]).inputs
    turned = type(inputs)(inputs.elements.flip(1), inputs.length)
    assert not torch.allclose(model.encode(inputs)[1][0], model.encode(turned)[1][0], atol=1e-4)


def test_half_precision_is_for_training_alone(hull_spec):
    torch.manual_seed(0)
    exact = PointerNetwork(hull_spec, hidden=32)
    half = PointerNetwork(hull_spec, hidden=32, precision="bf16")
    half.load_state_dict(exact.state_dict())
    batch = point_batch([5, 4])
    losses = [model.train().training_step(batch, 0) for model in (exact, half)]
    assert losses[0] != losses[1]
    assert float(losses[1].detach()) == pytest.approx(float(losses[0].detach()), rel=0.01)
    one, other = gradients(exact, losses[0]), gradients(half, losses[1])
    for name in one:
        assert one[name].dtype == other[name].dtype == torch.float32
        assert torch.allclose(one[name], other[name], atol=0.05 * float(one[name].abs().max())), name
    exact.eval()
    half.eval()
    assert torch.equal(exact.training_step(batch, 0), half.training_step(batch, 0))
    assert torch.equal(exact.predict_step(batch.inputs).indices, half.predict_step(batch.inputs).indices)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"precision": "fp16"}, "precision = 'fp16' is not valid: one of fp32, bf16"),
        ({"glimpses": -1}, "glimpses = -1"),
        ({"process_steps": -1}, "process_steps = -1"),
        ({"beam_size": 0}, "beam_size = 0 is not valid"),
    ],
)
def test_wrong_settings_are_refused(hull_spec, setting, message):
    with pytest.raises(ValueError, match=message):
        PointerNetwork(hull_spec, **setting)


def test_parameter_counts(hull_spec):
    D, n = 2, 6
    one_lstm = 4 * n * (D + n + 1)
    pointer = D + n + 2 * n * n + n
    assert count_parameters(PointerNetwork(hull_spec, hidden=n)) == 2 * one_lstm + pointer
    glimpse = 3 * n * n + n
    assert count_parameters(PointerNetwork(hull_spec, hidden=n, glimpses=2)) == 2 * one_lstm + pointer + glimpse
    read, process, begin = n * (D + 1) + n * (n + 1), 4 * n * 2 * n + 8 * n, 2 * n * (2 * n + 1)
    blocks = PointerNetwork(hull_spec, hidden=n, process_steps=5)
    assert count_parameters(blocks) == one_lstm + pointer + read + process + begin


def test_a_forward_pass_is_counted_in_full(hull_spec):
    """The matrix products of both LSTMs and of the keys and queries; the energies, matrix by vector, do not count."""
    n, D, N, M = 6, 2, 5, 6
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        PointerNetwork(hull_spec, hidden=n).training_step(point_batch([N]), 0)
    assert counter.get_total_flops() == 2 * ((N + M) * 4 * n * (D + n) + (N + 1) * n * n + M * n * n)


def test_the_mask_is_that_of_the_set(hull_spec):
    inputs = point_batch([3, 2]).inputs
    memory, _ = PointerNetwork(hull_spec, hidden=6).encode(inputs)
    assert torch.equal(memory.allowed, allowed_slots(inputs, hull_spec))
    assert TAKEN < -1e6
