"""MLflow follows a run: one run for one of ours, also when it is resumed; the board never needs it."""

import math
import multiprocessing
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException
from sqlalchemy.exc import DatabaseError

from harness import execution, mirror, training
from harness.errors import RunFailedError, UserError
from harness.mirror import Mirror, tracking_uri
from harness.plan import make_plan
from harness.recipe import get_recipe
from harness.sweep import run_all

MODEL = Path(__file__).parent / "test_training.py"


@pytest.fixture(autouse=True)
def fresh_recipes():
    get_recipe.cache_clear()


CURVE = [
    {"step": step, "examples": 32 * step, "training_loss": 1 / step, "validation": 8.0 / step} for step in (2, 4, 6)
]


def planned(*settings: str):
    return make_plan(
        f"{MODEL}:Tiny", "ntm/copy", budget="smoke", seeds=[0], settings=["batch_size=32", *settings]
    ).runs[0]


def mirrored(results: Path):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri(results))
    experiment = client.get_experiment_by_name("ntm/copy")
    return client, client.search_runs([experiment.experiment_id])


def test_a_run_is_mirrored_with_identity_curve_and_bundle(tmp_path, monkeypatch):
    one = planned()
    _, run = execution.execute(one, tmp_path)
    client, (found,) = mirrored(tmp_path)
    assert found.info.status == "FINISHED"
    assert found.data.tags["fingerprint"] == one.identity.fingerprint
    assert found.data.tags["commit"] == (run.provenance.commit or "")
    assert found.data.params["training.batch_size"] == "32"
    assert found.data.metrics["test/bits"] == pytest.approx(run.score("test", "bits"))
    curve = client.get_metric_history(found.info.run_id, "validation_bits")
    assert [point.step for point in curve] == list(range(2, 33, 2))
    monkeypatch.chdir("/")  # artifacts are found from any folder
    names = {item.path for item in client.list_artifacts(found.info.run_id, "bundle")}
    assert names == {"bundle/run.json", "bundle/curve.csv", "bundle/predictions.npz"}


def test_a_resumed_run_goes_on_in_the_same_mirrored_run(tmp_path, monkeypatch):
    original = training.Harness.on_train_epoch_end

    def crash(self, trainer, module):
        original(self, trainer, module)
        if self.outcome.position == 5:
            raise ValueError("lightning struck")

    monkeypatch.setattr(training.Harness, "on_train_epoch_end", crash)
    with pytest.raises(RunFailedError):
        execution.execute(planned(), tmp_path)
    client, (failed,) = mirrored(tmp_path)
    assert failed.info.status == "FAILED"
    assert "lightning struck" in failed.data.tags["error"]
    monkeypatch.setattr(training.Harness, "on_train_epoch_end", original)
    execution.execute(planned(), tmp_path)
    client, (found,) = mirrored(tmp_path)
    assert found.info.run_id == failed.info.run_id
    assert found.info.status == "FINISHED"
    steps = [point.step for point in client.get_metric_history(found.info.run_id, "validation_bits")]
    assert steps == list(range(2, 33, 2))


def test_a_diverged_run_is_marked_and_its_nan_is_a_flag(tmp_path):
    execution.execute(planned("explode_at=9"), tmp_path)
    _, (found,) = mirrored(tmp_path)
    assert found.info.status == "FAILED"
    assert found.data.metrics["training_loss_not_finite"] == 1
    assert all(math.isfinite(value) for value in found.data.metrics.values())


@pytest.mark.parametrize("uri", ["file:mlruns", "sqlite:////proc/x.db", "nodriver://host/x"])
def test_a_store_that_cannot_be_used_is_one_clear_error(uri, tmp_path, monkeypatch):
    """Before anything is trained, however many runs there are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setattr("harness.sweep.execute", lambda *_, **__: pytest.fail("it trains"))
    for workers in (1, 2):
        with pytest.raises(UserError, match="MLFLOW_TRACKING_URI"):
            list(run_all([planned(), planned()], tmp_path, workers=workers))
    assert not list(tmp_path.rglob("run.json"))


def test_a_store_is_not_asked_for_where_nothing_is_left_to_do(tmp_path, monkeypatch):
    execution.execute(planned(), tmp_path, mlflow=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path / 'mlruns'}")
    (done,) = run_all([planned()], tmp_path)
    assert done.run is not None


def test_a_store_that_goes_away_between_two_runs_stops_no_later_one(tmp_path, monkeypatch, capsys):
    """The second run never finds it, the third finds it again in the middle and gets all of its curve.

    A driver's error is no ``MlflowException``.
    """
    plan = make_plan(f"{MODEL}:Tiny", "ntm/copy", budget="smoke", seeds=[0, 1, 2], settings=["batch_size=32"])
    original, run = mirror._opened, run_all(plan.runs, tmp_path)
    assert next(run).run.status == "completed"

    def away(results, task):
        raise DatabaseError("SELECT", {}, Exception("file is not a database"))

    monkeypatch.setattr(mirror, "_opened", away)
    capsys.readouterr()
    assert next(run).run.status == "completed"
    out = capsys.readouterr().out
    label = plan.runs[1].identity.label
    assert out.count(f"{label}: MLflow fails, the run goes on: (builtins.Exception) file is not a data") == 1
    assert f"{label}: it has no run in MLflow; the bundle is whole" in out
    calls = []

    def away_at_first(results, task):
        calls.append(task)
        return away(results, task) if len(calls) < 4 else original(results, task)

    monkeypatch.setattr(mirror, "_opened", away_at_first)
    assert next(run).run.status == "completed"
    assert "lacks" not in capsys.readouterr().out
    client, found = mirrored(tmp_path)
    assert sorted(one.data.params["seed"] for one in found) == ["0", "2"]
    assert all(one.info.status == "FINISHED" for one in found)
    assert all(steps_of(client, one.info.run_id) == list(range(2, 33, 2)) for one in found)


def _open(results: Path, seed: int) -> None:
    identity = planned().identity.model_copy(update={"seed": seed})
    Mirror(results, identity, {}).follow(CURVE[:1], "bits")


def test_four_processes_that_meet_an_empty_store_share_one_experiment(tmp_path):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_open, args=(tmp_path, seed)) for seed in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    _, runs = mirrored(tmp_path)
    assert len(runs) == 4


def steps_of(client, run_id: str, metric: str = "validation_bits") -> list[int]:
    return [point.step for point in client.get_metric_history(run_id, metric)]


class Faulty:
    """An MLflow client that fails for a while, as one does whose server is gone."""

    def __init__(self, client):
        self._client, self.gone = client, False

    def __getattr__(self, name):

        if self.gone:
            raise MlflowException("API request failed\nConnection refused")
        return getattr(self._client, name)


def test_a_store_that_fails_for_a_while_is_told_of_once_and_gets_all_of_the_curve(tmp_path, capsys):
    mirror = Mirror(tmp_path, planned().identity, {})
    mirror._client = faulty = Faulty(mirror._client)
    mirror.follow(CURVE[:1], "bits")
    faulty.gone = True
    mirror.follow(CURVE[:2], "bits")
    mirror.follow(CURVE[:2], "bits")
    assert capsys.readouterr().out.count("MLflow fails, the run goes on: API request failed") == 1
    faulty.gone = False
    mirror.follow(CURVE, "bits")
    client, (found,) = mirrored(tmp_path)
    assert steps_of(client, found.info.run_id) == [2, 4, 6]


def test_a_resumed_mirror_fills_the_hole_and_doubles_nothing(tmp_path):
    """Killed after the checkpoint and before MLflow, or after both: the next process has the whole curve in hand."""
    identity = planned().identity
    first = Mirror(tmp_path, identity, {})
    first.follow(CURVE[:1], "bits")
    second = Mirror(tmp_path, identity, {}, first.run_id)
    second.follow(CURVE, "bits")
    client, (found,) = mirrored(tmp_path)
    assert steps_of(client, found.info.run_id) == [2, 4, 6]


def test_a_run_ends_well_when_the_store_does_not_come_back_and_says_what_is_missing(tmp_path, monkeypatch, capsys):
    original = Mirror.follow

    def lose(self, curve, headline):
        if len(curve) == 3 and not isinstance(self._client, Faulty):
            self._client = Faulty(self._client)
            self._client.gone = True
        original(self, curve, headline)

    monkeypatch.setattr(Mirror, "follow", lose)
    folder, run = execution.execute(planned(), tmp_path)
    assert run.status == "completed"
    assert (folder / "run.json").exists()
    out = capsys.readouterr().out
    assert out.count("the run goes on") == 1
    assert "lacks the curve from step 6 on, scores and bundle; the bundle is whole" in out
    client, (found,) = mirrored(tmp_path)
    assert steps_of(client, found.info.run_id) == [2, 4]


def test_an_empty_address_means_the_store_of_the_results(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    Mirror(tmp_path, planned().identity, {})
    assert (tmp_path / "mlflow" / "mlflow.db").exists()
