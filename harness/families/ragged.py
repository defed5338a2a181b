"""Rows of different lengths without padding: many stories of few sentences beside a few of hundreds.

Padded, the training stories of twenty tasks would fill half a gigabyte; kept once, with the place where each example
begins, they take a few megabytes. A batch pads its own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.families.base import pad_concatenate


class Ragged:
    """``n`` stretches of the rows of ``data (T,...)``: example ``i`` is ``data[first[i] : first[i] + count[i]]``.

    It stands in for a padded array ``(n,S,...)``, zeros behind each example's rows, wherever that is only measured,
    indexed along its first axis, or turned into an array. Stretches may overlap: questions on one story share its rows.
    The last row of ``data`` is zeros and belongs to no example; it is what pads are copied from.
    """

    def __init__(self, data: np.ndarray, first: np.ndarray, count: np.ndarray):
        self.data, self.first, self.count = data, first, count

    @classmethod
    def of(cls, rows: np.ndarray, first: np.ndarray, count: np.ndarray) -> "Ragged":
        """Return stretches of ``rows (T,...)``, to which the row of zeros is added."""
        return cls(np.concatenate([rows, np.zeros_like(rows, shape=(1, *rows.shape[1:]))]), first, count)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the padded array."""
        return len(self.first), int(self.count.max(initial=0)), *self.data.shape[1:]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the padded array."""
        return self.data.dtype

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, rows: Any) -> Any:
        """Return one example's rows for an integer, else the chosen examples."""
        first, count = self.first[rows], self.count[rows]
        return self.data[first : first + count] if np.ndim(first) == 0 else Ragged(self.data, first, count)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the padded array."""
        step = np.arange(self.shape[1])
        rows = np.where(step < self.count[:, None], self.first[:, None] + step, len(self.data) - 1)  # (n,S)
        return self.data.take(rows, axis=0, mode="clip").astype(self.dtype if dtype is None else dtype, copy=False)

    @staticmethod
    def concatenate(parts: Sequence["Ragged"]) -> "Ragged":
        """Return the examples of ``parts`` in order; rows that they share stay shared."""
        tables = {id(part.data): part.data for part in parts}
        starts, rows = {}, 0
        for key, table in tables.items():
            starts[key], rows = rows, rows + len(table)
        return Ragged(
            pad_concatenate(list(tables.values()), 0),
            np.concatenate([part.first + starts[id(part.data)] for part in parts]),
            np.concatenate([part.count for part in parts]),
        )
