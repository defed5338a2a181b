"""A symbolic reader of the twenty tasks, written from what the sentences mean: it shares nothing with the generator.

``answer(task, statements, question)`` sees the text alone and returns the answer and the supporting statements (indices
from 0) in the order of the argument. Everything is looked up backwards from the question.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

Found = tuple[str, tuple[int, ...]]

MOVE = r"(?:went back|went|moved|journeyed|travelled) to the"
GET = r"(?:took|got|grabbed|picked up)"
DROP = r"(?:dropped|discarded|left|put down)"
GIVE = r"(?:gave|handed|passed)"
OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}


def read(pattern: str, text: str) -> tuple[str, ...]:
    found = re.fullmatch(pattern, text)
    return found.groups() if found else ()


def backwards(statements: list[str], pattern: str, before: int | None = None) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the statements that match, the latest first."""
    for index in reversed(range(len(statements) if before is None else before)):
        found = re.fullmatch(pattern, statements[index])
        if found:
            yield index, found.groups()


def handling(statements: list[str], thing: str, before: int | None = None) -> Iterator[tuple[int, tuple[str, ...]]]:
    return backwards(statements, rf"(\w+) ({GET}|{DROP}) the {thing}(?: there)?\.", before)


def is_get(verb: str) -> bool:
    return re.fullmatch(GET, verb) is not None


def where_person(statements: list[str], question: str) -> Found:
    (who,) = read(r"Where is (\w+)\?", question)
    index, (place,) = next(backwards(statements, rf"{who} {MOVE} (\w+)\."))
    return place, (index,)


def where_thing(statements: list[str], question: str) -> Found:
    (thing,) = read(r"Where is the (\w+)\?", question)
    index, (who, verb) = next(handling(statements, thing))
    move, (place,) = next(backwards(statements, rf"{who} {MOVE} (\w+)\.", None if is_get(verb) else index))
    return place, (index, move)


def before_room(statements: list[str], question: str) -> Found:
    thing, room = read(r"Where was the (\w+) before the (\w+)\?", question)
    index, (who, verb) = next(handling(statements, thing))
    end, start = len(statements), index
    if not is_get(verb):
        end, start = index, next((i for i, (_, verb) in handling(statements, thing, index) if is_get(verb)), -1)
    moves = [(i, place) for i, (place,) in backwards(statements, rf"{who} {MOVE} (\w+)\.", end) if i > start]
    for (later, place), (earlier, answer) in pairwise(moves):
        if place == room:
            return answer, (index, later, earlier)
    raise AssertionError("no such stay")


def two_rooms(statements: list[str], question: str) -> Found:
    facts = [read(r"The (\w+) is (\w+) of the (\w+)\.", text) for text in statements]
    direction, named = read(r"What is (\w+) of the (\w+)\?", question) or ("", "")
    if not direction:
        named, away = read(r"What is the (\w+) (\w+) of\?", question)
        direction = OPPOSITE[away]
    for index, (a, side, b) in enumerate(facts):
        if (side, b) == (direction, named):
            return a, (index,)
        if (OPPOSITE[side], a) == (direction, named):
            return b, (index,)
    raise AssertionError("no such neighbour")


def handed_over(statements: list[str], question: str) -> Found:
    any_one = r"\w+"
    for pattern, blank in {
        r"What did (?P<who>\w+) give to (?P<whom>\w+)\?": "what",
        r"Who gave the (?P<what>\w+)\?": "who",
        r"Who gave the (?P<what>\w+) to (?P<whom>\w+)\?": "who",
        r"Who received the (?P<what>\w+)\?": "whom",
        r"Who did (?P<who>\w+) give the (?P<what>\w+) to\?": "whom",
    }.items():
        asked = re.fullmatch(pattern, question)
        if asked:
            known = {"who": any_one, "what": any_one, "whom": any_one} | asked.groupdict()
            form = rf"({known['who']}) {GIVE} the ({known['what']}) to ({known['whom']})\."
            index, groups = next(backwards(statements, form))
            return dict(zip(("who", "what", "whom"), groups, strict=True))[blank], (index,)
    raise AssertionError(question)


def yes_or_no(statements: list[str], question: str) -> Found:
    who, room = read(r"Is (\w+) in the (\w+)\?", question)
    for index in reversed(range(len(statements))):
        text = statements[index]
        if not text.startswith(f"{who} "):
            continue
        if place := read(rf"{who} (?:{MOVE}|is in the) (\w+)\.", text):
            return ("yes" if place[0] == room else "no"), (index,)
        if denied := read(rf"{who} is (?:not|no longer) in the (\w+)\.", text):
            assert denied[0] == room, "undetermined"
            return "no", (index,)
        if choice := read(rf"{who} is either in the (\w+) or the (\w+)\.", text):
            return ("maybe" if room in choice else "no"), (index,)
    raise AssertionError("nothing is told")


def handled_by(statements: list[str], who: str) -> dict[str, list[tuple[int, int]]]:
    """Return by thing, in order of first touch, the statements in which ``who`` gets (+1) or loses (-1) it."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for index, text in enumerate(statements):
        if got := read(rf"{who} {GET} the (\w+)(?: there)?\.", text) or read(rf"\w+ {GIVE} the (\w+) to {who}\.", text):
            found[got[0]].append((index, 1))
        elif lost := read(rf"{who} {DROP} the (\w+)(?: there)?\.", text) or read(
            rf"{who} {GIVE} the (\w+) to \w+\.", text
        ):
            found[lost[0]].append((index, -1))
    return found


def how_many(statements: list[str], question: str) -> Found:
    (who,) = read(r"How many objects is (\w+) carrying\?", question)
    events = [event for told in handled_by(statements, who).values() for event in told]
    number = sum(change for _, change in events)
    return ("none", "one", "two", "three")[number], tuple(sorted(index for index, _ in events))


def what_carried(statements: list[str], question: str) -> Found:
    (who,) = read(r"What is (\w+) carrying\?", question)
    things = handled_by(statements, who)
    held = [thing for thing, told in things.items() if sum(change for _, change in told) == 1]
    return ",".join(held) or "nothing", tuple(index for told in things.values() for index, _ in told)


def pronoun(statements: list[str], question: str) -> Found:
    """Tasks 11, 12 and 13: names, pairs of names, and pronouns for the subject of the statement before."""
    (who,) = read(r"Where is (\w+)\?", question)
    for index in reversed(range(len(statements))):
        place = read(rf".*{MOVE} (\w+)\.", statements[index])
        named = re.match(rf"(\w+)(?: and (\w+))? {MOVE}", statements[index])
        follows = re.match(r"(?:Then|Afterwards|After that|Following that) (?:he|she|they) ", statements[index])
        if follows:
            named = re.match(rf"(\w+)(?: and (\w+))? {MOVE}", statements[index - 1])
        assert named is not None
        if who in named.groups():
            return place[0], (index - 1, index) if follows else (index,)
    raise AssertionError("nothing is told")


def before_in_day(statements: list[str], question: str) -> Found:
    who, room = read(r"Where was (\w+) before the (\w+)\?", question)
    times = ("yesterday", "this morning", "this afternoon", "this evening")
    day: dict[int, tuple[int, str]] = {}
    for index, text in enumerate(statements):
        for time, phrase in enumerate(times):
            told = read(rf"{phrase.capitalize()} {who} {MOVE} (\w+)\.", text) or read(
                rf"{who} {MOVE} (\w+) {phrase}\.", text
            )
            if told:
                assert time not in day, "two places at a time"
                day[time] = index, told[0]
    last = max(time for time, (_, place) in day.items() if place == room)
    (then, _), (earlier, answer) = day[last], day[last - 1]
    return answer, (then, earlier)


def feared(statements: list[str], question: str) -> Found:
    plural = {"mice": "mouse", "wolves": "wolf", "cats": "cat", "sheep": "sheep"}
    (who,) = read(r"What is (\w+) afraid of\?", question)
    animal, (species,) = next(backwards(statements, rf"{who.capitalize()} is an? (\w+)\."))
    for fear, (subject, of) in backwards(statements, r"(\w+) are afraid of (\w+)\."):
        if plural[subject.lower()] == species:
            return plural[of], (animal, fear)
    raise AssertionError("no such fear")


def same_colour(statements: list[str], question: str) -> Found:
    (who,) = read(r"What color is (\w+)\?", question)
    own, (species,) = next(backwards(statements, rf"{who} is a (\w+)\."))
    peer, (other,) = next(
        (index, groups) for index, groups in backwards(statements, rf"(\w+) is a {species}\.") if groups != (who,)
    )
    colour, (answer,) = next(backwards(statements, rf"{other} is (?!a )(\w+)\."))
    return answer, (own, peer, colour)


def position(statements: list[str], question: str) -> Found:
    steps = {"above": (0, 1), "below": (0, -1), "to the left of": (-1, 0), "to the right of": (1, 0)}
    relation = "|".join(steps)
    facts = [read(rf"The (.+?) is ({relation}) the (.+)\.", text) for text in statements]
    subject, asked, other = read(rf"Is the (.+?) ({relation}) the (.+)\?", question)
    place = {subject: (0, 0)}
    while other not in place:
        for a, step, b in facts:
            dx, dy = steps[step]
            if b in place and a not in place:
                place[a] = place[b][0] + dx, place[b][1] + dy
            elif a in place and b not in place:
                place[b] = place[a][0] - dx, place[a][1] - dy
    assert len(set(place.values())) == len(place), "two shapes at one place"
    dx, dy = steps[asked]
    holds = -place[other][0] * dx - place[other][1] * dy > 0
    first = next(index for index, (a, _, b) in enumerate(facts) if subject in (a, b))
    return ("yes" if holds else "no"), (first, 1 - first)


def compare_sizes(statements: list[str], question: str) -> Found:
    facts = []
    for text in statements:
        fits = read(r"The (.+) fits inside the (.+)\.", text)
        facts.append(fits or read(r"The (.+) is bigger than the (.+)\.", text)[::-1])
    asked = read(r"Does the (.+) fit in the (.+)\?", question)
    small, large = asked or read(r"Is the (.+) bigger than the (.+)\?", question)[::-1]

    def reaches(start: str, goal: str) -> bool:
        above = {b for a, b in facts if a == start}
        return goal in above or any(reaches(thing, goal) for thing in above)

    yes, no = reaches(small, large), reaches(large, small)
    assert yes != no, "undetermined or contradictory"
    return ("yes" if yes else "no"), ()


def way(statements: list[str], question: str) -> Found:
    beside: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
    for index, text in enumerate(statements):
        a, side, b = read(r"The (\w+) is (\w+) of the (\w+)\.", text)
        beside[b].append((a, side, index))
        beside[a].append((b, OPPOSITE[side], index))
    start, goal = read(r"How do you go from the (\w+) to the (\w+)\?", question)

    def paths(room: str, seen: tuple[str, ...]) -> Iterator[list[tuple[str, int]]]:
        if room == goal:
            yield []
        for neighbour, side, index in beside[room]:
            if neighbour not in seen:
                for rest in paths(neighbour, (*seen, neighbour)):
                    yield [(side[0], index), *rest]

    (only,) = paths(start, (start,))
    return ",".join(side for side, _ in only), tuple(index for _, index in only)


def motive(statements: list[str], question: str) -> Found:
    leads = {"hungry": "kitchen", "thirsty": "kitchen", "bored": "garden", "tired": "bedroom"}
    (who,) = read(r"(?:Where will|Why did) (\w+) .*\?", question)
    index, (state,) = next(backwards(statements, rf"{who.capitalize()} is (\w+)\."))
    return (leads[state] if question.startswith("Where") else state), (index,)


READERS: dict[int, Callable[[list[str], str], Found]] = {
    1: where_person,
    2: where_thing,
    3: before_room,
    4: two_rooms,
    5: handed_over,
    6: yes_or_no,
    7: how_many,
    8: what_carried,
    9: yes_or_no,
    10: yes_or_no,
    11: pronoun,
    12: pronoun,
    13: pronoun,
    14: before_in_day,
    15: feared,
    16: same_colour,
    17: position,
    18: compare_sizes,
    19: way,
    20: motive,
}


def answer(task: int, statements: list[str], question: str) -> Found:
    """Return the answer and the supporting statements; those of task 18 are not unique and left to ``is_chain``."""
    return READERS[task](statements, question)


def is_chain(statements: list[str], question: str, support: tuple[int, ...]) -> bool:
    """Return whether two statements of task 18 alone answer the question, the one about the claimed larger first."""
    first, then = support
    asked = (
        read(r"Does the (.+) fit in the (.+)\?", question)
        or read(r"Is the (.+) bigger than the (.+)\?", question)[::-1]
    )
    named = statements[first].replace("box of chocolates", "B").split()
    claimed = asked[1].replace("box of chocolates", "B")
    pair = [statements[first], statements[then]]
    if f"{claimed}" not in [word.rstrip(".") for word in named]:
        return False
    try:
        return compare_sizes(pair, question)[0] == compare_sizes(statements, question)[0]
    except AssertionError:
        return False
