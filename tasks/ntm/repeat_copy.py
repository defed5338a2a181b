"""``ntm/repeat-copy``: write a sequence of bit vectors as often as a number says, then stop."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.random import RandomState

from harness.errors import UserError
from harness.families.base import Examples, Stored
from harness.families.tape import Spec
from harness.metrics import Metric
from harness.metrics.tape import tape_metrics
from harness.splits import Role, Size, Split, Stream, draw_of_role
from harness.task import Reference, Regime
from tasks.ntm.suite import TapeTask, certain, store, tape

BITS = 6
DELIMITER, REPEATS = BITS, BITS + 1
"""Input channels after the bits."""
END = BITS
"""Output channel after the bits."""
RANGE = range(1, 11)
"""Lengths and numbers of repeats trained on."""
REPEATS_MEAN, REPEATS_STD = 5.5, (99 / 12) ** 0.5
"""Moments of the repeats trained on; longer tests keep them, so a number has one meaning."""
PAIRS = tuple((length, repeats) for length in RANGE for repeats in RANGE)
LADDER = {"10x20": (10, 20), "20x10": (20, 10)}
"""Length and repeats: one of the two is twice the largest trained on."""


def tape_length(length: int, repeats: int) -> int:
    """Return the steps of a tape: the vectors, the delimiter, their copies, the end marker."""
    return length + 1 + length * repeats + 1


class RepeatCopy(TapeTask):
    """Read bit vectors, then how often to write them; write them so often, one copy after the other, and an end marker.

    Example with 2 bits, length 2, twice (channels: bits, delimiter, repeats; ``.`` is 0)::

        input    1 . . . . . . .        target  . . . 1 . 1 . .
                 1 1 . . . . . .                . . . 1 1 1 1 .
        delim    . . 1 . . . . .        end     . . . . . . . 1
        repeats  . . r . . . . .        answer  . . . x x x x x

    Length 1, once, vector 10: steps ``10|0|0``, ``00|1|r``, ``00|0|0``, ``00|0|0``; the answers are ``10|0``, ``00|1``.
    The number of repeats comes with the delimiter on a channel of its own, as r = (repeats − 5.5)/2.872: mean 0 and
    variance 1 over the repeats trained on. Six bits, independent and fair; lengths 1–10 and repeats 1–10 in all pairs,
    evenly; tests four sequences of each pair, and 25 of length 10 twenty times and of length 20 ten times. Sequences of
    two and more vectors are partitioned by a hash, whatever the repeats; the 64 of one vector occur in all splits.

    Source: Graves et al. 2014, §4.2; 8 inputs and 7 outputs follow from the size of its networks. Guessing costs 7 bits
    an answer step, 219 on average over the pairs trained on.
    """

    name = "ntm/repeat-copy"
    version = 1
    splits: ClassVar[tuple[Split | Stream, ...]] = (
        Stream("train", PAIRS),
        Split("validation", "validation", PAIRS, 3),
        Split("test", "test", PAIRS, 4),
        *(Split(f"test-{name}", "test", (pair,), 25, ladder=tape_length(*pair)) for name, pair in LADDER.items()),
    )
    regimes: ClassVar[Mapping[str, Regime]] = {
        "default": Regime("train", "validation", ("test", *(f"test-{name}" for name in LADDER)))
    }
    metrics: ClassVar[tuple[Metric, ...]] = tape_metrics(solved=0.5)
    plotted: ClassVar[tuple[str, ...]] = ("bits", "wrong_bits")
    # standard: 38 steps a tape, in batches of 16 about ten minutes for a memory network on one core.
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 1_024, "demo": 32_768, "standard": 262_144, "paper": 1_048_576}
    size_name = "tape length (steps)"

    def spec(self, regime: str) -> Spec:
        """Six bits, a delimiter and the repeats in; six bits and an end marker out."""
        return Spec(
            max_train_size=max(tape_length(*pair) for pair in PAIRS),
            max_test_size=max(tape_length(*pair) for pair in LADDER.values()),
            input_channels=BITS + 2,
            output_bits=BITS + 1,
        )

    def generate(self, rng: RandomState, size: Size, count: int, role: Role) -> Examples:
        """Draw ``count`` sequences of ``size = (length, repeats)``; an example's numeric size is its tape's length."""
        length, repeats = self._pair(size)

        def draw(n: int) -> np.ndarray:
            return rng.randint(0, 2, size=(n, length, BITS))

        vectors = draw(count) if length == 1 else draw_of_role(draw, count, role)
        steps = tape_length(length, repeats)
        inputs = np.zeros((count, steps, BITS + 2), np.float32)
        inputs[:, :length, :BITS] = vectors
        inputs[:, length, DELIMITER] = 1
        inputs[:, length, REPEATS] = (repeats - REPEATS_MEAN) / REPEATS_STD
        bits = np.zeros((count, steps, BITS + 1), np.float32)
        bits[:, length + 1 : -1, :BITS] = np.tile(vectors, (1, repeats, 1))
        bits[:, -1, END] = 1
        return tape(inputs, bits, np.arange(steps) > length, steps)

    def _pair(self, size: Size) -> tuple[int, int]:
        if not isinstance(size, tuple) or len(size) != 2 or min(size) < 1:
            raise UserError(f"size {size!r} of {self.name} is not valid: (length, repeats), each at least 1")
        return size

    def heuristics(self) -> dict[str, Reference]:
        """Return perfect copies that cannot count."""
        return {"no-count": Reference("the right copies, an end at even odds after each", "none", _no_count)}


def _no_count(examples: Examples, rng: RandomState) -> Stored:
    """Certain inside a copy; after each, even odds for the end marker and for every bit that another copy would set."""
    inputs, answer = examples.inputs["inputs"], examples.targets["answer"]
    length = inputs[:, :, DELIMITER].argmax(1)  # (n,)
    since = np.arange(inputs.shape[1]) - length[:, None] - 1  # (n,T): 0 at the first answer
    place = since % length[:, None]
    bits = inputs[np.arange(len(examples))[:, None], place, :BITS]  # (n,T,6): the next vector, if there is one
    logits = certain(np.concatenate([bits, np.zeros((*answer.shape, 1), np.float32)], axis=2))
    boundary = (place == 0) & (since > 0)
    logits[boundary] = np.minimum(logits[boundary], 0)
    logits[boundary, END] = 0
    return store(logits, examples)
