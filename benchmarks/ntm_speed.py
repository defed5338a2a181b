"""Measure a training step of the Neural Turing Machine on ``ntm/copy`` at length 10, on one thread.

A step is forward, backward, clipping and RMSProp, as in the rows ``ntm-lstm`` and ``ntm-feedforward`` (memory 128 × 20,
100 hidden units, one head that reads and one that writes), at batch 1 and 16. Beside it stands the plain form, the same
steps through ``NTM.step`` and autograd. Times are of the processor (a step's wall time, if nothing else runs), and of
the fastest of several hundred steps, which other work on the machine disturbs least. Then a profile of the LSTM
controller at both sizes: what does not grow with the batch is the price of calls, not of arithmetic.

Aim: at most 20 ms at batch 16. The most used public PyTorch implementation takes 97 ms there, 29 ms at batch 1.

Run: ``python benchmarks/ntm_speed.py``
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from baselines import memory_recurrence
from baselines.losses import sequence_cost
from baselines.ntm import NTM
from harness.execution import isolated
from harness.families import Batch
from harness.recipe import get_recipe
from harness.registry import get_task
from harness.splits import generator

LENGTH, WARM_UP, MEASURED = 10, 20, 300
BATCHES = (1, 16)
PARTS = ("control", "project", "address", "access")


class Clock:
    """Adds up the seconds of named parts of a step, and keeps the smallest sum seen of each."""

    def __init__(self) -> None:
        self.best: dict[str, float] = {}
        self.now: dict[str, float] = {}

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``function`` with its time booked under ``name``."""

        def call(*arguments: Any, **keywords: Any) -> Any:
            start = time.process_time()
            result = function(*arguments, **keywords)
            self.now[name] = self.now.get(name, 0.0) + time.process_time() - start
            return result

        return call

    def end_step(self) -> None:
        """Compare the step's sums with the best."""
        for name, seconds in self.now.items():
            self.best[name] = min(seconds, self.best.get(name, seconds))
        self.now = {}


def copy_batch(size: int) -> Batch:
    """Return ``size`` sequences of the benchmark's length."""
    task = get_task("ntm/copy")
    return task.family.batch(task.generate(generator("benchmark", 1, "ntm_speed", size), LENGTH, size, "train"))


def plain(model: NTM, tape: Tensor) -> Tensor:
    """Return the logits of ``model`` through its equations one step after the other."""
    state, states = model.start(len(tape)), []
    for x in tape.unbind(1):
        state, _ = model.step(x, state)
        states.append(torch.cat([state.r.flatten(1), state.h], dim=1))
    return model.output(torch.stack(states, dim=1))


def measure(
    row: str, size: int, *, fast: bool = True, profile: bool = False, steps: int = MEASURED
) -> dict[str, float]:
    """Return the milliseconds of a step, its forward and its backward pass; with ``profile``, of their parts, too."""
    recipe = get_recipe(row).resolve(get_task("ntm/copy"))
    torch.manual_seed(0)
    model = NTM(get_task("ntm/copy").spec("default"), **recipe.hyperparameters)
    optimiser = torch.optim.RMSprop(model.parameters(), model.learning_rate, alpha=0.95, momentum=0.9, foreach=True)
    batch = copy_batch(size)
    bits, answer = batch.targets.bits, batch.targets.answer
    clock = Clock()

    def loss() -> Tensor:
        return sequence_cost(model(batch.inputs.inputs) if fast else plain(model, batch.inputs.inputs), bits, answer)

    def update() -> None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.training.clip_norm or 0.0)
        optimiser.step()
        optimiser.zero_grad()

    def step() -> None:
        clock.timed("backward", clock.timed("forward", loss)().backward)()
        clock.timed("clipping, optimiser", update)()

    functions = [f"{part}{suffix}" for part in PARTS for suffix in ("", "_backward")] if profile else []
    originals = {name: getattr(memory_recurrence, name) for name in functions}
    try:
        for name, function in originals.items():
            setattr(memory_recurrence, name, clock.timed(name, function))
        for index in range(WARM_UP + steps):
            if index == WARM_UP:
                clock.best = {}
            clock.timed("step", step)()
            clock.end_step()
    finally:
        for name, function in originals.items():
            setattr(memory_recurrence, name, function)
    return {name: 1000 * seconds for name, seconds in clock.best.items()}


def main() -> None:
    """Print a line a row and size, then the profile."""
    with isolated():
        for row in ("ntm-lstm", "ntm-feedforward"):
            for size in BATCHES:
                fast, slow = measure(row, size), measure(row, size, fast=False, steps=MEASURED // 3)
                print(
                    f"{row:16} batch {size:2}: {fast['step']:5.1f} ms a step ({fast['forward']:.1f} forward, "
                    f"{fast['backward']:.1f} backward); through NTM.step and autograd {slow['step']:.1f} ms"
                )
        columns = [measure("ntm-lstm", size, profile=True) for size in BATCHES]
    print("\nntm-lstm, ms a step".ljust(37) + "".join(f"batch {size}".rjust(10) for size in BATCHES))
    for way, suffix in (("forward", ""), ("backward", "_backward")):
        for part in PARTS:
            print(f"{way}: {part}".ljust(36) + "".join(f"{column[part + suffix]:10.2f}" for column in columns))
        rest = [column[way] - sum(column[part + suffix] for part in PARTS) for column in columns]
        print(f"{way}: buffers, input, output, loss".ljust(36) + "".join(f"{value:10.2f}" for value in rest))
    name = "clipping, optimiser"
    print(name.ljust(36) + "".join(f"{column[name]:10.2f}" for column in columns))


if __name__ == "__main__":
    main()
