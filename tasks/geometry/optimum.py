"""Shortest tours, proven: Dantzig, Fulkerson, Johnson 1954 with an integer solver.

Choose edges of least total length so that every city has two; where the choice falls into several cycles, demand of
each of them that at least two edges leave it, and choose again. The first single cycle is a shortest tour, because
every tour fulfils all demands.
"""

from typing import Any

import numpy as np

from harness.errors import ReadheadError
from harness.metrics.tours import canonical_tours, tour_lengths

TOLERANCE = 1e-6
"""Of a tour's length: how far below it the solver's bound may stay because of its own tolerances."""


class ProofFailedError(ReadheadError):
    """The solver did not prove what was to be proven."""


def shortest_tour(points: np.ndarray) -> np.ndarray:
    """Return a shortest tour ``(N,) int64`` from city 0 on, counter-clockwise, through ``points (N,2) int64``.

    Raises ``ProofFailedError`` where the solver gives up.
    """
    size = len(points)
    if size <= 3:
        return _canonical(points, np.arange(size))
    first, second = np.triu_indices(size, 1)
    lengths = np.sqrt(((points[first] - points[second]) ** 2).sum(1).astype(np.float64))
    demands: list[np.ndarray] = []
    while True:
        chosen, bound = _choose(size, first, second, lengths, demands)
        cycles = _cycles(size, first[chosen], second[chosen])
        if len(cycles) == 1:
            break
        demands += [np.isin(first, cycle) != np.isin(second, cycle) for cycle in cycles]
    tour = _canonical(points, cycles[0])
    if bound < _length(points, tour) * (1 - TOLERANCE):
        raise ProofFailedError(f"a tour of length {_length(points, tour)} has only the bound {bound}")
    return tour


def _choose(
    size: int, first: np.ndarray, second: np.ndarray, lengths: np.ndarray, demands: list[np.ndarray]
) -> tuple[np.ndarray, float]:
    """Return the edges ``(E,) bool`` of the best choice under the ``demands`` and the solver's lower bound."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    scale = 1000 / lengths.max()  # the solver's tolerances are absolute
    edge = np.arange(len(lengths))
    incident: Any = csr_array(
        (np.ones(2 * len(edge)), (np.concatenate([first, second]), np.concatenate([edge, edge]))), (size, len(edge))
    )
    constraints = [LinearConstraint(incident, 2, 2)]
    if demands:
        constraints.append(LinearConstraint(csr_array(np.stack(demands).astype(np.float64)), 2, np.inf))
    found = milp(
        lengths * scale,
        integrality=np.ones(len(edge)),
        bounds=Bounds(0, 1),
        constraints=constraints,
        options={"mip_rel_gap": 0},
    )
    if found.status != 0:
        raise ProofFailedError(f"the solver ended without an optimum: {found.message}")
    return found.x > 0.5, found.mip_dual_bound / scale


def _cycles(size: int, first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
    """Return the cycles of a graph in which every city has two edges."""
    neighbours: list[list[int]] = [[] for _ in range(size)]
    for a, b in zip(first.tolist(), second.tolist(), strict=True):
        neighbours[a].append(b)
        neighbours[b].append(a)
    left, cycles = set(range(size)), []
    while left:
        cycle = [min(left)]
        left.remove(cycle[0])
        while onwards := [city for city in neighbours[cycle[-1]] if city in left]:
            cycle.append(onwards[0])
            left.remove(onwards[0])
        cycles.append(np.array(cycle))
    return cycles


def _canonical(points: np.ndarray, tour: np.ndarray) -> np.ndarray:
    return canonical_tours(points[None], tour[None], np.array([len(tour)]))[0]


def _length(points: np.ndarray, tour: np.ndarray) -> float:
    """Return the length of a tour in units of the grid."""
    return float(tour_lengths(points[None], tour[None], np.array([len(tour)]))[0])
