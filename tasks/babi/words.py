"""Words and turns of phrase that the tasks share; every choice among them is even."""

from tasks.babi.draw import Draw

PEOPLE = ("Mary", "John", "Daniel", "Sandra")
ROOMS = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
PLACES = ("bedroom", "cinema", "kitchen", "office", "park", "school")
OBJECTS = ("apple", "football", "milk")

MOVES = ("went to", "went back to", "moved to", "journeyed to", "travelled to")
"""*Went back* says nothing about earlier visits."""
GETS = ("took", "got", "grabbed", "picked up")
DROPS = ("dropped", "discarded", "left", "put down")
GIVES = ("gave", "handed", "passed")
THEN = ("Then", "Afterwards", "After that", "Following that")

DIRECTIONS = ("north", "south", "east", "west")
OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}


def moved(draw: Draw, who: str, place: str) -> str:
    """Return that somebody (or several, or a pronoun) moved to a place, without the full stop."""
    return f"{who} {draw.one(MOVES)} the {place}"


def yes_no(draw: Draw, true: str, options: tuple[str, ...]) -> tuple[str, str]:
    """Return an option to ask about and the answer: the true one or, as often, an even choice of the others."""
    return (true, "yes") if draw.chance(0.5) else (draw.other(options, true), "no")
