"""Scenes as numbers: what objects they hold and where, drawn at random. All geometry is in integers."""

from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState
from scipy.ndimage import distance_transform_cdt

SIDE = 75
"""Pixels of the image, both ways; rows count downwards from 0, columns to the right."""
RADIUS = 5
"""An object is 11 pixels across."""
MIDDLE = SIDE // 2
LOWEST, HIGHEST = RADIUS, SIDE - 1 - RADIUS
"""Rows and columns that a centre may lie in: the object is whole."""

COLOURS = ("red", "green", "blue", "orange", "gray", "yellow")
SHAPES = ("square", "circle")
SQUARE, CIRCLE = range(2)

_AWAY = np.abs(np.arange(-RADIUS, RADIUS + 1))
MASKS = np.stack([np.ones((2 * RADIUS + 1,) * 2, bool), _AWAY[:, None] ** 2 + _AWAY**2 <= RADIUS * (RADIUS + 1)])
"""``(2,11,11) bool``: the pixels of a square and of a circle around its centre (the filled midpoint circle)."""

PATIENCE = 1000
"""Places to try for an object before the scene is begun again."""


@dataclass(frozen=True)
class Scenes:
    """n scenes of N objects: ``centre (n,N,2)`` as (row, column), ``colour (n,N)``, ``shape (n,N)``; all integers."""

    centre: np.ndarray
    colour: np.ndarray
    shape: np.ndarray

    def __len__(self) -> int:
        return len(self.shape)


def _conflicts() -> np.ndarray:
    """Return ``(2,2,2,w,w) bool``: [same colour, shape, shape, rows apart, columns apart].

    Objects conflict that share a pixel, and objects of one colour that touch, even at a corner: they would be one blot.
    """
    width, across = 2 * RADIUS + 3, 2 * RADIUS + 1
    table = np.zeros((2, 2, 2, width, width), bool)
    for shape, mask in enumerate(MASKS):
        field = np.ones((2 * width, 2 * width), bool)
        field[:across, :across] = ~mask
        distance = distance_transform_cdt(field, "chessboard")  # from every pixel to the object
        for other, rows, columns in np.ndindex(2, width, width):
            nearest = distance[rows : rows + across, columns : columns + across][MASKS[other]].min()
            table[:, shape, other, rows, columns] = nearest < 1, nearest < 2
    return table


CONFLICT = _conflicts()


def place(rng: RandomState, colour: np.ndarray, shape: np.ndarray) -> Scenes:
    """Return scenes of the given objects ``(n,N)``, one after another at an even choice among the places left free."""
    count, objects = shape.shape
    centre = np.zeros((count, objects, 2), np.int64)
    for k in range(objects):
        missing, tries = np.arange(count), 0
        while len(missing) and tries < PATIENCE:
            spot = rng.randint(LOWEST, HIGHEST + 1, size=(len(missing), 2))
            apart = np.abs(centre[missing, :k] - spot[:, None]).clip(max=CONFLICT.shape[-1] - 1)  # (m,k,2)
            same = (colour[missing, :k] == colour[missing, k, None]).astype(np.int64)
            clash = CONFLICT[same, shape[missing, :k], shape[missing, k, None], apart[..., 0], apart[..., 1]]
            free = ~clash.any(1)
            centre[missing[free], k] = spot[free]
            missing, tries = missing[~free], tries + 1
        if len(missing):
            again = place(rng, colour[missing, : k + 1], shape[missing, : k + 1])
            centre[missing, : k + 1] = again.centre
    return Scenes(centre, colour, shape)


def shuffled_colours(rng: RandomState, count: int) -> np.ndarray:
    """Return the six colours in random order, ``(count,6)``."""
    return rng.random_sample((count, len(COLOURS))).argsort(1, kind="stable")


def one_a_colour(rng: RandomState, count: int) -> Scenes:
    """Return scenes of six objects, one a colour, listed in random order; square or circle at even odds."""
    colour = shuffled_colours(rng, count)
    return place(rng, colour, rng.randint(0, 2, size=colour.shape))


CROWD_COLOURS = 2
"""Colours that the further objects of a crowded scene share."""


def crowded(rng: RandomState, count: int, objects: int) -> Scenes:
    """Return scenes of more than six objects: four colours have one each, two share the rest, at random.

    Both kinds keep to what training shows: the colours, the shapes, the size. Questions are about the four alone.
    """
    order = shuffled_colours(rng, count)  # the last two are the crowd's
    single = len(COLOURS) - CROWD_COLOURS
    crowd = np.arange(objects - single) % CROWD_COLOURS + single  # each colour half of the crowd
    slot = np.concatenate([np.arange(single), crowd])
    slot = slot[rng.random_sample((count, objects)).argsort(1, kind="stable")]
    colour = np.take_along_axis(order, slot, axis=1)
    return place(rng, colour, rng.randint(0, 2, size=colour.shape))


UNSEEN = {"red": SQUARE, "green": CIRCLE, "blue": SQUARE, "orange": CIRCLE}
"""The colour–shape pairs that the tasks of unseen pairs keep out of training; gray and yellow have both shapes."""


def one_a_colour_with_unseen(rng: RandomState, count: int, unseen: int) -> Scenes:
    """Return scenes of six objects, one a colour, with exactly ``unseen`` (0, 2 or 4) of the pairs of ``UNSEEN``.

    Half of them are squares, so that there are as many squares and circles as in scenes without an unseen pair: what is
    new is the pairs and not the counts.
    """
    colour = shuffled_colours(rng, count)
    shape = rng.randint(0, 2, size=colour.shape)
    lot = rng.random_sample((count, 2, len(SHAPES)))  # (red, blue), (green, orange)
    rank = lot.argsort(1, kind="stable").argsort(1, kind="stable").reshape(count, len(UNSEEN))
    held_out = np.array([UNSEEN[name] for name in COLOURS[: len(UNSEEN)]])
    bound = np.where(rank < unseen // 2, held_out, 1 - held_out)  # (n,4) the shapes of the first four colours
    of_bound = colour < len(UNSEEN)
    shape[of_bound] = bound[np.nonzero(of_bound)[0], colour[of_bound]]
    return place(rng, colour, shape)
