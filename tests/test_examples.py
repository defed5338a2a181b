"""A package from outside, installed beside Readhead: its task, model and row work as the built-in ones do."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from harness import api
from harness.registry import get_task

EXAMPLES = Path(__file__).parent.parent / "examples"
PACKAGE = EXAMPLES / "readhead-addition"

SESSION = """
from harness import api
from harness.registry import get_task

def main():
    task = get_task("arithmetic/addition")
    assert all(check.passed in (True, None) for check in api.check("answer-slots") if check.task == task.name)
    (done,) = api.run("answer-slots", task.name, budget="smoke", seeds=[0], mlflow=False)
    assert done.run.kind == "trained"
    assert sorted(done.run.unsupported) == ["test-10", "test-12", "test-9"]
    api.references(task.name)
    assert [finding.status for finding in api.verify(done.folder)] == ["verified"]
    api.leaderboard()

main()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The package, built and installed into a folder of its own; nothing is fetched."""
    site = tmp_path_factory.mktemp("site")
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", str(site), str(PACKAGE)]
    subprocess.run(command, check=True, timeout=120)
    return site


def test_a_package_from_outside_has_its_own_table(installed, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SESSION], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-2000:]
    board = (tmp_path / "leaderboard.md").read_text()
    assert "## arithmetic" in board
    assert "### arithmetic/addition · smoke" in board
    (line,) = [line for line in board.splitlines() if "answer-slots" in line and line.startswith("| 1 |")]
    assert "| 1/1 |" in line
    assert "positions are learned up to size 8" in board


def test_sums_are_right_by_the_integers_of_python(installed, monkeypatch):
    monkeypatch.syspath_prepend(str(installed))
    from readhead_addition.task import PLUS, Addition

    task = Addition()
    for split in ("validation", "test", "test-12"):
        examples = task.make(task.bounded(split))
        for row in range(len(examples)):
            source = examples.inputs["source"][row, : examples.inputs["source_length"][row]]
            plus = int(np.flatnonzero(source == PLUS)[0])
            digits = [str(token - 4) for token in source]
            a, b = "".join(digits[:plus]), "".join(digits[plus + 1 :])
            assert len(a) == len(b) == examples.sizes[row]
            assert "0" not in (a[0], b[0])
            answer = [token for token in examples.targets["target"][row] if token]
            assert answer[-1] == 2
            assert "".join(str(token - 4) for token in answer[:-1]) == str(int(a) + int(b))


@pytest.mark.parametrize("model", ["x_transformer.py:XEncoderDecoder", "dnc_tape.py:PackagedDNC"])
def test_code_that_nobody_here_wrote_keeps_the_contract(model):
    """In files of 40 lines at most."""
    assert len((EXAMPLES / model.partition(":")[0]).read_text().splitlines()) <= 40
    checks = list(api.check(str(EXAMPLES / model)))
    assert all(check.passed in (True, None) for check in checks)
    assert any(check.passed for check in checks)


@pytest.mark.parametrize(
    ("recipe", "task"),
    [
        ("xencoder-decoder.yaml", "seq2seq/copy"),
        ("xencoder-decoder.yaml", "seq2seq/translate"),
        ("packaged-dnc.yaml", "ntm/copy"),
    ],
)
def test_code_that_nobody_here_wrote_trains(recipe, task, tmp_path, monkeypatch):
    """On the task's first regime; the bundle tells what was tuned."""
    monkeypatch.chdir(EXAMPLES.parent)  # a recipe names its model's file as seen from the checkout
    regime = next(iter(get_task(task).regimes))
    settings = {"regime": regime, "budget": "smoke", "seeds": [0], "results": tmp_path, "mlflow": False}
    (done,) = api.run(f"examples/{recipe}", task, **settings)
    assert (done.run.kind, done.run.status, done.run.unsupported) == ("community", "completed", {})
    assert done.run.identity.row == Path(recipe).stem
    assert done.run.tuning == "Not tuned."
    assert [finding.status for finding in api.verify(done.folder)] == ["verified"]
