"""``babi/qa15``: basic deduction."""

from collections.abc import Iterator

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import QaTask, qa_splits
from tasks.babi.text import Line, Question

NAMES = ("Gertrude", "Winona", "Emily", "Jessica")
PLURAL = {"mouse": "mice", "wolf": "wolves", "cat": "cats", "sheep": "sheep"}
SPECIES = tuple(PLURAL)
ASKED = 4


class Qa15(QaTask):
    """What is an animal afraid of? Every species is afraid of another one.

    Examples (supporting statements in brackets; the other four statements left out)::

        1 Cats are afraid of wolves.
        2 Emily is a cat.
        3 Mice are afraid of cats.
        4 Winona is a mouse.
        9 What is emily afraid of? wolf [2 1]
       10 What is winona afraid of? cat [4 3]

    Four fears and four animals, whose species are told after what these are afraid of; then four questions. What is
    told next is drawn blindly until it may be told.

    Source: Weston et al. 2015, task 15, as in release 1.2 of the data.
    """

    name = "babi/qa15"
    version = 1
    words = words_of(*NAMES, *PLURAL, *PLURAL.values(), "are is afraid of a what")
    answers = SPECIES
    sentence_length, question_length = 5, 5
    longest = (8, 8, 8)
    splits = qa_splits(8, 8)
    blank = False

    def tell(self, draw: Draw) -> Iterator[Line]:
        """Yield eight statements and four questions."""
        feared = {species: draw.other(SPECIES, species) for species in SPECIES}
        fears: dict[str, int] = {}  # by species: the statement that tells it
        animals: dict[str, tuple[str, int]] = {}  # by name: species and statement
        while len(fears) + len(animals) < len(SPECIES) + len(NAMES):
            subject, told = draw.one(SPECIES + NAMES), len(fears) + len(animals)
            if subject in NAMES:
                species = draw.one(SPECIES)
                if subject not in animals and species in fears:
                    animals[subject] = species, told
                    yield f"{subject} is a {species}."
            elif subject not in fears:
                fears[subject] = told
                yield f"{PLURAL[subject].capitalize()} are afraid of {PLURAL[feared[subject]]}."
        for _ in range(ASKED):
            name = draw.one(NAMES)
            species, told = animals[name]
            yield Question(f"What is {name.lower()} afraid of?", feared[species], (told, fears[species]))
