import numpy as np
import pytest
import torch
from batches import count_parameters, gradients, tape_batch
from torch.utils.flop_counter import FlopCounterMode

from baselines.addressing import COSINE_EPSILON, Heads
from baselines.losses import sequence_cost
from baselines.memory_recurrence import memory_recurrence
from baselines.ntm import EMPTY, NTM
from harness.errors import UserError
from harness.families.tape import Spec
from harness.model import build

SIZES = {"hidden": 6, "read_heads": 2, "write_heads": 3, "slots": 7, "width": 4, "shift_range": 2}
CONTROLLERS = ("lstm", "feedforward")


@pytest.fixture(params=CONTROLLERS)
def model(request, tape_spec):
    """Every learned value is drawn, those that start at zero too, and steep enough for the heads to move."""
    model = NTM(tape_spec, controller=request.param, **SIZES)
    for name, parameter in model.named_parameters():
        if name.startswith(("projection", "r_0", "h_0", "c_0")):
            torch.nn.init.normal_(parameter)
    return model


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum()


def by_the_paper(model: NTM, tape: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """§3.1–3.3 for one tape ``(T,C)``, head by head and slot by slot, in double precision."""
    p = {name: value.detach().double().numpy() for name, value in model.named_parameters()}
    R, W, N, M, r_max = model.heads
    H, n = R + W, SIZES["hidden"]
    memory, w = np.full((N, M), 1e-6), np.eye(N)[np.zeros(H, int)]
    reads = p["r_0"]
    h, c = (p["h_0"], p["c_0"]) if "h_0" in p else (np.zeros(n), None)
    logits, shown = [], {"read": [], "write": [], "reads": [], "adds": []}
    for x in tape:
        units = p["input.weight"] @ x + p["input.bias"]
        if c is None:
            h = np.tanh(units + reads.flatten() @ p["W_controller"])
        else:
            i, f, o, candidate = np.split(units + np.concatenate([reads.flatten(), h]) @ p["W_controller"], 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(candidate)
            h = sigmoid(o) * np.tanh(c)
        out = list(p["projection.weight"] @ h + p["projection.bias"])

        def take(*shape: int, out: list[float] = out) -> np.ndarray:
            taken = np.array([out.pop(0) for _ in range(int(np.prod(shape)))])
            return taken.reshape(shape)

        k, e, g = np.tanh(take(H, M)), sigmoid(take(W, M)), sigmoid(take(H))
        beta, gamma = np.log1p(np.exp(take(H))), 1 + np.log1p(np.exp(take(H)))
        s, a = [softmax(row) for row in take(H, 2 * r_max + 1)], take(W, M)
        assert out == []
        for head in range(H):
            norm = np.sqrt(k[head] @ k[head] + COSINE_EPSILON)
            K = [k[head] @ row / norm / np.sqrt(row @ row + COSINE_EPSILON) for row in memory]
            content = softmax(beta[head] * np.array(K))
            gated = g[head] * content + (1 - g[head]) * w[head]
            shifted = np.zeros(N)
            for slot in range(N):
                for j in range(-r_max, r_max + 1):
                    shifted[slot] += gated[(slot - j) % N] * s[head][r_max - j]
            w[head] = shifted ** gamma[head] / (shifted ** gamma[head]).sum()
        reads = np.array([sum(w[head, slot] * memory[slot] for slot in range(N)) for head in range(R)])
        after = memory.copy()
        for head in range(W):
            for slot in range(N):
                after[slot] *= 1 - w[R + head, slot] * e[head]
        for head in range(W):
            for slot in range(N):
                after[slot] += w[R + head, slot] * a[head]
        memory = after
        logits.append(p["output.weight"] @ np.concatenate([reads.flatten(), h]) + p["output.bias"])
        for name, value in zip(shown, (w[:R], w[R:], reads, a), strict=True):
            shown[name].append(value.copy())
    return np.array(logits), {name: np.array(values) for name, values in shown.items()}


def test_outputs_and_explanation_are_the_papers_equations(model):
    inputs = tape_batch([4, 4]).inputs
    logits, explanation = model(inputs.inputs).detach(), model.explain(inputs)
    for row in range(2):
        expected, shown = by_the_paper(model, inputs.inputs[row].double().numpy())
        assert shown["write"].max(2).std() > 0.01  # the heads do move
        np.testing.assert_allclose(logits[row], expected, atol=1e-5)
        for name, value in shown.items():
            np.testing.assert_allclose(explanation[name][row].detach(), value, atol=1e-5)


def step_by_step(model: NTM, tape: torch.Tensor) -> torch.Tensor:
    state, states = model.start(len(tape)), []
    for x in tape.unbind(1):
        state, _ = model.step(x, state)
        states.append(torch.cat([state.r.flatten(1), state.h], dim=1))
    return model.output(torch.stack(states, dim=1))


def test_one_call_for_a_tape_is_the_step_repeated_in_loss_and_gradients(model):
    """The hand-written recurrence against autograd through ``step``, in double precision, with mixed lengths."""
    model.double()
    batch = tape_batch([1, 4, 3], extra=1)
    tape, bits = batch.inputs.inputs.double(), batch.targets.bits.double()
    slow = sequence_cost(step_by_step(model, tape), bits, batch.targets.answer)
    fast = sequence_cost(model(tape), bits, batch.targets.answer)
    assert torch.allclose(slow, fast, atol=1e-12)
    expected, got = gradients(model, slow), gradients(model, fast)
    for name in expected:
        assert expected[name].abs().max() > 1e-9, name
        assert torch.allclose(expected[name], got[name], atol=1e-12), name


def test_predicting_keeps_nothing_and_says_the_same(model):
    """Without a way back one place a buffer serves all steps."""
    inputs = tape_batch([4, 2]).inputs
    with torch.no_grad():
        alone = model.predict_step(inputs).logits
    assert torch.equal(alone, model.predict_step(inputs).logits.detach())


@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("heads", [Heads(1, 1, 4, 2, 1), Heads(2, 3, 5, 2, 2), Heads(1, 2, 1, 2, 0)])
def test_hand_written_backward_passes_are_the_derivatives(controller, heads):
    """As many slots as shifts among them, and a single slot."""

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    T, B, n, lstm = 3, 2, 3, controller == "lstm"
    read, G = heads.R * heads.M, 4 * n if lstm else n
    w_0 = torch.softmax(torch.randn(B, heads.H, heads.N, dtype=torch.float64), dim=2)
    memory_0 = torch.randn(B, heads.N, heads.M, dtype=torch.float64)
    c_0 = draw(B, n) if lstm else None
    weights = (draw(read + n if lstm else read, G), draw(n, heads.P), draw(heads.P))
    assert torch.autograd.gradcheck(
        lambda inputs, state, cells, *w: memory_recurrence(inputs, state, cells, w_0, memory_0, *w, heads),
        (draw(T, B, G), draw(B, read + n), c_0, *weights),
    )


def test_every_sequence_starts_afresh(model):
    """Memory, weights, reads and controller: what came before leaves no trace."""
    first, other = tape_batch([3]).inputs, tape_batch([4]).inputs
    before = model.predict_step(first).logits
    model.training_step(tape_batch([4]), 0).backward()
    model.predict_step(other)
    assert torch.equal(model.predict_step(first).logits, before)
    start = model.start(3)
    assert (start.memory == EMPTY).all()
    assert torch.equal(start.w, torch.eye(7)[0].expand(3, 5, 7))
    assert torch.equal(start.r[2], model.r_0)


def test_explanation_shapes_and_distributions(model):
    explanation = model.explain(tape_batch([2, 3]).inputs)
    shapes = {"read": (2, 7, 2, 7), "write": (2, 7, 3, 7), "reads": (2, 7, 2, 4), "adds": (2, 7, 3, 4)}
    assert {name: tuple(value.shape) for name, value in explanation.items()} == shapes
    for name in ("read", "write"):
        assert torch.allclose(explanation[name].sum(3), torch.ones(explanation[name].shape[:3]), atol=1e-5)
    assert torch.allclose(explanation["reads"][:, 0], torch.full((2, 2, 4), EMPTY), atol=1e-8)  # nothing written yet


def test_what_is_written_is_first_read_at_the_next_step(tape_spec):
    """A head that stays on slot 0 and erases all: r_t is what was added at t - 1."""
    model = NTM(tape_spec, hidden=6, slots=5, width=3)
    torch.nn.init.normal_(model.projection.weight)
    with torch.no_grad():
        head = model.heads.split(model.projection.bias)
        head.sigmoid[:3], head.sigmoid[3:] = 50.0, -50.0  # erase everything, close the gates
        head.s[:] = torch.tensor([-50.0, 50.0, -50.0])  # stay
    explanation = model.explain(tape_batch([4]).inputs)
    assert torch.allclose(explanation["reads"][:, 1:], explanation["adds"][:, :-1], atol=1e-5)
    assert explanation["adds"].std() > 0.05


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_parameter_count(controller, tape_spec):
    C, K, n, R, W, M, S = 5, 4, 6, 2, 3, 4, 5
    P = (R + W) * (M + 3 + S) + 2 * W * M
    unit = n * (C + R * M + 1) if controller == "feedforward" else 4 * n * (C + R * M + n + 1) + 2 * n
    expected = unit + P * (n + 1) + K * (R * M + n + 1) + R * M
    assert count_parameters(NTM(tape_spec, controller=controller, **SIZES)) == expected


def test_slots_cost_no_parameters(tape_spec):
    assert count_parameters(NTM(tape_spec, slots=3)) == count_parameters(NTM(tape_spec, slots=300))


def test_wide_memories_stay_finite():
    """N = 50, M = 512: ten steps of training."""
    model = NTM(Spec(4, 8, 5, 4), slots=50, width=512)
    optimiser = torch.optim.RMSprop(model.parameters(), lr=1e-2)
    for _ in range(10):
        optimiser.zero_grad()
        loss = model.training_step(tape_batch([4, 2]), 0)
        loss.backward()
        assert torch.isfinite(loss)
        assert all(torch.isfinite(p.grad).all() for p in model.parameters())
        optimiser.step()


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_it_learns_to_copy_two_vectors(controller, tape_spec):
    """From 8 bits a tape by chance to under a tenth of a bit, on tapes drawn anew."""
    model = NTM(tape_spec, controller=controller, hidden=32, slots=8, width=8)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(0)
    answer = torch.tensor([False] * 3 + [True] * 2).expand(16, -1)
    for _ in range(400):
        vectors = torch.randint(0, 2, (16, 2, 4), generator=generator).float()
        tape = torch.zeros(16, 5, 5)
        tape[:, :2, :4], tape[:, 2, 4] = vectors, 1
        loss = sequence_cost(model(tape), torch.cat([torch.zeros(16, 3, 4), vectors], dim=1), answer)
        if loss < 0.1 * np.log(2):
            return
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    pytest.fail(f"the loss is {loss.item():.3f} after 400 steps")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"slots": 2}, "slots = 2 is not valid with shift_range = 1: a head chooses from 3 shifts"),
        ({"slots": 6, "shift_range": 3}, "slots = 6 is not valid with shift_range = 3: a head chooses from 7 shifts"),
        ({"slots": 0, "shift_range": 0}, "slots = 0 is not valid: a whole number, 1 or more"),
        ({"width": 0}, "width = 0 is not valid: a whole number, 1 or more"),
        ({"width": 2.5}, "width = 2.5 is not valid: a whole number, 1 or more"),
        ({"hidden": -1}, "hidden = -1 is not valid: a whole number, 1 or more"),
        ({"read_heads": 0}, "read_heads = 0 is not valid: a whole number, 1 or more"),
        ({"write_heads": 0}, "write_heads = 0 is not valid: a whole number, 1 or more"),
        ({"shift_range": -1}, "shift_range = -1 is not valid: a whole number, 0 or more"),
        ({"controller": "gru"}, "controller = 'gru' is not valid: choose one of lstm, feedforward"),
    ],
)
def test_settings_that_make_no_machine_are_refused(settings, complaint, tape_spec):
    with pytest.raises(UserError, match=complaint):
        build(NTM, tape_spec, settings, "ntm")


def test_the_smallest_memories_are_allowed(tape_spec):
    for sizes in ({"slots": 3}, {"slots": 1, "shift_range": 0}, {"width": 1}):
        assert NTM(tape_spec, **sizes)(tape_batch([2]).inputs.inputs).shape == (1, 5, 4)


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_a_forward_pass_is_counted_in_full(controller, tape_spec):
    """Matrix products reach PyTorch's counter; what is elementwise (norms, shifts, erasing) does not."""
    C, K, n, R, W, N, M, T = 5, 4, 6, 2, 3, 7, 4, 5
    model = NTM(tape_spec, controller=controller, **SIZES)
    controlled = 4 * n * (C + R * M + n) if controller == "lstm" else n * (C + R * M)
    step = controlled + n * model.heads.P + (R + W) * N * M + R * N * M + W * N * M + K * (R * M + n)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.training_step(tape_batch([2]), 0)
    assert counter.get_total_flops() == 2 * T * step
