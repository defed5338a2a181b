"""``babi/qa8``: lists and sets."""

from itertools import permutations

from harness.metrics.story import story_metrics
from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import qa_splits
from tasks.babi.text import Question
from tasks.babi.words import DROPS, GETS, MOVES, OBJECTS, PEOPLE, ROOMS
from tasks.babi.world import GET, MOVE, Fact, WorldTask, window


class Qa8(WorldTask):
    """What does somebody carry?

    Examples (supporting statements in brackets)::

        1 John took the milk there.
        2 John got the apple there.
        3 What is John carrying? milk,apple [1 2]
        4 John dropped the milk.
        5 Mary went to the office.
        6 What is John carrying? apple [1 4 2]

    Somebody is asked about who took or put down something in the last five statements. The answer is one candidate: the
    list, in the order in which the person first took each thing, or ``nothing``. Supporting statements are in that
    order too, those about one thing together.

    Source: Weston et al. 2015, task 8, as in release 1.2 of the data.
    """

    name = "babi/qa8"
    version = 1
    words = words_of(*PEOPLE, *ROOMS, *OBJECTS, *MOVES, *GETS, *DROPS, "the there what is carrying")
    answers = ("nothing", *(",".join(held) for count in (1, 2, 3) for held in permutations(OBJECTS, count)))
    metrics = story_metrics(answers)
    sentence_length, question_length = 6, 4
    longest = (30, 60, 30)
    splits = qa_splits(2, 100)

    def ask(self, draw: Draw, facts: list[Fact]) -> Question | None:
        """Ask for the things that somebody carries."""
        handlers = [facts[index].who for index in window(facts) if facts[index].kind != MOVE]
        if not handlers:
            return None
        who = draw.one(handlers)
        by_thing: dict[str, list[int]] = {}
        for index, fact in enumerate(facts):
            if fact.kind != MOVE and fact.who == who:
                by_thing.setdefault(fact.what, []).append(index)
        carried = [what for what, told in by_thing.items() if facts[told[-1]].kind == GET]
        support = tuple(index for told in by_thing.values() for index in told)
        return Question(f"What is {who} carrying?", ",".join(carried) or "nothing", support)
