"""One run on several devices: Lightning starts a process for each; together they see every example once."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from harness import execution
from harness.errors import UserError
from harness.plan import make_plan
from harness.recipe import get_recipe
from harness.results import find_bundles, read_arrays, read_curve, read_run
from harness.schedule import Schedule
from harness.sweep import run_all

MODEL = """
import torch, pytorch_lightning as pl
from torch import nn
from harness.families.tape import Prediction

class Plain(pl.LightningModule):
    families, version = ("tape",), 1

    def __init__(self, spec):
        super().__init__()
        self.map = nn.Linear(spec.input_channels, spec.output_bits)

    def training_step(self, batch, batch_idx):
        # a sum over the rows of a fixed length, so that the mean over processes is that of the whole batch
        loss = nn.functional.binary_cross_entropy_with_logits(
            self.map(batch.inputs.inputs), batch.targets.bits, reduction="none"
        )
        return loss[:, :1].mean()

    def predict_step(self, inputs, batch_idx=0):
        return Prediction(self.map(inputs.inputs))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
"""


@pytest.fixture(autouse=True)
def fresh_recipes():
    get_recipe.cache_clear()


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "READHEAD_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    command = ["run", "plain.py:Plain", "--task", "ntm/copy", "--budget", "smoke", "--seeds", "0", "1", "--no-mlflow"]
    return subprocess.run(
        [sys.executable, "-m", "harness.cli", *command, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_two_processes_share_every_batch_and_write_one_bundle_a_run(tmp_path):
    (tmp_path / "plain.py").write_text(MODEL)
    alone, shared = run(tmp_path), run(tmp_path, "--devices", "2", "--strategy", "ddp")
    assert alone.returncode == 0, alone.stderr
    assert shared.returncode == 0, shared.stderr
    assert shared.stdout.count("finished: ") == 2  # one process speaks
    bundles = {read_run(folder).identity.row: folder for folder in find_bundles(tmp_path / "results")}
    assert set(bundles) == {"plain", "plain+devices=2,strategy=ddp"}
    one, two = (read_run(folder) for folder in bundles.values())
    assert two.identity.training == {"devices": 2, "strategy": "ddp"}
    curves = [read_curve(folder, read_run(folder)) for folder in bundles.values()]
    assert curves[0]["step"].tolist() == curves[1]["step"].tolist()
    np.testing.assert_allclose(curves[0]["training_loss"], curves[1]["training_loss"], rtol=1e-4)
    logits = [read_arrays(folder, read_run(folder))["test"]["logits"] for folder in bundles.values()]
    assert (logits[0] == logits[1]).mean() > 0.99  # quantised, so an odd one may fall to the other side
    assert one.cost is not None
    assert two.cost is not None
    assert one.cost.examples == two.cost.examples


def test_parts_of_a_batch_are_the_batch():
    planned = make_plan("tape-lstm", "ntm/copy", budget="smoke", seeds=[0]).runs[0]
    batches = Schedule(planned.task, "default", planned.recipe.training, 256, 0).batches[0]
    (whole,) = batches.iterate(3, 4)
    parts = [next(iter(batches.iterate(3, 4, part, 4))) for part in range(4)]
    for part in range(4):
        assert parts[part].inputs.inputs.equal(whole.inputs.inputs[part::4])
        assert parts[part].targets.bits.equal(whole.targets.bits[part::4])
    many = 2 * len(whole)
    assert len(next(iter(batches.iterate(3, 4, many - 1, many)))) == len(whole)  # no part is empty


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["devices=3"], "batch_size 32 cannot be shared evenly by 3 devices"),
        (["devices=0"], "devices = 0 is not valid"),
        (["accelerator=tpu"], "accelerator = 'tpu' is not valid"),
    ],
)
def test_devices_that_cannot_be(settings, message):
    with pytest.raises(UserError, match=message):
        make_plan("tape-lstm", "ntm/copy", budget="smoke", seeds=[0], settings=settings)


def test_what_lightning_refuses_is_one_clear_error(tmp_path):
    planned = make_plan("tape-lstm", "ntm/copy", budget="smoke", seeds=[0], settings=["strategy=magic"]).runs[0]
    with pytest.raises(UserError, match="Lightning refuses accelerator cpu, devices 1, strategy magic"):
        execution.execute(planned, tmp_path, mlflow=False)


def test_a_worker_starts_no_processes_of_its_own(tmp_path):
    runs = make_plan("tape-lstm", "ntm/copy", budget="smoke", seeds=[0, 1], settings=["devices=2"]).runs
    with pytest.raises(UserError, match="starts its own processes, one a device: not in a worker"):
        list(run_all(runs, tmp_path, workers=2, mlflow=False))
