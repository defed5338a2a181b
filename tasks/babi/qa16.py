"""``babi/qa16``: basic induction."""

from collections.abc import Iterator

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import QaTask, qa_splits
from tasks.babi.text import Line, Question

NAMES = ("Lily", "Bernhard", "Greg", "Julius", "Brian")
SPECIES = ("swan", "lion", "frog", "rhino")
COLOURS = ("gray", "white", "yellow", "green")
ASKED_OF = (2, 4, 5)
"""As in the release, the animal asked about is one of so many of its species."""


class Qa16(QaTask):
    """What colour is an animal? Look at another one of its species.

    Examples (supporting statements in brackets)::

        1 Lily is a swan.
        2 Brian is a frog.
        3 Lily is green.
        4 Greg is a swan.
        5 Julius is a rhino.
        6 Julius is gray.
        7 Brian is white.
        8 Bernhard is a rhino.
        9 Bernhard is yellow.
       10 What color is Greg? green [4 1 3]

        (the same, and Lily and Greg are rhinos)
        What color is Greg? yellow [4 8 9]

    Of five animals species and colour are told in this order, whose turn it is drawn evenly; the last colour is the
    question. A species may change its colour whenever one more of it is introduced, so the answer is the colour of the
    one that was introduced last.

    Source: Weston et al. 2015, task 16, as in release 1.2 of the data (where this rule holds without exception).
    """

    name = "babi/qa16"
    version = 1
    words = words_of(*NAMES, *SPECIES, *COLOURS, "is a what color")
    answers = COLOURS
    sentence_length, question_length = 4, 4
    longest = (9, 9, 9)
    splits = qa_splits(9, 9)
    blank = False

    def tell(self, draw: Draw) -> Iterator[Line]:
        """Yield nine statements and a question."""
        turns, species = self._turns(draw)
        asked = turns[-1]
        colour: dict[str, str] = {}  # by species, now
        introduced: dict[str, int] = {}
        coloured: dict[str, int] = {}
        for told, name in enumerate(turns[:-1]):
            kind = species[name]
            if name in introduced:
                coloured[name] = told
                yield f"{name} is {colour[kind]}."
            else:
                introduced[name] = told
                if name != asked:
                    colour[kind] = draw.one(COLOURS)
                yield f"{name} is a {kind}."
        peers = [name for name in introduced if name != asked and species[name] == species[asked]]
        support = (introduced[asked], introduced[peers[-1]], coloured[peers[-1]])
        yield Question(f"What color is {asked}?", colour[species[asked]], support)

    def _turns(self, draw: Draw) -> tuple[list[str], dict[str, str]]:
        """Return who is spoken of in ten lines, everybody twice, and the species of each."""
        while True:
            species = {name: draw.one(SPECIES) for name in NAMES}
            turns: list[str] = []
            while len(turns) < 2 * len(NAMES):
                name = draw.one(NAMES)
                if turns.count(name) < 2:
                    turns.append(name)
            if list(species.values()).count(species[turns[-1]]) in ASKED_OF:
                return turns, species
