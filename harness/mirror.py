"""MLflow as a mirror: curves, parameters and bundles for browsing. The board never reads it, no run ends for it."""

import json
import logging
import math
import os
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock

from harness.errors import UserError, first_line
from harness.progress import console
from harness.records import Identity, Run

SERVER = "MLFLOW_TRACKING_URI"
PARAMETER_LIMIT = 500
NESTED = ("hyperparameters", "training")
"""Fields of an identity that hold more than one parameter."""
MARK = "examples"
"""A metric that every line of the curve has: its steps say which lines the store holds already."""
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
"""A server that is gone is asked again after the next segment; MLflow's own way keeps a run waiting for minutes."""


def tracking_uri(results: Path) -> str:
    """Return ``MLFLOW_TRACKING_URI``, or the sqlite store below the results folder."""
    return os.environ.get(SERVER) or f"sqlite:///{(results / 'mlflow' / 'mlflow.db').resolve()}"


def require_store(results: Path, task: str) -> None:
    """Raise a ``UserError`` before anything is trained if the store cannot be used for the runs of a task."""
    uri = tracking_uri(results)
    try:
        if os.environ.get(SERVER) and uri.startswith("sqlite:///"):  # MLflow would try for minutes
            with tempfile.TemporaryFile(dir=Path(uri.removeprefix("sqlite:///")).parent):
                pass
        _opened(results, task)
    except Exception as error:  # a bad address fails in MLflow, in SQLAlchemy, in a driver
        raise UserError(
            f"MLflow store {uri!r} cannot be used: {first_line(error)}. Set MLFLOW_TRACKING_URI to "
            "another, or run with --no-mlflow"
        ) from error


def _opened(results: Path, task: str) -> tuple[Any, str]:
    """Return a client of the store, and the key of the task's experiment in it."""
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "ERROR")
    for name, value in PATIENCE.items():
        os.environ.setdefault(name, value)
    from mlflow.tracking import MlflowClient

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    local = not os.environ.get(SERVER)
    if local:
        (results / "mlflow").mkdir(parents=True, exist_ok=True)
    # Two processes that meet an empty store would both create its tables and its experiment.
    with FileLock(results / ".mlflow.lock"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client = MlflowClient(tracking_uri(results))
        experiment = client.get_experiment_by_name(task)
        if experiment is not None:
            return client, experiment.experiment_id
        location = str((results / "mlflow" / "artifacts").resolve()) if local else None
        return client, client.create_experiment(task, artifact_location=location)


class Mirror:
    """One MLflow run that follows one of ours. ``run_id`` survives in the checkpoint, so that a resumed run goes on.

    A store that fails, be it from the run's start, is told of once; what it missed of the curve follows when it is
    back, and what it lacks in the end is said. ``require_store`` is for finding out before.
    """

    def __init__(self, results: Path, identity: Identity, tags: Mapping[str, str], run_id: str | None = None):
        self._label, self._failing = identity.label, False
        self._mirrored = 0  # the step of the last line of the curve that the store holds
        self._results, self._identity, self.run_id = results, identity, run_id
        self._tags = {**tags, "fingerprint": identity.fingerprint, "identity": identity.digest}
        self._client: Any = None
        self._open = False
        with self._bearing():
            self._start()

    def _start(self) -> None:
        """Open the run in the store, unless it is open already."""
        if self._open:
            return
        from mlflow.entities import Param, RunTag

        self._client, key = _opened(self._results, self._identity.task)
        self.run_id = self._reopen(self.run_id) or self._client.create_run(key, run_name=self._label).info.run_id
        self._client.log_batch(
            self.run_id,
            params=[Param(name, str(value)[:PARAMETER_LIMIT]) for name, value in _parameters(self._identity).items()],
            tags=[RunTag(name, value) for name, value in self._tags.items()],
        )
        self._open = True

    def _reopen(self, run_id: str | None) -> str | None:
        """Return ``run_id`` if the store still knows it, set to RUNNING again."""
        from mlflow.exceptions import MlflowException

        if run_id is None:
            return None
        try:
            self._client.set_terminated(run_id, "RUNNING")
            self._mirrored = max((point.step for point in self._client.get_metric_history(run_id, MARK)), default=0)
        except MlflowException:
            return None
        return run_id

    @contextmanager
    def _bearing(self) -> Iterator[None]:
        """Let the run go on when the store fails, and tell of it once."""
        try:
            yield
            self._failing = False
        except Exception as error:  # as in ``require_store``; whatever it is, the run is worth more than its mirror
            if not self._failing:
                console.print(f"{self._label}: MLflow fails, the run goes on: {first_line(error)}", markup=False)
            self._failing = True

    def follow(self, curve: Sequence[Mapping[str, Any]], headline: str) -> None:
        """Log the lines of the curve (keyed as ``results.CURVE_COLUMNS``) that the store does not hold yet."""
        for line in curve:
            if line["step"] > self._mirrored:
                with self._bearing():
                    self._start()
                    values = {MARK: line["examples"], "training_loss": line["training_loss"]}
                    self._log({**values, f"validation_{headline}": line["validation"]}, line["step"])
                    self._mirrored = line["step"]
                if self._failing:
                    return

    def _log(self, values: Mapping[str, float | None], step: int) -> None:
        """Log metrics; what is not finite becomes a flag metric, since the store would bend it."""
        from mlflow.entities import Metric

        now, metrics = int(1000 * time.time()), []
        for name, value in values.items():
            if value is None or not math.isfinite(value):
                metrics.append(Metric(f"{name}_not_finite", 1.0, now, step))
            else:
                metrics.append(Metric(name, float(value), now, step))
        self._client.log_batch(self.run_id, metrics=metrics)

    def finish(self, run: Run, bundle: Path, curve: Sequence[Mapping[str, Any]], headline: str) -> None:
        """Log what the curve lacks, the final scores and the bundle, and close the run; say so where that fails."""
        self.follow(curve, headline)
        with self._bearing():
            self._start()
            whole_splits = {score.split: score.values for score in reversed(run.scores)}  # its first is all of it
            for split, values in whole_splits.items():
                self._log({f"{split}/{name}": value for name, value in values.items()}, step=0)
            self._client.log_artifacts(self.run_id, str(bundle), "bundle")
            self._client.log_text(self.run_id, json.dumps(run.identity.model_dump(), indent=1), "identity.json")
            self._client.set_terminated(self.run_id, "FINISHED" if run.status == "completed" else "FAILED")
        if self._failing:
            behind = [line["step"] for line in curve if line["step"] > self._mirrored]
            lines = f"the curve from step {behind[0]} on, " if behind else ""
            missing = f"{self._label}: its MLflow run {self.run_id} lacks {lines}scores and bundle; the bundle is whole"
            if self.run_id is None:
                missing = f"{self._label}: it has no run in MLflow; the bundle is whole"
            console.print(missing, markup=False)

    def abort(self, error: BaseException) -> None:
        """Close the run as killed (Ctrl-C) or failed."""
        if self._client is None or self.run_id is None:
            return
        status = "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED"
        with self._bearing():
            self._client.set_tag(self.run_id, "error", f"{type(error).__name__}: {error}"[:PARAMETER_LIMIT])
            self._client.set_terminated(self.run_id, status)


def _parameters(identity: Identity) -> dict[str, Any]:
    """Return what MLflow shows as parameters of a run."""
    fields = identity.model_dump()
    names = ("task", "task_version", "regime", "row", "model", "model_version", "budget", "examples", "seed")
    nested = {f"{group}.{name}": value for group in NESTED for name, value in fields[group].items()}
    return {name: fields[name] for name in names} | nested
