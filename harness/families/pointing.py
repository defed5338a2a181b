"""Family ``pointing``: a set of vectors in, a sequence of positions in that set out.

Positions count from 0. Tasks whose scoring is exact have elements that are multiples of 1/``GRID``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from harness.errors import CorruptBundleError, PredictionError, UserError
from harness.families.base import Batch, Examples, Family, Stored, TensorStruct, as_tensor, pad_concatenate
from harness.families.base import Spec as BaseSpec

STOP = -1
"""Ends an answer, and fills what is behind it."""
INVALID = -2
"""Stored where an answer points outside of its own elements, or goes on at the limit without its stop."""
GRID = 2**24
"""Coordinates are whole numbers below this, divided by it: exact in float32, as are their differences."""


def on_grid(elements: np.ndarray) -> np.ndarray:
    """Return coordinates as the whole numbers that they are multiples of: ``elements · GRID`` in int64."""
    return np.rint(elements.astype(np.float64) * GRID).astype(np.int64)


@dataclass(frozen=True)
class Spec(BaseSpec):
    """Sizes of a pointing task; an element has ``dimensions`` D numbers.

    ``permutation``: an answer names every element once, and a model may refuse what it has named already.
    ``has_stop``: an answer ends itself; without it an answer has as many positions as there are elements.
    ``output_limit(n) = output_slope · n + output_offset`` positions, the stop included, may answer n elements.
    """

    dimensions: int
    permutation: bool
    has_stop: bool
    output_slope: int
    output_offset: int

    def output_limit(self, length: Any) -> Any:
        """Return the most positions (stop included) for ``length`` elements: an int, array or tensor of them."""
        return self.output_slope * length + self.output_offset


@dataclass(frozen=True)
class Inputs(TensorStruct):
    """``elements (B,N,D) float32``; ``length (B,) int64`` of them belong to each example, zeros after."""

    elements: Tensor
    length: Tensor


@dataclass(frozen=True)
class Targets(TensorStruct):
    """``indices (B,M) int64``: the answer, then -1; with ``has_stop`` the first -1 of a row is the stop itself."""

    indices: Tensor


@dataclass(frozen=True)
class Prediction(TensorStruct):
    """``indices (B,M') int64``: the free-running answer. What follows the first -1 is ignored."""

    indices: Tensor


class Pointing(Family):
    """Stored as ``indices (n,M) int16``: the answer, -1 after it.

    A position at or beyond an example's own length is stored as -2; so is the last position of an answer that reaches
    the limit without its stop, where the task has one. No target holds a -2: such an answer is wrong, not refused.
    """

    name = "pointing"
    Spec = Spec
    Inputs = Inputs
    Targets = Targets
    Prediction = Prediction
    arrays = ("indices",)
    fill: ClassVar[Mapping[str, Any]] = {"indices": STOP}

    def trim(self, examples: Examples) -> Examples:
        """Cut the elements at the largest of these sets, the targets one column after the longest answer."""
        width = int(examples.inputs["length"].max())
        answer = int((examples.targets["indices"] != STOP).sum(1).max()) + 1
        return Examples(
            {**examples.inputs, "elements": examples.inputs["elements"][:, :width]},
            {**examples.targets, "indices": examples.targets["indices"][:, :answer]},
            examples.sizes,
        )

    def check_examples(self, examples: Examples) -> None:
        """Require a set of at least one element, all finite, zeros after it, and an answer of its own positions."""
        elements, length = examples.inputs["elements"], examples.inputs["length"]
        indices = examples.targets["indices"]
        after = np.arange(elements.shape[1]) >= length[:, None]  # (n,N)
        ended = np.maximum.accumulate(indices == STOP, axis=1)  # (n,M)
        found = {
            "no element; a set has at least 1": length < 1,
            "more elements than there are": length > elements.shape[1],
            "an element that is not finite": ~np.isfinite(elements).all((1, 2)),
            "an element after the last of its set": (after & elements.any(2)).any(1),
            "an answer that goes on after its stop": (ended & (indices != STOP)).any(1),
            "an answer that points outside of its set": ((indices < STOP) | (indices >= length[:, None])).any(1),
        }
        for problem, rows in found.items():
            if rows.any():
                raise UserError(f"example {rows.argmax()} has {problem}")

    def store(self, prediction: Any, batch: Batch, spec: Any) -> Stored:
        """Return ``{"indices": (n,M) int16}``, canonical as the class says."""
        tensor = as_tensor(prediction, Prediction, "indices")
        size = len(batch)
        if tensor.dim() != 2 or len(tensor) != size:
            raise PredictionError(
                f"predict_step returned indices of shape {tuple(tensor.shape)}; expected (B,M') with B = {size}"
            )
        if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype.itemsize == 1:
            raise PredictionError(f"predict_step returned indices of dtype {tensor.dtype}; expected torch.int64")
        indices = tensor.numpy().astype(np.int64)
        if indices.size and indices.min() < STOP:
            raise PredictionError(
                f"predict_step returned index {indices.min()}; positions count from 0, -1 is the stop"
            )
        length = batch.inputs.length.cpu().numpy()
        return {"indices": canonical_indices(indices, length, spec.output_limit(length), spec.has_stop)}

    def join(self, parts: Sequence[Stored]) -> Stored:
        """Return the stored arrays of several batches as one, -1 behind the shorter answers."""
        return {name: pad_concatenate([part[name] for part in parts], STOP) for name in parts[0]}

    def check_stored(self, stored: Stored, examples: Examples) -> None:
        """Require a row of positions an example, none beyond its elements, and nothing behind its end."""
        indices = stored.get("indices")
        if indices is None or indices.dtype != np.int16 or indices.ndim != 2 or len(indices) != len(examples):
            found = None if indices is None else (indices.dtype.name, indices.shape)
            raise CorruptBundleError(f"indices are {found}; expected ('int16', ({len(examples)}, M))")
        if indices.size == 0:
            return
        if indices.min() < INVALID or bool((indices >= examples.inputs["length"][:, None]).any()):
            raise CorruptBundleError("indices have a position that no element has")
        if bool((np.diff((indices == STOP).astype(np.int8), axis=1) < 0).any()):
            raise CorruptBundleError("indices go on after a -1")


def canonical_indices(indices: np.ndarray, length: np.ndarray, limit: np.ndarray, has_stop: bool) -> np.ndarray:
    """Cut each row of ``indices (n,M)`` at its first -1 and at ``limit (n,)``; -2 where it is not an answer; int16.

    ``length (n,)`` elements belong to each row. A limit is reached by as many positions, the stop counted.
    """
    position = np.arange(indices.shape[1])
    kept = (np.cumsum(indices == STOP, axis=1) == 0) & (position < limit[:, None])
    inside = np.where(indices < length[:, None], indices, INVALID)
    out = np.where(kept, inside, STOP)
    count = kept.sum(1)
    if has_stop:
        endless = np.flatnonzero(count == limit)
        out[endless, count[endless] - 1] = INVALID
    return out[:, : int(count.max(initial=0))].astype(np.int16)


POINTING = Pointing()
