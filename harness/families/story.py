"""Family ``story``: sentences, oldest first, then a question; the answer is one of a fixed list of candidates.

Token ids: 0 pad, 1 BOS, 2 EOS, 3 unknown, then the words from 4 on (BOS and EOS never occur; a model may use them).
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from harness.errors import CorruptBundleError, PredictionError
from harness.families.base import Batch, Examples, Family, Stored, TensorStruct, as_tensor
from harness.families.base import Spec as BaseSpec
from harness.families.ragged import Ragged

PAD, BOS, EOS, UNKNOWN, FIRST_WORD = 0, 1, 2, 3, 4
NO_SUPPORT = -1
"""What fills ``support`` behind an example's supporting sentences."""

UNREAD_TOLERANCE = 1e-4
"""Largest change of a score that rounding may explain where a sentence changes that the model says it did not read."""


RAGGED = ("story", "sentence_length")
"""Inputs that are kept without padding."""


@dataclass(frozen=True)
class Spec(BaseSpec):
    """Sizes of a story task. ``vocabulary`` counts the four reserved ids, ``answers`` the candidates A.

    ``max_sentence_length`` and ``max_question_length`` are in words; ``max_train_story`` and ``max_test_story`` in
    sentences: the longest story before a question in training and validation, and in the tests. ``answer_words``, one
    a candidate: the token id of a candidate that is a word, 0 of one that is not (a list, say); none: not known.
    """

    vocabulary: int
    answers: int
    max_sentence_length: int
    max_question_length: int
    max_train_story: int
    max_test_story: int
    answer_words: tuple[int, ...] = ()


@dataclass(frozen=True)
class Inputs(TensorStruct):
    """``story (B,S,W) int64``, oldest sentence first, pads behind words and behind sentences; ``question (B,Q) int64``.

    ``story_length (B,) int64`` sentences, at least 1; ``sentence_length (B,S) int64`` words, 0 where there is no
    sentence; ``question_length (B,) int64`` words.
    """

    story: Tensor
    story_length: Tensor
    sentence_length: Tensor
    question: Tensor
    question_length: Tensor

    @property
    def sentence_mask(self) -> Tensor:
        """Which places hold a sentence, ``(B,S) bool``; those that hold a word are ``story != PAD``."""
        return self.sentence_length > 0


@dataclass(frozen=True)
class Targets(TensorStruct):
    """``answer (B,) int64``, a candidate; ``support (B,K) int64``: the sentences that tell it, in their order, then −1.

    The order is the data's own and means something: it is the order in which the facts are put together.
    """

    answer: Tensor
    support: Tensor


@dataclass(frozen=True)
class Prediction(TensorStruct):
    """``scores (B,A) float32``, one a candidate, larger is likelier.

    A model whose memory holds fewer sentences than the story says so: ``unread (B,) int64`` of the oldest sentences did
    not reach it. They are counted in the bundle. None: it read them all.
    """

    scores: Tensor
    unread: Tensor | None = None


class Story(Family):
    """Stored as ``answer (n,)``, the best candidate, ``rank (n,)`` of the right one from 0, and ``unread (n,)``.

    Among equal scores the candidate that comes first in the list is better. ``inputs["story"]`` and
    ``inputs["sentence_length"]`` are ``Ragged``.
    """

    name = "story"
    Spec = Spec
    Inputs = Inputs
    Targets = Targets
    Prediction = Prediction
    arrays = ("answer", "rank", "unread")
    fill: ClassVar[Mapping[str, Any]] = {"support": NO_SUPPORT}

    def trim(self, examples: Examples) -> Examples:
        """Cut question and support at the longest of these examples; a story has no padding yet."""
        question_width = int(examples.inputs["question_length"].max())
        support_width = int((examples.targets["support"] != NO_SUPPORT).sum(1).max())
        return Examples(
            {**examples.inputs, "question": examples.inputs["question"][:, :question_width]},
            {**examples.targets, "support": examples.targets["support"][:, :support_width]},
            examples.sizes,
        )

    def tensors(self, examples: Examples) -> Batch:
        """Return ``examples`` as tensors; sentences are as wide as the longest of them."""
        inputs = {name: np.asarray(array) for name, array in examples.inputs.items()}
        inputs["story"] = inputs["story"][:, :, : int(inputs["sentence_length"].max(initial=0))]
        return Batch(
            Inputs(**{name: torch.from_numpy(array.astype(np.int64)) for name, array in inputs.items()}),
            Targets(**{name: torch.from_numpy(array.astype(np.int64)) for name, array in examples.targets.items()}),
        )

    def concatenate(self, parts: Sequence[Examples]) -> Examples:
        """Return several groups of examples as one; stories stay as they are."""
        plain = [
            Examples({n: a for n, a in part.inputs.items() if n not in RAGGED}, part.targets, part.sizes)
            for part in parts
        ]
        joined = super().concatenate(plain)
        for name in RAGGED:
            joined.inputs[name] = Ragged.concatenate([part.inputs[name] for part in parts])
        return joined

    def store(self, prediction: Any, batch: Batch, spec: Any) -> Stored:
        """Return ``answer`` and ``rank`` (uint8, or uint16 from 257 candidates on) and ``unread`` (uint16)."""
        tensor = as_tensor(prediction, Prediction, "scores")
        size = len(batch)
        if tuple(tensor.shape) != (size, spec.answers):
            raise PredictionError(
                f"predict_step returned scores of shape {tuple(tensor.shape)}; expected (B,A) = {(size, spec.answers)}"
            )
        if not tensor.is_floating_point():
            raise PredictionError(f"predict_step returned scores of dtype {tensor.dtype}; expected torch.float32")
        scores = tensor.float().numpy()
        if not np.isfinite(scores).all():
            raise PredictionError("predict_step returned NaN or infinite scores")
        unread = self._unread(prediction, batch)
        return stored_scores(scores, batch.targets.answer.cpu().numpy()) | {"unread": unread.astype(np.uint16)}

    def _unread(self, prediction: Any, batch: Batch) -> np.ndarray:
        """Return the sentences of each story that the model did not read, ``(B,)``."""
        story_length = batch.inputs.story_length.cpu().numpy()
        if prediction.unread is None:
            return np.zeros_like(story_length)
        unread = as_tensor(prediction, Prediction, "unread")
        if unread.dtype != torch.int64 or tuple(unread.shape) != story_length.shape:
            raise PredictionError(
                f"predict_step returned unread of shape {tuple(unread.shape)} and dtype {unread.dtype}; expected "
                f"(B,) = {story_length.shape} and torch.int64"
            )
        counts = unread.numpy()
        wrong = (counts < 0) | (counts > story_length)
        if wrong.any():
            raise PredictionError(
                f"predict_step says that {counts[wrong][0]} sentences of a story of {story_length[wrong][0]} are unread"
            )
        return counts

    def check_stored(self, stored: Stored, examples: Examples) -> None:
        """Require one answer, rank and count an example that agree with the targets."""
        count = len(examples)
        for name, types in {"answer": ("uint8", "uint16"), "rank": ("uint8", "uint16"), "unread": ("uint16",)}.items():
            array = stored.get(name)
            if array is None or array.dtype.name not in types or array.shape != (count,):
                found = None if array is None else (array.dtype.name, array.shape)
                raise CorruptBundleError(f"{name} is {found}; expected ({' or '.join(types)}, ({count},))")
        if not np.array_equal(stored["rank"] == 0, stored["answer"] == examples.targets["answer"]):
            raise CorruptBundleError("answer and rank disagree: the right candidate has rank 0 where it is the answer")
        if (stored["unread"] > examples.inputs["story_length"]).any():
            raise CorruptBundleError("unread counts more sentences than a story has")

    def audit(self, predict: Callable[[Any], Any], batch: Batch) -> None:
        """Refuse a model whose scores move when a sentence changes that it says it did not read."""
        inputs = batch.inputs
        before = predict(inputs)
        if getattr(before, "unread", None) is None:
            return
        unread = torch.from_numpy(self._unread(before, batch)).to(inputs.story.device)
        place = torch.arange(inputs.story.shape[1], device=inputs.story.device) < unread[:, None]  # (B,S)
        newest = inputs.story_length - 1
        rows = torch.arange(len(batch), device=inputs.story.device)
        changed = dataclasses.replace(
            inputs,
            story=torch.where(place[:, :, None], inputs.story[rows, newest][:, None], inputs.story),
            sentence_length=torch.where(place, inputs.sentence_length[rows, newest][:, None], inputs.sentence_length),
        )
        scores, after = (as_tensor(made, Prediction, "scores") for made in (before, predict(changed)))
        moved = float((scores - after).abs().max())
        if not moved <= UNREAD_TOLERANCE:
            raise PredictionError(
                f"the model says that it did not read the oldest sentences of a story, but changing them moved a score "
                f"by {moved:.3g} (tolerance {UNREAD_TOLERANCE:g}); `unread` must count only what never reaches it"
            )


def stored_scores(scores: np.ndarray, target: np.ndarray) -> Stored:
    """Return ``answer`` and ``rank`` for ``scores (n,A)`` and the right candidates ``target (n,)``."""
    smallest = np.uint8 if scores.shape[1] <= 256 else np.uint16
    own = np.take_along_axis(scores, target[:, None], axis=1)  # (n,1)
    earlier = np.arange(scores.shape[1]) < target[:, None]
    rank = ((scores > own) | ((scores == own) & earlier)).sum(1)
    return {"answer": scores.argmax(1).astype(smallest), "rank": rank.astype(smallest)}


STORY = Story()
