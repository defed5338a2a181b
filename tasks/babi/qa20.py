"""``babi/qa20``: agents' motivations."""

from collections.abc import Iterator, Sequence

from harness.splits import Role
from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import QaTask, qa_splits
from tasks.babi.text import Line, Question
from tasks.babi.words import GETS, MOVES, moved

PEOPLE = ("Sumit", "Yann", "Jason", "Antoine")
NEEDS = {
    "hungry": ("kitchen", "apple"),
    "thirsty": ("kitchen", "milk"),
    "bored": ("garden", "football"),
    "tired": ("bedroom", "pajamas"),
}
"""Where each state makes somebody go, and what for."""
STATES = tuple(NEEDS)


class Qa20(QaTask):
    """Where will somebody go who is hungry, thirsty, bored or tired, and why did somebody do what?

    Examples (supporting statements in brackets)::

        1 Yann is tired.
        2 Where will yann go? bedroom [1]
        3 Yann moved to the bedroom.
        4 Why did yann go to the bedroom? tired [1]
        5 Yann grabbed the pajamas there.
        6 Why did yann get the pajamas? tired [1]

    Everybody has a state, goes where it leads, and takes what is there for it, unless it is taken already. Whose turn
    it is is drawn evenly; every statement is followed by its question. Only 16 statements can begin a story: of every
    person and of every state one belongs to the test, one to validation and two to training.

    Source: Weston et al. 2015, task 20, as in release 1.2 of the data.
    """

    name = "babi/qa20"
    version = 1
    words = words_of(
        *PEOPLE, *STATES, *(word for need in NEEDS.values() for word in need), *MOVES, *GETS,
        "is the there where will go why did get",
    )  # fmt: skip
    answers = (*STATES, "kitchen", "garden", "bedroom")
    sentence_length, question_length = 6, 7
    longest = (12, 12, 12)
    splits = qa_splits(1, 12)
    opening = 1
    blank = False

    def role(self, opening: Sequence[str]) -> Role:
        """Return the role of the first statement."""
        who, _, state = opening[0].rstrip(".").split()
        part = (PEOPLE.index(who) + STATES.index(state)) % 4
        return "test" if part == 0 else "validation" if part == 1 else "train"

    def tell(self, draw: Draw) -> Iterator[Line]:
        """Yield nine to twelve pairs of a statement and a question."""
        state = {who: draw.one(STATES) for who in PEOPLE}
        support: dict[str, int] = {}
        gone: set[str] = set()
        wanted = set(state.values())
        told = 0
        while wanted or len(gone) < len(PEOPLE):
            who = draw.one(PEOPLE)
            need, name = state[who], who.lower()
            place, thing = NEEDS[need]
            if who not in support:
                support[who] = told
                yield f"{who} is {need}."
                yield Question(f"Where will {name} go?", place, (told,))
            elif who not in gone:
                gone.add(who)
                yield f"{moved(draw, who, place)}."
                yield Question(f"Why did {name} go to the {place}?", need, (support[who],))
            elif need in wanted:
                wanted.remove(need)
                yield f"{who} {draw.one(GETS)} the {thing} there."
                yield Question(f"Why did {name} get the {thing}?", need, (support[who],))
            else:
                continue
            told += 1
