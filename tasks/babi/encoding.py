"""Stories as arrays: words to token ids, questions with the statements before them."""

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from harness.errors import unknown
from harness.families.base import Examples
from harness.families.ragged import Ragged
from harness.families.story import FIRST_WORD, NO_SUPPORT, PAD, UNKNOWN
from tasks.babi.text import Question, Story, questions, statements


def words_of(*texts: str) -> tuple[str, ...]:
    """Return the distinct words of ``texts`` in lower case, sorted; commas, full stops and question marks are none."""
    return tuple(sorted({word for text in texts for word in tokens(text)}))


def tokens(text: str) -> list[str]:
    """Return the words of a sentence in lower case, without the mark at its end."""
    return text.lower().rstrip(".?").split()


def size_of(sentences: int) -> int:
    """Return the bin of a story's length: the next of 1, 2, 5, 10, 20, 50, 100, ..."""
    scale = 1
    while True:
        for step in (1, 2, 5):
            if sentences <= step * scale:
                return step * scale
        scale *= 10


class Encoder:
    """Words and answers of a task as numbers; a word that is not in ``vocabulary`` becomes *unknown*."""

    def __init__(self, vocabulary: Sequence[str], answers: Sequence[str], sentence_length: int, question_length: int):
        self.vocabulary, self.answers = vocabulary, answers
        self.sentence_length, self.question_length = sentence_length, question_length
        self._ids = {word: index for index, word in enumerate(vocabulary, start=FIRST_WORD)}
        self._candidates = {answer: index for index, answer in enumerate(answers)}
        self._type = np.uint8 if FIRST_WORD + len(vocabulary) <= 256 else np.uint16

    @property
    def answer_words(self) -> tuple[int, ...]:
        """The token id of each candidate that is a word of the vocabulary, ``PAD`` of one that is not."""
        return tuple(self._ids.get(answer.lower(), PAD) for answer in self.answers)

    @cached_property
    def _rows(self) -> dict[str, np.ndarray]:
        """Sentences that were encoded already: there are few, repeated often."""
        return {}

    def row(self, text: str, width: int) -> np.ndarray:
        """Return the token ids of a sentence, zeros behind, ``(width,)``."""
        if text not in self._rows:
            ids = [self._ids.get(word, UNKNOWN) for word in tokens(text)]
            if len(ids) > width:
                raise ValueError(f"{text!r} has {len(ids)} words; at most {width} were expected")
            self._rows[text] = np.array(ids + [0] * (width - len(ids)), self._type)
        return self._rows[text]

    def examples(self, stories: Iterable[Story], size: int | None = None) -> Examples:
        """Return one example a question; its size is ``size`` or the bin of the number of statements before it."""
        told: list[np.ndarray] = []
        first, count, asked = [], [], []
        for story in stories:
            start = len(told)
            told += [self.row(text, self.sentence_length) for text in statements(story)]
            for question, before in questions(story):
                first.append(start)
                count.append(before)
                asked.append(question)
        story_length = np.array(count, np.int64)
        bins = [size_of(before) for before in count]
        sentences, starts = np.stack(told), np.array(first, np.int64)
        return Examples(
            inputs={
                "story": Ragged.of(sentences, starts, story_length),
                "story_length": story_length,
                "sentence_length": Ragged.of((sentences != PAD).sum(1, dtype=np.uint8), starts, story_length),
                "question": np.stack([self.row(question.text, self.question_length) for question in asked]),
                "question_length": np.array([len(tokens(question.text)) for question in asked], np.int64),
            },
            targets={
                "answer": np.array([self.candidate(question.answer) for question in asked], np.int64),
                "support": _supports(asked),
            },
            sizes=np.array(bins if size is None else [size] * len(bins), np.int64),
        )

    def candidate(self, answer: str) -> int:
        """Return the number of an answer; a ``UserError`` names one that is not a candidate."""
        if answer not in self._candidates:
            raise unknown("answer", answer, self.answers)
        return self._candidates[answer]

    def text(self, ids: np.ndarray) -> str:
        """Return the words of one sentence's token ids."""
        return " ".join(self.vocabulary[i - FIRST_WORD] if i >= FIRST_WORD else "UNK" for i in ids.tolist() if i)


def _supports(asked: Sequence[Question]) -> np.ndarray:
    """Return the supporting statements of every question, ``(n,K) int16``, and −1 behind."""
    out = np.full((len(asked), max(len(question.support) for question in asked)), NO_SUPPORT, np.int16)
    for row, question in enumerate(asked):
        out[row, : len(question.support)] = question.support
    return out
