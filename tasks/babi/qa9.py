"""``babi/qa9``: simple negation."""

from collections.abc import Iterator

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import QaTask, qa_splits
from tasks.babi.text import Line, Question
from tasks.babi.words import MOVES, PEOPLE, ROOMS, moved, yes_no
from tasks.babi.world import QUESTIONS, WINDOW

KINDS = ("move", "move", "move", "move", "in", "in", "not", "no longer")
"""Kinds of statement; the even choice among them gives their shares."""


class Qa9(QaTask):
    """Is somebody in a room, where statements also say in which room somebody is not?

    Examples (supporting statement in brackets)::

        1 Sandra is not in the garden.
        2 Mary moved to the office.
        3 Is Sandra in the garden? no [1]
        4 Sandra is in the kitchen.
        5 Mary is no longer in the office.
        6 Is Sandra in the kitchen? yes [4]

    Somebody of the last five statements is asked about. *Is in* says, as *went to* does, that the person has changed
    rooms; *is not in* and *is no longer in*, that the person has left the room named for another, which is not told,
    and then the question names that room.

    Source: Weston et al. 2015, task 9, as in release 1.2 of the data.
    """

    name = "babi/qa9"
    version = 1
    words = words_of(*PEOPLE, *ROOMS, *MOVES, "the is in not no longer")
    answers = ("yes", "no")
    sentence_length, question_length = 7, 5
    longest = (10, 10, 10)
    splits = qa_splits(2, 10)

    def tell(self, draw: Draw) -> Iterator[Line]:
        """Yield five times two statements and a question."""
        at = {who: draw.one(ROOMS) for who in PEOPLE}
        told: list[tuple[str, str, bool]] = []  # who, room, and whether in it
        for _ in range(QUESTIONS):
            for _ in range(2):
                who, kind = draw.one(PEOPLE), draw.one(KINDS)
                left, at[who] = at[who], draw.other(ROOMS, at[who])
                there = kind in ("move", "in")
                told.append((who, at[who] if there else left, there))
                yield f"{moved(draw, who, at[who])}." if kind == "move" else f"{who} is {_in(kind)} the {told[-1][1]}."
            who = draw.one(told[-WINDOW:])[0]
            last = max(index for index, fact in enumerate(told) if fact[0] == who)
            _, room, there = told[last]
            asked, answer = yes_no(draw, room, ROOMS) if there else (room, "no")
            yield Question(f"Is {who} in the {asked}?", answer, (last,))


def _in(kind: str) -> str:
    return "in" if kind == "in" else f"{kind} in"
