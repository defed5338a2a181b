"""MLflow follows a run: one run for one of ours, also when it is resumed; the board never needs it."""

import math
import multiprocessing
from pathlib import Path

import pytest

from harness import execution, training
from harness.errors import RunFailedError, UserError
from harness.mirror import Mirror, tracking_uri
from harness.plan import make_plan
from harness.recipe import get_recipe

MODEL = Path(__file__).parent / "test_training.py"


@pytest.fixture(autouse=True)
def fresh_recipes():
    get_recipe.cache_clear()


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


def test_a_store_that_cannot_be_used_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path / 'mlruns'}")
    with pytest.raises(UserError, match="MLFLOW_TRACKING_URI"):
        execution.execute(planned(), tmp_path)
    assert not list(tmp_path.rglob("run.json"))


def _open(results: Path, seed: int) -> None:
    identity = planned().identity.model_copy(update={"seed": seed})
    Mirror(results, identity, {}).log({"loss": 1.0}, 0)


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
