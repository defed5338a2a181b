"""Stories with questions in between, and their text in the format of the bAbI release.

A line is ``ID text``; IDs count statements and questions from 1 in each story. A question's line has the answer and the
IDs of the supporting statements behind tabs::

    1 Mary went to the kitchen.
    2 Where is Mary? <tab>kitchen<tab>1
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from harness.errors import UserError


class Question(NamedTuple):
    """A question about the statements before it; ``support`` are their indices from 0, in the order of the argument."""

    text: str
    answer: str
    support: tuple[int, ...]


Line = str | Question
Story = list[Line]
"""Statements, as text, and questions, in the order in which they are told."""


def statements(story: Story) -> list[str]:
    """Return the statements of a story."""
    return [line for line in story if isinstance(line, str)]


def questions(story: Story) -> Iterator[tuple[Question, int]]:
    """Yield each question of a story with the number of statements before it."""
    told = 0
    for line in story:
        if isinstance(line, Question):
            yield line, told
        else:
            told += 1


def cut(story: Story, count: int) -> Story:
    """Return a story up to its ``count``-th question."""
    asked = 0
    for index, line in enumerate(story):
        asked += isinstance(line, Question)
        if asked == count:
            return story[: index + 1]
    return story


def export(stories: Iterable[Story], blank: bool = False) -> str:
    """Return stories in the release's format; ``blank`` stands before the tab behind a question, as in some files."""
    lines = []
    for story in stories:
        ids = [index for index, line in enumerate(story, start=1) if isinstance(line, str)]
        for index, line in enumerate(story, start=1):
            if isinstance(line, Question):
                support = " ".join(str(ids[fact]) for fact in line.support)
                lines.append(f"{index} {line.text}{' ' * blank}\t{line.answer}\t{support}")
            else:
                lines.append(f"{index} {line}")
    return "".join(f"{line}\n" for line in lines)


def parse(text: str, file: str) -> list[Story]:
    """Return the stories of a file in the release's format; a ``UserError`` names file and line of a fault."""
    stories: list[Story] = []
    places: dict[int, int] = {}  # of the statements of this story: ID to index
    lines = text.split("\n")
    complete = lines.pop() == ""
    for number, line in enumerate(lines, start=1):
        where = f"{file}:{number}"
        identifier, _, rest = line.partition(" ")
        if not identifier.isdigit() or not rest.strip():
            raise UserError(f"{where}: {line[:60]!r} is not a line `ID text`")
        expected = len(stories[-1]) + 1 if stories else 1
        if int(identifier) == 1:
            _require_question(stories, f"{file}:{number - 1}")
            stories.append([])
            places = {}
        elif int(identifier) != expected:
            raise UserError(f"{where}: line ID {identifier} follows {expected - 1}; it must be {expected}, or 1")
        if "\t" in rest:
            stories[-1].append(_question(rest, places, where))
        elif not rest.endswith("."):
            raise UserError(f"{where}: the statement {rest[:60]!r} does not end in a full stop; the file may be cut")
        else:
            places[int(identifier)] = len(places)
            stories[-1].append(rest)
    if not stories or not complete:
        raise UserError(f"{file}:{max(len(lines), 1)}: the file ends in the middle of a line, or holds no story")
    _require_question(stories, f"{file}:{len(lines)}")
    return stories


def _question(rest: str, places: dict[int, int], where: str) -> Question:
    parts = rest.split("\t")
    text = parts[0].rstrip()
    if len(parts) != 3 or not text.endswith("?") or not all(part.strip() for part in parts):
        raise UserError(f"{where}: not a question of the form `question? <tab> answer <tab> supporting IDs`")
    if not places:
        raise UserError(f"{where}: the question {text!r} stands before any statement of its story")
    support = parts[2].split()
    for identifier in support:
        if not identifier.isdigit() or int(identifier) not in places:
            valid = ", ".join(map(str, places))
            raise UserError(f"{where}: supporting ID {identifier!r} is not a statement before it. Valid: {valid}")
    return Question(text, parts[1], tuple(places[int(identifier)] for identifier in support))


def _require_question(stories: list[Story], where: str) -> None:
    """A story that no question ends is one that was cut."""
    if stories and not isinstance(stories[-1][-1], Question):
        raise UserError(f"{where}: the story ends without a question; the file may be cut")
