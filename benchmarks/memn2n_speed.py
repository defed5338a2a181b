"""Seconds of a joint epoch of MemN2N: 18,000 questions in batches of 32, on one core.

    python benchmarks/memn2n_speed.py [--repeats 5]

Each of the epoch's batches is timed by itself, and the least of the repeats counts, so that what else a shared machine
does is left out. "model" is the step alone: forward, backward, clipping, SGD. "harness" is the same batches through
``readhead``'s training loop (Lightning), validation apart, the best of the repeats as a whole.
"""

import argparse
import time
from itertools import islice

import numpy as np
import pytorch_lightning as pl
import torch

from harness.execution import isolated
from harness.model import build, get_model
from harness.recipe import get_recipe
from harness.registry import get_task
from harness.splits import TrainingBatches
from harness.training import NoProfiler, Trainer


class Clock(pl.Callback):
    """Notes when batches end."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start."""
        self.times = [time.perf_counter()]

    def on_train_batch_end(self, *args: object) -> None:
        """Note the end of a batch."""
        self.times.append(time.perf_counter())


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    task = get_task("babi/joint")
    recipe = get_recipe("memn2n").resolve(task)
    batches = TrainingBatches(task, task.split("train-1k"), 0, recipe.training.batch_size)
    count = -(-len(task.load("train-1k")) // recipe.training.batch_size)
    with isolated():
        made = list(batches.iterate(0, count))
        settings = {**recipe.hyperparameters, "linear_start": 0.0}
        model = build(get_model(recipe.model), task.spec("1k"), settings, "memn2n")
        optimiser = torch.optim.SGD(model.parameters(), lr=1e-4)
        least, data, through = np.full((2, count), np.inf), np.inf, np.full((repeats, count), np.inf)
        for repeat in range(repeats):
            for index, batch in enumerate(made):
                start = time.perf_counter()
                optimiser.zero_grad()
                model.training_step(batch, index).backward()
                middle = time.perf_counter()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 40.0)
                optimiser.step()
                least[:, index] = np.minimum(least[:, index], [middle - start, time.perf_counter() - middle])
            start = time.perf_counter()
            for _ in islice(batches.iterate(0, count), count):
                pass
            data = min(data, time.perf_counter() - start)
            through[repeat] = np.diff(_trained(model, made))
    print(f"{count} batches of {recipe.training.batch_size}, {repeats} repeats, each batch's least time added up")
    print(
        f"model    {least.sum():.2f} s an epoch: forward and backward {least[0].sum():.2f}, update {least[1].sum():.2f}"
    )
    print(f"batches  {data:.2f} s to make them")
    print(f"harness  {through.min(0).sum():.2f} s through Lightning, batches made before")


def _trained(model: pl.LightningModule, batches: list[object]) -> list[float]:
    """Train on ``batches`` once through Lightning and return when each ended, the start first."""
    clock = Clock()
    trainer = Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        callbacks=[clock],
        profiler=NoProfiler(),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=40.0,
    )
    trainer.total_batches = len(batches)
    trainer.fit(model, torch.utils.data.DataLoader(batches, batch_size=None))  # type: ignore[arg-type]
    return clock.times


if __name__ == "__main__":
    main()
