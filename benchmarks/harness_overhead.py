"""Time a training step through the harness against a hand-written PyTorch loop on the same model and batches.

Both run the same number of batches of one seed on one thread, in turn, several times; validation and checkpoints are
left out of both. Prints a line a model: milliseconds a step by hand and through the harness (medians), and the overhead
as the median of the ratios of neighbouring pairs. Aim: at most 10 % for steps of 5 ms and more.

    python benchmarks/harness_overhead.py
"""

import statistics
import time
from typing import Any

import torch

from harness.checkpoints import Checkpoints
from harness.execution import PlannedRun, build_model, isolated
from harness.plan import make_plan
from harness.progress import RunProgress
from harness.schedule import Schedule
from harness.training import Harness, SegmentLoader, Trainer, fit

PAIRS = 7
CASES = (
    ("bahdanau", "seq2seq/copy", (), 96),
    ("lstm", "seq2seq/copy", (), 96),
    ("tape-lstm", "ntm/copy", (), 96),
    ("tape-lstm", "ntm/copy", ("hidden=128", "layers=1"), 480),
)


class TimedHarness(Harness):
    """Stops the clock where the last step ends; neither validates nor saves."""

    elapsed: float

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Take the time since training started."""
        self.elapsed = time.perf_counter() - self._clock
        self.outcome.position += 1


def schedule_of(planned: PlannedRun, steps: int) -> Schedule:
    """Return a schedule of one segment of ``steps`` batches."""
    settings = planned.recipe.training.model_copy(update={"validations": 1})
    return Schedule(planned.task, planned.regime, settings, steps * settings.batch_size, seed=0)


def through_the_harness(planned: PlannedRun, steps: int) -> float:
    """Return seconds for ``steps`` steps through Lightning and the harness."""
    model = build_model(planned)
    schedule = schedule_of(planned, steps)
    spec = planned.task.spec(planned.regime)
    checkpoints = Checkpoints(planned.identity)
    with RunProgress("benchmark", schedule.total) as progress:
        loader = SegmentLoader(schedule)
        harness = TimedHarness(planned.task, planned.regime, spec, loader, checkpoints, progress, None, seed=0)
        fit(model, harness, planned.recipe.training, None)
    return harness.elapsed


def by_hand(planned: PlannedRun, steps: int) -> float:
    """Return seconds for ``steps`` steps of a plain loop: the same data, loss, clipping, optimiser and scheduler."""
    model = build_model(planned)
    schedule = schedule_of(planned, steps)
    model.trainer = Trainer(logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu")
    model.trainer.total_batches = schedule.total
    configured = model.configure_optimizers()
    optimizer, scheduler = configured["optimizer"], configured["lr_scheduler"]["scheduler"]
    clip = planned.recipe.training.clip_norm
    start = time.perf_counter()
    for step, batch in enumerate(schedule.batches[0].iterate(0, schedule.total)):
        optimizer.zero_grad()
        model.training_step(batch, step).backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
    return time.perf_counter() - start


def main() -> None:
    """Print a line a case."""
    with isolated():
        for row, task, settings, steps in CASES:
            planned = make_plan(row, task, budget="smoke", seeds=[0], settings=settings).runs[0]
            by_hand(planned, steps), through_the_harness(planned, steps)  # warm up
            pairs = [(by_hand(planned, steps), through_the_harness(planned, steps)) for _ in range(PAIRS)]
            hand, harness = (1000 * statistics.median(times) / steps for times in zip(*pairs, strict=True))
            overhead = statistics.median(b / a - 1 for a, b in pairs)
            times = f"{hand:6.2f} ms by hand  {harness:6.2f} ms through the harness"
            print(f"{planned.recipe.row:32} {times}  overhead {overhead:+.1%}")


if __name__ == "__main__":
    main()
