"""What all tasks of the suite share: the spec, metrics, references, and how examples are shown."""

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from harness.families.base import Examples, Family, Stored
from harness.families.story import FIRST_WORD, STORY, Spec
from harness.metrics import Metric
from harness.metrics.story import STORY_METRICS
from harness.task import Reference, Task
from tasks.babi import show
from tasks.babi.encoding import Encoder, size_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class BabiTask(Task):
    """Questions on short stories, answered by one of a fixed list of candidates.

    ``words`` and ``answers`` are all that occur in any split; ``sentence_length`` and ``question_length`` the most
    words of a statement and a question; ``longest`` the most statements before a question in training and validation,
    one number a regime, and last in the tests.
    """

    family: ClassVar[Family] = STORY
    metrics: ClassVar[tuple[Metric, ...]] = STORY_METRICS
    plotted: ClassVar[tuple[str, ...]] = ("error",)
    size_name = "statements before the question (at most)"
    draws: ClassVar[tuple[str, ...]] = ("attention", "scores")
    floor: ClassVar[str] = "majority"

    words: ClassVar[tuple[str, ...]]
    answers: ClassVar[tuple[str, ...]]
    sentence_length: ClassVar[int]
    question_length: ClassVar[int]
    longest: ClassVar[tuple[int, ...]]

    @cached_property
    def encoder(self) -> Encoder:
        """Words and answers as numbers."""
        return Encoder(self.words, self.answers, self.sentence_length, self.question_length)

    def spec(self, regime: str) -> Spec:
        """Vocabulary and candidates are those of all splits."""
        train, test = self.longest_train(regime), self.longest[-1]
        return Spec(
            max_train_size=self.size(train),
            max_test_size=self.size(test),
            vocabulary=FIRST_WORD + len(self.words),
            answers=len(self.answers),
            max_sentence_length=self.sentence_length,
            max_question_length=self.question_length,
            max_train_story=train,
            max_test_story=test,
            answer_words=self.encoder.answer_words,
        )

    def longest_train(self, regime: str) -> int:
        """Return the most statements before a question in a regime's training and validation."""
        return self.longest[list(self.regimes).index(regime)]

    def size(self, statements: int) -> int:
        """Return the size of a question that comes after so many statements."""
        return size_of(statements)

    def render(self, examples: Examples, row: int, stored: Stored | None = None) -> str:
        """Show the story a statement a line, supporting ones marked, then question and answer."""
        return show.render(self.encoder, examples, row, stored)

    def draw(self, axis: "Axes", examples: Examples, row: int, explanation: Stored) -> None:
        """Draw the weight of each sentence at each hop; supporting sentences are marked."""
        show.draw_attention(axis, self.encoder, examples, row, explanation)

    @abstractmethod
    def references(self) -> dict[str, Reference]:
        """Return the floor and ceiling predictors by row name."""
