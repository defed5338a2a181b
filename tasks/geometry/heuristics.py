"""Textbook tours: the nearest neighbour, and the shortest edges first. One tour an instance, all instances at once."""

import numpy as np


def distances(points: np.ndarray) -> np.ndarray:
    """Return ``(n,N,N) float64``, in units of the grid, between ``points (n,N,2) int64``."""
    return np.sqrt(((points[:, :, None] - points[:, None]) ** 2).sum(3).astype(np.float64))


def nearest_neighbour(points: np.ndarray) -> np.ndarray:
    """Return tours ``(n,N)``: from city 0 on, always to the nearest city not visited yet."""
    count, size = points.shape[:2]
    distance, instance = distances(points), np.arange(count)
    tours = np.zeros((count, size), np.int64)
    distance[:, :, 0] = np.inf
    for place in range(1, size):
        city = distance[instance, tours[:, place - 1]].argmin(1)
        tours[:, place] = city
        distance[instance, :, city] = np.inf
    return tours


def greedy_edge(points: np.ndarray) -> np.ndarray:
    """Return tours ``(n,N)`` from city 0 on: edges from the shortest on, none that gives a third one or a cycle."""
    count, size = points.shape[:2]
    first, second = np.triu_indices(size, 1)
    order = distances(points)[:, first, second].argsort(axis=1, kind="stable")
    instance = np.arange(count)
    neighbours = np.full((count, size, 2), -1)
    degree = np.zeros((count, size), np.int64)
    piece = np.tile(np.arange(size), (count, 1))  # cities of one path share a number
    for edge in order.T:  # the k-th shortest edge of every instance
        a, b = first[edge], second[edge]
        fits = (degree[instance, a] < 2) & (degree[instance, b] < 2) & (piece[instance, a] != piece[instance, b])
        _link(neighbours, degree, instance[fits], a[fits], b[fits])
        merged = np.where(fits, piece[instance, b], -1)[:, None]
        piece = np.where(piece == merged, piece[instance, a][:, None], piece)
    ends = [np.flatnonzero(row < 2) for row in degree]  # a path's two ends, joined at last
    open_ended = np.array([row for row in range(count) if len(ends[row]) == 2], np.int64)
    a, b = (np.array([ends[row][side] for row in open_ended], np.int64) for side in (0, 1))
    _link(neighbours, degree, open_ended, a, b)
    return _walk(neighbours)


def _link(neighbours: np.ndarray, degree: np.ndarray, rows: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    for here, there in ((a, b), (b, a)):
        neighbours[rows, here, degree[rows, here]] = there
        degree[rows, here] += 1


def _walk(neighbours: np.ndarray) -> np.ndarray:
    """Return the tours ``(n,N)`` from city 0 on of rings given by each city's two ``neighbours (n,N,2)``."""
    count, size = neighbours.shape[:2]
    tours = np.zeros((count, size), np.int64)
    instance = np.arange(count)
    before = np.full(count, -1)
    for place in range(1, size):
        here = tours[:, place - 1]
        left, right = neighbours[instance, here].T
        onwards = np.where(left != before, left, right)
        before, tours[:, place] = here, onwards
    return tours
