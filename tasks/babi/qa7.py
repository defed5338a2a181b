"""``babi/qa7``: counting."""

from typing import ClassVar

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import qa_splits
from tasks.babi.text import Question
from tasks.babi.words import DROPS, GETS, GIVES, MOVES, OBJECTS, PEOPLE, ROOMS
from tasks.babi.world import DROP, GET, GIVE, MOVE, Fact, WorldTask, window

NUMBERS = ("none", "one", "two", "three")


class Qa7(WorldTask):
    """How many things does somebody carry?

    Examples (supporting statements in brackets)::

        1 John took the milk there.
        2 John got the apple there.
        3 How many objects is John carrying? two [1 2]
        4 Mary went to the office.
        5 John passed the milk to Daniel.
        6 How many objects is John carrying? one [1 2 5]

    Somebody is asked about who took, put down or gave away something in the last five statements. Every statement about
    what that person took, put down, gave or was given supports the answer.

    Source: Weston et al. 2015, task 7, as in release 1.2 of the data.
    """

    name = "babi/qa7"
    version = 1
    words = words_of(
        *PEOPLE, *ROOMS, *OBJECTS, *MOVES, *GETS, *DROPS, *GIVES, "the there to how many objects is carrying"
    )
    answers = NUMBERS
    sentence_length, question_length = 6, 6
    longest = (30, 54, 58)
    splits = qa_splits(2, 100)
    weights: ClassVar = {MOVE: 1, GET: 1, DROP: 1, GIVE: 4}

    def ask(self, draw: Draw, facts: list[Fact]) -> Question | None:
        """Ask for the number of things that somebody carries."""
        handlers = [facts[index].who for index in window(facts) if facts[index].kind != MOVE]
        if not handlers:
            return None
        who = draw.one(handlers)
        support = [index for index, fact in enumerate(facts) if fact.kind != MOVE and who in (fact.who, fact.whom)]
        carried = sum(1 if facts[index].kind == GET or facts[index].whom == who else -1 for index in support)
        return Question(f"How many objects is {who} carrying?", NUMBERS[carried], tuple(support))
