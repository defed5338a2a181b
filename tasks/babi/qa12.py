"""``babi/qa12``: conjunction."""

from collections.abc import Iterator

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import QaTask, qa_splits
from tasks.babi.text import Line, Question
from tasks.babi.words import MOVES, PEOPLE, ROOMS, moved
from tasks.babi.world import QUESTIONS, WINDOW


def pair_elsewhere(draw: Draw, at: dict[str, str]) -> tuple[str, str, str]:
    """Return two people and a room that neither is in; ``at`` says where everybody is."""
    while True:
        first, second, room = draw.one(PEOPLE), draw.one(PEOPLE), draw.one(ROOMS)
        if first != second and room not in (at[first], at[second]):
            return first, second, room


class Qa12(QaTask):
    """Where is somebody who walks about with others?

    Examples (supporting statement in brackets)::

        1 John and Mary went to the garden.
        2 Mary and Daniel moved to the office.
        3 Where is Daniel? office [2]
        4 Sandra and Daniel travelled to the kitchen.
        5 John and Sandra went to the bathroom.
        6 Where is Daniel? kitchen [4]

    Counting every statement as two moves, somebody of the last five moves is asked about.

    Source: Weston et al. 2015, task 12, as in release 1.2 of the data.
    """

    name = "babi/qa12"
    version = 1
    words = words_of(*PEOPLE, *ROOMS, *MOVES, "and the where is")
    answers = ROOMS
    sentence_length, question_length = 8, 3
    longest = (10, 10, 10)
    splits = qa_splits(2, 10)

    def tell(self, draw: Draw) -> Iterator[Line]:
        """Yield five times two statements and a question."""
        at = {who: draw.one(ROOMS) for who in PEOPLE}
        moves: list[str] = []
        for _ in range(QUESTIONS):
            for _ in range(2):
                first, second, room = pair_elsewhere(draw, at)
                at[first] = at[second] = room
                moves += [first, second]
                yield f"{moved(draw, f'{first} and {second}', room)}."
            asked = draw.one(moves[-WINDOW:])
            last = max(index for index, who in enumerate(moves) if who == asked) // 2
            yield Question(f"Where is {asked}?", at[asked], (last,))
