"""Chance by name: a stream of fair draws for simulations that take them one at a time."""

from bisect import bisect
from collections.abc import Iterator, Sequence
from typing import TypeVar

from numpy.random import RandomState

Option = TypeVar("Option")

DRAWN_AT_ONCE = 256


class Draw:
    """Draws from a ``RandomState``, whose numbers are fetched many at a time."""

    def __init__(self, rng: RandomState):
        self._uniform = _uniforms(rng).__next__

    def below(self, count: int) -> int:
        """Return an even draw from 0 to ``count - 1``."""
        return int(self._uniform() * count)

    def one(self, options: Sequence[Option]) -> Option:
        """Return an even choice."""
        return options[int(self._uniform() * len(options))]

    def weighted(self, options: Sequence[Option], cumulated: Sequence[float]) -> Option:
        """Return a choice by weights, of which ``cumulated`` are the running sums."""
        return options[bisect(cumulated, self._uniform() * cumulated[-1])]

    def chance(self, probability: float) -> bool:
        """Return True with ``probability``."""
        return self._uniform() < probability

    def shuffled(self, options: Sequence[Option]) -> list[Option]:
        """Return the options in an even random order (Fisher and Yates)."""
        return self._exchanged(options, 1)

    def cycled(self, options: Sequence[Option]) -> list[Option]:
        """Return the options moved round an even random cycle through all of them, so that none stays (Sattolo)."""
        return self._exchanged(options, 0)

    def _exchanged(self, options: Sequence[Option], with_itself: int) -> list[Option]:
        rest = list(options)
        for index in range(len(rest) - 1, 0, -1):
            other = self.below(index + with_itself)
            rest[index], rest[other] = rest[other], rest[index]
        return rest

    def other(self, options: Sequence[Option], than: Option | None) -> Option:
        """Return an even choice among the options that are not ``than``."""
        while True:
            option = self.one(options)
            if option != than:
                return option


def _uniforms(rng: RandomState) -> Iterator[float]:
    while True:
        yield from rng.random_sample(DRAWN_AT_ONCE).tolist()
