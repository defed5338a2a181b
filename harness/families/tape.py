"""Family ``tape``: a causal machine reads a tape of real vectors and writes a bit vector at every step.

*Causal* is part of the contract: the output at step t may depend on the inputs up to t alone.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness.errors import CorruptBundleError, PredictionError, UserError
from harness.families.base import Batch, Examples, Family, Stored, TensorStruct, as_tensor
from harness.families.base import Spec as BaseSpec

LOGIT_RANGE = 16.0
"""Stored logits are clipped to ±16 (a bit then costs at least 1.6e-7 bits) in steps of 16/127."""

CAUSALITY_TOLERANCE = 1e-3
"""Largest change of an earlier logit that rounding in a differently blocked matrix product may explain."""


@dataclass(frozen=True)
class Spec(BaseSpec):
    """Sizes of a tape task: ``input_channels`` C a step in, ``output_bits`` K a step out."""

    input_channels: int
    output_bits: int


@dataclass(frozen=True)
class Inputs(TensorStruct):
    """``inputs (B,T,C) float32``; ``length (B,) int64`` steps belong to each tape, zeros after."""

    inputs: Tensor
    length: Tensor


@dataclass(frozen=True)
class Targets(TensorStruct):
    """``bits (B,T,K) float32`` in {0,1}; ``answer (B,T) bool``: the steps that are answered and scored (loss mask)."""

    bits: Tensor
    answer: Tensor


@dataclass(frozen=True)
class Prediction(TensorStruct):
    """``logits (B,T,K) float32``: log-odds of each bit being 1, before the sigmoid."""

    logits: Tensor


class Tape(Family):
    """Stored as ``logits (total answered bits,) uint8``: the answer steps of all examples in order, flattened."""

    name = "tape"
    Spec = Spec
    Inputs = Inputs
    Targets = Targets
    Prediction = Prediction
    arrays = ("logits",)

    def trim(self, examples: Examples) -> Examples:
        """Cut every array at the longest tape of these examples."""
        width = int(examples.inputs["length"].max())
        return Examples(
            {**examples.inputs, "inputs": examples.inputs["inputs"][:, :width]},
            {name: array[:, :width] for name, array in examples.targets.items()},
            examples.sizes,
        )

    def check_examples(self, examples: Examples) -> None:
        """Require at least one step, one answer inside the tape and none outside, finite inputs, bits in [0,1]."""
        length, answer, bits = examples.inputs["length"], examples.targets["answer"], examples.targets["bits"]
        inside = np.arange(answer.shape[1]) < length[:, None]
        found = {
            "a tape of length 0; it has at least 1 step": length < 1,
            "no answered step within its tape": ~(answer & inside).any(1),
            "an answered step after the end of its tape": (answer & ~inside).any(1),
            "an input that is not finite": ~np.isfinite(examples.inputs["inputs"]).all((1, 2)),
            "a target bit outside [0, 1]": ~((bits >= 0) & (bits <= 1)).all((1, 2)),
        }
        for problem, rows in found.items():
            if rows.any():
                raise UserError(f"example {rows.argmax()} has {problem}")

    def store(self, prediction: Any, batch: Batch, spec: Any) -> Stored:
        """Return ``{"logits": (answered bits,) uint8}``: quantised log-odds at the answer steps."""
        logits = as_tensor(prediction, Prediction, "logits")
        expected = (*batch.inputs.inputs.shape[:2], spec.output_bits)
        if tuple(logits.shape) != expected:
            raise PredictionError(
                f"predict_step returned logits of shape {tuple(logits.shape)}; expected (B,T,K) = {expected}"
            )
        if not logits.is_floating_point():
            raise PredictionError(f"predict_step returned logits of dtype {logits.dtype}; expected torch.float32")
        answered = logits[batch.targets.answer.cpu()].float()  # (answer steps, K)
        if not bool(torch.isfinite(answered).all()):
            raise PredictionError("predict_step returned NaN or infinite logits")
        return {"logits": quantise(answered.numpy()).reshape(-1)}

    def check_stored(self, stored: Stored, examples: Examples) -> None:
        """Require one logit for every answered bit."""
        bits = examples.targets["answer"].sum() * examples.targets["bits"].shape[2]
        logits = stored.get("logits")
        if logits is None or logits.dtype != np.uint8 or logits.shape != (bits,):
            found = None if logits is None else (logits.dtype.name, logits.shape)
            raise CorruptBundleError(f"logits are {found}; expected ('uint8', ({bits},))")
        if logits.size and logits.max() > 254:
            raise CorruptBundleError("logits have level 255; the levels are 0..254")

    def same(self, a: np.ndarray, b: np.ndarray) -> bool:
        """Allow one level: a logit on the edge between two may fall to either side."""
        return a.shape == b.shape and bool((np.abs(a.astype(np.int64) - b.astype(np.int64)) <= 1).all())

    def audit(self, predict: Callable[[Any], Any], batch: Batch) -> None:
        """Refuse a model whose outputs up to a step move when the inputs after it change."""
        inputs = batch.inputs
        steps = inputs.inputs.shape[1]
        before = as_tensor(predict(inputs), Prediction, "logits")
        if not bool(torch.isfinite(before).all()):
            raise PredictionError("predict_step returned NaN or infinite logits")
        again = as_tensor(predict(inputs), Prediction, "logits")
        moved = float((before - again).abs().max()) if before.shape == again.shape else math.inf
        if not moved <= CAUSALITY_TOLERANCE:
            raise PredictionError(
                f"predict_step is random: a second call on the same inputs moved a logit by {moved:.3g}"
            )
        generator = torch.Generator().manual_seed(0)
        for cut in sorted({1, steps // 3, steps // 2, steps - 1} - {0}):
            tape = inputs.inputs.clone()
            tape[:, cut:] = torch.rand(tape[:, cut:].shape, generator=generator).round().to(tape)
            after = as_tensor(predict(dataclasses.replace(inputs, inputs=tape)), Prediction, "logits")
            if before.shape != after.shape:
                raise PredictionError(f"predict_step returned {tuple(before.shape)}, then {tuple(after.shape)}")
            moved = float((before[:, :cut] - after[:, :cut]).abs().max())
            if not moved <= CAUSALITY_TOLERANCE:
                raise PredictionError(
                    f"the model is not causal: changing the inputs from step {cut} on moved an earlier logit by "
                    f"{moved:.3g} (tolerance {CAUSALITY_TOLERANCE:g}); a tape model may read only the past"
                )


def quantise(logits: np.ndarray) -> np.ndarray:
    """Map log-odds to ``uint8`` levels 0..254; 127 is exactly 0."""
    return (np.rint(np.clip(logits, -LOGIT_RANGE, LOGIT_RANGE) / LOGIT_RANGE * 127) + 127).astype(np.uint8)


def dequantise(levels: np.ndarray) -> np.ndarray:
    """Return the log-odds that ``levels`` stand for."""
    return (levels.astype(np.float64) - 127) * (LOGIT_RANGE / 127)


TAPE = Tape()
