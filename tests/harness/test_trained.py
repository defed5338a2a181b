"""The trained model of a bundle, or what trains it again."""

import argparse
import re
import shlex
from itertools import product
from pathlib import Path

import bundles
import pytest

from harness import api
from harness.errors import UserError
from harness.plan import make_plan
from harness.records import Identity
from harness.results import write_bundle

TAPE = "ntm/copy"
MINE = """
import pytorch_lightning as pl
class Mine(pl.LightningModule):
    families, version = ("tape",), 1
    def __init__(self, spec, cell="gru", hidden=4): super().__init__()
    def training_step(self, batch, batch_idx): ...
    def predict_step(self, inputs, batch_idx): ...
    def configure_optimizers(self): ...
"""
LONG = [f"{key}={value}" for key, value in {"batch_size": 32, "clip_norm": 10, "hidden": 8, "validations": 7}.items()]


def told(folder: Path) -> str:
    """Return the command that ``load`` suggests for a bundle without weights."""
    with pytest.raises(UserError) as refused:
        api.load(folder)
    return re.search("train it again with `(.*)`$", str(refused.value))[1]


def planned(command: str) -> list[Identity]:
    """Return the identities of the runs that a command names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("row")
    for option in ("task", "regime", "budget"):
        parser.add_argument(f"--{option}", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--force", action="store_true")
    program, verb, *arguments = shlex.split(command)
    assert (program, verb) == ("readhead", "run")
    given = vars(parser.parse_args(arguments))
    assert given.pop("force")
    return [one.identity for one in make_plan(**given).runs]


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        *product(
            ["tape-lstm", "mine.py:Mine", "my row.yaml"],
            [[], ["hidden=8", "clip_norm=1"], [*LONG, "examples=100000", "checkpoint=last"]],
        ),
        ("mine.py:Mine", ["hidden=8", "cell=[a, b c]"]),
        ("my row.yaml", ["cell=a,b", "hidden=8"]),
    ],
)
def test_without_weights_the_command_that_makes_them_is_told(tmp_path, monkeypatch, model, settings):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("READHEAD_CACHE", str(tmp_path / "cache"))
    Path("mine.py").write_text(MINE)
    Path("my row.yaml").write_text("model: mine.py:Mine\ntitle: Mine (tuned)\nhyperparameters: {hidden: 16}\n")
    (one,) = make_plan(model, TAPE, "default", "smoke", [2], settings).runs
    run = bundles.run_of(one.task, one.identity.row, 2, "smoke", [], identity=one.identity, title=one.recipe.title)
    folder = write_bundle(Path("results"), run, {})
    assert planned(told(folder)) == [one.identity]
    if not settings and " " not in model:
        place = f"--task {TAPE} --regime default --budget smoke --seeds 2 --force"
        assert told(folder) == f"readhead run {model} {place}"


def test_a_model_that_is_not_here_is_named_all_the_same(tmp_path):
    (one,) = make_plan("tape-lstm", TAPE, "default", "smoke", [0]).runs
    identity = one.identity.model_copy(update={"row": "gone", "model": "gone"})
    folder = write_bundle(tmp_path, bundles.run_of(one.task, "gone", 0, "smoke", [], identity=identity), {})
    assert told(folder).startswith("readhead run gone --task")
