"""``arithmetic/addition``: read two numbers, write their sum."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.random import RandomState

from harness.families.base import Examples, Family, Stored
from harness.families.transduction import EOS, FIRST_SYMBOL, PAD, TRANSDUCTION, Spec
from harness.metrics import Metric
from harness.metrics.transduction import SEQUENCE_METRICS
from harness.splits import Role, Size, Split, Stream, draw_of_role
from harness.task import Reference, Regime, Task

DIGITS = 10
PLUS = FIRST_SYMBOL + DIGITS
TRAIN_DIGITS = tuple(range(2, 9))
LADDER = (9, 10, 12)


class Addition(Task):
    """Two numbers of n digits each, written in decimal, and their sum.

    Examples::

        4 7 + 1 2         -> 5 9 EOS
        9 9 9 + 9 0 1     -> 1 9 0 0 EOS

    Digits are even and independent, but for first ones, which are not 0. Training sizes 2–8 digits, each equally
    likely; tests on them and on 9, 10 and 12. Pairs of numbers are partitioned by a hash between the splits.

    Source: addition is the first program of Zaremba, Sutskever 2014 ("Learning to Execute", §4).
    """

    name = "arithmetic/addition"
    version = 1
    family: ClassVar[Family] = TRANSDUCTION
    splits: ClassVar[tuple[Split | Stream, ...]] = (
        Stream("train", TRAIN_DIGITS),
        Split("validation", "validation", TRAIN_DIGITS, 30),
        Split("test", "test", TRAIN_DIGITS, 100),
        *(Split(f"test-{digits}", "test", (digits,), 100, ladder=digits) for digits in LADDER),
    )
    regimes: ClassVar[Mapping[str, Regime]] = {
        "default": Regime("train", "validation", ("test", *(f"test-{digits}" for digits in LADDER)))
    }
    metrics: ClassVar[tuple[Metric, ...]] = SEQUENCE_METRICS
    plotted: ClassVar[tuple[str, ...]] = ("exact_match", "token_accuracy")
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 2_048, "demo": 65_536, "standard": 262_144, "paper": 2_097_152}
    size_name = "digits of each number"

    def spec(self, regime: str) -> Spec:
        """Ten digits and a plus sign; an answer has at most as many symbols as the source, and three more."""
        return Spec(
            max_train_size=TRAIN_DIGITS[-1],
            max_test_size=LADDER[-1],
            source_vocabulary=PLUS + 1,
            target_vocabulary=FIRST_SYMBOL + DIGITS,
            output_slope=1.0,
            output_offset=3,
        )

    def generate(self, rng: RandomState, size: Size, count: int, role: Role) -> Examples:
        """Draw ``count`` pairs of numbers of ``size`` digits of the split's role."""
        assert isinstance(size, int)

        def draw(n: int) -> np.ndarray:
            digits = rng.randint(0, 10, size=(n, 2, size))
            digits[:, :, 0] = rng.randint(1, 10, size=(n, 2))
            return digits

        digits = draw_of_role(draw, count, role).astype(np.int64)  # (n,2,size)
        numbers = digits @ (10 ** np.arange(size)[::-1])  # (n,2)
        places = 10 ** np.arange(size + 1)[::-1]
        answer = numbers.sum(1)[:, None] // places % 10  # (n, size + 1)
        plus = np.full((count, 1), PLUS)
        target = np.concatenate([answer + FIRST_SYMBOL, np.full((count, 1), EOS)], axis=1)
        short = answer[:, 0] == 0  # no carry into a new place: the leading 0 is not written
        target[short] = np.concatenate([target[short, 1:], np.full((int(short.sum()), 1), PAD)], axis=1)
        return Examples(
            inputs={
                "source": np.concatenate([digits[:, 0] + FIRST_SYMBOL, plus, digits[:, 1] + FIRST_SYMBOL], axis=1),
                "source_length": np.full(count, 2 * size + 1),
            },
            targets={"target": target},
            sizes=np.full(count, size),
        )

    def references(self) -> dict[str, Reference]:
        """Random digits at the right length, and the sum itself."""
        return {
            "random": Reference("random digits, right length", "expected", _random),
            "oracle": Reference("the sum", "exact", _sum),
        }

    def render(self, examples: Examples, row: int, stored: Stored | None = None) -> str:
        """Show the sum as one would write it."""
        shown = f"{_text(examples.inputs['source'][row])} = {_text(examples.targets['target'][row])}"
        return shown if stored is None else f"{shown}, answered {_text(stored['tokens'][row])}"


def _text(tokens: np.ndarray) -> str:
    return "".join("+" if token == PLUS else str(token - FIRST_SYMBOL) for token in tokens if token >= FIRST_SYMBOL)


def _random(examples: Examples, rng: RandomState) -> Stored:
    target = examples.targets["target"]
    drawn = rng.randint(FIRST_SYMBOL, FIRST_SYMBOL + DIGITS, size=target.shape)
    return {"tokens": np.where(target >= FIRST_SYMBOL, drawn, target).astype(np.uint8)}


def _sum(examples: Examples, rng: RandomState) -> Stored:
    return {"tokens": examples.targets["target"].astype(np.uint8)}
