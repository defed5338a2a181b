"""Family ``scene``: questions about a scene, each answered by one of a few answers.

Several questions share a scene, so that a model looks once and answers all of them. A scene is an image, or a set of
object states. One *example*, wherever examples are counted, is a scene with its questions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from harness.errors import CorruptBundleError, PredictionError, UserError
from harness.families.base import Batch, Examples, Family, Stored, TensorStruct, as_tensor
from harness.families.base import Spec as BaseSpec

BLANK = -1
"""The answer to a question that is not asked; its question vector is all zeros."""


@dataclass(frozen=True)
class Spec(BaseSpec):
    """Sizes of a scene task.

    ``image``: height and width of a scene of pixels, None for states. ``channels``: C colours of a pixel, or D features
    of an object. ``objects``: how many a training scene holds; a task whose tests hold other numbers counts its size in
    them. ``question``: a question vector is one one-hot code after another, of these many bits. ``answers``: A.
    """

    image: tuple[int, int] | None
    channels: int
    objects: int
    question: tuple[int, ...]
    answers: int

    @property
    def question_bits(self) -> int:
        """E, the length of a question vector."""
        return sum(self.question)


@dataclass(frozen=True)
class Inputs(TensorStruct):
    """``scene``: pixels ``(B,C,H,W) uint8``, or states ``(B,N,D) float32`` in which a row of zeros is no object.

    ``question (B,Q,E) float32``: Q questions a scene; a row of zeros is no question.
    """

    scene: Tensor
    question: Tensor


@dataclass(frozen=True)
class Targets(TensorStruct):
    """``answer (B,Q) int64``: the class of each answer, -1 where no question is asked."""

    answer: Tensor


@dataclass(frozen=True)
class Prediction(TensorStruct):
    """``scores (B,Q,A) float32``: the highest is the answer, the first of them where several are."""

    scores: Tensor


class Scene(Family):
    """Stored as ``answers (n,Q) uint8``: the highest score's class, 0 where no question is asked."""

    name = "scene"
    Spec = Spec
    Inputs = Inputs
    Targets = Targets
    Prediction = Prediction
    arrays = ("answers",)
    fill: ClassVar[Mapping[str, Any]] = {"answer": BLANK}

    def trim(self, examples: Examples) -> Examples:
        """Cut states at the last object, and questions at the last one asked, of these examples."""
        scene, question = examples.inputs["scene"], examples.inputs["question"]
        if scene.ndim == 3:
            scene = scene[:, : _extent(scene)]
        asked = _extent(question)
        return Examples(
            {"scene": scene, "question": question[:, :asked]},
            {"answer": examples.targets["answer"][:, :asked]},
            examples.sizes,
        )

    def check_examples(self, examples: Examples) -> None:
        """Require scenes of bytes or finite numbers, questions of zeros and ones, and an answer exactly where asked."""
        scene, question, answer = examples.inputs["scene"], examples.inputs["question"], examples.targets["answer"]
        pixels = scene.ndim == 4
        if scene.dtype != (np.uint8 if pixels else np.float32):
            kind, wanted = ("pixels", "uint8") if pixels else ("states", "float32")
            raise UserError(f"scenes of {kind} are {wanted}, not {scene.dtype}")
        found = {
            "a state that is not finite": np.zeros(len(scene), bool) if pixels else ~np.isfinite(scene).all((1, 2)),
            "a question bit that is neither 0 nor 1": ~((question == 0) | (question == 1)).all((1, 2)),
            "an answer without a question": ((answer != BLANK) & ~question.any(2)).any(1),
            "a question without an answer": ((answer == BLANK) & question.any(2)).any(1),
        }
        for problem, rows in found.items():
            if rows.any():
                raise UserError(f"example {rows.argmax()} has {problem}")

    def store(self, prediction: Any, batch: Batch, spec: Any) -> Stored:
        """Return ``{"answers": (n,Q) uint8}``; NaN in the scores of a question that is asked is refused."""
        scores = as_tensor(prediction, Prediction, "scores")
        answer = batch.targets.answer.cpu()
        expected = (*answer.shape, spec.answers)
        if tuple(scores.shape) != expected:
            raise PredictionError(
                f"predict_step returned scores of shape {tuple(scores.shape)}; expected (B,Q,A) = {expected}"
            )
        if not scores.is_floating_point():
            raise PredictionError(f"predict_step returned scores of dtype {scores.dtype}; expected torch.float32")
        asked = answer != BLANK
        if bool(scores[asked].isnan().any()):
            raise PredictionError("predict_step returned NaN scores")
        best = scores.numpy(force=True) if scores.dtype != torch.bfloat16 else scores.float().numpy()
        return {"answers": np.where(asked.numpy(), best.argmax(2), 0).astype(np.uint8)}

    def check_stored(self, stored: Stored, examples: Examples) -> None:
        """Require an answer a question, and none where no question is asked."""
        answers, target = stored.get("answers"), examples.targets["answer"]
        if answers is None or answers.dtype != np.uint8 or answers.shape != target.shape:
            found = None if answers is None else (answers.dtype.name, answers.shape)
            raise CorruptBundleError(f"answers are {found}; expected ('uint8', {target.shape})")
        if answers[target == BLANK].any():
            raise CorruptBundleError("answers hold one to a question that is not asked")


def _extent(rows: np.ndarray) -> int:
    """Return how many rows of ``(n,rows,features)`` hold all that are not zeros."""
    columns = np.flatnonzero(rows.any((0, 2)))
    return int(columns[-1]) + 1 if len(columns) else 0


def check_inputs(inputs: Inputs, spec: Spec) -> None:
    """Raise a ``UserError`` where scenes or questions are not those that ``spec`` describes."""
    scene, question = inputs.scene, inputs.question
    if spec.image is not None:
        expected = (spec.channels, *spec.image)
        if scene.dim() != 4 or tuple(scene.shape[1:]) != expected or scene.dtype != torch.uint8:
            raise UserError(
                f"scene is {_kind(scene)}; this model reads images (B,C,H,W) = (B,{','.join(map(str, expected))}) uint8"
            )
    elif scene.dim() != 3 or scene.shape[2] != spec.channels or not scene.is_floating_point():
        raise UserError(f"scene is {_kind(scene)}; this model reads object states (B,N,{spec.channels}) float32")
    if question.dim() != 3 or question.shape[2] != spec.question_bits or len(question) != len(scene):
        raise UserError(
            f"question is {_kind(question)}; expected (B,Q,E) = ({len(scene)},Q,{spec.question_bits}) float32"
        )
    ones = (question == 1).to(torch.int64)
    codes = torch.stack([code.sum(2) for code in ones.split(list(spec.question), dim=2)], dim=2)  # (B,Q,codes)
    binary = ((question == 0) | (question == 1)).all(2)
    wrong = ~(binary & ((codes == 1).all(2) | (codes == 0).all(2)))
    if bool(wrong.any()):
        row, column = wrong.nonzero()[0].tolist()
        raise UserError(
            f"question {column} of scene {row} is {question[row, column].tolist()}; it must be one-hot codes of "
            f"{', '.join(map(str, spec.question))} bits, one after another, or all zeros"
        )


def _kind(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


SCENE = Scene()
