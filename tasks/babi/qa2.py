"""``babi/qa2``: two supporting facts."""

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import qa_splits
from tasks.babi.text import Question
from tasks.babi.words import DROPS, GETS, MOVES, OBJECTS, PEOPLE, ROOMS
from tasks.babi.world import DROP, GET, MOVE, Fact, WorldTask, latest, window


class Qa2(WorldTask):
    """Where is a thing that somebody carried along, or put down somewhere?

    Examples (supporting statements in brackets)::

        1 Mary moved to the garden.
        2 Mary took the milk there.
        3 John went to the office.
        4 Mary travelled to the kitchen.
        5 Where is the milk? kitchen [2 4]
        6 Mary dropped the milk.
        7 Mary went to the hallway.
        8 Where is the milk? kitchen [6 4]

    A thing is asked about if it was taken or put down in the last five statements and its place follows from two of
    them all: it was put down by somebody whose place had been told, or is held by somebody who moved since.

    Source: Weston et al. 2015, task 2, as in release 1.2 of the data.
    """

    name = "babi/qa2"
    version = 1
    words = words_of(*PEOPLE, *ROOMS, *OBJECTS, *MOVES, *GETS, *DROPS, "the there where is")
    answers = ROOMS
    sentence_length, question_length = 6, 4
    longest = (56, 66, 44)
    splits = qa_splits(2, 100)

    def ask(self, draw: Draw, facts: list[Fact]) -> Question | None:
        """Ask for the place of a thing."""
        found = [pair for index in window(facts) if (pair := _place(facts, index)) is not None]
        if not found:
            return None
        handled, move = draw.one(found)
        return Question(f"Where is the {facts[handled].what}?", facts[move].what, (handled, move))


def _place(facts: list[Fact], index: int) -> tuple[int, int] | None:
    """Return ``index`` and the move that tells where the thing of fact ``index`` is now, None if it does not tell."""
    fact = facts[index]
    if fact.kind == MOVE or latest(facts, lambda other: other.kind != MOVE and other.what == fact.what) != index:
        return None
    before = index if fact.kind == DROP else None
    move = latest(facts, lambda other: other.kind == MOVE and other.who == fact.who, before)
    if move is None or (fact.kind == GET and move < index):
        return None
    return index, move
