"""``babi/qa13``: compound coreference."""

from collections.abc import Iterator

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import QaTask, qa_splits
from tasks.babi.qa12 import pair_elsewhere
from tasks.babi.text import Line, Question
from tasks.babi.words import MOVES, PEOPLE, ROOMS, THEN, moved
from tasks.babi.world import QUESTIONS, WINDOW


class Qa13(QaTask):
    """Where is somebody who walks about with others, of whom the last statement speaks as they?

    Examples (supporting statements in brackets)::

        1 John and Mary went to the garden.
        2 Then they moved to the office.
        3 Where is Mary? office [1 2]
        4 Sandra and Daniel travelled to the kitchen.
        5 Afterwards they went to the bathroom.
        6 Where is Daniel? bathroom [4 5]

    Counting every statement as two moves, somebody of the last five moves is asked about.

    Source: Weston et al. 2015, task 13, as in release 1.2 of the data.
    """

    name = "babi/qa13"
    version = 1
    words = words_of(*PEOPLE, *ROOMS, *MOVES, *THEN, "and they the where is")
    answers = ROOMS
    sentence_length, question_length = 8, 3
    longest = (10, 10, 10)
    splits = qa_splits(2, 10)

    def tell(self, draw: Draw) -> Iterator[Line]:
        """Yield five times two statements and a question."""
        at = {who: draw.one(ROOMS) for who in PEOPLE}
        moves: list[str] = []
        for _ in range(QUESTIONS):
            first, second, room = pair_elsewhere(draw, at)
            yield f"{moved(draw, f'{first} and {second}', room)}."
            at[first] = at[second] = draw.other(ROOMS, room)
            yield f"{draw.one(THEN)} {moved(draw, 'they', at[first])}."
            moves += [first, second, first, second]
            asked = draw.one(moves[-WINDOW:])
            last = max(index for index, who in enumerate(moves) if who == asked) // 2
            yield Question(f"Where is {asked}?", at[asked], (last - 1, last))
