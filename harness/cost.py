"""What a model costs: parameters, and floating-point operations of a forward pass, also over the phases of a run."""

import copy
import warnings
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from harness.families.base import Batch
from harness.schedule import Schedule, phase_examples
from harness.splits import AnySplit, Stream, generator
from harness.task import Task

FLOP_BATCH = 4


def parameters(model: Any) -> int:
    """Return the number of trainable numbers."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def largest_training_batch(task: Task, split: AnySplit, count: int = FLOP_BATCH) -> Batch:
    """Return ``count`` examples of a training split at its largest size."""
    if isinstance(split, Stream):
        rng = generator(task.name, task.version, split.name, "flops")
        return task.family.batch(task.generate(rng, max(split.sizes), count, split.role))
    examples = task.load(split.name)
    return task.family.batch(examples.take(examples.sizes.argsort(kind="stable")[-count:]))


def forward_flops(model: Any, batch: Batch) -> float:
    """Return the multiply-adds of ``training_step`` counted as two operations each, forward alone, an example.

    PyTorch's counter sees nothing of an LSTM on the oneDNN path nor of the CPU's fused attention, so both are switched
    off while it counts.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        counter = FlopCounterMode(display=False)
        with torch.backends.mkldnn.flags(enabled=False), sdpa_kernel(SDPBackend.MATH), counter:
            # A copy, for a step may change buffers; without gradients, for the counter's hooks cannot do with a view of
            # a parameter, such as learned queries expanded over the batch.
            copy.deepcopy(model).requires_grad_(False).training_step(batch, 0)
    return counter.get_total_flops() / len(batch)


def flops_in_training(model: Any, task: Task, schedule: Schedule, examples: int) -> float:
    """Return ``forward_flops`` of a training example, the mean over the phases of a run of so many ``examples``.

    In each phase the model is told which one it is, and counted on the split that the phase trains on.
    """
    model = copy.deepcopy(model)
    shares = [phase_examples(phase, examples) for phase in schedule.phases]
    total = 0.0
    for share, phase, batches in zip(shares, schedule.phases, schedule.batches, strict=True):
        if hasattr(model, "on_phase"):
            model.on_phase(phase.name)
        total += share * forward_flops(model, largest_training_batch(task, batches.split))
    return total / sum(shares)
