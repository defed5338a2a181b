"""A real ``mlflow server``: it takes a sweep of four workers whole, and may go away in the middle of a run."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import api
from harness.results import find_bundles, read_curve, read_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).parent.parent.parent
MODEL = Path(__file__).parent / "test_training.py"
RUN = ["--task", "ntm/copy", "--budget", "smoke", "--set", "batch_size=32"]


class Server:
    """An MLflow server process and its REST API."""

    def __init__(self, folder: Path, *words: str):
        """Start ``mlflow`` with these words in ``folder``, and wait until it answers."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.uri = f"http://127.0.0.1:{free.getsockname()[1]}"
        self.log = (folder / "server.log").open("w")
        command = [sys.executable, "-m", "mlflow", *words, "--port", self.uri.rpartition(":")[2], "--workers", "1"]
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True
        )
        for _ in range(600):
            try:
                if urllib.request.urlopen(f"{self.uri}/health", timeout=5).status == 200:
                    return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.2)
        self.stop()
        raise AssertionError((folder / "server.log").read_text())

    def stop(self) -> None:
        """End the server and what it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)
        self.log.close()

    def get(self, what: str, **query: str) -> Any:
        """Ask the REST API."""
        address = f"{self.uri}/api/2.0/mlflow/{what}?{urllib.parse.urlencode(query)}"
        return json.load(urllib.request.urlopen(address, timeout=30))

    def runs(self, task: str) -> list[Any]:
        """Return the runs of a task's experiment."""
        experiment = self.get("experiments/get-by-name", experiment_name=task)["experiment"]["experiment_id"]
        body = json.dumps({"experiment_ids": [experiment], "max_results": 100}).encode()
        asked = urllib.request.Request(
            f"{self.uri}/api/2.0/mlflow/runs/search", body, {"Content-Type": "application/json"}
        )
        found: list[Any] = json.load(urllib.request.urlopen(asked, timeout=30))["runs"]
        return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    store = ["--backend-store-uri", f"sqlite:///{tmp_path / 'server.db'}"]
    running = Server(tmp_path, "server", *store, "--artifacts-destination", str(tmp_path / "artifacts"))
    yield running
    running.stop()


def start(folder: Path, server: Server, *arguments: str) -> "subprocess.Popen[str]":
    environment = {
        **os.environ,
        "MLFLOW_TRACKING_URI": server.uri,
        "READHEAD_CACHE": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
    command = [sys.executable, "-m", "harness.cli", "run", *arguments]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_a_sweep_of_four_workers_arrives_whole(tmp_path, server):
    seeds = ["--seeds", *map(str, range(6))]
    process = start(tmp_path, server, f"{MODEL}:Tiny", *RUN, *seeds, "--workers", "4")
    out, _ = process.communicate(timeout=400)
    assert process.returncode == 0, out
    runs = {_pairs(run, "params")["seed"]: run for run in server.runs("ntm/copy")}
    assert sorted(runs) == [str(seed) for seed in range(6)]
    for folder in find_bundles(tmp_path / "results"):
        stored = read_run(folder)
        mirrored = runs[str(stored.identity.seed)]
        assert mirrored["info"]["status"] == "FINISHED"
        tags, metrics = _pairs(mirrored, "tags"), _pairs(mirrored, "metrics")
        assert tags["identity"] == stored.identity.digest
        assert tags["fingerprint"] == stored.identity.fingerprint
        assert metrics["test/bits"] == pytest.approx(stored.score("test", "bits"))
        run_id = mirrored["info"]["run_id"]
        history = server.get("metrics/get-history", run_id=run_id, metric_key="validation_bits")["metrics"]
        curve = read_curve(folder, stored)
        assert [int(point["step"]) for point in history] == curve["step"].tolist()
        assert [point["value"] for point in history] == pytest.approx(curve["validation"].tolist())
        files = server.get("artifacts/list", run_id=run_id, path="bundle")["files"]
        assert {file["path"] for file in files} == {"bundle/run.json", "bundle/curve.csv", "bundle/predictions.npz"}


def _pairs(run: Any, kind: str) -> dict[str, Any]:
    return {pair["key"]: pair["value"] for pair in run["data"][kind]}


def test_the_documented_command_shows_the_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (line,) = re.findall(r"`mlflow ([^`]+)`", (ROOT / "README.md").read_text())
    assert len(list(api.run(f"{MODEL}:Tiny", "ntm/copy", budget="smoke", seeds=[0], settings=["batch_size=32"]))) == 1
    shown = Server(tmp_path, *shlex.split(line))
    try:
        (run,) = shown.runs("ntm/copy")
        assert _pairs(run, "params")["seed"] == "0"
        assert b"<html" in urllib.request.urlopen(shown.uri, timeout=30).read().lower()
    finally:
        shown.stop()


def test_a_server_that_goes_away_ends_no_run_and_keeps_none_from_starting(tmp_path, server):
    (tmp_path / "slow.py").write_text(
        MODEL.read_text().replace(
            "    def training_step(self, batch, batch_idx):\n",
            "    def training_step(self, batch, batch_idx):\n        __import__('time').sleep(0.02)\n",
            1,
        )
    )
    process = start(tmp_path, server, "slow.py:Tiny", *RUN, "--seeds", "0", "1")
    assert process.stdout is not None
    for line in process.stdout:
        if " 25%  " in line:
            server.stop()
            break
    out, _ = process.communicate(timeout=400)
    assert process.returncode == 0, out
    assert out.count("MLflow fails, the run goes on") == 2
    assert "seed 0: its MLflow run" in out
    assert "lacks the curve from step" in out
    assert "seed 1: it has no run in MLflow" in out
    assert len(list(find_bundles(tmp_path / "results"))) == 2
