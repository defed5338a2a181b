"""``babi/joint``: all twenty tasks at once, by one model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from numpy.random import RandomState

from harness.families.base import Examples
from harness.metrics import Metric
from harness.metrics.story import SOLVED, failed_tasks, story_metrics
from harness.splits import Role, Size, Split
from harness.task import Reference, Regime
from tasks.babi.qa import QUESTIONS, TESTED, QaTask
from tasks.babi.qa1 import Qa1
from tasks.babi.qa2 import Qa2
from tasks.babi.qa3 import Qa3
from tasks.babi.qa4 import Qa4
from tasks.babi.qa5 import Qa5
from tasks.babi.qa6 import Qa6
from tasks.babi.qa7 import Qa7
from tasks.babi.qa8 import Qa8
from tasks.babi.qa9 import Qa9
from tasks.babi.qa10 import Qa10
from tasks.babi.qa11 import Qa11
from tasks.babi.qa12 import Qa12
from tasks.babi.qa13 import Qa13
from tasks.babi.qa14 import Qa14
from tasks.babi.qa15 import Qa15
from tasks.babi.qa16 import Qa16
from tasks.babi.qa17 import Qa17
from tasks.babi.qa18 import Qa18
from tasks.babi.qa19 import Qa19
from tasks.babi.qa20 import Qa20
from tasks.babi.references import references
from tasks.babi.suite import BabiTask
from tasks.babi.text import Story

QA: tuple[type[QaTask], ...] = (
    *(Qa1, Qa2, Qa3, Qa4, Qa5, Qa6, Qa7, Qa8, Qa9, Qa10),
    *(Qa11, Qa12, Qa13, Qa14, Qa15, Qa16, Qa17, Qa18, Qa19, Qa20),
)
"""The twenty tasks in order."""
NUMBERS = tuple(range(1, len(QA) + 1))
WORDS = tuple(sorted({word for task in QA for word in task.words}))
ANSWERS = tuple(dict.fromkeys(answer for task in QA for answer in task.answers))

EACH = {f"test-qa{number}": number for number in NUMBERS}
"""The tests of a joint task that hold one task each, after the one of all."""


def joint_metrics() -> tuple[Metric, ...]:
    """Return the metrics: a mean over all tasks solves nothing, so the tasks that fail are counted beside it."""
    error, *others = story_metrics(ANSWERS)
    return (replace(error, solved=None), failed_tasks(len(QA)), *others)


def joint_splits(sizes: Mapping[str, int], tested: int) -> tuple[Split, ...]:
    """Return the splits of a joint task; ``sizes`` are questions by training or validation split."""
    made = []
    for name, count in sizes.items():
        role: Role = "validation" if name.startswith("validation") else "train"
        made.append(Split(name, role, NUMBERS, 0, count=count))
    made.append(Split("test", "test", NUMBERS, 0, count=len(QA) * tested))
    made += [Split(name, "test", (number,), 0, ladder=number, count=tested) for name, number in EACH.items()]
    return tuple(made)


class JointTask(BabiTask):
    """All twenty tasks; the size of an example is the number of its task."""

    metrics: ClassVar[tuple[Metric, ...]] = joint_metrics()
    learnt: ClassVar[float | None] = SOLVED  # of the mean error, as of each task's
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 2_048, "demo": 54_000, "standard": 1_080_000, "paper": 1_080_000}
    counted: ClassVar[tuple[str, ...] | None] = ()  # a suite score of its own: the mean over the twenty tasks
    size_name = "task"
    sizes_ordered = False
    words = WORDS
    answers = ANSWERS
    sentence_length = max(task.sentence_length for task in QA)
    question_length = max(task.question_length for task in QA)

    def size(self, statements: int) -> int:
        """Return the number of the last task: sizes say nothing of lengths here."""
        return len(QA)

    def explained(self, regime: str) -> list[tuple[str, int]]:
        """Return questions of tasks 1, 2 and 16, of which Sukhbaatar et al. 2015 show hops, too (Figure 2)."""
        return [("test-qa1", 4), ("test-qa2", 4), ("test-qa16", 0)]

    def told(self, number: int, split: str) -> list[Story]:
        """Return the stories of one of the twenty tasks in one of its own splits."""
        raise NotImplementedError

    def make(self, split: Split) -> Examples:
        """Return the questions of the split of all tasks, in order, or of the one that it holds."""
        if split.name in EACH:
            return self.encoder.examples(self.told(EACH[split.name], "test"), EACH[split.name])
        if split.role == "test":
            return self.family.concatenate([self.load(name) for name in EACH])
        return self.family.concatenate(
            [self.encoder.examples(self.told(number, split.name), number) for number in NUMBERS]
        )


class Joint(JointTask):
    """Answer the questions of all twenty tasks, without being told which task a question is of.

    Training, validation and tests are those of ``babi/qa1`` to ``babi/qa20`` together, with one vocabulary (145 words)
    and one list of 60 candidates. The test ``test`` holds all 20,000 questions, so that its error is the mean over
    tasks; ``test-qa1`` to ``test-qa20`` hold each task's own. Where sizes are shown, they are the tasks' numbers.

    Source: Weston et al. 2015; joint training as in Sukhbaatar et al. 2015 (60 epochs of 18,000 questions in regime
    ``1k``, 20 of 180,000 in ``10k``, as the standard budgets here).
    """

    name = "babi/joint"
    version = 1
    regimes: ClassVar[Mapping[str, Regime]] = {
        name: Regime(f"train-{name}", f"validation-{name}", ("test", *EACH)) for name in QUESTIONS
    }
    splits = joint_splits(
        {
            f"{role}-{name}": len(QA) * count
            for name, counts in QUESTIONS.items()
            for role, count in zip(("train", "validation"), counts, strict=True)
        },
        TESTED,
    )
    regime_budgets: ClassVar[Mapping[str, Mapping[str, int]]] = {"10k": {"standard": 3_600_000, "paper": 3_600_000}}
    sampled: ClassVar[tuple[str, ...] | None] = ("1k",)
    longest = tuple(max(lengths) for lengths in zip(*(task.longest for task in QA), strict=True))

    def __init__(self) -> None:
        self.parts: Sequence[QaTask] = [task() for task in QA]

    def told(self, number: int, split: str) -> list[Story]:
        """Return the stories of one of the twenty tasks."""
        part = self.parts[number - 1]
        return part.stories(part.bounded(split))

    def export(self, split: str) -> str:
        """Return the stories of a split in the format of the release, task after task."""
        if split in EACH:
            return self.parts[EACH[split] - 1].export("test")
        return "".join(part.export(split) for part in self.parts)

    def generate(self, rng: RandomState, size: Size, count: int, role: Role) -> Examples:
        """Return questions of new stories of task ``size``."""
        assert isinstance(size, int)
        return self.encoder.examples(self.parts[size - 1].drawn(rng, count, role), size)

    def references(self) -> dict[str, Reference]:
        """Majority, question only, the last five statements alone, and the whole story."""
        return references(self, oracle="exact")
