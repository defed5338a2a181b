"""``babi/qa18``: size reasoning."""

from collections.abc import Iterator

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import QaTask, qa_splits
from tasks.babi.text import Line, Question
from tasks.babi.world import QUESTIONS, WINDOW

SMALL = ("chocolate", "box of chocolates")
LARGE = ("box", "chest", "suitcase", "container")
BLOCK = 5
"""Statements that are told at once."""

Chain = tuple[int, int, str]
"""The statement that a question starts from, the one that takes the second step, and the answer."""


class Qa18(QaTask):
    """Does one thing fit in another? Sizes must be compared by way of a third.

    Examples (supporting statements in brackets)::

        1 The chocolate fits inside the chest.
        2 The box is bigger than the chest.
        3 The chest fits inside the box.
        4 The suitcase is bigger than the chocolate.
        5 The chocolate fits inside the chest.
        6 Does the chocolate fit in the box? yes [2 1]
        7 Is the chocolate bigger than the box? no [1 2]

    Sizes of the four larger things are drawn anew for each story. Five statements, each about an even choice of two
    things, are told until two steps can be put together; then come five questions, half of them true. A question starts
    from one of the last five statements, about the thing that is claimed to be larger, and takes the second step with
    the first statement that allows it. What is asked may have been stated directly, too.

    Source: Weston et al. 2015, task 18, as in release 1.2 of the data.
    """

    name = "babi/qa18"
    version = 1
    words = words_of(*SMALL, *LARGE, "the fits inside is bigger than does fit in")
    answers = ("yes", "no")
    sentence_length, question_length = 9, 9
    longest = (15, 20, 15)
    splits = qa_splits(5, 20)
    blank = False

    def tell(self, draw: Draw) -> Iterator[Line]:
        """Yield blocks of five statements until there is something to ask, then five questions."""
        by_size = [*SMALL, *draw.shuffled(LARGE)]
        facts: list[tuple[str, str]] = []  # smaller, larger
        chains: list[Chain] = []
        while not chains:
            for _ in range(BLOCK):
                low, high = sorted(draw.shuffled(range(len(by_size)))[:2])
                smaller, larger = by_size[low], by_size[high]
                facts.append((smaller, larger))
                fits, bigger = f"The {smaller} fits inside the {larger}.", f"The {larger} is bigger than the {smaller}."
                yield draw.one((fits, bigger))
            chains = [chain for answer in ("yes", "no") for chain in _chains(facts, answer)]
        for _ in range(QUESTIONS):
            wanted = draw.one(("yes", "no"))
            key, step, answer = draw.one([chain for chain in chains if chain[2] == wanted] or chains)
            smaller, larger = (facts[step][0], facts[key][1]) if answer == "yes" else (facts[step][1], facts[key][0])
            fits, bigger = f"Does the {smaller} fit in the {larger}?", f"Is the {larger} bigger than the {smaller}?"
            yield Question(draw.one((fits, bigger)), answer, (key, step))


def _chains(facts: list[tuple[str, str]], answer: str) -> Iterator[Chain]:
    """Yield what makes ``answer`` the answer: a recent statement and the first one that goes on from it."""
    near, far = (0, 1) if answer == "yes" else (1, 0)
    for key in range(max(0, len(facts) - WINDOW), len(facts)):
        middle = facts[key][near]
        step = next((index for index, fact in enumerate(facts) if fact[far] == middle), None)
        if step is not None:
            yield key, step, answer
