"""Many runs: one after another in this warm process, or side by side as Ray tasks, on this machine or on a cluster.

A Ray task is one run. It writes its bundle where it runs and sends the files back; the process that was asked for the
runs puts them below the results folder as they end. Ray starts a run again whose worker died: from its last
checkpoint, where that can be seen.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cluster import joined, require_ray
from harness.errors import ReadheadError, RunFailedError, UnavailableError, UserError, first_line
from harness.execution import PlannedRun, execute, existing
from harness.groups import require_seeds_alike
from harness.mirror import SERVER, require_store
from harness.plan import identify
from harness.progress import SweepProgress
from harness.ranks import leading
from harness.recipe import Recipe
from harness.records import Identity, Run
from harness.registry import get_task
from harness.results import place_bundle, read_run, require_writable

RETRIES = 3
"""How often a run is started again whose worker died."""


@dataclass(frozen=True)
class Done:
    """How one run ended: with a bundle, or with the reason for having none."""

    identity: Identity
    folder: Path | None = None
    run: Run | None = None
    failure: ReadheadError | None = None


def run_all(
    runs: Sequence[PlannedRun],
    results: Path,
    *,
    workers: int = 1,
    cluster: str | None = None,
    force: bool = False,
    reproduction: bool = False,
    mlflow: bool = True,
) -> Iterator[Done]:
    """Do every run and yield how each ended; a failed one does not stop the others.

    ``workers`` of this machine, or the Ray ``cluster`` at an address, do them side by side. Raises ``UserError`` for
    what cannot be done at all: a bad request, or one that every run refuses. That a ``reproduction`` is refused is an
    outcome like any other; see ``execute`` for what else it is.
    """
    how = {"force": force, "reproduction": reproduction, "mlflow": mlflow}
    if workers < 1:
        raise UserError(f"workers {workers} is not valid: it must be at least 1")
    side_by_side = cluster is not None or (workers > 1 and len(runs) > 1)
    if side_by_side:
        require_ray()
    require_seeds_alike(results, [planned.identity for planned in runs])
    if cluster is not None and workers > 1:
        raise UserError(f"workers {workers} and a Ray cluster exclude each other: the cluster knows its size")
    if mlflow and cluster is None and leading():  # once: if it goes away later, the runs go on without it
        todo = next((planned for planned in runs if force or existing(results, planned.identity) is None), None)
        if todo is not None:
            require_writable(results)
            require_store(results, todo.identity.task)
    ended: Iterator[Done] = (
        _on_ray(runs, results, workers, cluster, how)
        if side_by_side
        else (_attempt(planned, results, how) for planned in runs)
    )
    if reproduction:
        yield from ended
        return
    refused: list[UserError] = []
    for done in ended:
        if isinstance(done.failure, UserError):
            refused.append(done.failure)
            if len(runs) == 1:
                break
        yield done
    if runs and len(refused) == len(runs):
        raise refused[0]


def _attempt(planned: PlannedRun, results: Path, how: Mapping[str, Any]) -> Done:
    try:
        folder, run = execute(planned, results, **how)
    except ReadheadError as error:
        return Done(planned.identity, failure=error)
    return Done(planned.identity, folder, run)


def remote(
    source: str, regime: str, recipe: Mapping[str, Any], identity: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, bytes] | ReadheadError:
    """Do one run in a worker and return the files of its bundle. Arguments are plain, for tasks cannot be pickled."""
    try:
        task = get_task(source)
        wanted, resolved = Identity.model_validate(identity), Recipe.model_validate(recipe)
        here = identify(task, regime, resolved, wanted.budget, wanted.seed)
        if here.model_copy(update={"examples": wanted.examples}) != wanted:
            raise RunFailedError(f"{wanted.label}: this worker has another version of the task or the model")
        with tempfile.TemporaryDirectory() as scratch:
            planned = PlannedRun(source, task, regime, resolved, wanted)
            folder, _ = execute(planned, Path(scratch), quiet=True, **options)
            return {path.name: path.read_bytes() for path in folder.iterdir()}
    except (UserError, RunFailedError) as error:
        return type(error)(str(error))  # without its causes, which may not be known where it is read


def _on_ray(
    runs: Sequence[PlannedRun], results: Path, workers: int, cluster: str | None, how: Mapping[str, Any]
) -> Iterator[Done]:
    """Yield what is finished already, then how each run ended that Ray was given."""
    require_writable(results)
    several = [planned for planned in runs if planned.recipe.training.devices > 1]
    for planned in several:
        refusal = UnavailableError(f"{planned.identity.label} starts its own processes, one a device: not in a worker")
        if not how["reproduction"]:
            raise refusal
        yield Done(planned.identity, failure=refusal)
    runs = [planned for planned in runs if planned not in several]
    if cluster is not None and how["mlflow"] and not os.environ.get(SERVER):
        raise UserError(
            f"the workers of a cluster cannot write the MLflow store of {str(results)!r}: set {SERVER} to the "
            "address of a server, or run with --no-mlflow"
        )
    todo = []
    for planned in runs:
        if not how["force"] and existing(results, planned.identity) is not None:
            yield _attempt(planned, results, how)
        else:
            todo.append(planned)
    if not todo:
        return
    options = {**how, "store": str(results.resolve())}
    with joined(workers, cluster, todo) as ray:
        if cluster is None and not ray.cluster_resources().get("GPU"):  # a cluster may grow; Ray would wait for ever
            for planned in [each for each in todo if _need(each)["num_gpus"]]:
                todo.remove(planned)
                reason = f"{planned.identity.label}: accelerator gpu, and this machine has no graphics processor"
                yield Done(planned.identity, failure=UnavailableError(reason))
        if cluster is not None and how["mlflow"]:
            _require_store_of_workers(ray, options["store"], todo[0].identity.task)
        slots = _slots(ray.cluster_resources(), todo)
        task = ray.remote(max_retries=RETRIES)(remote)
        pending = {task.options(**_need(planned)).remote(*_plain(planned), options): planned for planned in todo}
        with SweepProgress(len(todo), slots=slots) as progress:
            while pending:
                (ready, *_), _ = ray.wait(list(pending))
                done = _collected(ray, ready, pending.pop(ready), results)
                progress.ended(failed=done.run is None)
                yield done


def _require_store_of_workers(ray: Any, store: str, task: str) -> None:
    """Let a worker find out whether it reaches the MLflow store, which this machine need not."""
    try:
        failure = ray.get(ray.remote(num_cpus=0, max_retries=RETRIES)(_store_failure).remote(store, task))
    except ray.exceptions.RayError as error:
        raise UserError(f"the workers of the cluster cannot look for the MLflow store: {first_line(error)}") from error
    if failure is not None:
        raise UserError(f"the workers of the cluster: {failure}")


def _store_failure(store: str, task: str) -> str | None:
    """Return why a worker cannot use the MLflow store."""
    try:
        require_store(Path(store), task)
    except UserError as error:
        return str(error)
    return None


def _need(planned: PlannedRun) -> dict[str, int]:
    """Return what a run needs to itself: a processor, and a graphics processor if it trains on one."""
    return {"num_cpus": 1, "num_gpus": int(planned.recipe.training.accelerator == "gpu")}


def _slots(resources: Mapping[str, float], runs: Sequence[PlannedRun]) -> int:
    """Return how many of ``runs`` fit at once into what Ray has of processors and of graphics processors."""
    processors, graphics = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
    on_graphics = sum(_need(planned)["num_gpus"] for planned in runs)
    return min(processors, len(runs) - on_graphics + min(on_graphics, graphics))


def _plain(planned: PlannedRun) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    """Return the first arguments of ``remote``; what a recipe does not set is no part of an identity."""
    recipe = planned.recipe.model_dump(exclude_unset=True)
    return planned.source, planned.regime, recipe, planned.identity.model_dump()


def _collected(ray: Any, ready: Any, planned: PlannedRun, results: Path) -> Done:
    """Put what a worker sent where it belongs."""
    try:
        sent = ray.get(ready)
    except ray.exceptions.RayError as error:  # its worker died again and again
        return Done(planned.identity, failure=RunFailedError(f"{planned.identity.label} failed: {first_line(error)}"))
    if isinstance(sent, ReadheadError):
        return Done(planned.identity, failure=sent)
    try:
        folder = place_bundle(results, planned.identity, sent)
    except (OSError, ReadheadError) as error:  # the disk is full, say; the other runs may still find room
        reason = f"{planned.identity.label}: its bundle cannot be kept: {first_line(error)}"
        return Done(planned.identity, failure=RunFailedError(reason))
    return Done(planned.identity, folder, read_run(folder))
