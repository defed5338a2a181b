"""``babi/qa3``: three supporting facts."""

from typing import ClassVar

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import qa_splits
from tasks.babi.text import Question
from tasks.babi.words import DROPS, GETS, MOVES, OBJECTS, PEOPLE, ROOMS
from tasks.babi.world import GET, MOVE, Fact, WorldTask, latest, window


class Qa3(WorldTask):
    """Where was a thing before it was carried to a room?

    Examples (supporting statements in brackets)::

        1 John took the apple.
        2 John moved to the office.
        3 John went to the garden.
        4 John travelled to the kitchen.
        5 Where was the apple before the kitchen? garden [1 4 3]
        6 John left the apple there.
        7 Mary moved to the garden.
        8 Where was the apple before the garden? office [6 3 2]

    A thing is asked about if it was taken or put down in the last five statements and its carrier moved at least twice
    with it. One of the rooms it was carried to is named; where it was carried there twice, the last time counts.

    Source: Weston et al. 2015, task 3, as in release 1.2 of the data.
    """

    name = "babi/qa3"
    version = 1
    words = words_of(*PEOPLE, *ROOMS, *OBJECTS, *MOVES, *GETS, *DROPS, "the there where was before")
    answers = ROOMS
    sentence_length, question_length = 6, 7
    longest = (262, 260, 322)
    sampled = ("1k",)
    splits = qa_splits(2, 500)
    get_there: ClassVar[float] = 0.2

    def ask(self, draw: Draw, facts: list[Fact]) -> Question | None:
        """Ask for the room before one that a thing was carried to."""
        found = [(index, moves) for index in window(facts) if len(moves := _carried(facts, index)) > 1]
        if not found:
            return None
        handled, moves = draw.one(found)
        while True:
            room = facts[draw.one(moves)].what
            last = max(place for place, move in enumerate(moves) if facts[move].what == room)
            if last > 0:
                break
        question = f"Where was the {facts[handled].what} before the {room}?"
        return Question(question, facts[moves[last - 1]].what, (handled, moves[last], moves[last - 1]))


def _carried(facts: list[Fact], index: int) -> list[int]:
    """Return the moves with the thing that fact ``index``, the last about it, takes or puts down."""
    fact = facts[index]
    if fact.kind == MOVE or latest(facts, lambda other: other.kind != MOVE and other.what == fact.what) != index:
        return []
    start, end = index, len(facts)
    if fact.kind != GET:
        taken = latest(facts, lambda other: other.kind == GET and other.what == fact.what, index)
        assert taken is not None
        start, end = taken, index
    return [move for move in range(start, end) if facts[move].kind == MOVE and facts[move].who == fact.who]
