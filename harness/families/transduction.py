"""Family ``transduction``: a token sequence in, a token sequence out.

Token ids: 0 pad, 1 BOS, 2 EOS, 3 unknown, then the symbols from 4 on.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from harness.errors import CorruptBundleError, PredictionError
from harness.families.base import Batch, Examples, Family, Stored, TensorStruct, as_tensor
from harness.families.base import Spec as BaseSpec

PAD, BOS, EOS, UNKNOWN, FIRST_SYMBOL = 0, 1, 2, 3, 4


@dataclass(frozen=True)
class Spec(BaseSpec):
    """Sizes of a transduction task; both vocabularies count the four reserved ids.

    ``output_limit(n) = output_slope · n + output_offset`` tokens, EOS included, may answer a source of ``n`` tokens.
    """

    source_vocabulary: int
    target_vocabulary: int
    output_slope: float
    output_offset: int

    def output_limit(self, source_length: Any) -> Any:
        """Return the most tokens (EOS included) for sources of ``source_length``: an int, array or tensor of them."""
        if isinstance(source_length, Tensor):
            source_length = source_length.double()  # as NumPy and Python count
        limit = self.output_slope * source_length + self.output_offset
        if isinstance(limit, Tensor):
            return limit.long()
        return limit.astype(np.int64) if isinstance(limit, np.ndarray) else int(limit)


@dataclass(frozen=True)
class Inputs(TensorStruct):
    """``source (B,S) int64``, symbols first and pads after; ``source_length (B,) int64``, at least 1."""

    source: Tensor
    source_length: Tensor


@dataclass(frozen=True)
class Targets(TensorStruct):
    """``target (B,T) int64``: the answer, ending in EOS, then pads. BOS is not part of it."""

    target: Tensor


@dataclass(frozen=True)
class Prediction(TensorStruct):
    """``tokens (B,T') int64``: the free-running answer. What follows the first EOS is ignored."""

    tokens: Tensor


class Transduction(Family):
    """Stored as ``tokens (n,T)``: the answer with its EOS, zeros after it.

    An answer without EOS is cut at the output limit and so can never be exact. Pad and BOS are not answers: where
    a model emits one before its EOS it is stored as *unknown*, which matches no reference.
    """

    name = "transduction"
    Spec = Spec
    Inputs = Inputs
    Targets = Targets
    Prediction = Prediction
    arrays = ("tokens",)

    def trim(self, examples: Examples) -> Examples:
        """Cut source and target at the longest of these examples."""
        source_width = int(examples.inputs["source_length"].max())
        target_width = int((examples.targets["target"] != PAD).sum(1).max())
        return Examples(
            {**examples.inputs, "source": examples.inputs["source"][:, :source_width]},
            {**examples.targets, "target": examples.targets["target"][:, :target_width]},
            examples.sizes,
        )

    def store(self, prediction: Any, batch: Batch, spec: Any) -> Stored:
        """Return ``{"tokens": (n,T) uint8 or uint16}``, canonical as the class says."""
        tensor = as_tensor(prediction, Prediction, "tokens")
        size = len(batch)
        if tensor.dim() != 2 or len(tensor) != size:
            raise PredictionError(
                f"predict_step returned tokens of shape {tuple(tensor.shape)}; expected (B,T') with B = {size}"
            )
        if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype.itemsize == 1:
            raise PredictionError(f"predict_step returned tokens of dtype {tensor.dtype}; expected torch.int64")
        tokens = tensor.numpy().astype(np.int64)
        if tokens.size and (tokens.min() < 0 or tokens.max() >= spec.target_vocabulary):
            bad = tokens[(tokens < 0) | (tokens >= spec.target_vocabulary)][0]
            raise PredictionError(
                f"predict_step returned token {bad}; the target vocabulary is 0..{spec.target_vocabulary - 1}"
            )
        limit = spec.output_limit(batch.inputs.source_length.cpu().numpy())
        return {"tokens": canonical_tokens(tokens, limit, spec.target_vocabulary)}

    def check_stored(self, stored: Stored, examples: Examples) -> None:
        """Require one row of tokens an example."""
        tokens = stored.get("tokens")
        if (
            tokens is None
            or tokens.dtype not in (np.uint8, np.uint16)
            or tokens.ndim != 2
            or len(tokens) != len(examples)
        ):
            found = None if tokens is None else (tokens.dtype.name, tokens.shape)
            raise CorruptBundleError(f"tokens are {found}; expected ('uint8' or 'uint16', ({len(examples)}, T))")
        ended = np.cumsum((tokens == EOS) | (tokens == PAD), axis=1) - (tokens == EOS) > 0
        if tokens[ended].any():
            raise CorruptBundleError("tokens go on after an EOS or a padding")


def canonical_tokens(tokens: np.ndarray, limit: np.ndarray, vocabulary: int) -> np.ndarray:
    """Cut each row of ``tokens (n,T)`` after its first EOS and at ``limit (n,)``; zeros behind; smallest dtype."""
    position = np.arange(tokens.shape[1])
    is_eos = tokens == EOS
    after_eos = np.cumsum(is_eos, axis=1) - is_eos > 0
    kept = ~after_eos & (position < limit[:, None])
    answers = np.where((tokens == PAD) | (tokens == BOS), UNKNOWN, tokens)
    out = np.where(kept, answers, PAD)
    width = int(kept.sum(1).max()) if kept.size else 0
    return out[:, :width].astype(np.uint8 if vocabulary <= 256 else np.uint16)


TRANSDUCTION = Transduction()
