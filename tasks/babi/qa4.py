"""``babi/qa4``: two argument relations."""

from collections.abc import Iterator

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import QaTask, qa_splits
from tasks.babi.text import Line, Question
from tasks.babi.words import DIRECTIONS, OPPOSITE, ROOMS


class Qa4(QaTask):
    """What lies on one side of a room? Subject and object must be told apart.

    Examples (supporting statement in brackets)::

        1 The garden is north of the office.
        2 The office is north of the kitchen.
        3 What is north of the kitchen? office [2]

        1 The garden is north of the office.
        2 The office is north of the kitchen.
        3 What is the kitchen south of? office [2]

    Two statements tell what lies on either side of a middle room, which is the object of each in two cases of three. As
    in the release, the answer is the first room of the supporting statement.

    Source: Weston et al. 2015, task 4, as in release 1.2 of the data.
    """

    name = "babi/qa4"
    version = 1
    words = words_of(*ROOMS, *DIRECTIONS, "the is of what")
    answers = ROOMS
    sentence_length, question_length = 7, 6
    longest = (2, 2, 2)
    splits = qa_splits(2, 2)
    blank = False

    def tell(self, draw: Draw) -> Iterator[Line]:
        """Yield two statements and a question."""
        middle, *ends = draw.shuffled(ROOMS)[:3]
        side = draw.one(DIRECTIONS)
        facts = []
        for end, direction in zip(ends, (side, OPPOSITE[side]), strict=True):
            from_middle = draw.below(3) == 0
            facts.append((middle, OPPOSITE[direction], end) if from_middle else (end, direction, middle))
            yield "The {} is {} of the {}.".format(*facts[-1])
        support = draw.below(2)
        first, direction, second = facts[support]
        forms = f"What is {direction} of the {second}?", f"What is the {second} {OPPOSITE[direction]} of?"
        yield Question(draw.one(forms), first, (support,))
