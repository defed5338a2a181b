"""Suite ``babi-official``: the twenty tasks as released, read from the user's own copy (see ``release``)."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from numpy.random import RandomState

from harness.families.base import Examples
from harness.splits import Role, Size, Split
from harness.task import Reference, Regime
from tasks.babi import release
from tasks.babi.joint import EACH, NUMBERS, QA, JointTask, joint_splits
from tasks.babi.joint import Joint as GeneratedJoint
from tasks.babi.qa import TESTED, QaTask
from tasks.babi.references import references
from tasks.babi.suite import BabiTask
from tasks.babi.text import Story, questions

FOLDERS = ("en", "en-10k")
"""Regimes, and folders of the release: 1,000 and 10,000 questions for training, the same tests."""


def stories(number: int, split: str) -> list[Story]:
    """Return the stories of a task in a split: the last tenth of a training file, in whole stories, is validation."""
    if split == "test":
        folder = next((f for f in FOLDERS if release.missing([release.file_of(f, number, "test")]) is None), FOLDERS[0])
        return release.read(release.file_of(folder, number, "test"))
    role, _, folder = split.partition("-")
    path = release.file_of(folder, number, "train")
    found = release.read(path)
    kept, held_out = len(found), 0
    while held_out < release.FILES[path].validation:
        kept -= 1
        held_out += len(list(questions(found[kept])))
    return found[:kept] if role == "train" else found[kept:]


def missing(number: int, regime: str) -> str | None:
    """Return why a task cannot be read here, None if it can."""
    tests = [release.missing([release.file_of(folder, number, "test")]) for folder in FOLDERS]
    return release.missing([release.file_of(regime, number, "train")]) or (tests[0] if all(tests) else None)


def counts(number: int) -> dict[str, int]:
    """Return the questions of a task's training and validation splits."""
    made: dict[str, int] = {}
    for folder in FOLDERS:
        file = release.FILES[release.file_of(folder, number, "train")]
        made |= {f"train-{folder}": file.questions - file.validation, f"validation-{folder}": file.validation}
    return made


def longest(number: int) -> tuple[int, ...]:
    """Return the most statements before a question in each training file, then in the test; 0: not known."""
    paths = [*(release.file_of(folder, number, "train") for folder in FOLDERS), release.file_of("en", number, "test")]
    return tuple(release.FILES[path].longest for path in paths)


class Released(BabiTask):
    """A task whose data are files of the release."""

    sampled: ClassVar[tuple[str, ...] | None] = ()
    draws = ()
    """The board holds none of the release's text."""

    @property
    def fingerprint_path(self) -> Path:
        """A JSON of its own for every task of this module."""
        return Path(__file__).with_name("official.fingerprints") / f"{self.name.split('/')[1]}.json"

    def generate(self, rng: RandomState, size: Size, count: int, role: Role) -> Examples:
        """Nothing is generated here."""
        raise NotImplementedError(f"{self.name} is read from files")

    def longest_train(self, regime: str) -> int:
        """Return the most statements before a question in a regime's training files, counted where it is not known."""
        names = (self.regime(regime).train, self.regime(regime).validation)
        known = super().longest_train(regime)
        return known or max(int(self.load(name).inputs["story_length"].max()) for name in names)

    def references(self) -> dict[str, Reference]:
        """Majority, question only, the last five statements alone, and the whole story (99.8 % of task 5)."""
        return references(self, oracle="none")


class ReleasedQa(Released):
    """One of the twenty tasks as released; what it is about is told by ``babi/qa1`` to ``babi/qa20``."""

    number: ClassVar[int]
    counted: ClassVar[tuple[str, ...] | None] = FOLDERS[:1]
    regimes: ClassVar[Mapping[str, Regime]] = {
        name: Regime(f"train-{name}", f"validation-{name}", ("test",)) for name in FOLDERS
    }

    def missing(self, regime: str) -> str | None:
        """Return why the data of a regime are not here."""
        return missing(self.number, regime)

    def make(self, split: Split) -> Examples:
        """Return the questions of the split's stories."""
        return self.encoder.examples(stories(self.number, split.name))


def released(number: int) -> type[ReleasedQa]:
    """Return the class of a task of the release; words, answers and metrics are those of the generated task."""
    own: type[QaTask] = QA[number - 1]
    sizes = own().bounded("test").sizes
    made = []
    for name, count in counts(number).items():
        role: Role = "validation" if name.startswith("validation") else "train"
        made.append(Split(name, role, sizes, 0, count=count))
    made.append(Split("test", "test", sizes, 0, count=TESTED))
    summary = (inspect.getdoc(own) or "").split("\n")[0]
    doc = (
        f"{summary} Task {number} of release 1.2 of the bAbI tasks, read from your copy.\n\n"
        f"`babi/qa{number}` makes questions of the same kind and tells the rule. Regimes `en` and `en-10k` train on\n"
        "the release's 1,000 and 10,000 questions, of which the last tenth, in whole stories, is for validation; a\n"
        "list with commas is one candidate. The files are found where READHEAD_BABI says and checked by SHA-256.\n\n"
        "Source: Weston et al. 2015; data by Facebook AI Research, CC BY 3.0."
    )
    inherited = ("words", "answers", "metrics", "sentence_length", "question_length", "budgets")
    known = {name: getattr(own, name) for name in inherited}
    regime_budgets = {"en-10k": own.regime_budgets["10k"]}
    return type(
        f"Qa{number}",
        (ReleasedQa,),
        known
        | {"__doc__": doc, "__module__": __name__, "name": f"babi-official/qa{number}", "version": 1, "number": number}
        | {"splits": tuple(made), "longest": longest(number), "regime_budgets": regime_budgets},
    )


Qa1, Qa2, Qa3, Qa4, Qa5, Qa6, Qa7, Qa8, Qa9, Qa10 = (released(number) for number in NUMBERS[:10])
Qa11, Qa12, Qa13, Qa14, Qa15, Qa16, Qa17, Qa18, Qa19, Qa20 = (released(number) for number in NUMBERS[10:])


class Joint(Released, JointTask):
    """Answer the questions of all twenty tasks of release 1.2, without being told which task a question is of.

    As `babi/joint`, of the release's files: regimes `en` and `en-10k`, the last tenth of each training file, in whole
    stories, for validation. They are found where READHEAD_BABI says and checked by SHA-256.

    Source: Weston et al. 2015; data by Facebook AI Research, CC BY 3.0.
    """

    name = "babi-official/joint"
    version = 1
    regimes: ClassVar[Mapping[str, Regime]] = {
        name: Regime(f"train-{name}", f"validation-{name}", ("test", *EACH)) for name in FOLDERS
    }
    splits = joint_splits({name: sum(counts(number)[name] for number in NUMBERS) for name in counts(1)}, TESTED)
    regime_budgets: ClassVar[Mapping[str, Mapping[str, int]]] = {"en-10k": GeneratedJoint.regime_budgets["10k"]}
    longest = tuple(0 if 0 in own else max(own) for own in zip(*map(longest, NUMBERS), strict=True))

    def missing(self, regime: str) -> str | None:
        """Return why the data of a regime are not here."""
        return next((reason for number in NUMBERS if (reason := missing(number, regime))), None)

    def told(self, number: int, split: str) -> list[Story]:
        """Return the stories of one of the twenty tasks."""
        return stories(number, split)
