"""``ntm/copy``: write back a sequence of random bit vectors."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.random import RandomState

from harness.families.base import Examples, Stored
from harness.families.tape import Spec
from harness.metrics import Metric
from harness.metrics.tape import tape_metrics
from harness.splits import Role, Size, Split, Stream, draw_of_role
from harness.task import Reference, Regime
from tasks.ntm.suite import TapeTask, certain, store, tape

BITS = 8
TRAIN_LENGTHS = tuple(range(1, 21))
LADDER = {10: 50, 20: 50, 30: 50, 50: 50, 120: 20}
"""Sequences a length beyond the test split; fewer at 120, where each holds 960 bits."""


class Copy(TapeTask):
    """Read bit vectors, then a delimiter, then write the vectors back while the input is silent.

    Example with 3 bits, length 2 (channels: bits, delimiter; one column a step, ``.`` is 0)::

        input   1 . . . .        target  . . . 1 .
                . 1 . . .                . . . . 1
                1 1 . . .                . . . 1 1
        delim   . . 1 . .        answer  . . . x x

    Length 1, vector 101: steps ``101|0``, ``000|1``, ``000|0``; at the third the answer is 101. Eight bits, independent
    and fair; training lengths 1–20 evenly; tests 25 sequences of each length 1–20, and a ladder 10, 20, 30, 50, 120.
    Sequences of two and more vectors are partitioned by a hash; the 256 of one vector occur in all splits.

    Source: Graves et al. 2014, §4.1. Cost is cross-entropy in base 2, summed over a sequence; guessing costs 8 bits a
    vector, 84 on average over the training lengths.
    """

    name = "ntm/copy"
    version = 1
    splits: ClassVar[tuple[Split | Stream, ...]] = (
        Stream("train", TRAIN_LENGTHS),
        Split("validation", "validation", TRAIN_LENGTHS, 10),
        Split("test", "test", TRAIN_LENGTHS, 25),
        *(Split(f"test-{length}", "test", (length,), count, ladder=length) for length, count in LADDER.items()),
    )
    regimes: ClassVar[Mapping[str, Regime]] = {
        "default": Regime("train", "validation", ("test", *(f"test-{length}" for length in LADDER)))
    }
    metrics: ClassVar[tuple[Metric, ...]] = tape_metrics(solved=0.1)
    plotted: ClassVar[tuple[str, ...]] = ("bits", "wrong_bits")
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 1_024, "demo": 16_384, "standard": 131_072, "paper": 1_048_576}
    size_name = "sequence length (vectors)"

    def spec(self, regime: str) -> Spec:
        """Eight bits and a delimiter channel in, eight bits out."""
        return Spec(
            max_train_size=TRAIN_LENGTHS[-1], max_test_size=max(LADDER), input_channels=BITS + 1, output_bits=BITS
        )

    def generate(self, rng: RandomState, size: Size, count: int, role: Role) -> Examples:
        """Draw ``count`` sequences of ``size`` vectors; a tape has ``2·size + 1`` steps."""
        length = self.natural(size)

        def draw(n: int) -> np.ndarray:
            return rng.randint(0, 2, size=(n, length, BITS))

        vectors = draw(count) if length == 1 else draw_of_role(draw, count, role)
        steps = 2 * length + 1
        inputs = np.zeros((count, steps, BITS + 1), np.float32)
        inputs[:, :length, :BITS] = vectors
        inputs[:, length, BITS] = 1
        bits = np.zeros((count, steps, BITS), np.float32)
        bits[:, length + 1 :] = vectors
        return tape(inputs, bits, np.arange(steps) > length, length)

    def heuristics(self) -> dict[str, Reference]:
        """Return the last vector repeated with its best constant confidence."""
        return {"copy-last-symbol": Reference("the last vector, repeated", "none", _copy_last)}


def _copy_last(examples: Examples, rng: RandomState) -> Stored:
    """Certain of the last vector at its own place; an even guess at the others."""
    rows, steps = np.arange(len(examples)), examples.targets["answer"].sum(1)
    logits = np.zeros(examples.targets["bits"].shape, np.float32)
    logits[rows, examples.inputs["length"] - 1] = certain(examples.inputs["inputs"][rows, steps - 1, :BITS])
    return store(logits, examples)
