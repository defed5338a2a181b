"""``babi/qa14``: time reasoning."""

from collections.abc import Iterator
from typing import NamedTuple

from tasks.babi.draw import Draw
from tasks.babi.encoding import words_of
from tasks.babi.qa import QaTask, qa_splits
from tasks.babi.qa10 import FRIENDS
from tasks.babi.text import Line, Question
from tasks.babi.words import MOVES, PLACES, moved
from tasks.babi.world import QUESTIONS, WINDOW

TIMES = ("yesterday", "this morning", "this afternoon", "this evening")


class Visit(NamedTuple):
    """``who`` went to ``place`` at ``TIMES[time]``."""

    who: str
    time: int
    place: str


class Qa14(QaTask):
    """Where was somebody before a place, when statements say at what time of day but not in order?

    Examples (supporting statements in brackets)::

        1 Julie went to the park this morning.
        2 Yesterday Julie moved to the school.
        3 Where was Julie before the park? school [1 2]
        4 This afternoon Julie travelled to the cinema.
        5 Bill went to the office yesterday.
        6 Where was Julie before the cinema? park [4 1]

    Everybody goes to another place from yesterday to this evening, one time after the other. Visits come about two at a
    time, the first ones until a question is possible, and are shuffled before they are told: as in the release by a
    random cycle, so that none keeps its place and two are told in reverse. One of the last five visits is asked about;
    where a place was visited twice, the last visit counts.

    Source: Weston et al. 2015, task 14, as in release 1.2 of the data.
    """

    name = "babi/qa14"
    version = 1
    words = words_of(*FRIENDS, *PLACES, *MOVES, *TIMES, "the where was before")
    answers = PLACES
    sentence_length, question_length = 8, 6
    longest = (14, 14, 14)
    splits = qa_splits(2, 14)

    def tell(self, draw: Draw) -> Iterator[Line]:
        """Yield five times a block of statements and a question."""
        days: dict[str, list[Visit]] = {who: [] for who in FRIENDS}
        visits: list[Visit] = []  # as they came about
        told: dict[Visit, int] = {}  # with the number of statements told before
        for _ in range(QUESTIONS):
            askable: list[Visit] = []
            while not askable:
                visits += [self._visit(draw, days), self._visit(draw, days)]
                askable = [visit for visit in visits[-WINDOW:] if visit.time > 0]
            for visit in draw.cycled(visits[len(told) :]):
                told[visit] = len(told)
                yield self._statement(draw, visit)
            who, _, place = draw.one(askable)
            last = max(visit for visit in days[who] if visit.place == place)
            before = days[who][last.time - 1]
            yield Question(f"Where was {who} before the {place}?", before.place, (told[last], told[before]))

    def _visit(self, draw: Draw, days: dict[str, list[Visit]]) -> Visit:
        """Return the next visit of somebody whose day is not over."""
        while True:
            who = draw.one(FRIENDS)
            day = days[who]
            if len(day) < len(TIMES):
                day.append(Visit(who, len(day), draw.other(PLACES, day[-1].place if day else None)))
                return day[-1]

    def _statement(self, draw: Draw, visit: Visit) -> str:
        time = TIMES[visit.time]
        if draw.chance(0.5):
            return f"{time.capitalize()} {moved(draw, visit.who, visit.place)}."
        return f"{moved(draw, visit.who, visit.place)} {time}."
