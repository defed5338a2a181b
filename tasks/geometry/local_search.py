"""Short tours for many small instances at once, in NumPy: what training is taught, and a reference.

Cities are inserted one by one where they lengthen the tour least, in several fixed random orders; the best few of the
tours so begun are improved by 2-opt and or-opt until neither helps; the best is kept. Distances are whole numbers here,
with the place of a move in their low bits: the best move is then one minimum, and the result the same on every machine.

Croes 1958 (2-opt); Or 1976 (or-opt); Rosenkrantz, Stearns, Lewis 1977 (insertion).
"""

from functools import lru_cache

import numpy as np

from harness.metrics.tours import canonical_tours, tour_lengths
from harness.splits import generator

STARTS, IMPROVED = 24, 2
"""Tours begun, and how many of them are improved: at 20 cities 1.0002 times the optimum on average."""
SEGMENT = 3
"""Most cities that an or-opt move takes along."""
CACHED = 2**16
"""Changes of length of one kind of move that are computed at once: six kinds fill a second-level cache."""


def local_search(points: np.ndarray, starts: int = STARTS, improved: int = IMPROVED) -> np.ndarray:
    """Return short tours ``(n,N) int64`` from city 0 on, counter-clockwise, through ``points (n,N,2) int64``.

    ``starts`` tours are begun and the best ``improved`` of them improved. Up to three cities have one tour.
    """
    count, size = points.shape[:2]
    length = np.full(count, size)
    if size <= 3:
        return canonical_tours(points, np.tile(np.arange(size), (count, 1)), length)
    distance = whole_distances(points)  # (N,N,n)
    begun, lengths = insertion(distance, starts)  # (K,N,n), (K,n)
    best = lengths.argsort(axis=0, kind="stable")[:improved]  # (k,n)
    tours = np.take_along_axis(begun, best[:, None], 0)  # (k,N,n)
    instance = np.tile(np.arange(count), len(best))
    tours = improve(distance, tours.transpose(1, 0, 2).reshape(size, -1), instance)  # (N,k·n)
    candidates = tours.reshape(size, len(best), count).transpose(1, 2, 0)  # (k,n,N)
    exact = np.stack([tour_lengths(points, each, length) for each in candidates])  # (k,n)
    chosen = candidates[exact.argmin(0), np.arange(count)]
    return canonical_tours(points, chosen, length)


def whole_distances(points: np.ndarray) -> np.ndarray:
    """Return distances ``(N,N,n) int32``: as fine as leaves room for the number of a place beside them."""
    x, y = points.transpose(2, 1, 0).astype(np.float64)  # (N,n)
    exact = np.sqrt((x[:, None] - x) ** 2 + (y[:, None] - y) ** 2)  # at most 2^24.5
    return np.rint(exact * 2.0 ** (4 - _bits(points.shape[1]))).astype(np.int32)


def _bits(size: int) -> int:
    return (size - 1).bit_length()


@lru_cache
def insertion_orders(size: int, starts: int) -> np.ndarray:
    """Return the fixed orders ``(starts,size)`` in which cities are inserted."""
    rng = generator("geometry/tsp", 1, "insertion orders", size)
    return np.stack([rng.permutation(size) for _ in range(starts)])


def insertion(distance: np.ndarray, starts: int) -> tuple[np.ndarray, np.ndarray]:
    """Return tours ``(K,N,n) int64`` begun in ``starts`` orders and their lengths ``(K,n)``.

    While it grows, a tour is a list of successors: city c goes between a and its successor b where
    d(a,c) + d(c,b) - d(a,b) is least.
    """
    size, _, count = distance.shape
    orders, bits = insertion_orders(size, starts), _bits(size)
    start, instance = np.arange(starts), np.arange(count)
    flat = distance.reshape(-1)
    successor = np.zeros((starts, size, count), np.int64)  # b · n + instance, the place of d(·,b) in a row of distances
    edge = np.zeros((starts, size, count), np.int32)  # d(a,b)
    for one, other in ((0, 1), (1, 2), (2, 0)):
        successor[start, orders[:, one]] = orders[:, other, None] * count + instance
        edge[start, orders[:, one]] = distance[orders[:, one], orders[:, other]]
    for placed in range(3, size):
        city, cities = orders[:, placed], orders[:, :placed]
        to = distance[city[:, None], cities]  # d(a,c), (K,placed,n)
        onwards = flat.take(successor[start[:, None], cities] + (city * size * count)[:, None, None])  # d(c,b)
        key = ((to + onwards - edge[start[:, None], cities]) << bits) + np.arange(placed, dtype=np.int32)[:, None]
        place = np.minimum.reduce(key, axis=1) & ((1 << bits) - 1)  # (K,n)
        a = np.take_along_axis(cities, place, 1)
        successor[start, city] = successor[start[:, None], a, instance]
        edge[start, city] = np.take_along_axis(onwards, place[:, None], 1)[:, 0]
        successor[start[:, None], a, instance] = city[:, None] * count + instance
        edge[start[:, None], a, instance] = np.take_along_axis(to, place[:, None], 1)[:, 0]
    tours = np.zeros((starts, size, count), np.int64)
    for step in range(1, size):
        tours[:, step] = successor[start[:, None], tours[:, step - 1], instance] // count
    return tours, edge.sum(1)


@lru_cache
def _barred(size: int) -> list[np.ndarray]:
    """Return which pairs of places (flat) are no moves, for every kind in the order in which ``_changes`` has them."""
    i, j = np.arange(size)[:, None], np.arange(size)
    barred = [(j <= i + 1) | ((i == 0) & (j == size - 1))]
    for segment in range(1, SEGMENT + 1):
        near = (j - i + 1) % size <= segment  # the place before the segment, or inside it
        barred += [near | (segment > size - 3)] * (1 if segment == 1 else 2)
    return [np.flatnonzero(each) for each in barred]


def _changes(distance: np.ndarray) -> np.ndarray:
    """Return the change of length of every move, ``(6,N·N,T) int32``: kinds of move, places i and j, tours.

    ``distance (N+4,N+4,T)`` is between the places of each tour, which go on from the last to the first.

    First 2-opt, which turns round the places i + 1 to j. Then or-opt, which takes the segment that begins at place
    i + 1 out and puts it between j + 1 and j + 2: one city; two and three cities, as they are and turned round.
    """
    size = len(distance) - SEGMENT - 1
    place = np.arange(size)

    def ahead(i: int, j: int) -> np.ndarray:
        """Return d(place + i, place + j) for all pairs of places."""
        return distance[i : i + size, j : j + size]

    def edge(i: int, j: int) -> np.ndarray:
        """Return d(place + i, place + j) for every place."""
        return distance[place + i, place + j]

    changes = np.empty((2 * SEGMENT, size, size, distance.shape[2]), np.int32)
    np.add(ahead(0, 0), ahead(1, 1), out=changes[0])
    changes[0] -= edge(0, 1)[:, None]
    changes[0] -= edge(0, 1)
    for segment in range(1, SEGMENT + 1):
        gain = edge(0, 1) + edge(segment, segment + 1) - edge(0, segment + 1)  # (N,T)
        for kind, (first, last) in enumerate(((1, segment), (segment, 1))[: min(segment, 2)], 2 * segment - 2):
            change = changes[max(kind, 1)]
            np.add(ahead(first, 1), ahead(last, 2), out=change)
            change -= edge(1, 2)
            change -= gain[:, None]
    return changes.reshape(2 * SEGMENT, size * size, -1)


def improve(distance: np.ndarray, tours: np.ndarray, instance: np.ndarray) -> np.ndarray:
    """Return ``tours (N,T)`` after the best 2-opt or or-opt move, over and over, until none makes them shorter.

    ``distance (N,N,n) int32``; ``instance (T,)``: whose distances a tour has.
    """
    step = max(1, CACHED // len(tours) ** 2)
    return np.concatenate(
        [
            _improve(distance, tours[:, start : start + step], instance[start : start + step])
            for start in range(0, tours.shape[1], step)
        ],
        axis=1,
    )


def _improve(distance: np.ndarray, tours: np.ndarray, instance: np.ndarray) -> np.ndarray:
    """``improve`` for as many tours as fit into the processor's cache."""
    size, _, count = distance.shape
    flat = distance.reshape(-1)
    improved = tours.copy()
    active = np.arange(tours.shape[1])
    while len(active):
        onwards = np.concatenate([tours, tours[: SEGMENT + 1]])  # (N+4,T)
        changes = _changes(flat.take((onwards * (size * count))[:, None] + (onwards * count + instance)))
        for change, barred in zip(changes, _barred(size), strict=True):
            change[barred] = 0
        best = np.minimum.reduce(changes, axis=1)  # (6,T)
        better = np.flatnonzero(best.min(0) < 0)
        kind = best[:, better].argmin(0)
        i, j = np.divmod(changes[kind, :, better].argmin(1), size)
        tours = np.take_along_axis(tours[:, better], _moved(size, kind, i, j), 0)
        active, instance = active[better], instance[better]
        improved[:, active] = tours
    return improved


def _moved(size: int, kind: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Return the order of places ``(N,T)`` after the move ``kind (T,)`` of ``_changes`` at places ``i`` and ``j``."""
    place = np.arange(size)[:, None]
    turned = np.where((place > i) & (place <= j), i + 1 + j - place, place)
    segment, backwards = kind // 2 + 1, kind % 2 == 1  # of the kinds 1 to 5: 1, 2, 2, 3, 3 cities
    within = (place - i - 1) % size
    rank = np.where(backwards, segment - 1 - within, within)
    key = np.where(within < segment, (j + 1) % size * 8 + 1 + rank, place * 8)
    return np.where(kind == 0, turned, key.argsort(axis=0, kind="stable"))
