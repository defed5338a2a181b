"""``seq2seq/copy``: repeat the source."""

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

SYMBOLS = 50
TRAIN_LENGTHS = tuple(range(1, 21))
LADDER = (*range(21, 41), 50, 60)


class Copy(Task):
    """Repeat a sequence of symbols, then stop.

    Examples (symbols shown as numbers)::

        7 3 3 41      -> 7 3 3 41 EOS
        12            -> 12 EOS

    50 symbols, drawn independently and evenly; training lengths 1–20, each equally likely. Tests: 50 sequences of each
    length 1–20, then a ladder of 100 sequences of each length 21–40, 50 and 60. Sources of two and more symbols are
    partitioned by a hash between train, validation and test; the 50 sources of one symbol occur in all of them.

    Source: the copying task of Grefenstette et al. 2015 ("Learning to Transduce with Unbounded Memory": 128 symbols,
    train 8–64, test 65–128), at a length where a laptop sees both success and failure.
    """

    name = "seq2seq/copy"
    version = 1
    family: ClassVar[Family] = TRANSDUCTION
    splits: ClassVar[tuple[Split | Stream, ...]] = (
        Stream("train", TRAIN_LENGTHS),
        Split("validation", "validation", TRAIN_LENGTHS, 20),
        Split("test", "test", TRAIN_LENGTHS, 50),
        *(Split(f"test-{length}", "test", (length,), 100, ladder=length) for length in LADDER),
    )
    regimes: ClassVar[Mapping[str, Regime]] = {
        "default": Regime("train", "validation", ("test", *(f"test-{length}" for length in LADDER)))
    }
    metrics: ClassVar[tuple[Metric, ...]] = SEQUENCE_METRICS
    plotted: ClassVar[tuple[str, ...]] = ("exact_match", "bleu")
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 2_048, "demo": 65_536, "standard": 262_144, "paper": 2_097_152}
    size_name = "source length (symbols)"

    def spec(self, regime: str) -> Spec:
        """Answers may be up to one and a half times the source, plus five tokens."""
        return Spec(
            max_train_size=TRAIN_LENGTHS[-1],
            max_test_size=LADDER[-1],
            source_vocabulary=FIRST_SYMBOL + SYMBOLS,
            target_vocabulary=FIRST_SYMBOL + SYMBOLS,
            output_slope=1.5,
            output_offset=5,
        )

    def generate(self, rng: RandomState, size: Size, count: int, role: Role) -> Examples:
        """Draw ``count`` sources of ``size`` symbols; the target is the source and EOS."""
        assert isinstance(size, int)

        def draw(n: int) -> np.ndarray:
            return rng.randint(FIRST_SYMBOL, FIRST_SYMBOL + SYMBOLS, size=(n, size))

        source = draw(count) if size == 1 else draw_of_role(draw, count, role)
        source = source.astype(np.int64)
        target = np.concatenate([source, np.full((count, 1), EOS)], axis=1)
        return Examples(
            inputs={"source": source, "source_length": np.full(count, size)},
            targets={"target": target},
            sizes=np.full(count, size),
        )

    def references(self) -> dict[str, Reference]:
        """Chance at the right length, a copied last symbol, and the answer itself."""
        return {
            "random": Reference("random symbols, right length", "expected", _random),
            "copy-last-symbol": Reference("the last symbol, repeated", "none", _copy_last),
            "oracle": Reference("the right answer", "exact", _oracle),
        }

    def render(self, examples: Examples, row: int, stored: Stored | None = None) -> str:
        """Show source, target and answer as symbol numbers from 0."""
        lines = [
            f"source  {_text(examples.inputs['source'][row])}",
            f"target  {_text(examples.targets['target'][row])}",
        ]
        if stored is not None:
            lines.append(f"answer  {_text(stored['tokens'][row])}")
        return "\n".join(lines)


def _text(tokens: np.ndarray) -> str:
    special = {EOS: "EOS", 1: "BOS", 3: "UNK"}
    return " ".join(special.get(int(t), str(int(t) - FIRST_SYMBOL)) for t in tokens if t != PAD)


def _tokens(body: np.ndarray, target: np.ndarray) -> Stored:
    """Store ``body (n,T)`` where the target has symbols, and its EOS."""
    return {"tokens": np.where(target > EOS, body, target).astype(np.uint8)}


def _random(examples: Examples, rng: RandomState) -> Stored:
    target = examples.targets["target"]
    return _tokens(rng.randint(FIRST_SYMBOL, FIRST_SYMBOL + SYMBOLS, size=target.shape), target)


def _copy_last(examples: Examples, rng: RandomState) -> Stored:
    last = np.take_along_axis(examples.inputs["source"], examples.inputs["source_length"][:, None] - 1, axis=1)
    target = examples.targets["target"]
    return _tokens(np.broadcast_to(last, target.shape), target)


def _oracle(examples: Examples, rng: RandomState) -> Stored:
    return {"tokens": examples.targets["target"].astype(np.uint8)}
