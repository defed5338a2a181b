"""A run killed with ``kill -9`` at any moment goes on, by the same command, to identical predictions."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.results import find_bundles, read_arrays, read_curve, read_run

MODEL = '''
import time
import torch, pytorch_lightning as pl
from torch import nn
from harness.families.tape import Prediction

class Slow(pl.LightningModule):
    """Small, with dropout and momentum, and slow enough to be caught."""
    families, version = ("tape",), 1

    def __init__(self, spec):
        super().__init__()
        self.map = nn.Sequential(nn.Linear(spec.input_channels, 16), nn.Dropout(0.3), nn.Linear(16, spec.output_bits))

    def training_step(self, batch, batch_idx):
        time.sleep(0.01)
        return nn.functional.binary_cross_entropy_with_logits(self.map(batch.inputs.inputs), batch.targets.bits)

    def predict_step(self, inputs, batch_idx=0):
        if not self.training and self.global_step >= 64:
            time.sleep(0.1)  # the scoring of the tests is long enough to be killed in, too
        return Prediction(self.map(inputs.inputs))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)
'''


RUN = ["run", "slow.py:Slow", "--task", "ntm/copy", "--budget", "smoke", "--seeds", "0", "--no-mlflow"]
RUN += ["--set", "batch_size=16"]
REPRODUCE = ["reproduce", "--budget", "smoke"]


def command(arguments: list[str]) -> list[str]:
    return [sys.executable, "-m", "harness.cli", *arguments]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "READHEAD_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def finish(folder: Path, arguments: list[str] = RUN) -> str:
    done = subprocess.run(
        command(arguments),
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def predictions(folder: Path) -> dict[str, bytes]:
    (bundle,) = find_bundles(folder / "results")
    run = read_run(bundle)
    return {split: arrays["logits"].tobytes() for split, arrays in read_arrays(bundle, run).items()}


def curve(folder: Path) -> list[list[float]]:
    """Return the training curve, a list a line, without the seconds that it took."""
    (bundle,) = find_bundles(folder / "results")
    return read_curve(bundle, read_run(bundle)).drop(columns="seconds").to_numpy().tolist()


def started(folder: Path, arguments: list[str] = RUN) -> subprocess.Popen[str]:
    """Start the run as a process of its own, whose output can be read."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command(arguments), cwd=folder, env=environment(folder), text=True, **pipes)


def kill_when(folder: Path, moment: Callable[[str], bool], delay: float = 0.0, arguments: list[str] = RUN) -> None:
    """Start the run and kill it with SIGKILL ``delay`` seconds after a line of its output satisfies ``moment``."""
    process = started(folder, arguments)
    assert process.stdout is not None
    for line in process.stdout:
        if moment(line):
            break
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    assert process.wait(timeout=30) == -signal.SIGKILL, "the run ended before it could be killed"


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    (folder / "slow.py").write_text(MODEL)
    finish(folder)
    return folder


@pytest.mark.parametrize("share", ["6%", "50%", "100%"], ids=["first segment", "middle", "while the tests are scored"])
def test_kill_9_and_the_same_command_again(tmp_path, uninterrupted, share):
    (tmp_path / "slow.py").write_text(MODEL)
    kill_when(tmp_path, lambda line: f" {share}  " in line)
    assert list(find_bundles(tmp_path / "results")) == []
    again = finish(tmp_path)
    if share != "100%":
        assert " 100%  " in again
    assert f" {share}  " not in again, "it began again instead of going on"
    assert predictions(tmp_path) == predictions(uninterrupted)


def test_a_killed_reproduction_goes_on_and_leaves_the_weights_of_the_stored_run(tmp_path):
    """The weights are marked, so that equal ones written anew would show."""
    (tmp_path / "slow.py").write_text(MODEL)
    finish(tmp_path)
    (weights,) = (tmp_path / "cache").rglob("weights.pt")
    weights.write_bytes(b"of the stored run")
    kill_when(tmp_path, lambda line: " 50%  " in line, arguments=REPRODUCE)
    again = finish(tmp_path, REPRODUCE)
    assert " 100%  " in again
    assert " 50%  " not in again, "it began again instead of going on"
    assert "predictions are identical" in again
    assert " 6%  " in finish(tmp_path, REPRODUCE), "what is finished is trained again, from the start"
    assert list((tmp_path / "cache").rglob("weights.pt")) == [weights]
    assert weights.read_bytes() == b"of the stored run"


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_kill_9_at_five_random_moments_of_one_run(tmp_path, uninterrupted):
    (tmp_path / "slow.py").write_text(MODEL)
    rng = random.Random(8)
    for _ in range(5):
        lines = iter(range(rng.choice([0, 1, 1, 2])))  # of this process, then part of a segment, or of saving one
        kill_when(tmp_path, lambda line, lines=lines: next(lines, None) is None, rng.uniform(0, 0.06))
        assert list(find_bundles(tmp_path / "results")) == []
    finish(tmp_path)
    assert predictions(tmp_path) == predictions(uninterrupted)
    found = curve(tmp_path)
    assert found == curve(uninterrupted)
    steps = [line[0] for line in found]
    assert steps == list(range(int(steps[0]), int(steps[-1]) + 1, int(steps[0])))


def test_ctrl_c_exits_with_130_and_goes_on(tmp_path, uninterrupted):
    (tmp_path / "slow.py").write_text(MODEL)
    process = started(tmp_path)
    assert process.stdout is not None
    for line in process.stdout:
        if " 25%  " in line:
            break
    time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "a run goes on from its last checkpoint with the same command" in errors
    assert "Traceback" not in errors
    assert not list(tmp_path.rglob("run.json"))
    assert not list(tmp_path.rglob(".tmp-*"))
    finish(tmp_path)
    assert predictions(tmp_path) == predictions(uninterrupted)
