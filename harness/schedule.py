"""What a run trains on, in what order, and where it validates: all of it follows from its identity."""

import math
from typing import NamedTuple

from harness.errors import unknown
from harness.recipe import Phase, Training
from harness.splits import TrainingBatches
from harness.task import Task


class Segment(NamedTuple):
    """Batches ``start`` to ``stop - 1`` of a phase, followed by a validation."""

    phase: int
    start: int
    stop: int


class Schedule:
    """What a run trains on: its phases, their batches, and the segments between validations."""

    def __init__(self, task: Task, regime: str, training: Training, examples: int, seed: int):
        allowed = (task.regime(regime).train, *task.regime(regime).also)
        self.phases = training.phases or [Phase(name="train", examples=examples)]
        self.batches: list[TrainingBatches] = []
        self.batch_sizes: list[int] = []
        self.segments: list[Segment] = []
        for index, phase in enumerate(self.phases):
            wanted = phase_examples(phase, examples)
            size = phase.batch_size or training.batch_size
            split = phase.split or allowed[0]
            if split not in allowed:
                raise unknown(f"training split of {task.name}:{regime}", split, allowed)
            self.batches.append(TrainingBatches(task, task.split(split), seed, size, index))
            self.batch_sizes.append(size)
            count = math.ceil(wanted / size)
            share = wanted / sum(phase_examples(other, examples) for other in self.phases)
            length = math.ceil(count / max(1, round(training.validations * share)))
            self.segments += [Segment(index, at, min(at + length, count)) for at in range(0, count, length)]
        self.total = sum(segment.stop - segment.start for segment in self.segments)

    def examples_after(self, segments: int) -> int:
        """Return the training examples of the first ``segments`` segments."""
        return sum((s.stop - s.start) * self.batch_sizes[s.phase] for s in self.segments[:segments])


def phase_examples(phase: Phase, examples: int) -> float:
    """Return the examples of a phase of a run of ``examples``."""
    return phase.examples * examples if phase.examples <= 1 else phase.examples
