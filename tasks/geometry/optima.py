"""Proven shortest tours of every bounded split of ``geometry/tsp``: a committed file, how it is made, how it is proven.

    python -m tasks.geometry.optima

makes it anew, in about seven minutes on one core. ``readhead verify --prove`` solves every instance again.
"""

import io
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from harness.errors import UserError
from harness.families.pointing import STOP
from harness.metrics.pointing import is_permutation
from harness.metrics.tours import tour_lengths
from tasks.geometry.optimum import TOLERANCE, shortest_tour

PATH = Path(__file__).with_name("tsp.optima.npz")
"""Two arrays a split: ``<split>/tours (n,N) uint8``, zeros behind the shorter ones, and ``<split>/lengths (n,)``."""


@lru_cache
def _file() -> dict[str, np.ndarray]:
    try:
        with np.load(io.BytesIO(PATH.read_bytes()), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError) as error:
        raise UserError(f"{PATH}: the proven tours of geometry/tsp cannot be read ({error})") from error


def committed(split: str, points: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return the committed tours ``(n,N) int64`` of a split, -1 behind them; they must be its tours, and as long.

    ``points (n,N,2) int64``, ``length (n,)`` of them in each instance.
    """
    tours, lengths = (_file().get(f"{split}/{name}") for name in ("tours", "lengths"))
    if tours is None or lengths is None or tours.shape != points.shape[:2]:
        raise UserError(f"{PATH.name} has no tours for {split} as it is: make it anew (see {Path(__file__).name})")
    padded = np.where(np.arange(tours.shape[1]) < length[:, None], tours.astype(np.int64), STOP)
    found = tour_lengths(points, tours, length)
    if not (is_permutation(padded, length).all() and np.array_equal(found, lengths)):
        raise UserError(f"{PATH.name}: its tours are not those of {split}; make it anew (see {Path(__file__).name})")
    return padded


def disproved(points: np.ndarray, tours: np.ndarray, length: np.ndarray) -> Iterator[tuple[int, str]]:
    """Solve every instance again; yield the row and a message where a tour is not as short as the optimum."""
    claimed = tour_lengths(points, tours, length)
    for row, size in enumerate(length):
        own = points[row, :size]
        shortest = tour_lengths(own[None], shortest_tour(own)[None], length[row : row + 1])[0]
        if abs(claimed[row] - shortest) > TOLERANCE * shortest:
            yield row, f"its target has length {claimed[row]:.9g}, a shortest tour {shortest:.9g} (units of the grid)"


def main() -> None:
    """Solve every instance of every bounded split and write the file."""
    from harness.families.pointing import on_grid
    from harness.results import npz_bytes
    from harness.splits import Split, draw_split
    from tasks.geometry.tsp import TSP

    task, arrays = TSP(), {}
    for split in task.splits:
        if not isinstance(split, Split):
            continue
        examples = draw_split(task, split)
        points, length = on_grid(examples.inputs["elements"]), examples.inputs["length"]
        tours = np.zeros(points.shape[:2], np.uint8)
        for row, size in enumerate(length):
            tours[row, :size] = shortest_tour(points[row, :size])
        arrays[f"{split.name}/tours"] = tours
        arrays[f"{split.name}/lengths"] = tour_lengths(points, tours, length)
        print(f"{split.name}: {len(tours)} tours, mean length {arrays[f'{split.name}/lengths'].mean() / 2**24:.4f}")
    PATH.write_bytes(npz_bytes(arrays))


if __name__ == "__main__":
    main()
