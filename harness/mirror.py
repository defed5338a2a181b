"""MLflow as a mirror: curves, parameters and bundles for browsing. The board never reads it."""

import json
import math
import os
import warnings
from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock

from harness.errors import UserError
from harness.records import Identity, Run

PARAMETER_LIMIT = 500


def tracking_uri(results: Path) -> str:
    """Return ``MLFLOW_TRACKING_URI``, or the sqlite store below the results folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(results / 'mlflow' / 'mlflow.db').resolve()}"


class Mirror:
    """One MLflow run that follows one of ours. ``run_id`` survives in the checkpoint, so that a resumed run goes on."""

    def __init__(self, results: Path, identity: Identity, tags: Mapping[str, str], run_id: str | None = None):
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "ERROR")
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        uri = tracking_uri(results)
        local = "MLFLOW_TRACKING_URI" not in os.environ
        try:
            if local:
                (results / "mlflow").mkdir(parents=True, exist_ok=True)
            # Two processes that meet an empty store would both create its tables and its experiment.
            with FileLock(results / ".mlflow.lock"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._client = MlflowClient(uri)
                location = str((results / "mlflow" / "artifacts").resolve()) if local else None
                experiment = self._client.get_experiment_by_name(identity.task)
                key = (
                    experiment.experiment_id
                    if experiment is not None
                    else self._client.create_experiment(identity.task, artifact_location=location)
                )
            self.run_id = self._reopen(run_id) or self._client.create_run(key, run_name=identity.label).info.run_id
        except (MlflowException, OSError) as error:
            raise UserError(
                f"MLflow store {uri!r} cannot be used: {str(error).splitlines()[0]}. Set MLFLOW_TRACKING_URI to "
                "another, or run with --no-mlflow"
            ) from error
        fields = identity.model_dump()
        for name, value in {**tags, "fingerprint": identity.fingerprint, "identity": identity.digest}.items():
            self._client.set_tag(self.run_id, name, value)
        for name in ("task", "task_version", "regime", "row", "model", "model_version", "budget", "examples", "seed"):
            self._client.log_param(self.run_id, name, fields[name])
        for group in ("hyperparameters", "training"):
            for name, value in fields[group].items():
                self._client.log_param(self.run_id, f"{group}.{name}", str(value)[:PARAMETER_LIMIT])

    def _reopen(self, run_id: str | None) -> str | None:
        """Return ``run_id`` if the store still knows it, set to RUNNING again."""
        from mlflow.exceptions import MlflowException

        if run_id is None:
            return None
        try:
            self._client.set_terminated(run_id, "RUNNING")
        except MlflowException:
            return None
        return run_id

    def log(self, row: Mapping[str, float | None], step: int) -> None:
        """Log one line of the curve; what is not finite becomes a flag metric, since the store would bend it."""
        for name, value in row.items():
            if value is None or not math.isfinite(value):
                self._client.log_metric(self.run_id, f"{name}_not_finite", 1, step=step)
            else:
                self._client.log_metric(self.run_id, name, value, step=step)

    def finish(self, run: Run, bundle: Path) -> None:
        """Log the final scores and the bundle, and close the run."""
        whole_splits = {score.split: score.values for score in reversed(run.scores)}  # its first is all of it
        for split, values in whole_splits.items():
            self.log({f"{split}/{name}": value for name, value in values.items()}, step=0)
        self._client.log_artifacts(self.run_id, str(bundle), "bundle")
        self._client.log_text(self.run_id, json.dumps(run.identity.model_dump(), indent=1), "identity.json")
        self._client.set_terminated(self.run_id, "FINISHED" if run.status == "completed" else "FAILED")

    def abort(self, error: BaseException) -> None:
        """Close the run as killed (Ctrl-C) or failed."""
        status = "KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED"
        self._client.set_tag(self.run_id, "error", f"{type(error).__name__}: {error}"[:PARAMETER_LIMIT])
        self._client.set_terminated(self.run_id, status)
