"""``ntm/dynamic-ngrams``: the law by count, the optimal estimator against a slow one, against integration, and beaten
by nobody; regret paired by sequence; nobody may look ahead."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import RandomState
from scipy.integrate import quad

from harness.errors import PredictionError, UserError
from harness.families.base import Examples
from harness.families.tape import LOGIT_RANGE, Prediction, dequantise, quantise
from harness.metrics.tape import BITS
from harness.registry import get_task
from tasks.ntm.dynamic_ngrams import DynamicNGrams, optimal_logits
from tasks.ntm.suite import store


@pytest.fixture(scope="module")
def task():
    return get_task("ntm/dynamic-ngrams")


def slow(bits: list[int]) -> list[Fraction]:
    """P(1) of every bit by the rule, counting over the whole past again at every step."""
    shares = []
    for t in range(len(bits)):
        if t < 5:
            shares.append(Fraction(1, 2))
            continue
        followed = [bits[s] for s in range(5, t) if bits[s - 5 : s] == bits[t - 5 : t]]
        shares.append((sum(followed) + Fraction(1, 2)) / (len(followed) + 1))
    return shares


def examples_of(bits: np.ndarray) -> Examples:
    """Tapes of given bits ``(n,T)``."""
    target = bits[..., None].astype(np.float32)
    count, length = bits.shape
    return Examples(
        {"inputs": np.concatenate([np.zeros((count, 1, 1), np.float32), target[:, :-1]], 1), "length": np.full(2, 200)},
        {"bits": target, "answer": np.ones((count, length), bool)},
        np.full(count, length),
    )


def cost(bits: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Bits a sequence ``(n,)`` of log-odds ``(n,T)``."""
    return np.log2(1 + np.exp(np.where(bits == 1, -logits, logits))).sum(1)


def test_an_example_by_hand():
    class Fixed:
        """A law that says 1 only after 00110, and chances that follow it."""

        def beta(self, a, b, size):
            assert (a, b, size) == (0.5, 0.5, (1, 32))
            return np.where(np.arange(32) == 0b00110, 1.0, 0.25)[None]

        def random_sample(self, size):
            assert size == (1, 8)
            return np.array([[0.7, 0.5, 0.1, 0.4999, 0.9, 0.9999, 0.25, 0.24]])

    examples = DynamicNGrams().generate(Fixed(), 8, 1, "train")
    bits = [0, 0, 1, 1, 0, 1, 0, 1]  # 00110 -> 1; 01101 at .25 -> 0, for it is not below; 11010 at .24 -> 1
    assert examples.targets["bits"][0, :, 0].tolist() == bits
    assert examples.inputs["inputs"][0, :, 0].tolist() == [0, *bits[:-1]]
    assert examples.targets["answer"].all()
    assert (examples.inputs["length"].tolist(), examples.sizes.tolist()) == ([8], [8])


@given(st.integers(1, 40), st.integers(0, 1000))
def test_inputs_are_the_bits_one_step_late(length, seed):
    examples = get_task("ntm/dynamic-ngrams").generate(RandomState(seed), length, 4, "test")
    bits, inputs = examples.targets["bits"], examples.inputs["inputs"]
    assert inputs.shape == bits.shape == (4, length, 1)
    assert np.array_equal(inputs[:, 1:], bits[:, :-1])
    assert not inputs[:, 0].any()
    assert set(np.unique(bits)) <= {0, 1}
    assert examples.targets["answer"].shape == (4, length)
    assert examples.targets["answer"].all()
    assert (bits.dtype, inputs.dtype) == (np.float32, np.float32)


def test_the_first_five_bits_are_fair(task):
    bits = task.generate(RandomState(0), 5, 20_000, "train").targets["bits"][..., 0]
    counts = np.bincount((bits @ [16, 8, 4, 2, 1]).astype(int), minlength=32)
    assert ((counts - 625) ** 2 / 625).sum() < 61.1  # chi-squared, 31 degrees of freedom, 0.1 %


@pytest.fixture(scope="module")
def visits(task):
    """Every visit of a context in 1,500 sequences, as it was drawn: N0, N1, the bit, and the one before of its kind.

    The last is the bit at the latest other first visit of the sequence, −1 where there is none.
    """
    found = []
    for bits in task.generate(RandomState(1), 200, 1500, "train").targets["bits"][..., 0].astype(int).tolist():
        seen: dict[tuple[int, ...], list[int]] = {}
        latest = -1
        for t in range(5, 200):
            counts = seen.setdefault(tuple(bits[t - 5 : t]), [0, 0])
            found.append((*counts, bits[t], latest))
            if counts == [0, 0]:
                latest = bits[t]
            counts[bits[t]] += 1
    return np.array(found)


def test_laws_are_beta_distributed(visits):
    """Given all that came before, 1 follows in (N1 + ½)/(N0 + N1 + 1) of the visits with these counts and no other law
    of laws says so for all counts."""
    n0, n1, bit, _ = visits.T
    squares = []
    for zeros in range(6):
        for ones in range(6):
            own = bit[(n0 == zeros) & (n1 == ones)]
            share = (ones + 0.5) / (zeros + ones + 1)
            assert len(own) > 100
            squares.append((own.mean() - share) ** 2 / (share * (1 - share) / len(own)))
    assert sum(squares) < 67.99  # chi-squared, 36 degrees of freedom, 0.1 %


def test_every_context_has_a_law_of_its_own(visits):
    n0, n1, bit, latest = visits.T
    first = (n0 + n1 == 0) & (latest >= 0)
    assert first.sum() > 10_000
    assert (bit[first] == latest[first]).mean() == pytest.approx(0.5, abs=4 * 0.5 / first.sum() ** 0.5)


def test_every_sequence_has_a_law_of_its_own(task):
    """What one sequence does after a context says nothing of the next one: their first bits agree in half of them."""
    bits = task.generate(RandomState(2), 6, 20_000, "train").targets["bits"][..., 0].astype(int)
    context, after = bits[:, :5] @ [16, 8, 4, 2, 1], bits[:, 5]
    order = np.argsort(context, kind="stable")
    same = context[order][1:] == context[order][:-1]
    agree = (after[order][1:] == after[order][:-1])[same]
    assert len(agree) > 19_000
    assert agree.mean() == pytest.approx(0.5, abs=4 * 0.5 / len(agree) ** 0.5)


@given(st.integers(1, 60), st.integers(0, 10**6), st.sampled_from([0.1, 0.5, 0.9]))
def test_the_optimal_estimator_counts_as_the_rule_says(length, seed, share):
    bits = (np.random.RandomState(seed).random_sample((3, length)) < share).astype(np.int64)
    logits = optimal_logits(bits)
    for row in range(3):
        expected = [math.log(p / (1 - p)) for p in slow(bits[row].tolist())]
        assert logits[row] == pytest.approx(expected, abs=1e-12)


def test_the_optimal_estimator_on_every_tape_of_a_sample(task):
    examples = task.load("test-400").take(slice(0, 5))
    bits = examples.targets["bits"][..., 0].astype(np.int64)
    stored = dequantise(task.references()["optimal-estimator"].predict(examples, RandomState(0))["logits"])
    for row, own in enumerate(stored.reshape(5, 400)):
        expected = np.array([math.log(p / (1 - p)) for p in slow(bits[row].tolist())])
        assert np.abs(own - expected).max() <= LOGIT_RANGE / 254 + 1e-12


@pytest.mark.parametrize(("zeros", "ones"), [(0, 0), (3, 0), (0, 1), (2, 5), (20, 1)])
def test_the_rule_is_the_posterior_mean(zeros, ones):
    """∫ p · p^(N1−½) (1−p)^(N0−½) dp over its normaliser; p = sin² x takes the poles at the ends away."""

    def moment(power: int) -> float:
        def integrand(x: float) -> float:
            return 2 * math.sin(x) ** (2 * (ones + power)) * math.cos(x) ** (2 * zeros)

        return quad(integrand, 0, math.pi / 2)[0]

    assert moment(1) / moment(0) == pytest.approx((ones + 0.5) / (zeros + ones + 1), abs=1e-9)


def test_no_count_falls_between_two_stored_levels():
    """The nearest is 2.7e-6 of a step from an edge: rounding cannot turn on the last bit of a logarithm."""
    n0, n1 = np.meshgrid(np.arange(396), np.arange(396))
    level = np.log((n1 + 0.5) / (n0 + 0.5)) / LOGIT_RANGE * 127
    assert np.abs(np.abs(level - np.rint(level)) - 0.5).min() > 1e-7


def test_the_optimum_costs_133_bits(task):
    examples = task.generate(RandomState(7), 200, 6000, "train")
    bits = examples.targets["bits"][..., 0].astype(np.int64)
    own = cost(bits, optimal_logits(bits))
    error = own.std() / 6000**0.5
    assert error < 0.5
    assert own.mean() == pytest.approx(133.4, abs=4 * error)
    assert own.std() == pytest.approx(36, abs=1.5)
    assert cost(bits[:, :5], optimal_logits(bits[:, :5])).tolist() == [5.0] * 6000
    # Storing it costs a fiftieth of a bit.
    stored = BITS.statistics(task.references()["optimal-estimator"].predict(examples, RandomState(0)), examples)[:, 0]
    assert 0 < (stored - own).mean() < 0.03


def rivals(bits: np.ndarray) -> dict[str, np.ndarray]:
    """Other estimators' log-odds: Laplace's rule, a shorter and a longer context, and no memory of the context."""
    found = {}
    for name, context, prior in (("laplace", 5, 1.0), ("short", 4, 0.5), ("long", 6, 0.5), ("bernoulli", 0, 0.5)):
        seen = np.full((len(bits), 2**context, 2), prior)
        logits = np.zeros(bits.shape)
        rows = np.arange(len(bits))
        for t in range(5, bits.shape[1]):
            past = bits[:, max(0, t - context) : t] if context else bits[:, :0]
            code = past @ (1 << np.arange(past.shape[1])[::-1])
            if t >= context:
                logits[:, t] = np.log(seen[rows, code, 1] / seen[rows, code, 0])
                seen[rows, code, bits[:, t]] += 1
        found[name] = logits
    return found


def test_nobody_beats_the_optimal_estimator_on_average(task):
    examples = task.load("test")
    regret = task.metric("regret")
    for name, logits in rivals(examples.targets["bits"][..., 0].astype(np.int64)).items():
        own = regret.statistics(store(logits[..., None], examples), examples)[:, 0]
        assert own.mean() > 4 * own.std() / len(own) ** 0.5, name
        assert own.min() < 0  # on some sequence luck does


def test_regret_is_paired_by_sequence(task):
    examples = task.load("test")
    optimal = task.references()["optimal-estimator"].predict(examples, RandomState(0))
    best = BITS.statistics(optimal, examples)[:, 0]
    even = {"logits": np.full(100_000, 127, np.uint8)}
    statistics = task.headline.statistics(even, examples)
    assert task.headline.name == "regret"
    assert statistics[:, 0] == pytest.approx(200 - best, abs=1e-9)
    assert statistics[:, 1].tolist() == [1.0] * 500
    assert best.std() > 30  # what pairing takes away
    assert task.headline.statistics(optimal, examples)[:, 0].tolist() == [0.0] * 500
    order = RandomState(1).permutation(500)
    noisy = quantise(RandomState(2).standard_normal((500, 200)))
    alone = task.headline.statistics({"logits": noisy[order].reshape(-1)}, examples.take(order))
    assert np.array_equal(alone, task.headline.statistics({"logits": noisy.reshape(-1)}, examples)[order])


def test_scores_of_the_references(task):
    for split, length in (("test", 200), ("test-400", 400)):
        examples = task.load(split)
        found = {row: task.score(r.predict(examples, RandomState(0)), examples) for row, r in task.references().items()}
        assert found["random"]["bits"] == length
        assert found["random"]["wrong_bits"] == length / 2
        assert found["optimal-estimator"]["regret"] == 0
        assert found["oracle"]["bits"] < 1e-4
        assert found["random"]["regret"] == pytest.approx(length - found["optimal-estimator"]["bits"])
        assert found["oracle"]["regret"] == pytest.approx(-found["optimal-estimator"]["bits"], abs=1e-4)
    bounds = {row: reference.bound for row, reference in task.references().items()}
    assert bounds == {"random": "expected", "optimal-estimator": "expected", "oracle": "exact"}


def test_solved_is_half_a_bit_from_the_optimum(task):
    assert task.headline.is_solved(0.5)
    assert task.headline.is_solved(-0.1)
    assert not task.headline.is_solved(0.51)


@pytest.mark.parametrize("split", ["test", "test-400"])
def test_looking_ahead_is_refused(task, split):
    """The input of the next step is this step's answer: reading it would make every bit certain."""
    few = task.family.batch(task.load(split).take(slice(0, 4)))

    def shifted(by: int):
        def predict(inputs):
            moved = torch.roll(inputs.inputs, -by, dims=1)
            return Prediction((2 * moved - 1) * 16)

        return predict

    cheat = task.family.store(shifted(1)(few.inputs), few, task.spec("default"))
    examples = task.load(split).take(slice(0, 4))
    assert BITS.statistics(cheat, examples)[:, 0].max() < 30  # only the last bit is not on the tape
    with pytest.raises(PredictionError, match="the model is not causal"):
        task.family.audit(shifted(1), few)
    task.family.audit(shifted(0), few)


def test_sizes_and_spec(task):
    spec = task.spec("default")
    assert (spec.max_train_size, spec.max_test_size, spec.input_channels, spec.output_bits) == (200, 400, 1, 1)
    assert len(task.load("test")) == 500
    assert len(task.load("test-400")) == 100
    assert set(task.load("train").sizes) == {200}


def test_sequences_that_occur_twice_are_few_and_nearly_deterministic(task):
    rates = task.pinned["overlap"]["default"]
    assert all(rate <= 0.02 for other in rates.values() for rate in other.values())
    seen = {tape.tobytes() for tape in task.load("train").targets["bits"]}
    again = [bits for bits in task.load("test").targets["bits"] if bits.tobytes() in seen]
    best = BITS.statistics(
        task.references()["optimal-estimator"].predict(examples_of(np.stack(again)[..., 0]), RandomState(0)),
        examples_of(np.stack(again)[..., 0]),
    )[:, 0]
    assert best.max() < 40


@pytest.mark.parametrize("size", [0, -1, (3, 4)])
def test_a_sequence_without_bits_is_refused(task, size):
    with pytest.raises(UserError, match="of ntm/dynamic-ngrams is not valid: a whole number of at least 1"):
        task.generate(RandomState(0), size, 4, "train")


def test_an_example_as_text(task):
    examples = task.load("test").take(slice(0, 2))
    bits = examples.targets["bits"][1, :, 0].astype(int)
    tenths = "".join(str(math.floor(10 * p)) for p in slow(bits.tolist()))
    certain = {"logits": quantise((2 * examples.targets["bits"] - 1) * 16).reshape(-1)}
    lines = task.render(examples, 1, certain).split("\n\n")
    assert len(lines) == 4
    for at, line in zip(range(0, 200, 50), lines, strict=True):
        shown = "".join(map(str, bits[at : at + 50]))
        own, optimal, answer = line.splitlines()
        assert own == f"bits    {shown}"
        assert optimal[:8] == "optimal "
        # A tenth is off where storing the probability moved it over its edge.
        assert all(abs(int(a) - int(b)) <= 1 for a, b in zip(optimal[8:], tenths[at : at + 50], strict=True))
        assert answer == "answer  " + shown.replace("1", "9")
    assert "answer" not in task.render(examples, 1)
