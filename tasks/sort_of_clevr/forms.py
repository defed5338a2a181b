"""The two forms in which a model is shown a scene: its picture, or its objects' states."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from harness.families.base import Stored
from tasks.sort_of_clevr import raster
from tasks.sort_of_clevr.scenes import COLOURS, HIGHEST, MIDDLE, SHAPES, SIDE, Scenes
from tasks.sort_of_clevr.suite import SortOfClevr


class PixelForm(SortOfClevr):
    """A picture: ``(3,75,75) uint8``, red, green, blue; rows from the top, columns from the left."""

    image: ClassVar[tuple[int, int] | None] = (SIDE, SIDE)
    channels: ClassVar[int] = 3
    draws: ClassVar[tuple[str, ...]] = ("answers", "pairs", "places")

    def show(self, scenes: Scenes) -> np.ndarray:
        """Return the pictures ``(n,3,75,75)``."""
        return raster.paint(scenes)

    def recognise(self, shown: np.ndarray) -> Scenes:
        """Return the objects found in the pictures, in order of colour."""
        return raster.read(shown)

    def turn(
        self, shown: np.ndarray, transposed: np.ndarray, upside_down: np.ndarray, mirrored: np.ndarray
    ) -> np.ndarray:
        """Swap and reverse the pictures' axes."""
        turned = shown.copy()
        turned[transposed] = turned[transposed].swapaxes(2, 3)
        turned[upside_down] = turned[upside_down][:, :, ::-1]
        turned[mirrored] = turned[mirrored][..., ::-1]
        return turned

    def places(self, scene: Scenes, explanation: Stored) -> np.ndarray:
        """Return the middles of what the model takes for objects, as it says: ``(N,2)`` pixels."""
        return explanation["places"].astype(np.float64)


class StateForm(SortOfClevr):
    """A row of ten numbers an object: colour (6, one-hot), shape (2, one-hot: square, circle), row, column.

    Rows and columns are from -1 (the smallest that a centre may have) to 1, multiples of 1/32 and so exact. Objects are
    in random order: what they are says nothing about where they stand in the list.
    """

    image: ClassVar[tuple[int, int] | None] = None
    channels: ClassVar[int] = len(COLOURS) + len(SHAPES) + 2
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 64, "demo": 9_800, "standard": 196_000, "paper": 196_000}

    def show(self, scenes: Scenes) -> np.ndarray:
        """Return the states ``(n,N,10) float32``."""
        colour = np.eye(len(COLOURS), dtype=np.float32)[scenes.colour]
        shape = np.eye(len(SHAPES), dtype=np.float32)[scenes.shape]
        place = ((scenes.centre - MIDDLE) / (HIGHEST - MIDDLE)).astype(np.float32)
        return np.concatenate([colour, shape, place], axis=2)

    def recognise(self, shown: np.ndarray) -> Scenes:
        """Return the objects in the order in which they are listed."""
        colour, shape, place = np.split(shown, [len(COLOURS), len(COLOURS) + len(SHAPES)], axis=2)
        centre = (place * (HIGHEST - MIDDLE)).round().astype(np.int64) + MIDDLE
        return Scenes(centre, colour.argmax(2), shape.argmax(2))

    def turn(
        self, shown: np.ndarray, transposed: np.ndarray, upside_down: np.ndarray, mirrored: np.ndarray
    ) -> np.ndarray:
        """Swap rows with columns, and change their signs."""
        turned = shown.copy()
        turned[transposed, :, -2:] = turned[transposed, :, :-3:-1]
        turned[upside_down, :, -2] *= -1
        turned[mirrored, :, -1] *= -1
        return turned
