"""Many runs: one after another in this warm process, or side by side in Ray workers."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import RunFailedError, UserError
from harness.execution import PlannedRun, execute
from harness.recipe import Recipe
from harness.records import Identity, Run
from harness.registry import get_task


@dataclass(frozen=True)
class Done:
    """How one run ended: with a bundle, or with the reason for having none."""

    identity: Identity
    folder: Path | None = None
    run: Run | None = None
    failure: str | None = None


def run_all(
    runs: Sequence[PlannedRun], results: Path, *, workers: int = 1, force: bool = False, mlflow: bool = True
) -> Iterator[Done]:
    """Do every run and yield how each ended. A failed run does not stop the others; a ``UserError`` does."""
    if workers < 1:
        raise UserError(f"workers {workers} is not valid: it must be at least 1")
    if workers == 1 or len(runs) == 1:
        for planned in runs:
            yield _attempt(planned, results, force, mlflow)
    else:
        yield from _in_workers(runs, results, workers, force, mlflow)


def _attempt(planned: PlannedRun, results: Path, force: bool, mlflow: bool) -> Done:
    try:
        folder, run = execute(planned, results, force=force, mlflow=mlflow)
    except RunFailedError as error:
        return Done(planned.identity, failure=str(error))
    return Done(planned.identity, folder, run)


def _in_workers(runs: Sequence[PlannedRun], results: Path, workers: int, force: bool, mlflow: bool) -> Iterator[Done]:
    """Run in ``workers`` Ray processes of one thread each; a process serves many runs, so imports are paid once."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # the default, 15, starves runs on a machine with other work
    os.environ.setdefault("RAY_COLOR_PREFIX", "0")
    import ray

    def remote(source: str, regime: str, recipe: dict[str, Any], identity: dict[str, Any]) -> Done | UserError:
        planned = PlannedRun(
            source, get_task(source), regime, Recipe.model_validate(recipe), Identity.model_validate(identity)
        )
        try:
            return _attempt(planned, results.resolve(), force, mlflow)
        except UserError as error:
            return UserError(str(error))

    # Sockets lie below this folder; their paths may not be longer than 107 characters, so it cannot be the cache.
    with tempfile.TemporaryDirectory(prefix="rh-", dir="/tmp" if os.path.isdir("/tmp") else None) as folder:
        ray.init(
            num_cpus=workers,
            include_dashboard=False,
            configure_logging=True,
            logging_level="ERROR",
            log_to_driver=True,
            _temp_dir=folder,
            runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}},
        )
        try:
            task = ray.remote(num_cpus=1, max_retries=0)(remote)
            pending = [task.remote(p.source, p.regime, p.recipe.model_dump(), p.identity.model_dump()) for p in runs]
            while pending:
                ready, pending = ray.wait(pending)
                done = ray.get(ready[0])
                if isinstance(done, UserError):
                    raise done
                yield done
        finally:
            ray.shutdown()
