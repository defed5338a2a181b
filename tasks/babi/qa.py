"""The base of the twenty generated tasks: stories told line by line, whole stories in a split."""

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from numpy.random import RandomState

from harness.families.base import Examples
from harness.splits import Role, Size, Split, generator
from harness.task import Reference, Regime
from tasks.babi.draw import Draw
from tasks.babi.encoding import size_of
from tasks.babi.references import references
from tasks.babi.suite import BabiTask
from tasks.babi.text import Line, Story, cut, export, questions

QUESTIONS = {"1k": (900, 100), "10k": (9_000, 1_000)}
"""Questions of training and validation by regime, together as many as the release has for training."""
TESTED = 1_000

REGIMES = {name: Regime(f"train-{name}", f"validation-{name}", ("test",)) for name in QUESTIONS}


def qa_splits(shortest: int, longest: int) -> tuple[Split, ...]:
    """Return the splits of a task whose questions come after ``shortest`` to ``longest`` statements."""
    bins, upto = [], shortest
    while upto <= longest:
        bins.append(size_of(upto))
        upto = bins[-1] + 1
    sizes = tuple(bins)
    made = []
    for name, (train, validation) in QUESTIONS.items():
        made.append(Split(f"train-{name}", "train", sizes, 0, count=train))
        made.append(Split(f"validation-{name}", "validation", sizes, 0, count=validation))
    return (*made, Split("test", "test", sizes, 0, count=TESTED))


class QaTask(BabiTask):
    """One of the twenty tasks.

    A story's role is fixed by its first ``opening`` statements: of all openings, by a hash, 5/8 belong to training, 1/8
    to validation and 2/8 to the test. Since every question comes after them, no (story, question) occurs in two roles.
    Story ``b`` of a split depends on (task, version, split, b) alone; the last one is cut at the split's last question.
    """

    regimes: ClassVar[Mapping[str, Regime]] = REGIMES
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 1_024, "demo": 18_000, "standard": 90_000, "paper": 90_000}
    regime_budgets: ClassVar[Mapping[str, Mapping[str, int]]] = {"10k": {"standard": 900_000, "paper": 900_000}}
    counted: ClassVar[tuple[str, ...] | None] = ("1k",)
    sampled: ClassVar[tuple[str, ...] | None] = ()
    opening: ClassVar[int] = 2
    blank: ClassVar[bool] = True
    """Whether the release has a blank behind the questions of this task."""

    @abstractmethod
    def tell(self, draw: Draw) -> Iterator[Line]:
        """Yield the statements and questions of a story."""

    def role(self, opening: Sequence[str]) -> Role:
        """Return the only role in which a story may begin with the statements of ``opening``."""
        part = hashlib.sha256("|".join(opening).encode()).digest()[0] % 8
        return "test" if part < 2 else "validation" if part == 2 else "train"

    def story(self, draw: Draw, role: Role) -> Story:
        """Return a story of ``role``."""
        while True:
            story: Story = []
            for line in self.tell(draw):
                story.append(line)
                if len(story) == self.opening and self.role([str(told) for told in story]) != role:
                    break
            else:
                return story

    def stories(self, split: Split) -> list[Story]:
        """Return the stories of a split; short ones are told once a process, for this task and the joint one."""
        return list(_told(type(self), split)) if len(split) <= TESTED else self.tell_all(split)

    def tell_all(self, split: Split) -> list[Story]:
        """Tell the stories of a split, one after the other."""
        found, missing = list[Story](), len(split)
        while missing:
            rng = generator(self.name, self.version, split.name, len(found))
            found.append(cut(self.story(Draw(rng), split.role), missing))
            missing -= len(list(questions(found[-1])))
        return found

    def make(self, split: Split) -> Examples:
        """Return the questions of a split's stories."""
        return self.encoder.examples(self.stories(split))

    def export(self, split: str) -> str:
        """Return the stories of a split in the format of the release."""
        return export(self.stories(self.bounded(split)), self.blank)

    def drawn(self, rng: RandomState, count: int, role: Role) -> list[Story]:
        """Return new stories with ``count`` questions."""
        draw, found = Draw(rng), list[Story]()
        while count:
            found.append(cut(self.story(draw, role), count))
            count -= len(list(questions(found[-1])))
        return found

    def generate(self, rng: RandomState, size: Size, count: int, role: Role) -> Examples:
        """Return the questions of new stories; their sizes fall as they may, whatever ``size``."""
        return self.encoder.examples(self.drawn(rng, count, role))

    def references(self) -> dict[str, Reference]:
        """Majority, question only, the last five statements alone, and the right answer."""
        return references(self, oracle="exact")


@lru_cache(maxsize=128)  # twenty tasks have four such splits each
def _told(task: type[QaTask], split: Split) -> tuple[Story, ...]:
    return tuple(task().tell_all(split))
