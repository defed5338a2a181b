"""Scenes of ``sort-of-clevr`` written by hand, and when two are the same."""

import numpy as np

from tasks.sort_of_clevr.scenes import Scenes

PLAIN = ("sort-of-clevr/pixels", "sort-of-clevr/state")
PAIRS = ("sort-of-clevr/pixels-pairs", "sort-of-clevr/state-pairs")
RED, GREEN, BLUE, ORANGE, GRAY, YELLOW = range(6)


def scene(*objects: tuple[int, int, int, int]) -> Scenes:
    """One scene of (row, column, colour, shape)."""
    table = np.array(objects)[None]
    return Scenes(table[..., :2], table[..., 2], table[..., 3])


def take(scenes: Scenes, rows: slice) -> Scenes:
    return Scenes(scenes.centre[rows], scenes.colour[rows], scenes.shape[rows])


def by_colour(scenes: Scenes) -> Scenes:
    """Objects in order of colour, then as the picture is read."""
    order = np.lexsort((scenes.centre[..., 1], scenes.centre[..., 0], scenes.colour))
    colour, shape = (np.take_along_axis(a, order, 1) for a in (scenes.colour, scenes.shape))
    return Scenes(np.take_along_axis(scenes.centre, order[..., None], 1), colour, shape)


def same(a: Scenes, b: Scenes) -> bool:
    a, b = by_colour(a), by_colour(b)
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("centre", "colour", "shape"))
