"""What a task declares: its data, its splits by regime, its metrics, its floor and ceiling."""

import hashlib
import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.random import RandomState

from harness import kept as kept_splits
from harness.errors import UserError, unknown
from harness.families.base import Examples, Family, Stored
from harness.metrics import Metric
from harness.splits import (
    AnySplit,
    Role,
    Size,
    Split,
    Stream,
    Variant,
    fingerprint,
    load_split,
    stream_sample,
    variant_sample,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Bound = Literal["exact", "expected", "none"]


@dataclass(frozen=True)
class Regime:
    """A training split, its validation split and its tests, by name; the first test has the regime's own sizes.

    ``also`` names further training splits, made of the same examples as ``train``: a recipe's phases may ask for them.
    """

    train: str
    validation: str
    tests: tuple[str, ...]
    also: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all its splits."""
        return (self.train, *self.also, self.validation, *self.tests)


@dataclass(frozen=True)
class Reference:
    """A predictor that needs no training and may see what a model may not.

    ``bound``: nothing may beat an ``exact`` one; ``expected`` is the value of a stated strategy; ``none`` claims
    nothing. ``predict(examples, rng) -> Stored``.
    """

    title: str
    bound: Bound
    predict: Callable[[Examples, RandomState], Stored]


class Task(ABC):
    """One task of the benchmark. A subclass is a file of its own; its docstring states the rule with worked examples.

    Class attributes: ``name`` (``suite/task``), ``version`` (raised when what a split holds changes), ``family``,
    ``regimes``, ``splits``, ``metrics`` (headline first), ``budgets`` (training examples by budget name), ``size_name``
    (what size counts, for axes: "source length (symbols)").
    """

    name: ClassVar[str]
    version: ClassVar[int]
    family: ClassVar[Family]
    splits: ClassVar[tuple[AnySplit, ...]]
    regimes: ClassVar[Mapping[str, Regime]]
    metrics: ClassVar[tuple[Metric, ...]]
    plotted: ClassVar[tuple[str, ...]]
    """Metrics drawn against size, headline first."""
    budgets: ClassVar[Mapping[str, int]]
    regime_budgets: ClassVar[Mapping[str, Mapping[str, int]]] = {}
    """By regime, the budgets that are not those of ``budgets``."""
    size_name: ClassVar[str]
    sizes_ordered: ClassVar[bool] = True
    """Whether sizes grow; where they only number kinds of examples, no score is drawn against them."""

    changes: ClassVar[Mapping[int, str]] = {}
    """What each version after the first changed."""

    floor: ClassVar[str] = "random"
    ceiling: ClassVar[str] = "oracle"
    """The references that count as 0 and as 1 in the score of the suite."""

    learnt: ClassVar[float | None] = None
    """From which headline on validation the task counts as learnt, where the headline has no ``solved``."""

    sampled: ClassVar[tuple[str, ...] | None] = None
    """The regimes that ``readhead check`` tries: all where None; none where other tasks of the suite stand for this."""

    def missing(self, regime: str) -> str | None:
        """Return why a regime's data are not on this machine and how to get them; None where they are, or are made."""
        return None

    @abstractmethod
    def spec(self, regime: str) -> Any:
        """Return the family's ``Spec`` for a regime."""

    @abstractmethod
    def generate(self, rng: RandomState, size: Size, count: int, role: Role) -> Examples:
        """Return ``count`` examples of ``size`` for a split of ``role``; all randomness comes from ``rng``."""

    def vary(self, split: str, examples: Examples, rng: RandomState) -> Examples:
        """Return ``examples`` as the variant ``split`` draws them; the caller's arrays stay as they are."""
        raise NotImplementedError(f"{self.name} does not say how {split} varies its examples")

    @abstractmethod
    def references(self) -> dict[str, Reference]:
        """Return the floor and ceiling predictors by row name."""

    @abstractmethod
    def render(self, examples: Examples, row: int, stored: Stored | None = None) -> str:
        """Return one example (and, if given, the prediction in row ``row`` of ``stored``) as readable text."""

    def labelled(self, split: Split, examples: Examples) -> Examples:
        """Return the ``examples`` of a bounded split with targets that are committed because they cost too much.

        As they are, where ``generate`` makes the final targets.
        """
        return examples

    def prove(self, split: Split, rows: Sequence[int]) -> Iterator[str]:
        """Prove the committed targets of some rows of a split again; yield what is wrong, a line each."""
        return iter(())

    committed: ClassVar[bool] = False
    """Whether targets of bounded splits are committed, and can be proven again."""

    def read(self, path: Path) -> Examples:
        """Return the examples of a file in the format that the task's data was released in."""
        raise UserError(f"{self.name} has no text format to read")

    def export(self, split: str) -> str:
        """Return a bounded split as text, in the format in which others exchange this task's data."""
        raise UserError(f"{self.name} has no text format to export its splits in")

    counted: ClassVar[tuple[str, ...] | None] = None
    """The regimes that count for the suite's score; None: all of them."""

    breakdown: ClassVar[tuple[str, ...]] = ()
    """Metrics of kinds of examples, in one unit, that a figure shows side by side; none where there are no kinds."""

    draws_answers: ClassVar[bool] = False
    """Whether ``draw_answers`` is defined."""

    def draw_answers(self, axis: "Axes", examples: Examples, row: int, answers: Mapping[str, Stored]) -> None:
        """Draw one example and what each row of the board answered: its predictions for ``examples`` by its name."""
        raise NotImplementedError(f"{self.name} does not draw answers")

    draws: ClassVar[tuple[str, ...]] = ()
    """What an explanation must hold for ``draw``; nothing where the task draws none."""

    def explained(self, regime: str) -> list[tuple[str, int]]:
        """Return the test examples, by split and row, on which models show themselves.

        Here the first of the middle and of the largest size of the first test (its first two, where all have one size),
        and the first of the next harder test.
        """
        first, *others = self.regime(regime).tests
        held = self.load(first).sizes
        sizes = np.unique(held)
        middle, largest = (int(np.argmax(held == size)) for size in (sizes[len(sizes) // 2], sizes[-1]))
        chosen = [(first, middle), (first, largest if largest != middle else middle + 1)]
        harder = [name for name in others if self.load(name).sizes.max() > sizes[-1]]
        return chosen + [(name, 0) for name in harder[:1]]

    def draw(self, axis: "Axes", examples: Examples, row: int, explanation: Stored) -> None:
        """Draw on ``axis`` what a model showed of itself on one example: prediction and ``explain``, no batch axis."""
        raise NotImplementedError(f"{self.name} does not draw explanations")

    @property
    def data_name(self) -> str:
        """What seeds its examples: its name, or one that it shares with tasks that show the same in another form."""
        return self.name

    @property
    def suite(self) -> str:
        """The part of the name before the slash."""
        return self.name.split("/")[0]

    @property
    def headline(self) -> Metric:
        """The metric that ranks, selects and stops."""
        return self.metrics[0]

    @property
    def threshold(self) -> float | None:
        """The headline to which the examples are counted that a row needs; None where the task names none."""
        return self.learnt if self.headline.solved is None else self.headline.solved

    def metric(self, name: str) -> Metric:
        """Return a metric by name; a ``UserError`` lists the valid ones."""
        found = {metric.name: metric for metric in self.metrics}
        if name not in found:
            raise unknown(f"metric of {self.name}", name, found)
        return found[name]

    def regime(self, name: str) -> Regime:
        """Return a regime by name; a ``UserError`` lists the valid ones."""
        if name not in self.regimes:
            raise unknown(f"regime of {self.name}", name, self.regimes)
        return self.regimes[name]

    def budget(self, name: str, regime: str = "") -> int:
        """Return the training examples of a budget (in a regime, if named); a ``UserError`` lists the valid ones."""
        if name not in self.budgets:
            raise unknown(f"budget of {self.name}", name, self.budgets)
        return self.regime_budgets.get(regime, {}).get(name, self.budgets[name])

    def split(self, name: str) -> AnySplit:
        """Return a split by name; a ``UserError`` lists the valid ones."""
        found = {split.name: split for split in self.splits}
        if name not in found:
            raise unknown(f"split of {self.name}", name, found)
        return found[name]

    def bounded(self, name: str) -> Split:
        """Return the bounded split ``name``."""
        split = self.split(name)
        if not isinstance(split, Split):
            kind = "a training stream and has no end" if isinstance(split, Stream) else f"a variant of {split.of}"
            raise UserError(f"split {name} of {self.name} is {kind}")
        return split

    def make(self, split: Split) -> Examples:
        """Return the examples of a bounded split; overridden where they are not made size by size."""
        return load_split(self, split)

    @cached_property
    def _loaded(self) -> dict[str, Examples]:
        return {}

    def load(self, name: str) -> Examples:
        """Return a bounded split, or the fingerprinted sample of a stream or variant, checked against its pin."""
        if name not in self._loaded:
            pinned = self.pinned["splits"].get(name)
            examples = kept_splits.read_kept(pinned) if pinned is not None else None
            if examples is None or fingerprint(examples) != pinned:
                examples = self._made(self.split(name), pinned)
            self._loaded[name] = examples
        return self._loaded[name]

    def _made(self, split: AnySplit, pinned: str | None) -> Examples:
        """Return a split made anew, checked against its pinned fingerprint if it has one."""
        start = time.perf_counter()
        examples = self._sample(split) if isinstance(split, Stream | Variant) else self.make(split)
        try:
            self.family.check_examples(examples)
        except UserError as error:
            raise UserError(f"split {split.name} of {self.name}: {error}") from error
        seconds = time.perf_counter() - start
        found = fingerprint(examples)
        if pinned is not None and pinned != found:
            raise UserError(
                f"split {split.name} of {self.name} version {self.version} has fingerprint {found[:16]}, not the "
                f"pinned {pinned[:16]}: its data changed. Undo the change, or raise the task's version and run "
                f"`readhead fingerprint {self.name}`"
            )
        if pinned is not None and seconds > kept_splits.KEEP_SECONDS:
            kept_splits.keep(examples, pinned)
        return examples

    def _sample(self, split: Stream | Variant) -> Examples:
        return stream_sample(self, split) if isinstance(split, Stream) else variant_sample(self, split)

    @property
    def fingerprint_path(self) -> Path:
        """The JSON beside the task's module that pins its fingerprints."""
        module = sys.modules[type(self).__module__]
        return Path(str(module.__file__)).with_suffix(".fingerprints.json")

    @cached_property
    def pinned(self) -> dict[str, Any]:
        """The pinned fingerprints and overlap rates of this version; empty where none are pinned."""
        if self.fingerprint_path.exists():
            pinned = json.loads(self.fingerprint_path.read_text())
            if pinned["task"] == self.name and pinned["version"] == self.version:
                return pinned
        return {"task": self.name, "version": self.version, "splits": {}, "overlap": {}}

    def fingerprints(self, regime: str) -> dict[str, str]:
        """Return the fingerprint of every split of a regime, generating those that are not pinned."""
        pinned = self.pinned["splits"]
        return {name: pinned.get(name) or fingerprint(self.load(name)) for name in self.regime(regime).names}

    def score(self, stored: Stored, examples: Examples) -> dict[str, float]:
        """Return every metric over ``examples``."""
        return {metric.name: metric.score(metric.statistics(stored, examples)) for metric in self.metrics}


def combined_fingerprint(task: Task, regime: str) -> str:
    """Return one hash over the fingerprints of all splits of a regime."""
    lines = "\n".join(f"{name} {value}" for name, value in sorted(task.fingerprints(regime).items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:32]
