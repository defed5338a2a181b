"""A reader of all twenty tasks: it goes through a story once, keeps what it was told, and looks the answer up.

It works on plain words and shares nothing with the generators. Where statements are missing it answers as far as it
can, or not at all; so it also says what the last few statements alone are worth.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

MOVE = r"(?:went back|went|moved|journeyed|travelled) to the (\w+)"
OPPOSITE = {
    **{"north": "south", "south": "north", "east": "west", "west": "east"},
    **{"above": "below", "below": "above", "to the left of": "to the right of", "to the right of": "to the left of"},
}
STEPS = {"above": (0, 1), "below": (0, -1), "to the left of": (-1, 0), "to the right of": (1, 0)}
SINGULAR = {"mice": "mouse", "wolves": "wolf", "cats": "cat", "sheep": "sheep"}
LEADS_TO = {"hungry": "kitchen", "thirsty": "kitchen", "bored": "garden", "tired": "bedroom"}
NUMBERS = ("none", "one", "two", "three")
TIMES = ("yesterday", "this morning", "this afternoon", "this evening")


class Reader:
    """What a story has told so far. Words are in lower case, without the mark at a sentence's end."""

    def __init__(self, statements: Iterable[str]):
        self.places: dict[str, list[str]] = {}  # of people and things, in order
        self.possible: dict[str, tuple[bool, tuple[str, ...]]] = {}  # whether somebody is in one of some places
        self.carried: dict[str, list[str]] = {}  # by person, in the order in which things were first touched
        self.holder: dict[str, str] = {}
        self.given: list[tuple[str, str, str]] = []  # who, what, whom
        self.days: dict[str, dict[int, str]] = {}
        self.sides: dict[str, dict[str, str]] = {}  # by thing and side: its neighbour
        self.facts: dict[str, str] = {}  # species, colour or state of a person, what a species fears
        self.species: dict[str, str] = {}
        self.colours: dict[str, str] = {}
        self.larger: dict[str, set[str]] = {}
        self._subjects: list[str] = []  # whom a pronoun means
        for text in statements:
            for pattern, told in self._SAYS.items():
                found = re.fullmatch(pattern, text)
                if found:
                    told(self, *found.groups())
                    break

    def answer(self, question: str) -> str | None:
        """Return the answer, None where the story does not tell."""
        for pattern, asked in self._ASKS.items():
            found = re.fullmatch(pattern, question)
            if found:
                try:
                    return asked(self, *found.groups())
                except (LookupError, ValueError):
                    return None
        return None

    # What statements say

    def _went(self, before: str | None, first: str, second: str | None, place: str, after: str | None) -> None:
        if first not in ("he", "she", "they"):
            self._subjects = [first] if second is None else [first, second]
        for who in self._subjects:
            if before in TIMES or after in TIMES:
                self.days.setdefault(who, {})[TIMES.index(before or after or "")] = place
            self.places.setdefault(who, []).append(place)
            self.possible[who] = True, (place,)
            for what, holder in self.holder.items():
                if holder == who:
                    self.places[what].append(place)

    def _took(self, who: str, what: str) -> None:
        self.holder[what] = who
        self.places[what] = self.places.get(who, [])[-1:]
        touched = self.carried.setdefault(who, [])
        touched += [what] if what not in touched else []

    def _dropped(self, who: str, what: str) -> None:
        if self.holder.pop(what, None) is None:  # it was taken before the story
            self.places[what] = self.places.get(who, [])[-1:]

    def _gave(self, who: str, what: str, whom: str) -> None:
        self.given.append((who, what, whom))
        self._took(whom, what)

    def _is_in(self, who: str, how: str, first: str, second: str | None) -> None:
        self.possible[who] = how in ("in", "either in"), (first,) if second is None else (first, second)

    def _beside(self, first: str, side: str, second: str) -> None:
        self.sides.setdefault(second, {})[side] = first
        self.sides.setdefault(first, {})[OPPOSITE[side]] = second

    def _is(self, who: str, kind: str | None, what: str) -> None:
        if kind is None:
            self.colours[who] = self.facts[who] = what
        else:
            self.species.pop(who, None)
            self.species[who] = what

    def _fears(self, species: str, other: str) -> None:
        self.facts[SINGULAR[species]] = SINGULAR[other]

    def _fits(self, small: str, large: str) -> None:
        self.larger.setdefault(small, set()).add(large)

    _SAYS: ClassVar[Mapping[str, Callable[..., None]]] = {
        rf"(?:(then|afterwards|after that|following that|{'|'.join(TIMES)}) )?(\w+)(?: and (\w+))? {MOVE}"
        rf"(?: ({'|'.join(TIMES)}))?": _went,
        r"(\w+) (?:took|got|grabbed|picked up) the (\w+)(?: there)?": _took,
        r"(\w+) (?:dropped|discarded|left|put down) the (\w+)(?: there)?": _dropped,
        r"(\w+) (?:gave|handed|passed) the (\w+) to (\w+)": _gave,
        r"(\w+) is (in|not in|no longer in|either in) the (\w+)(?: or the (\w+))?": _is_in,
        r"the (\w+) is (north|south|east|west) of the (\w+)": _beside,
        r"the (.+) is (above|below|to the left of|to the right of) the (.+)": _beside,
        r"(\w+) is (?:(a) )?(\w+)": _is,
        r"(\w+) are afraid of (\w+)": _fears,
        r"the (.+) fits inside the (.+)": _fits,
        r"the (.+) is bigger than the (.+)": lambda self, large, small: self._fits(small, large),
    }

    # What questions ask

    def _where(self, what: str) -> str:
        return self.places[what][-1]

    def _where_before(self, what: str, place: str) -> str:
        if what in self.days:
            day = self.days[what]
            return day[max(time for time, own in day.items() if own == place) - 1]
        places = self.places[what]
        return places[max(index for index, own in enumerate(places) if own == place and index) - 1]

    def _is_there(self, who: str, place: str) -> str:
        there, places = self.possible[who]
        if place not in places or not there:
            return "no"
        return "yes" if len(places) == 1 else "maybe"

    def _holds(self, who: str) -> list[str]:
        return [what for what in self.carried.get(who, []) if self.holder.get(what) == who]

    def _who_gave(self, what: str, whom: str | None) -> str:
        return [who for who, thing, other in self.given if thing == what and whom in (None, other)][-1]

    def _side(self, side: str, what: str) -> str:
        return self.sides[what][side]

    def _lies(self, first: str, side: str, second: str) -> str:
        """Put the second thing at (0, 0) and go from thing to thing."""
        found, ahead = {second: (0, 0)}, [second]
        for thing in ahead:
            for step, other in self.sides.get(thing, {}).items():
                if other not in found:
                    found[other] = found[thing][0] + STEPS[step][0], found[thing][1] + STEPS[step][1]
                    ahead.append(other)
        return "yes" if sum(a * b for a, b in zip(found[first], STEPS[side], strict=True)) > 0 else "no"

    def _compare(self, small: str, large: str) -> str | None:
        def above(thing: str, seen: frozenset[str]) -> frozenset[str]:
            for other in self.larger.get(thing, set()) - seen:
                seen = above(other, seen | {other})
            return seen

        fits, contains = large in above(small, frozenset()), small in above(large, frozenset())
        return None if fits == contains else "yes" if fits else "no"

    def _way(self, start: str, goal: str) -> str:
        ways = {start: ""}
        for room in (ahead := [start]):
            for side, neighbour in self.sides[room].items():
                if neighbour not in ways:
                    ways[neighbour] = f"{ways[room]},{side[0]}"
                    ahead.append(neighbour)
        return ways[goal][1:]

    def _colour(self, who: str) -> str:
        peers = [other for other, kind in self.species.items() if kind == self.species[who] and other != who]
        return self.colours[peers[-1]]

    _ASKS: ClassVar[Mapping[str, Callable[..., str | None]]] = {
        r"where is (?:the )?(\w+)": _where,
        r"where was (?:the )?(\w+) before the (\w+)": _where_before,
        r"is (\w+) in the (\w+)": _is_there,
        r"how many objects is (\w+) carrying": lambda self, who: NUMBERS[len(self._holds(who))],
        r"what is (\w+) carrying": lambda self, who: ",".join(self._holds(who)) or "nothing",
        r"what did (\w+) give to (\w+)": lambda self, a, b: [what for x, what, y in self.given if (x, y) == (a, b)][-1],
        r"who gave the (\w+)(?: to (\w+))?": _who_gave,
        r"who received the (\w+)": lambda self, what: [whom for _, thing, whom in self.given if thing == what][-1],
        r"who did (\w+) give the (\w+) to": lambda self, a, what: [
            whom for who, thing, whom in self.given if (who, thing) == (a, what)
        ][-1],
        r"what is (north|south|east|west) of the (\w+)": _side,
        r"what is the (\w+) (\w+) of": lambda self, what, side: self._side(OPPOSITE[side], what),
        r"is the (.+) (above|below|to the left of|to the right of) the (.+)": _lies,
        r"does the (.+) fit in the (.+)": _compare,
        r"is the (.+) bigger than the (.+)": lambda self, large, small: self._compare(small, large),
        r"how do you go from the (\w+) to the (\w+)": _way,
        r"what is (\w+) afraid of": lambda self, who: self.facts[self.species[who]],
        r"what color is (\w+)": _colour,
        r"where will (\w+) go": lambda self, who: LEADS_TO[self.facts[who]],
        r"why did (\w+) .+": lambda self, who: self.facts[who],
    }
