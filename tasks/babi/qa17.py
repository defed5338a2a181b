"""``babi/qa17``: positional reasoning."""

from collections.abc import Iterator

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import QaTask, qa_splits
from tasks.babi.text import Line, Question

SHAPES = ("triangle", "pink rectangle", "blue square", "red sphere", "red square", "yellow square")
STEPS = {"above": (0, 1), "below": (0, -1), "to the left of": (-1, 0), "to the right of": (1, 0)}
"""Where a shape is that has this relation to one at (0, 0)."""
ASKED = 8


class Qa17(QaTask):
    """How do two shapes lie to one another, if each lies on one side of a third?

    Examples (supporting statements in brackets)::

        1 The red sphere is above the triangle.
        2 The red sphere is to the left of the blue square.
        3 Is the triangle below the blue square? yes [1 2]
        4 Is the blue square to the left of the triangle? no [2 1]

    Every step is one unit long, and the two shapes that are asked about never lie on one another. The third shape is
    the subject of each statement in two cases of three. Half of the answers are yes.

    Source: Weston et al. 2015, task 17, as in release 1.2 of the data.
    """

    name = "babi/qa17"
    version = 1
    words = words_of(*SHAPES, *STEPS, "the is")
    answers = ("yes", "no")
    sentence_length, question_length = 11, 11
    longest = (2, 2, 2)
    splits = qa_splits(2, 2)
    blank = False

    def tell(self, draw: Draw) -> Iterator[Line]:
        """Yield two statements and eight questions."""
        third, *ends = draw.shuffled(SHAPES)[:3]
        first = draw.one(tuple(STEPS))
        places = []
        for end, relation in zip(ends, (first, draw.other(tuple(STEPS), first)), strict=True):
            places.append(STEPS[relation])  # of the end, seen from the third shape
            if draw.below(3) == 0:
                yield f"The {end} is {relation} the {third}."
            else:
                yield f"The {third} is {_opposite(relation)} the {end}."
        for _ in range(ASKED):
            subject = draw.below(2)
            (x, y), (u, v) = places[subject], places[1 - subject]
            holds = [name for name, (dx, dy) in STEPS.items() if (x - u) * dx + (y - v) * dy > 0]
            answer = draw.one(("yes", "no"))
            relation = draw.one(holds if answer == "yes" else [name for name in STEPS if name not in holds])
            text = f"Is the {ends[subject]} {relation} the {ends[1 - subject]}?"
            yield Question(text, answer, (subject, 1 - subject))


def _opposite(relation: str) -> str:
    dx, dy = STEPS[relation]
    return next(name for name, step in STEPS.items() if step == (-dx, -dy))
