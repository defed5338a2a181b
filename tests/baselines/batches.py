"""Small batches of padded examples, and what the tests ask of a model's parameters."""

from typing import Any

import torch

from harness.families import Batch, pointing, tape, transduction
from harness.families.pointing import STOP
from harness.families.transduction import EOS, PAD

SOURCES = [[4, 5, 6, 7, 8, 9], [10, 11], [9, 4, 12]]
TARGETS = [[5, 6, 4, EOS], [11, EOS], [4, 12, 7, 7, 9, EOS]]


def padded(rows: list[list[int]], width: int) -> torch.Tensor:
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def token_batch(rows: list[int], extra: int = 0) -> Batch:
    """Rows of SOURCES as a batch, with ``extra`` columns of padding in source and target."""
    sources, targets = [SOURCES[row] for row in rows], [TARGETS[row] for row in rows]
    return Batch(
        transduction.Inputs(
            padded(sources, max(map(len, sources)) + extra), torch.tensor([len(source) for source in sources])
        ),
        transduction.Targets(padded(targets, max(map(len, targets)) + extra)),
    )


def tape_batch(lengths: list[int], extra: int = 0) -> Batch:
    """Copy tapes of the given numbers of 4-bit vectors; each depends on its length alone."""
    steps = 2 * max(lengths) + 1 + extra
    tapes, bits = torch.zeros(len(lengths), steps, 5), torch.zeros(len(lengths), steps, 4)
    answer = torch.zeros(len(lengths), steps, dtype=torch.bool)
    for row, length in enumerate(lengths):
        vectors = torch.randint(0, 2, (length, 4), generator=torch.Generator().manual_seed(length)).float()
        tapes[row, :length, :4] = vectors
        tapes[row, length, 4] = 1
        bits[row, length + 1 : 2 * length + 1] = vectors
        answer[row, length + 1 : 2 * length + 1] = True
    length = torch.tensor([2 * length + 1 for length in lengths])
    return Batch(tape.Inputs(tapes, length), tape.Targets(bits, answer))


def point_batch(lengths: list[int], extra: int = 0, answers: list[list[int]] | None = None) -> Batch:
    """Sets of 2-D points, each a function of its length alone, answered by all positions from the last to the first."""
    width = max(lengths) + extra
    elements = torch.zeros(len(lengths), width, 2)
    answers = [list(range(length))[::-1] for length in lengths] if answers is None else answers
    indices = torch.full((len(lengths), max(map(len, answers)) + 1 + extra), STOP)
    for row, (length, answer) in enumerate(zip(lengths, answers, strict=True)):
        elements[row, :length] = torch.rand(length, 2, generator=torch.Generator().manual_seed(length))
        indices[row, : len(answer)] = torch.tensor(answer)
    return Batch(pointing.Inputs(elements, torch.tensor(lengths)), pointing.Targets(indices))


def gradients(model: torch.nn.Module, loss: torch.Tensor) -> dict[str, Any]:
    """The gradient of every parameter by name."""
    parameters = dict(model.named_parameters())
    return dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))


def count_parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
