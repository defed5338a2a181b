"""What several story models take from a batch: the last sentences, or all words in a row."""

import torch
from torch import Tensor

from harness.families.story import PAD, Inputs


def newest(inputs: Inputs, limit: int) -> tuple[Tensor, Tensor]:
    """Return the last sentences, newest first: ``words (B,N,W)`` and which are real ``(B,N) bool``; N ≤ ``limit``.

    Places behind the oldest hold pads.
    """
    words = inputs.story.shape[2]
    age = torch.arange(min(limit, inputs.story.shape[1]), device=inputs.story.device)
    place = inputs.story_length[:, None] - 1 - age  # (B,N), negative before the story begins
    real = place >= 0
    told = inputs.story.gather(1, place.clamp(min=0)[:, :, None].expand(-1, -1, words))
    return told * real[:, :, None], real


def unread(inputs: Inputs, limit: int) -> Tensor:
    """Return how many of the oldest sentences are not among the last ``limit``, ``(B,)``."""
    return (inputs.story_length - limit).clamp(min=0)


def by_sentence(weights: Tensor, inputs: Inputs) -> Tensor:
    """Return weights ``(B,K,N)`` of the last sentences, newest first, as ``(B,K,S)`` of all, oldest first; 0 unread."""
    place = torch.arange(1, inputs.story.shape[1] + 1, device=inputs.story.device)
    age = (inputs.story_length[:, None] - place)[:, None].expand(-1, weights.shape[1], -1)  # (B,K,S)
    read = (age >= 0) & (age < weights.shape[2])
    return weights.gather(2, age.clamp(0, weights.shape[2] - 1)) * read


def running_text(inputs: Inputs, limit: int) -> tuple[Tensor, Tensor]:
    """Return the words of the last ``limit`` sentences, oldest first, and of the question, in one row.

    ``(B,T)``, pads behind, and the number of words, ``(B,)``.
    """
    story = newest(inputs, limit)[0]
    width = max(story.shape[2], inputs.question.shape[1])
    sentences = [
        torch.nn.functional.pad(part, (0, width - part.shape[-1])) for part in (story.flip(1), inputs.question[:, None])
    ]
    words = torch.cat(sentences, 1).flatten(1)  # (B,(N+1)W), pads in between
    place = (words != PAD).cumsum(1)  # from 1
    length = place[:, -1]
    text = words.new_zeros(len(words), int(length.max()) + 1)
    text.scatter_(1, torch.where(words != PAD, place, 0), words)  # pads go to place 0
    return text[:, 1:], length
