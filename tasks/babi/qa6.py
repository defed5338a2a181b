"""``babi/qa6``: yes/no questions."""

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import qa_splits
from tasks.babi.text import Question
from tasks.babi.words import DROPS, GETS, MOVES, OBJECTS, PEOPLE, ROOMS, yes_no
from tasks.babi.world import MOVE, Fact, WorldTask, latest, window


class Qa6(WorldTask):
    """Is somebody in a room?

    Examples (supporting statement in brackets)::

        1 Daniel moved to the office.
        2 Sandra took the apple there.
        3 Is Daniel in the office? yes [1]
        4 Daniel went to the garden.
        5 Sandra dropped the apple.
        6 Is Daniel in the office? no [4]

    Somebody who moved in one of the last five statements is asked about, half of the time with the right room.

    Source: Weston et al. 2015, task 6, as in release 1.2 of the data.
    """

    name = "babi/qa6"
    version = 1
    words = words_of(*PEOPLE, *ROOMS, *OBJECTS, *MOVES, *GETS, *DROPS, "the there is in")
    answers = ("yes", "no")
    sentence_length, question_length = 6, 5
    longest = (14, 20, 14)
    splits = qa_splits(2, 50)

    def ask(self, draw: Draw, facts: list[Fact]) -> Question | None:
        """Ask whether somebody is in a room."""
        movers = [facts[index].who for index in window(facts) if facts[index].kind == MOVE]
        if not movers:
            return None
        who = draw.one(movers)
        last = latest(facts, lambda fact: fact.kind == MOVE and fact.who == who)
        assert last is not None
        room, answer = yes_no(draw, facts[last].what, ROOMS)
        return Question(f"Is {who} in the {room}?", answer, (last,))
