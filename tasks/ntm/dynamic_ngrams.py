"""``ntm/dynamic-ngrams``: predict a sequence of bits from a law that must be learnt while it is read."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.random import RandomState

from harness.families.base import Examples, Stored
from harness.families.tape import Spec
from harness.metrics import Metric, mean
from harness.metrics.tape import BITS, WRONG_BITS
from harness.splits import Role, Size, Split, Stream
from harness.task import Reference, Regime
from tasks.ntm.suite import TapeTask, store, stored_logits, tape

CONTEXT = 5
"""Bits that a probability depends on."""
LENGTH, LADDER = 200, (400,)
LINE = 50
"""Bits in a line of text."""


def _number(bits: np.ndarray) -> np.ndarray:
    """Return the number that bits ``(n,k)`` spell, the first the highest, ``(n,)``."""
    return bits @ (1 << np.arange(bits.shape[1])[::-1])


def optimal_logits(bits: np.ndarray) -> np.ndarray:
    """Return the optimal estimator's log-odds ``(n,T)`` of each of ``bits (n,T) int64`` from those before it."""
    count, length = bits.shape
    logits = np.zeros((count, length))
    seen = np.full((count, 2**CONTEXT, 2), 0.5)  # N0 + ½ and N1 + ½ by context
    rows, context = np.arange(count), _number(bits[:, :CONTEXT])
    for t in range(CONTEXT, length):
        n0, n1 = seen[rows, context].T
        logits[:, t] = np.log(n1 / n0)
        seen[rows, context, bits[:, t]] += 1
        context = (2 * context + bits[:, t]) % 2**CONTEXT
    return logits


def _optimal(examples: Examples, rng: RandomState | None = None) -> Stored:
    return store(optimal_logits(examples.targets["bits"][..., 0].astype(np.int64))[..., None], examples)


def _regret(stored: Stored, examples: Examples) -> np.ndarray:
    """Compare with the estimator as it would be stored, so that its own regret is 0."""
    own, best = (BITS.statistics(s, examples)[:, 0] for s in (stored, _optimal(examples)))
    return mean(own - best)


REGRET = Metric("regret", "regret per sequence", "bits", "min", _regret, bounds=(-np.inf, np.inf), solved=0.5)


class DynamicNGrams(TapeTask):
    """Read the bits of a 6-gram source one by one and predict each from all before it; every sequence has its own law.

    A law is 32 probabilities, one for each value of the last five bits, drawn from Beta(½,½) anew for every sequence.
    The first five bits are fair; each later one is 1 with the probability that belongs to the five before it. The input
    at a step is the bit before, and 0 at the first; the target is the bit itself, and every step is answered::

        bits    1 0 1 1 0 0 …
        input   . 1 0 1 1 0 …    target  1 0 1 1 0 0 …    answer  x x x x x x …

    Where the last five bits were followed N1 times by 1 and N0 times by 0 so far, the best prediction is
    P(1) = (N1 + ½)/(N0 + N1 + 1). This *optimal estimator* pays 133.4 of the 200 bits that guessing costs, of which
    five for the prefix, with a standard deviation of 36 between sequences. Rows are therefore ranked by *regret*: the
    cost beyond what the optimal estimator pays on the same sequences. It can be negative on a sequence, not on average.

    Sequences of 200 bits; tests 500 of them and 100 of twice the length. They are drawn independently, as their laws
    are: some laws are nearly deterministic, so 1–2 % of sequences (all zeros among them) occur in other splits too.

    Source: Graves et al. 2014, §4.4, equation 10.
    """

    name = "ntm/dynamic-ngrams"
    version = 1
    splits: ClassVar[tuple[Split | Stream, ...]] = (
        Stream("train", (LENGTH,)),
        Split("validation", "validation", (LENGTH,), 256),
        Split("test", "test", (LENGTH,), 500),
        *(Split(f"test-{length}", "test", (length,), 100, ladder=length) for length in LADDER),
    )
    regimes: ClassVar[Mapping[str, Regime]] = {
        "default": Regime("train", "validation", ("test", *(f"test-{length}" for length in LADDER)))
    }
    metrics: ClassVar[tuple[Metric, ...]] = (REGRET, BITS, WRONG_BITS)
    plotted: ClassVar[tuple[str, ...]] = ("regret",)
    # standard: 200 steps a tape, in batches of 16 up to half an hour for a memory network on one core.
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 1_024, "demo": 8_192, "standard": 131_072, "paper": 1_048_576}
    size_name = "sequence length (bits)"
    ceiling: ClassVar[str] = "optimal-estimator"  # the oracle sees bits that nobody can predict

    def spec(self, regime: str) -> Spec:
        """One bit in, one bit out."""
        return Spec(max_train_size=LENGTH, max_test_size=LADDER[-1], input_channels=1, output_bits=1)

    def generate(self, rng: RandomState, size: Size, count: int, role: Role) -> Examples:
        """Draw ``count`` laws and from each a sequence of ``size`` bits."""
        length = self.natural(size)
        law = rng.beta(0.5, 0.5, size=(count, 2**CONTEXT))
        chance = rng.random_sample((count, length))
        bits = (chance < 0.5).astype(np.int64)  # right for the prefix
        rows, context = np.arange(count), _number(bits[:, :CONTEXT])
        for t in range(CONTEXT, length):
            bits[:, t] = chance[:, t] < law[rows, context]
            context = (2 * context + bits[:, t]) % 2**CONTEXT
        target = bits[..., None].astype(np.float32)
        inputs = np.pad(target[:, :-1], ((0, 0), (1, 0), (0, 0)))
        return tape(inputs, target, np.ones(length, bool), length)

    def heuristics(self) -> dict[str, Reference]:
        """Return the estimator that nothing beats on average."""
        return {"optimal-estimator": Reference("(N1 + ½)/(N0 + N1 + 1) by context", "expected", _optimal)}

    def explained(self, regime: str) -> list[tuple[str, int]]:
        """Return the first tape of the first test: the weights of a longer one are many and show no more."""
        return [(self.regime(regime).tests[0], 0)]

    def render(self, examples: Examples, row: int, stored: Stored | None = None) -> str:
        """Show the bits in lines of 50; below them P(1) in tenths, by the optimal estimator and as answered."""
        predicted = {"optimal": _optimal(examples)} | ({} if stored is None else {"answer": stored})
        lines = {"bits": examples.targets["bits"][row, : examples.inputs["length"][row], 0].astype(int)}
        for title, logits in predicted.items():
            lines[title] = (10 / (1 + np.exp(-stored_logits(logits, examples, row)[:, 0]))).astype(int)
        return "\n\n".join(
            "\n".join(f"{title:8}{''.join(map(str, digits[at : at + LINE]))}" for title, digits in lines.items())
            for at in range(0, len(lines["bits"]), LINE)
        )
