"""``babi/qa19``: path finding."""

from collections.abc import Iterator

from harness.metrics.story import story_metrics
from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import QaTask, qa_splits
from tasks.babi.text import Line, Question
from tasks.babi.words import DIRECTIONS, OPPOSITE, ROOMS

PATHS = tuple(f"{first[0]},{then[0]}" for first in DIRECTIONS for then in DIRECTIONS if then != OPPOSITE[first])


class Qa19(QaTask):
    """How does one go from one room to another, two steps away?

    Examples (supporting statements in brackets; the other three statements left out)::

        1 The office is north of the garden.
        2 The kitchen is west of the office.
        6 How do you go from the garden to the kitchen? n,w [1 2]
        6 How do you go from the kitchen to the garden? e,s [2 1]

    The answer is one candidate: the list of both steps. Of the other three rooms, each lies on a free side of one of
    the three on the way; nothing else keeps the map flat, so only stated neighbours count. A room is drawn and a side
    on which it has a neighbour, again and again until all five neighbourhoods are told.

    Source: Weston et al. 2015, task 19, as in release 1.2 of the data.
    """

    name = "babi/qa19"
    version = 1
    words = words_of(*ROOMS, *DIRECTIONS, "the is of how do you go from to")
    answers = PATHS
    metrics = story_metrics(answers)
    sentence_length, question_length = 7, 10
    longest = (5, 5, 5)
    splits = qa_splits(5, 5)
    blank = False

    def tell(self, draw: Draw) -> Iterator[Line]:
        """Yield five statements and a question."""
        start, middle, end, *others = draw.shuffled(ROOMS)
        first = draw.one(DIRECTIONS)
        then = draw.other(DIRECTIONS, OPPOSITE[first])
        beside: dict[str, dict[str, str]] = {room: {} for room in ROOMS}  # by room and side: its neighbour

        def join(room: str, side: str, neighbour: str) -> None:
            beside[room][side], beside[neighbour][OPPOSITE[side]] = neighbour, room

        join(start, first, middle)
        join(middle, then, end)
        for other in others:
            while not beside[other]:
                room, side = draw.one((start, middle, end)), draw.one(DIRECTIONS)
                if side not in beside[room]:
                    join(room, side, other)
        told: dict[frozenset[str], int] = {}
        while len(told) < len(ROOMS) - 1:
            room = draw.one(ROOMS)
            side = draw.one(tuple(beside[room]))
            pair = frozenset((room, beside[room][side]))
            if pair not in told:
                told[pair] = len(told)
                yield f"The {room} is {OPPOSITE[side]} of the {beside[room][side]}."
        support = (told[frozenset((start, middle))], told[frozenset((middle, end))])
        yield Question(f"How do you go from the {start} to the {end}?", f"{first[0]},{then[0]}", support)
