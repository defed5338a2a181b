"""``babi/qa1``: single supporting fact."""

from typing import ClassVar

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import qa_splits
from tasks.babi.text import Question
from tasks.babi.words import MOVES, PEOPLE, ROOMS
from tasks.babi.world import MOVE, Fact, WorldTask, latest, window


class Qa1(WorldTask):
    """Where is somebody who was seen walking about?

    Examples (supporting statements in brackets)::

        1 Sandra went to the office.
        2 John moved to the garden.
        3 Where is Sandra? office [1]
        4 Sandra went back to the kitchen.
        5 John journeyed to the bathroom.
        6 Where is Sandra? kitchen [4]

    The person of one of the last five statements is asked about; the answer is the last place that person went to.

    Source: Weston et al. 2015, task 1, as in release 1.2 of the data.
    """

    name = "babi/qa1"
    version = 1
    words = words_of(*PEOPLE, *ROOMS, *MOVES, "the where is")
    answers = ROOMS
    sentence_length, question_length = 6, 3
    longest = (10, 10, 10)
    sampled = ("1k",)
    splits = qa_splits(2, 10)
    weights: ClassVar = {MOVE: 1}

    def ask(self, draw: Draw, facts: list[Fact]) -> Question:
        """Ask for the place of somebody."""
        who = facts[draw.one(window(facts))].who
        last = latest(facts, lambda fact: fact.who == who)
        assert last is not None
        return Question(f"Where is {who}?", facts[last].what, (last,))
