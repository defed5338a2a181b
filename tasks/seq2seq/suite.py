"""What the tasks of the suite share: metrics, references, and the symbol strings of ``copy`` and ``reverse``."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.random import RandomState

from harness.families.base import Examples, Family, Stored
from harness.families.transduction import BOS, EOS, FIRST_SYMBOL, PAD, TRANSDUCTION, UNKNOWN, Spec
from harness.metrics import Metric
from harness.metrics.transduction import SEQUENCE_METRICS
from harness.splits import Role, Size, Split, Stream, draw_of_role
from harness.task import Reference, Regime, Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SYMBOLS = 50
TRAIN_LENGTHS = tuple(range(1, 21))
LADDER = (*range(21, 41), 50, 60)


class SequenceTask(Task):
    """A transduction task with the suite's metrics: chance at the right length below, the right answer above."""

    family: ClassVar[Family] = TRANSDUCTION
    metrics: ClassVar[tuple[Metric, ...]] = SEQUENCE_METRICS
    plotted: ClassVar[tuple[str, ...]] = ("exact_match", "bleu")
    learnt: ClassVar[float | None] = 0.9

    @abstractmethod
    def source_word(self, token: int) -> str:
        """Return a source symbol as text."""

    @abstractmethod
    def target_word(self, token: int) -> str:
        """Return a target symbol as text."""

    def references(self) -> dict[str, Reference]:
        """Chance at the right length, and the answer itself."""
        vocabulary = self.spec(next(iter(self.regimes))).target_vocabulary

        def chance(examples: Examples, rng: RandomState) -> Stored:
            target = examples.targets["target"]
            return stored(rng.randint(FIRST_SYMBOL, vocabulary, size=target.shape), target)

        return {
            "random": Reference("random symbols, right length", "expected", chance),
            "oracle": Reference("the right answer", "exact", _oracle),
        }

    draws: ClassVar[tuple[str, ...]] = ("tokens", "attention")

    def draw(self, axis: "Axes", examples: Examples, row: int, explanation: Stored) -> None:
        """Draw the alignment: a line an answered word, a column a source word, darker for more attention."""
        source = [self.source_word(int(token)) for token in examples.inputs["source"][row] if token != PAD]
        answer = text(explanation["tokens"].astype(np.int64), self.target_word).split()
        axis.imshow(explanation["attention"].astype(np.float32), cmap="Blues", vmin=0, vmax=1, aspect="auto")
        size = max(3.5, min(7.0, 130 / len(source)))
        axis.set_xticks(range(len(source)), source, rotation=90, fontsize=size)
        axis.set_yticks(range(len(answer)), answer, fontsize=size)
        axis.set_xlabel("source")
        axis.set_ylabel("answer")

    def render(self, examples: Examples, row: int, stored: Stored | None = None) -> str:
        """Show source, target and answer as words."""
        lines = [
            f"source  {text(examples.inputs['source'][row], self.source_word)}",
            f"target  {text(examples.targets['target'][row], self.target_word)}",
        ]
        answer = [] if stored is None else [f"answer  {text(stored['tokens'][row], self.target_word)}"]
        return "\n".join([*lines, *answer])


class SymbolTask(SequenceTask):
    """Strings of 50 symbols, drawn independently and evenly, and a rule that makes the answer from the source.

    Training lengths 1–20, each equally likely. Tests: 50 sequences of each length 1–20, then a ladder of 100 sequences
    of each length 21–40, 50 and 60. Sources of two and more symbols are partitioned by a hash between train, validation
    and test; the 50 sources of one symbol occur in all of them.
    """

    splits: ClassVar[tuple[Split | Stream, ...]] = (
        Stream("train", TRAIN_LENGTHS),
        Split("validation", "validation", TRAIN_LENGTHS, 20),
        Split("test", "test", TRAIN_LENGTHS, 50),
        *(Split(f"test-{length}", "test", (length,), 100, ladder=length) for length in LADDER),
    )
    regimes: ClassVar[Mapping[str, Regime]] = {
        "default": Regime("train", "validation", ("test", *(f"test-{length}" for length in LADDER)))
    }
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 2_048, "demo": 65_536, "standard": 262_144, "paper": 2_097_152}
    size_name = "source length (symbols)"

    @abstractmethod
    def answer(self, source: np.ndarray) -> np.ndarray:
        """Return the answers ``(n,T)``, without EOS, to sources ``(n,S)`` of one length."""

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
        """Draw ``count`` sources of ``size`` symbols of the split's role."""
        assert isinstance(size, int)

        def draw(n: int) -> np.ndarray:
            return rng.randint(FIRST_SYMBOL, FIRST_SYMBOL + SYMBOLS, size=(n, size))

        source = (draw(count) if size == 1 else draw_of_role(draw, count, role)).astype(np.int64)
        answer = self.answer(source)
        return Examples(
            inputs={"source": source, "source_length": np.full(count, size)},
            targets={"target": np.concatenate([answer, np.full((count, 1), EOS)], axis=1)},
            sizes=np.full(count, size),
        )

    def source_word(self, token: int) -> str:
        """Return the symbol's number, from 0."""
        return str(token - FIRST_SYMBOL)

    def target_word(self, token: int) -> str:
        """Return the symbol's number, from 0."""
        return str(token - FIRST_SYMBOL)

    def references(self) -> dict[str, Reference]:
        """Add a source's last symbol, repeated."""
        return super().references() | {
            "copy-last-symbol": Reference("the last symbol, repeated", "none", _copy_last),
        }


def text(tokens: np.ndarray, word: Callable[[int], str]) -> str:
    """Return tokens as words, pads left out."""
    special = {BOS: "BOS", EOS: "EOS", UNKNOWN: "UNK"}
    return " ".join(special.get(int(token)) or word(int(token)) for token in tokens if token != PAD)


def stored(body: np.ndarray, target: np.ndarray) -> Stored:
    """Store ``body (n,T)`` where the target has symbols, and the target's EOS and pads elsewhere."""
    tokens = np.where(target > EOS, body, target)
    return {"tokens": tokens.astype(np.uint8 if tokens.max() < 256 else np.uint16)}


def _copy_last(examples: Examples, rng: RandomState) -> Stored:
    last = np.take_along_axis(examples.inputs["source"], examples.inputs["source_length"][:, None] - 1, axis=1)
    target = examples.targets["target"]
    return stored(np.broadcast_to(last, target.shape), target)


def _oracle(examples: Examples, rng: RandomState) -> Stored:
    return stored(examples.targets["target"], examples.targets["target"])
