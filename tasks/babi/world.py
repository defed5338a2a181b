"""People who walk about, take things, drop them and hand them over: the world of tasks 1, 2, 3, 5, 6, 7 and 8.

Where anybody and anything is at first is drawn and never told. What happens next is drawn blindly (who, what, with
what) until it is possible, so that what is possible more often happens more often.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import ClassVar, NamedTuple

from tasks.babi.draw import Draw
from tasks.babi.qa import QaTask
from tasks.babi.text import Line, Question
from tasks.babi.words import DROPS, GETS, GIVES, OBJECTS, PEOPLE, ROOMS, moved

WINDOW = 5
"""A question is about something that happened in so many last statements."""
QUESTIONS = 5
"""Questions a story."""

MOVE, GET, DROP, GIVE = "move", "get", "drop", "give"


class Fact(NamedTuple):
    """What one statement says: ``who`` moves to ``what``, gets or drops ``what``, or gives it to ``whom``."""

    kind: str
    who: str
    what: str
    whom: str = ""


class WorldTask(QaTask):
    """Two statements at a time, then a question if one is possible, until five are asked.

    ``weights`` are those of the blind draw of a kind of action; ``get_there`` and ``drop_there`` the shares of
    statements about getting and dropping that end in *there*.
    """

    people: ClassVar[tuple[str, ...]] = PEOPLE
    weights: ClassVar[Mapping[str, float]] = {MOVE: 1, GET: 1, DROP: 1}
    get_there: ClassVar[float] = 1.0
    drop_there: ClassVar[float] = 0.2

    def tell(self, draw: Draw) -> Iterator[Line]:
        """Yield the statements and questions of a story."""
        world = World(draw, self.people, self.weights)
        facts: list[Fact] = []
        for _ in range(QUESTIONS):
            question = None
            while question is None:
                for _ in range(2):
                    facts.append(world.happen())
                    yield self.statement(draw, facts[-1])
                question = self.ask(draw, facts)
            yield question

    @abstractmethod
    def ask(self, draw: Draw, facts: list[Fact]) -> Question | None:
        """Return a question on something in the last five of ``facts``, None where none is possible."""

    def statement(self, draw: Draw, fact: Fact) -> str:
        """Return a fact in words."""
        if fact.kind == MOVE:
            return f"{moved(draw, fact.who, fact.what)}."
        if fact.kind == GIVE:
            return f"{fact.who} {draw.one(GIVES)} the {fact.what} to {fact.whom}."
        verbs, there = (GETS, self.get_there) if fact.kind == GET else (DROPS, self.drop_there)
        return f"{fact.who} {draw.one(verbs)} the {fact.what}{' there' if draw.chance(there) else ''}."


class World:
    """Where everybody is, who holds what, and where lies what nobody holds."""

    def __init__(self, draw: Draw, people: tuple[str, ...], weights: Mapping[str, float]):
        self._draw, self._people = draw, people
        self._kinds, self._bounds = list(weights), list(accumulate(weights.values()))
        self._at = {who: draw.one(ROOMS) for who in people}
        self._lies: dict[str, str | None] = {what: draw.one(ROOMS) for what in OBJECTS}
        self._held: dict[str, str | None] = dict.fromkeys(OBJECTS)

    def happen(self) -> Fact:
        """Return what happens next."""
        while True:
            who, kind = self._draw.one(self._people), self._draw.weighted(self._kinds, self._bounds)
            fact = self._move(who) if kind == MOVE else self._handle(kind, who)
            if fact is not None:
                return fact

    def _move(self, who: str) -> Fact | None:
        room = self._draw.one(ROOMS)
        if room == self._at[who]:
            return None
        self._at[who] = room
        return Fact(MOVE, who, room)

    def _handle(self, kind: str, who: str) -> Fact | None:
        """Return what ``who`` does with an object, None where there is none or nobody to give it to."""
        here = self._at[who]
        if kind == GET:
            objects = [what for what in OBJECTS if self._lies[what] == here]
        else:
            objects = [what for what in OBJECTS if self._held[what] == who]
        others = [whom for whom in self._people if whom != who and self._at[whom] == here] if kind == GIVE else [""]
        if not objects or not others:
            return None
        fact = Fact(kind, who, self._draw.one(objects), self._draw.one(others))
        self._held[fact.what] = {GET: who, DROP: None, GIVE: fact.whom}[kind]
        self._lies[fact.what] = here if kind == DROP else None
        return fact


def latest(facts: list[Fact], test: Callable[[Fact], bool], before: int | None = None) -> int | None:
    """Return the index of the last of ``facts[:before]`` that passes ``test``, None if none does."""
    end = len(facts) if before is None else before
    return next((index for index in range(end - 1, -1, -1) if test(facts[index])), None)


def window(facts: list[Fact]) -> range:
    """Return the indices of the facts that a question may be about."""
    return range(max(0, len(facts) - WINDOW), len(facts))
