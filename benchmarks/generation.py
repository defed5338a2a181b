"""Time making a training batch against training on it, for every row and task.

Prints a line a pair and phase: milliseconds a batch to generate and to train on, and their ratio. Aim: at most 5 %.
Data is made in the training process, so the ratio is what training waits for; bounded splits are made or read once,
before.

    python benchmarks/generation.py [row ...]
"""

import sys
import time

from harness.execution import build_model, isolated
from harness.model import applies, get_model
from harness.plan import make_plan
from harness.recipe import get_recipe, recipe_paths
from harness.registry import get_task, task_names
from harness.splits import BLOCK, GROUP
from harness.training import Schedule

EXAMPLES = GROUP * BLOCK
"""A stream makes this many examples at once."""
TRAINED = 24
"""Batches that are trained on."""


def main(rows: list[str]) -> None:
    """Print a line a pair of row and task, and phase of the row's training."""
    for row in rows or recipe_paths():
        for task in map(get_task, task_names()):
            if task.sampled == () or applies(get_model(get_recipe(row).model), task.family.name) is not None:
                continue
            planned = make_plan(row, task.name, budget="smoke", seeds=[0]).runs[0]
            schedule = Schedule(task, planned.regime, planned.recipe.training, EXAMPLES, 0)
            with isolated():
                model = build_model(planned)
                for phase, source, size in zip(schedule.phases, schedule.batches, schedule.batch_sizes, strict=True):
                    start = time.perf_counter()
                    batches = list(source.iterate(0, EXAMPLES // size))
                    generated = (time.perf_counter() - start) / len(batches)
                    if hasattr(model, "on_phase"):
                        model.on_phase(phase.name)
                    start = time.perf_counter()
                    for step, batch in enumerate(batches[:TRAINED]):  # without the optimiser: a step takes longer
                        model.training_step(batch, step).backward()
                        model.zero_grad()
                    trained = (time.perf_counter() - start) / TRAINED
                    times = f"{1e3 * generated:7.3f} ms to make  {1e3 * trained:7.2f} ms to train on"
                    print(f"{row:22} {task.name:26} {phase.name:10} {times}  {generated / trained:6.2%}")


if __name__ == "__main__":
    main(sys.argv[1:])
