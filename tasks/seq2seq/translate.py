"""``seq2seq/translate``: from a language with the verb in the middle into one with the verb last."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.random import RandomState

from harness.families.base import Examples
from harness.families.transduction import FIRST_SYMBOL, PAD, Spec
from harness.splits import Role, Size, Split, Stream, partition
from harness.task import Regime
from tasks.seq2seq.grammar import Structure, fill
from tasks.seq2seq.lexicon import SOURCE_WORDS, TARGET_WORDS
from tasks.seq2seq.suite import SequenceTask

SHORTEST, LONGEST, BIN = 3, 60, 5
REGIMES = {"15": 15, "30": 30}
BINS = tuple(range(BIN, LONGEST + 1, BIN))


class Translate(SequenceTask):
    """Translate sentences of a small artificial language (173 words) into another (232 words), each in one right way.

    Examples::

        the old dog not see a house     -> dogo old2o uno houseo note seear pas hao EOS
        every king will see the queen   -> cada kingo queena om see2ar vado EOS
        the dog that a cat see run      -> dogo quo una cata see2ar haa fin runir hao EOS

    ``lexicon`` and ``grammar`` state the languages. A sentence grows by joining clauses and by that-clauses. Regimes 15
    and 30 train on sentences of 3 to so many words, each length equally likely; both are tested in bins of five to 60.
    Sentences are partitioned by a hash between train, validation and test. An artificial stand-in for the translation
    tasks of Sutskever et al. 2014 and Bahdanau et al. 2015, whose figures plot BLEU against sentence length.
    """

    name = "seq2seq/translate"
    version = 1
    splits: ClassVar[tuple[Split | Stream, ...]] = (
        *(Stream(f"train-{name}", tuple(range(SHORTEST, longest + 1))) for name, longest in REGIMES.items()),
        Split("validation-15", "validation", tuple(range(SHORTEST, 16)), 24),
        Split("validation-30", "validation", tuple(range(SHORTEST, 31)), 12),
        Split("test-to-15", "test", tuple(range(SHORTEST, 16)), 40),
        Split("test-to-30", "test", tuple(range(SHORTEST, 31)), 30),
        *(Split(f"test-{b}", "test", tuple(range(max(b - BIN + 1, SHORTEST), b + 1)), 20, ladder=b) for b in BINS),
    )
    regimes: ClassVar[Mapping[str, Regime]] = {
        name: Regime(f"train-{name}", f"validation-{name}", (f"test-to-{name}", *(f"test-{b}" for b in BINS)))
        for name in REGIMES
    }
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 2_048, "demo": 65_536, "standard": 262_144, "paper": 4_194_304}
    size_name = "source length (words, in bins of 5)"

    def spec(self, regime: str) -> Spec:
        """Translations are at most 1.8 times as long as their source; answers may be twice as long, plus five."""
        return Spec(
            max_train_size=REGIMES[regime],
            max_test_size=LONGEST,
            source_vocabulary=FIRST_SYMBOL + len(SOURCE_WORDS),
            target_vocabulary=FIRST_SYMBOL + len(TARGET_WORDS),
            output_slope=2.0,
            output_offset=5,
        )

    def generate(self, rng: RandomState, size: Size, count: int, role: Role) -> Examples:
        """Draw ``count`` sentences of ``size`` words; an example's numeric size is its bin, the next multiple of 5.

        In training eight sentences share a structure, so that drawing it costs little; in other splits none do.
        """
        assert isinstance(size, int)
        copies, kept = (10, 8) if role == "train" else (32, 1)
        sources, targets = [], []
        missing = count
        while missing > 0:
            structures = [Structure(rng, size) for _ in range(-(-missing // kept))]
            source, target = fill(structures, copies, rng)  # (copies,n,·)
            right = partition(source.reshape(-1, size)).reshape(copies, -1) == role
            chosen = right & (right.cumsum(0) <= kept)  # copy by copy: neighbours differ in structure
            sources.append(source[chosen][:missing])
            targets.append(target[chosen][:missing])
            missing -= len(sources[-1])
        width = max(target.shape[1] for target in targets)
        padded = [np.pad(t, ((0, 0), (0, width - t.shape[1])), constant_values=PAD) for t in targets]
        return Examples(
            inputs={"source": np.concatenate(sources), "source_length": np.full(count, size)},
            targets={"target": np.concatenate(padded)},
            sizes=np.full(count, -(-size // BIN) * BIN),
        )

    def source_word(self, token: int) -> str:
        """Return the source word."""
        return SOURCE_WORDS[token - FIRST_SYMBOL]

    def target_word(self, token: int) -> str:
        """Return the target word."""
        return TARGET_WORDS[token - FIRST_SYMBOL]
