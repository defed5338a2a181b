"""What a family is: the shapes of inputs, targets and predictions, and how a prediction is stored.

Arrays cross the border between the three worlds here. Tasks make NumPy arrays (``Examples``), models see torch tensors
(``Batch``), and what is scored is the NumPy form of a prediction that also goes to disk (``Stored``).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

Stored = dict[str, np.ndarray]
"""Arrays of one split's predictions in canonical, quantised form: exactly what ``predictions.npz`` holds."""


@dataclass(frozen=True)
class TensorStruct:
    """A frozen record of tensors that share the batch axis; Lightning moves it through ``to``."""

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return a copy with every tensor moved or cast as ``Tensor.to`` does."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        moved = {name: tensor.to(*args, **kwargs) for name, tensor in given.items() if tensor is not None}
        return replace(self, **moved)

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))


@dataclass(frozen=True)
class Batch:
    """What ``training_step`` receives: ``inputs`` (all that ``predict_step`` will ever see) and ``targets``."""

    inputs: Any
    targets: Any

    def to(self, *args: Any, **kwargs: Any) -> "Batch":
        """Return a copy with every tensor moved or cast as ``Tensor.to`` does."""
        return Batch(self.inputs.to(*args, **kwargs), self.targets.to(*args, **kwargs))

    def __len__(self) -> int:
        return len(self.inputs)


@dataclass(frozen=True)
class Spec:
    """What a model may know of a task before it sees an example.

    ``max_train_size`` and ``max_test_size`` are in the task's unit of size (symbols, vectors, points).
    """

    max_train_size: int
    max_test_size: int


@dataclass(frozen=True)
class Examples:
    """``n`` examples of a split as padded NumPy arrays (or ``Ragged`` ones), with the numeric size of each.

    ``inputs`` and ``targets`` are keyed by the field names of the family's ``Inputs`` and ``Targets``; every array has
    the example axis first. ``sizes`` is ``(n,) int64``.
    """

    inputs: dict[str, Any]
    targets: dict[str, np.ndarray]
    sizes: np.ndarray

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, rows: Any) -> "Examples":
        """Return the examples at ``rows`` (anything NumPy can index with), still padded to the same width."""
        return Examples(
            {name: array[rows] for name, array in self.inputs.items()},
            {name: array[rows] for name, array in self.targets.items()},
            self.sizes[rows],
        )


class Family(ABC):
    """One kind of question and answer. Subclasses fill in the record types and the storage form."""

    name: ClassVar[str]
    Spec: ClassVar[type]
    Inputs: ClassVar[type]
    Targets: ClassVar[type]
    Prediction: ClassVar[type]
    arrays: ClassVar[tuple[str, ...]]
    """Names of the stored arrays of a split, all of them."""
    fill: ClassVar[Mapping[str, Any]] = {}
    """Padding value by field, where it is not 0."""

    @abstractmethod
    def trim(self, examples: Examples) -> Examples:
        """Return ``examples`` without the columns that are padding in every row."""

    def check_examples(self, examples: Examples) -> None:  # noqa: B027
        """Raise a ``UserError`` that names the first of ``examples`` that a task of this family may not hold."""

    @abstractmethod
    def store(self, prediction: Any, batch: Batch, spec: Any) -> Stored:
        """Return the canonical, quantised arrays of one batch's ``prediction``.

        Raises ``PredictionError`` where the prediction's type, shape, dtype or values break the contract.
        """

    def join(self, parts: Sequence[Stored]) -> Stored:
        """Return the stored arrays of several batches as one, example axis first, padded where widths differ."""
        return {name: pad_concatenate([part[name] for part in parts], 0) for name in parts[0]}

    @abstractmethod
    def check_stored(self, stored: Stored, examples: Examples) -> None:
        """Raise ``CorruptBundleError`` unless ``stored`` can be the predictions for ``examples``."""

    def same(self, a: np.ndarray, b: np.ndarray) -> bool:
        """Return whether two stored arrays agree up to what rounding in another order of summation may change."""
        return np.array_equal(a, b)

    def audit(self, predict: "Callable[[Any], Any]", batch: Batch) -> None:  # noqa: B027
        """Re-run ``predict`` (inputs to prediction) where the contract promises more than shapes, e.g. causality."""

    def batch(self, examples: Examples) -> Batch:
        """Return ``examples`` as tensors of their own, trimmed to the longest of them."""
        return self.tensors(self.trim(examples))

    def tensors(self, examples: Examples) -> Batch:
        """Return ``examples`` as tensors of their own, with all their padding."""
        return Batch(
            self.Inputs(**{name: torch.from_numpy(np.array(a)) for name, a in examples.inputs.items()}),
            self.Targets(**{name: torch.from_numpy(np.array(a)) for name, a in examples.targets.items()}),
        )

    def concatenate(self, parts: Sequence[Examples]) -> Examples:
        """Return several groups of examples as one, padded to the widest."""

        def joined(side: str, name: str) -> np.ndarray:
            return pad_concatenate([getattr(part, side)[name] for part in parts], self.fill.get(name, 0))

        return Examples(
            {name: joined("inputs", name) for name in parts[0].inputs},
            {name: joined("targets", name) for name in parts[0].targets},
            np.concatenate([part.sizes for part in parts]),
        )


def pad_concatenate(arrays: Sequence[np.ndarray], fill: Any) -> np.ndarray:
    """Concatenate along axis 0, padding the other axes with ``fill`` at their end to the largest extent."""
    shape = np.max([array.shape[1:] for array in arrays], axis=0)
    dtype = np.result_type(*arrays)
    out = np.full((sum(map(len, arrays)), *(int(extent) for extent in shape)), fill, dtype=dtype)
    start = 0
    for array in arrays:
        out[(slice(start, start + len(array)), *(slice(extent) for extent in array.shape[1:]))] = array
        start += len(array)
    return out


def as_tensor(prediction: Any, expected: type, field: str) -> Tensor:
    """Return the tensor ``prediction.field``; ``PredictionError`` if ``prediction`` is not an ``expected``."""
    from harness.errors import PredictionError

    wanted = f"{expected.__module__}.{expected.__qualname__}({field}=<Tensor>)"
    if not isinstance(prediction, expected):
        raise PredictionError(f"predict_step returned a {type(prediction).__name__}; return {wanted}")
    value = getattr(prediction, field)
    if not isinstance(value, Tensor):
        raise PredictionError(f"predict_step returned {field} as a {type(value).__name__}; return {wanted}")
    return value.detach().cpu()
