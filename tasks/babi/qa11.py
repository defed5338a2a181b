"""``babi/qa11``: basic coreference."""

from collections.abc import Iterator

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import QaTask, qa_splits
from tasks.babi.text import Line, Question
from tasks.babi.words import MOVES, PEOPLE, ROOMS, THEN, moved
from tasks.babi.world import QUESTIONS, WINDOW

PRONOUN = {"Mary": "she", "Sandra": "she", "John": "he", "Daniel": "he"}


class Qa11(QaTask):
    """Where is somebody, of whom the last statement speaks as he or she?

    Examples (supporting statements in brackets)::

        1 John went to the garden.
        2 Then he moved to the office.
        3 Where is John? office [1 2]
        4 Mary travelled to the kitchen.
        5 After that she went to the bathroom.
        6 Where is John? office [1 2]

    The person of one of the last five statements is asked about; a pronoun means the person of the statement before it.

    Source: Weston et al. 2015, task 11, as in release 1.2 of the data.
    """

    name = "babi/qa11"
    version = 1
    words = words_of(*PEOPLE, *ROOMS, *MOVES, *THEN, "he she the where is")
    answers = ROOMS
    sentence_length, question_length = 8, 3
    longest = (10, 10, 10)
    splits = qa_splits(2, 10)

    def tell(self, draw: Draw) -> Iterator[Line]:
        """Yield five times two statements and a question."""
        at = {who: draw.one(ROOMS) for who in PEOPLE}
        told: list[str] = []
        for _ in range(QUESTIONS):
            who = draw.one(PEOPLE)
            at[who] = draw.other(ROOMS, at[who])
            yield f"{moved(draw, who, at[who])}."
            at[who] = draw.other(ROOMS, at[who])
            yield f"{draw.one(THEN)} {moved(draw, PRONOUN[who], at[who])}."
            told += [who, who]
            asked = draw.one(told[-WINDOW:])
            last = max(index for index, who in enumerate(told) if who == asked)
            yield Question(f"Where is {asked}?", at[asked], (last - 1, last))
