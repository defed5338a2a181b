"""``babi/qa5``: three argument relations."""

from typing import ClassVar

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import qa_splits
from tasks.babi.text import Question
from tasks.babi.words import DROPS, GETS, GIVES, MOVES, OBJECTS, ROOMS
from tasks.babi.world import DROP, GET, GIVE, MOVE, Fact, WorldTask, latest, window

FAMILY = ("Bill", "Fred", "Mary", "Jeff")


class Qa5(WorldTask):
    """Who gave what to whom?

    Examples (supporting statement in brackets)::

        1 Jeff got the milk there.
        2 Jeff handed the milk to Mary.
        3 What did Jeff give to Mary? milk [2]
        4 Mary went to the garden.
        5 Bill moved to the garden.
        6 Mary passed the milk to Bill.
        7 Fred went to the kitchen.
        8 Who received the milk? Bill [6]

    One of the last five statements is asked about, the last in which its thing was given. The last hand-over that a
    question fits is meant; the release has 2 questions in 1,000 where another one was.

    Source: Weston et al. 2015, task 5, as in release 1.2 of the data.
    """

    name = "babi/qa5"
    version = 1
    words = words_of(
        *FAMILY, *ROOMS, *OBJECTS, *MOVES, *GETS, *DROPS, *GIVES, "the there what did give to who received"
    )
    answers = (*FAMILY, *OBJECTS)
    sentence_length, question_length = 6, 7
    longest = (82, 116, 112)
    splits = qa_splits(2, 200)
    people = FAMILY
    weights: ClassVar = {MOVE: 1, GET: 1, DROP: 1, GIVE: 3.6}

    def ask(self, draw: Draw, facts: list[Fact]) -> Question | None:
        """Ask for the giver, the thing or the receiver."""
        given = [
            index
            for index in window(facts)
            if facts[index].kind == GIVE
            and latest(facts, lambda fact: fact.kind == GIVE and fact.what == facts[index].what) == index  # noqa: B023
        ]
        if not given:
            return None
        index = draw.one(given)
        _, who, what, whom = facts[index]
        form = draw.below(6)
        if form < 2:
            last = max(i for i, fact in enumerate(facts) if (fact.kind, fact.who, fact.whom) == (GIVE, who, whom))
            return Question(f"What did {who} give to {whom}?", facts[last].what, (last,))
        text, answer = {
            2: (f"Who gave the {what}?", who),
            3: (f"Who gave the {what} to {whom}?", who),
            4: (f"Who received the {what}?", whom),
            5: (f"Who did {who} give the {what} to?", whom),
        }[form]
        return Question(text, answer, (index,))
