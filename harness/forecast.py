"""What runs would take: from finished runs of the same row, or from a few steps taken now."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.execution import PlannedRun, build_model, existing, isolated
from harness.groups import require_seeds_alike
from harness.results import find_bundles, read_run
from harness.schedule import Schedule, phase_examples

STEPS = 6
BUNDLE_BYTES = 150_000
"""A typical bundle, where no finished one of the row tells."""


@dataclass(frozen=True)
class Forecast:
    """What runs would take: ``seconds`` of training on one core (NaN: a step cannot be timed outside a run), ``disk``
    bytes of results, and whether any of it was ``measured`` just now instead of read from finished runs.

    ``finished`` runs of the request are done already and not counted.
    """

    todo: Sequence[PlannedRun]
    finished: int
    seconds: float
    disk: float
    measured: bool


def forecast(runs: Sequence[PlannedRun], results: Path, *, force: bool = False) -> Forecast:
    """Return what ``runs`` would take, less those whose bundle lies in ``results`` unless ``force`` runs them again.

    Raises ``UserError`` where they may not be done: see ``require_seeds_alike``.
    """
    require_seeds_alike(results, [planned.identity for planned in runs])
    todo = [planned for planned in runs if force or existing(results, planned.identity) is None]
    known: dict[tuple[str, str, str], tuple[float, float]] = {}
    for folder in find_bundles(results):
        run = read_run(folder)
        if run.cost is not None:
            size = float(sum(path.stat().st_size for path in folder.iterdir()))
            key = (run.identity.task, run.identity.regime, run.identity.row)
            known[key] = (run.cost.seconds / run.cost.examples, size)
    seconds, disk, measured = 0.0, 0.0, False
    for planned in todo:
        identity = planned.identity
        key = (identity.task, identity.regime, identity.row)
        if key not in known:
            known[key] = (_seconds_an_example(planned), BUNDLE_BYTES)
            measured = True
        rate, size = known[key]
        seconds += rate * identity.examples
        disk += size
    return Forecast(todo, len(runs) - len(todo), seconds, disk, measured)


def _seconds_an_example(planned: PlannedRun) -> float:
    """Time forward and backward of a few training steps of every phase; the optimiser and validation add about a tenth.

    NaN for a model that needs a trainer for its step, as one that optimises by hand does, or whose step fails.
    """
    identity = planned.identity
    schedule = Schedule(planned.task, planned.regime, planned.recipe.training, identity.examples, identity.seed)
    shares = [phase_examples(phase, identity.examples) for phase in schedule.phases]
    seconds = 0.0
    with isolated():
        model = build_model(planned)
        for share, phase, batches, size in zip(
            shares, schedule.phases, schedule.batches, schedule.batch_sizes, strict=True
        ):
            if hasattr(model, "on_phase"):
                model.on_phase(phase.name)
            start = 0.0
            for step, batch in enumerate(batches.iterate(0, STEPS + 1)):
                if step == 1:  # the first one pays for allocations
                    start = time.perf_counter()
                try:
                    loss = model.training_step(batch, step)
                    (loss["loss"] if isinstance(loss, dict) else loss).backward()
                except Exception:  # the run itself tells what is wrong, if anything is
                    return math.nan
                model.zero_grad()
            seconds += share / sum(shares) * (time.perf_counter() - start) / (STEPS * size)
    return 1.1 * seconds
