"""Scenes as pictures: RGB bytes, and the objects read back off them."""

import numpy as np
from scipy.ndimage import label

from tasks.sort_of_clevr.scenes import CIRCLE, MASKS, RADIUS, SIDE, SQUARE, Scenes

BACKGROUND = 255
RGB = np.array([(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 156, 0), (128, 128, 128), (255, 255, 0)], np.uint8)
"""``(6,3)``: red, green and blue of each of ``COLOURS``; the background is white."""
CHUNK = 64
"""Pictures painted at once: what they need stays in cache."""

_AROUND = [((np.argwhere(mask) - RADIUS) @ (SIDE, 1)).astype(np.int32) for mask in MASKS]
"""Where an object's pixels lie in a flat channel, counted from its centre."""


def paint(scenes: Scenes) -> np.ndarray:
    """Return the pictures ``(n,3,75,75) uint8``: red, green, blue; rows from the top; columns from the left."""
    count = len(scenes)
    pictures = np.empty((count, 3 * SIDE * SIDE), np.uint8)
    for start in range(0, count, CHUNK):
        own = slice(start, start + CHUNK)
        pictures[own] = BACKGROUND
        _paint(pictures[own].reshape(-1), scenes.centre[own], scenes.colour[own], scenes.shape[own])
    return pictures.reshape(count, 3, SIDE, SIDE)


def _paint(pixels: np.ndarray, centre: np.ndarray, colour: np.ndarray, shape: np.ndarray) -> None:
    """Paint objects ``(n,N)`` into the flat ``pixels (n·3·75·75,)`` of their pictures."""
    picture = np.arange(len(shape), dtype=np.int32)[:, None] * np.int32(3 * SIDE * SIDE)
    middle = picture + (centre @ (SIDE, 1)).astype(np.int32)  # (n,N) where the centres lie in the red channel
    for kind in (SQUARE, CIRCLE):
        chosen = shape == kind
        at = middle[chosen][:, None] + _AROUND[kind]  # (objects, pixels)
        for channel, value in enumerate(RGB[colour[chosen]].T):
            pixels[at + np.int32(channel * SIDE * SIDE)] = value[:, None]


def read(pictures: np.ndarray) -> Scenes:
    """Return the scenes that ``pictures (n,3,75,75)`` show, objects in order of colour; all must show equally many.

    An object is a connected patch of one colour; its centre is the mean of its pixels, and a square has all 121.
    """
    found = []
    linked = np.zeros((3, 3, 3), int)
    linked[1] = 1  # to its neighbours in the picture, never to another picture
    for colour, rgb in enumerate(RGB):
        mine = (pictures == rgb[:, None, None]).all(1)  # (n,75,75)
        patches, count = label(mine, linked)
        place = np.argwhere(mine)
        owner = patches[mine] - 1
        pixels = np.bincount(owner, minlength=count)
        sums = np.stack([np.bincount(owner, weights=column, minlength=count) for column in place.T], axis=1)
        scene, row, column = (sums / pixels[:, None]).round().astype(np.int64).T
        shape = np.where(pixels == MASKS[SQUARE].sum(), SQUARE, CIRCLE)
        found.append(np.stack([scene, np.full(count, colour), row, column, shape], axis=1))
    every = np.concatenate(found)
    every = every[every[:, 0].argsort(kind="stable")].reshape(len(pictures), -1, 5)
    return Scenes(centre=every[..., 2:4], colour=every[..., 1], shape=every[..., 4])
