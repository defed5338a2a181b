"""``babi/qa10``: indefinite knowledge."""

from collections.abc import Iterator

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import QaTask, qa_splits
from tasks.babi.text import Line, Question
from tasks.babi.words import MOVES, PLACES, moved, yes_no
from tasks.babi.world import QUESTIONS, WINDOW

FRIENDS = ("Bill", "Fred", "Mary", "Julie")
KINDS = ("move", "move", "in", "either")
"""Kinds of statement; the even choice among them gives their shares."""


class Qa10(QaTask):
    """Is somebody in a place, where some statements leave a choice of two?

    Examples (supporting statement in brackets)::

        1 Julie is either in the park or the school.
        2 Fred travelled to the cinema.
        3 Is Julie in the school? maybe [1]
        4 Julie is in the office.
        5 Fred is either in the kitchen or the office.
        6 Is Julie in the school? no [4]

    Somebody of the last five statements is asked about. The question names the true place in half of the cases, one of
    the two where there is a choice. As in the release, the second place of a choice may be the first one again.

    Source: Weston et al. 2015, task 10, as in release 1.2 of the data.
    """

    name = "babi/qa10"
    version = 1
    words = words_of(*FRIENDS, *PLACES, *MOVES, "the is in either or")
    answers = ("yes", "no", "maybe")
    sentence_length, question_length = 9, 5
    longest = (10, 10, 10)
    splits = qa_splits(2, 10)

    def tell(self, draw: Draw) -> Iterator[Line]:
        """Yield five times two statements and a question."""
        at = {who: draw.one(PLACES) for who in FRIENDS}
        told: list[tuple[str, str, list[str]]] = []  # who, true place, and the places named
        for _ in range(QUESTIONS):
            for _ in range(2):
                who, kind = draw.one(FRIENDS), draw.one(KINDS)
                at[who] = draw.other(PLACES, at[who])
                named = draw.shuffled([at[who], draw.one(PLACES)]) if kind == "either" else [at[who]]
                told.append((who, at[who], named))
                if kind == "move":
                    yield f"{moved(draw, who, at[who])}."
                else:
                    yield f"{who} is {'either ' if kind == 'either' else ''}in the {' or the '.join(named)}."
            who = draw.one(told[-WINDOW:])[0]
            last = max(index for index, fact in enumerate(told) if fact[0] == who)
            _, place, named = told[last]
            asked, answer = yes_no(draw, place, PLACES)
            if len(named) > 1:
                answer = "maybe" if asked in named else "no"
            yield Question(f"Is {who} in the {asked}?", answer, (last,))
