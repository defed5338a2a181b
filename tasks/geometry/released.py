"""The text format in which the authors of Pointer Networks released hulls and tours.

An instance a line: coordinates, the word ``output``, and the answer's positions from 1 on, the first again at the end::

    0.1 0.1 0.9 0.8 0.9 0.1 0.1 0.8 output 1 3 2 4 1

Coordinates are rounded to multiples of 2^-24, as all of the suite: what is scored is what the model is shown.
"""

import math
from pathlib import Path

import numpy as np

from harness.errors import UserError
from harness.families.base import Examples
from harness.families.pointing import GRID, STOP
from harness.metrics.polygons import rings, simple
from tasks.geometry.points import has_copies, to_elements

SEPARATOR = "output"
LONGEST_POSITION = 9
"""Digits of a position; no instance has a billion points."""


class BadLineError(UserError):
    """A line of a file is not an instance."""


def read(path: Path, closed_tours: bool) -> Examples:
    """Return the instances of a file, targets as they stand there without the position that closes them.

    With ``closed_tours`` an answer names every point once; without, it goes round a polygon of at least three of them.
    A ``UserError`` names the file and the line of what cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    instances = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            points, answer = _points(line), _answer(line)
            (_require_tour if closed_tours else _require_polygon)(points, answer)
        except BadLineError as error:
            raise BadLineError(f"{path}, line {number}: {error}") from error
        instances.append((points, answer))
    if not instances:
        raise UserError(f"{path} holds no instance")
    return _examples(instances, stop=0 if closed_tours else 1)


def _examples(instances: list[tuple[np.ndarray, np.ndarray]], stop: int) -> Examples:
    """Return padded arrays; ``stop`` columns of -1 stand behind the longest answer."""
    sizes = np.array([len(points) for points, _ in instances])
    elements = np.zeros((len(instances), sizes.max(), 2), np.float32)
    indices = np.full((len(instances), max(len(answer) for _, answer in instances) + stop), STOP, np.int64)
    for row, (points, answer) in enumerate(instances):
        elements[row, : len(points)] = to_elements(points)
        indices[row, : len(answer)] = answer
    return Examples({"elements": elements, "length": sizes}, {"indices": indices}, sizes)


def _points(line: str) -> np.ndarray:
    """Return the points before the separator, ``(N,2) int64`` on the grid."""
    before, found, _ = line.partition(f" {SEPARATOR} ")
    if not found:
        raise BadLineError(f"the word {SEPARATOR!r} is missing between coordinates and answer")
    words = before.split()
    if len(words) % 2 or not words:
        raise BadLineError(f"{len(words)} coordinates; there must be two a point")
    values = [_number(word) for word in words]
    points = np.rint(np.array(values).reshape(-1, 2) * GRID).astype(np.int64)
    if has_copies(points[None])[0]:
        raise BadLineError("two points are the same")
    return points


def _number(word: str) -> float:
    try:
        value = float(word)
    except ValueError as error:
        raise BadLineError(f"coordinate {word!r} is not a number") from error
    if not (math.isfinite(value) and 0 <= value <= 1):
        raise BadLineError(f"coordinate {word} is not in the unit square, 0 to 1")
    return value


def _answer(line: str) -> np.ndarray:
    """Return the positions after the separator, from 0 on, without the last one, which closes the ring."""
    words = line.partition(f" {SEPARATOR} ")[2].split()
    for word in words:
        if not word.isdecimal() or len(word) > LONGEST_POSITION:
            raise BadLineError(f"answer {word!r} is not a position: a whole number, 1 or more")
    answer = np.array(words, dtype=np.int64) - 1
    if len(answer) < 2 or answer[0] != answer[-1]:
        raise BadLineError("the answer must end with the position that it began with")
    return answer[:-1]


def _require_range(points: np.ndarray, answer: np.ndarray) -> None:
    outside = answer[(answer < 0) | (answer >= len(points))]
    if len(outside):
        raise BadLineError(f"answer {outside[0] + 1} is out of range: there are {len(points)} points")


def _require_tour(points: np.ndarray, answer: np.ndarray) -> None:
    _require_range(points, answer)
    visits = np.bincount(answer, minlength=len(points))
    if (visits != 1).any():
        city = int((visits != 1).argmax())
        raise BadLineError(f"city {city + 1} is visited {visits[city]} times; a tour visits every city once")


def _require_polygon(points: np.ndarray, answer: np.ndarray) -> None:
    _require_range(points, answer)
    if len(points) < 3:
        raise BadLineError(f"{len(points)} points have no hull; there must be at least 3")
    if not simple(*rings(points[None], answer[None]))[0]:
        raise BadLineError("the answer is not a simple polygon: it crosses or touches itself, or has no area")


def text(examples: Examples) -> str:
    """Return ``examples`` as ``read`` reads them; coordinates as few digits as tell multiples of 2^-24 apart."""
    lines = []
    for elements, length, indices in zip(
        examples.inputs["elements"], examples.inputs["length"], examples.targets["indices"], strict=True
    ):
        answer = indices[indices != STOP] + 1
        coordinates = " ".join(str(value) for value in elements[:length].ravel())
        lines.append(f"{coordinates} {SEPARATOR} {' '.join(map(str, [*answer, answer[0]]))}\n")
    return "".join(lines)
