"""Every command, and every kind of bad input: one clear line, the right exit code, nothing half-written."""

import errno
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from harness import cli, reproduction
from harness.checkpoints import Checkpoints
from harness.results import find_bundles, read_run

MODEL = """
import torch, pytorch_lightning as pl
from torch import nn
from harness.families.{family} import Prediction

class Mine(pl.LightningModule):
    families, version = ("{family}",), 1
    def __init__(self, spec, *, width: int = 4):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(spec.{size}))
    def training_step(self, batch, batch_idx):
        return ((self.weight - 1) ** 2).sum()
    def predict_step(self, inputs, batch_idx=0):
        {predict}
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
"""

PREDICT = {
    "transduction": "return Prediction(torch.full((len(inputs), 3), 4))",
    "tape": "return Prediction(self.weight.expand(*inputs.inputs.shape[:2], -1))",
}


def model_file(folder: Path, family: str = "transduction", predict: str = "") -> str:
    size = {"transduction": "target_vocabulary", "tape": "output_bits"}[family]
    (folder / "mine.py").write_text(MODEL.format(family=family, size=size, predict=predict or PREDICT[family]))
    return "mine.py:Mine"


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from harness import registry

    for name in [n for n in sys.modules if n.startswith("readhead_file_")]:
        monkeypatch.delitem(sys.modules, name)
    registry.get_task.cache_clear()


@pytest.fixture
def readhead(monkeypatch, capfd):
    """Run a command line in this process; return exit code, standard output and standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        from harness import recipe

        recipe.get_recipe.cache_clear()
        monkeypatch.setattr(sys, "argv", ["readhead", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capfd.readouterr()
        return int(end.value.code or 0), out, err

    return call


RUN = ("--task", "seq2seq/copy", "--budget", "smoke", "--seeds", "0", "--no-mlflow")


def run_mine(readhead, family="transduction", predict="", *extra):
    task = {"transduction": "seq2seq/copy", "tape": "ntm/copy"}[family]
    name = model_file(Path.cwd(), family, predict)
    return readhead("run", name, "--task", task, "--budget", "smoke", "--seeds", "0", "--no-mlflow", *extra)


def bad(code: int, out: str, err: str) -> str:
    """Require one clear line, exit code 2, no traceback and no results; return the line."""
    assert code == 2, (code, out, err)
    lines = [line for line in err.splitlines() if line.strip()]
    assert len(lines) == 1, err
    assert lines[0].startswith("error: ")
    assert not list(Path.cwd().rglob("run.json"))
    assert not list(Path.cwd().rglob(".tmp-*"))
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("run", "lstm", "--task", "seq2seq/cpoy"), ["unknown task 'seq2seq/cpoy'", "seq2seq/copy", "ntm/copy"]),
        (("run", "bahdnau", "--task", "seq2seq/copy"), ["unknown row or model 'bahdnau'", "Did you mean 'bahdanau'"]),
        (("run", "nothere:Model", "--task", "seq2seq/copy"), ["'nothere'"]),
        (("run", "lstm", "--task", "seq2seq/copy", "--set", "hiden=3"), ["'hiden'", "'hidden'"]),
        (("run", "lstm", "--task", "seq2seq/copy", "--set", "hidden"), ["key=value"]),
        (("run", "lstm", "--task", "seq2seq/copy", "--set", "batch_size=48"), ["batch_size 48", "64"]),
        (("run", "lstm", "--task", "seq2seq/copy", "--set", "batch_size=big"), ["batch_size", "'big'"]),
        (("run", "lstm", "--task", "seq2seq/copy", "--budget", "huge"), ["unknown budget", "'huge'", "standard"]),
        (("run", "lstm", "--task", "seq2seq/copy", "--regime", "30"), ["unknown regime", "'30'", "default"]),
        (("run", "lstm", "--task", "seq2seq/copy", "--seeds", "0", "0"), ["seeds 0 0"]),
        (("run", "lstm", "--task", "seq2seq/copy", "--workers", "0"), ["workers 0"]),
        (("run", "lstm", "--task", "ntm/copy"), ["nothing to run", "its families are transduction"]),
        (("run", "missing.yaml", "--task", "ntm/copy"), ["missing.yaml"]),
        (("run", "missing.py:Model", "--task", "ntm/copy"), ["'missing.py' does not exist"]),
        (("show", "seq2seq/kopie"), ["unknown task"]),
        (("list", "taks"), ["unknown thing to list", "tasks"]),
        (("check", "lstmm"), ["unknown row or model"]),
        (("new", "my-model", "--family", "tap"), ["unknown family 'tap'", "Did you mean 'tape'"]),
        (("new", "9lives", "--family", "tape"), ["'9lives'"]),
        (("verify", "nowhere"), ["'nowhere' does not exist"]),
        (("references", "--task", "ntm/c"), ["unknown task"]),
        (("compare", "a", "b", "--task", "ntm/copy"), ["unknown row", "'a'"]),
        (("compare", "a", "b", "--task", "ntm/copy", "--metric", "blue"), ["unknown metric", "'blue'", "bits"]),
        (("fingerprint", "ntm/copy"), ["has pinned fingerprints"]),
    ],
)
def test_bad_names_and_values(readhead, arguments, expected):
    line = bad(*readhead(*arguments))
    for part in expected:
        assert part in line


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("class Other: pass", ["unknown model class", "'Mine'", "Other"]),
        ("def f(:\n  pass", ["syntax error in line 1"]),
        ("import not_a_module_at_all", ["fails to import", "not_a_module_at_all"]),
        ("class Mine: pass", ["must derive from pytorch_lightning.LightningModule"]),
        ("import pytorch_lightning as pl\nclass Mine(pl.LightningModule): pass", ["does not define training_step"]),
    ],
)
@pytest.mark.parametrize("command", ["run", "check"])
def test_bad_model_files(readhead, source, expected, command):
    Path("mine.py").write_text(source)
    line = bad(*readhead(command, "mine.py:Mine", *(RUN if command == "run" else ())))
    for part in expected:
        assert part in line


@pytest.mark.parametrize(
    ("family", "predict", "expected"),
    [
        ("transduction", "return torch.zeros(len(inputs), 3)", "predict_step returned a Tensor"),
        ("transduction", "return Prediction([1, 2])", "tokens as a list"),
        ("transduction", "return Prediction(torch.zeros(3))", "shape (3,)"),
        ("transduction", "return Prediction(torch.zeros(len(inputs), 3))", "dtype torch.float32"),
        ("transduction", "return Prediction(torch.full((len(inputs), 3), 54))", "token 54"),
        ("transduction", "return Prediction(torch.full((len(inputs), 3), -1))", "token -1"),
        ("tape", "return Prediction(inputs.inputs[:, :1, :8])", "expected (B,T,K)"),
        ("tape", "return Prediction(inputs.inputs[..., :8].long())", "dtype torch.int64"),
        ("tape", "return Prediction(inputs.inputs[..., :8] + float('nan'))", "NaN or infinite"),
        ("tape", "return Prediction(inputs.inputs[..., :8].flip(1))", "not causal"),
    ],
)
def test_predictions_that_break_the_contract(readhead, family, predict, expected):
    line = bad(*run_mine(readhead, family, predict))
    assert expected in line
    code, out, _ = readhead("check", "mine.py:Mine")
    assert code == 2
    assert "FAILED" in out


def test_a_row_file_with_an_unknown_key(readhead):
    Path("row.yaml").write_text("model: lstm\ntrainig: {batch_size: 16}\n")
    line = bad(*readhead("run", "row.yaml", *RUN))
    assert "trainig" in line
    assert "training" in line


def test_an_unwritable_results_folder(readhead):
    Path("file").write_text("not a folder")
    line = bad(*run_mine(readhead, "transduction", "", "--results", "file/results"))
    assert "file/results" in line
    assert "--results" in line


def test_a_model_that_fails_exits_with_1(readhead):
    code, out, err = run_mine(readhead, "tape", "return 1 / 0 and None")
    assert code == 1
    assert "ZeroDivisionError" in out + err
    assert "Traceback" not in out + err


def test_a_diverging_run_exits_with_1_and_is_kept(readhead):
    name = model_file(Path.cwd(), "tape")
    source = Path("mine.py").read_text().replace("return ((self", "return torch.nan * ((self")
    Path("mine.py").write_text(source)
    code, out, _ = readhead("run", name, "--task", "ntm/copy", "--budget", "smoke", "--seeds", "0", "--no-mlflow")
    assert code == 1
    assert "diverged" in out
    (folder,) = find_bundles(Path("results"))
    assert read_run(folder).status == "diverged"
    assert readhead("verify")[0] == 0
    assert readhead("references", "--task", "ntm/copy")[0] == 0
    assert readhead("leaderboard")[0] == 0
    assert "diverged" in Path("results/tables/scores.csv").read_text()


def test_a_full_disk_for_the_cache(tmp_path):
    """A process whose files may not grow past 200 kB: the checkpoint of a larger model cannot be saved."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    command = ["run", "tape-lstm", "--task", "ntm/copy", "--budget", "smoke", "--seeds", "0", "--no-mlflow"]
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", *command],
        cwd=tmp_path,
        env={"READHEAD_CACHE": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=limit,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "could not be saved in the cache" in done.stderr
    assert "READHEAD_CACHE" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list((tmp_path / "cache").rglob("*.tmp"))
    assert not list(tmp_path.rglob("run.json"))


def test_verify_names_a_changed_byte_and_another_version(readhead, monkeypatch):
    assert run_mine(readhead)[0] == 0
    assert readhead("verify") == (0, "1 verified\n", "")
    (folder,) = find_bundles(Path("results"))
    whole = (folder / "predictions.npz").read_bytes()
    (folder / "predictions.npz").write_bytes(whole[:-1])
    code, out, _ = readhead("verify")
    assert code == 2
    assert "predictions.npz" in out
    (folder / "predictions.npz").write_bytes(whole)
    from tasks.seq2seq.copy import Copy

    monkeypatch.setattr(Copy, "version", 2)
    code, out, _ = readhead("verify", str(folder))
    assert code == 2
    assert "version 1; this is version 2" in out


def test_the_whole_way_of_a_strangers_model(readhead):
    assert readhead("new", "my-model", "--family", "transduction")[0] == 0
    code, out, _ = readhead("check", "my_model.py:MyModel")
    assert (code, out.splitlines()[-1]) == (0, "all checks passed")
    code, out, _ = readhead("run", "my_model.py:MyModel", *RUN)
    assert code == 0
    assert "finished: my-model on seq2seq/copy" in out
    assert readhead("references", "--task", "seq2seq/copy")[0] == 0
    assert readhead("verify")[0] == 0
    code, out, _ = readhead("leaderboard")
    assert code == 0
    assert "my-model" in Path("leaderboard.md").read_text()
    assert readhead("leaderboard", "--check") == (0, "the board is up to date\n", "")
    code, out, _ = readhead("compare", "my-model", "oracle", "--task", "seq2seq/copy", "--budget", "smoke")
    assert code == 0
    assert "test-60" in out
    code, out, _ = readhead("list", "runs")
    assert "my-model on seq2seq/copy" in out
    from harness import api

    model = api.load(next(f for f in find_bundles(Path("results")) if "my-model" in str(f)))
    assert not model.training
    code, out, _ = readhead("run", "my_model.py:MyModel", *RUN, "--dry-run")
    assert "0 runs to do, 1 finished already" in out


def test_submit_checks_trains_verifies_and_writes_the_folder_to_send(readhead):
    assert readhead("new", "my-tape", "--family", "tape")[0] == 0
    command = ("submit", "my_tape.py:MyTape", "--suite", "ntm", "--budget", "smoke", "--seeds", "1", "--no-mlflow")
    code, out, err = readhead(*command)
    assert (code, err) == (0, "")
    for part in (
        "all checks passed",
        "4 runs to do",
        "4 verified",
        "beside the board",
        "No rank and no difference",
    ):
        assert part in out
    folder = Path("submissions/my-tape")
    assert {path.name for path in folder.iterdir()} == {"runs", "my_tape.py", "submission.md", "submission.sha256"}
    assert readhead("verify", str(folder))[1] == "4 verified\n"
    assert "0 runs to do, 4 finished already" in readhead(*command)[1]  # it goes on where it was
    assert readhead("reproduce", "my-tape", "--task", "ntm/copy", "--budget", "smoke")[0] == 0
    assert readhead("leaderboard")[0] == 0
    shown = [
        line for line in Path("leaderboard.md").read_text().splitlines() if line.startswith("| ") and "my-tape" in line
    ]
    assert sorted(line.split("|")[1].strip() for line in shown if "**" in line) == [
        "",
        "",
        "",
        "",
        "1",
    ]  # four tasks and the suite


def test_a_model_that_breaks_the_contract_is_not_submitted(readhead):
    name = model_file(Path.cwd(), "transduction", "return None")
    code, out, _ = readhead("submit", name, "--budget", "smoke", "--seeds", "1")
    assert code == 2
    assert "FAILED" in out
    assert not Path("submissions").exists()
    assert "unknown suite 'nmt'" in readhead("submit", "lstm", "--suite", "nmt")[2]


def test_reproduce_says_how_long_it_takes_then_what_came_of_each_row(readhead):
    row = ("lstm", "--task", "seq2seq/copy", "--budget", "smoke")
    assert readhead("run", *row, "--seeds", "0", "--no-mlflow")[0] == 0
    code, out, _ = readhead("reproduce", *row)
    assert code == 0
    assert out.startswith("1 runs of 1 rows to train again: about 0.")
    assert "reproduced: lstm on seq2seq/copy:default, smoke: predictions are identical" in out
    (folder,) = find_bundles(Path("results"))
    (record,) = read_run(folder).reproductions
    assert record.exact
    assert readhead("verify")[0] == 0
    code, out, _ = readhead("reproduce", *row, "--seeds", "0")
    assert code == 0
    assert "no rows trained again and published numbers" in out
    assert "unknown stored row" in readhead("reproduce", "gru", "--task", "seq2seq/copy")[2]


def change(old: str, new: str) -> None:
    """Change the code of ``mine.py``, and forget what was imported of it."""
    Path("mine.py").write_text(Path("mine.py").read_text().replace(old, new))
    for module in [n for n in sys.modules if n.startswith("readhead_file_")]:
        del sys.modules[module]


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("return ((self.weight - 1) ** 2).sum()", "raise RuntimeError('x')", "smoke, seed 0 failed"),
        ("super().__init__()", "raise ValueError('gone')", "gone"),
    ],
    ids=["breaks off", "refuses"],
)
def test_a_row_that_fails_to_reproduce_exits_with_1(readhead, rows, old, new, reason):
    """Be it the only one or not; what fails does not keep the table from being printed."""
    name = model_file(Path.cwd())
    for task in ("seq2seq/copy", "seq2seq/reverse")[:rows]:
        assert readhead("run", name, "--task", task, *RUN[2:])[0] == 0
    weights = sorted(Path(os.environ["READHEAD_CACHE"]).rglob("weights.pt"))
    assert len(weights) == rows
    change(old, new)
    code, out, errors = readhead("reproduce", "--budget", "smoke")
    assert (code, errors) == (1, "")
    verdict, table = out.split("rows trained again and published numbers")
    assert verdict.count("failed: mine on seq2seq/") == rows
    assert reason in verdict
    lines = [line.split() for line in table.splitlines()]
    assert [line[-1] for line in lines if line[:1] == ["mine"]] == ["failed"] * rows
    assert sorted(Path(os.environ["READHEAD_CACHE"]).rglob("weights.pt")) == weights


def test_a_row_that_another_process_trains_again_is_not_run(readhead):
    assert readhead("run", model_file(Path.cwd()), *RUN)[0] == 0
    (folder,) = find_bundles(Path("results"))
    with Checkpoints(read_run(folder).identity, reproduction=True).claimed():
        code, out, _ = readhead("reproduce", "--budget", "smoke")
    assert code == 1  # as no row could be run
    assert "not run: mine on seq2seq/copy:default, smoke" in out
    assert "is being trained by another process" in out


@pytest.mark.parametrize("where", ["results", "results/runs", "bundle"])
def test_a_folder_that_takes_no_record_is_told_of_before_any_training(readhead, monkeypatch, where):
    assert readhead("run", model_file(Path.cwd()), *RUN)[0] == 0
    (bundle,) = find_bundles(Path("results"))
    closed = bundle if where == "bundle" else Path(where)

    def temporary_file(dir, make=tempfile.TemporaryFile):
        if Path(dir) == closed:
            raise PermissionError(errno.EACCES, "Permission denied")
        return make(dir=dir)

    monkeypatch.setattr(tempfile, "TemporaryFile", temporary_file)
    monkeypatch.setattr(reproduction, "run_all", lambda runs, *_, **__: pytest.fail("it trains") if runs else [])
    code, _, errors = readhead("reproduce", "--budget", "smoke")
    assert code == 2
    assert errors == (
        "error: results folder 'results' cannot be written (Permission denied); choose another with --results\n"
    )
    assert readhead("reproduce", "--budget", "smoke", "--seeds", "0")[0] == 0


@pytest.mark.parametrize(("key", "drawn"), [("attention", True), ("something", False)])
def test_what_a_model_shows_of_itself_is_drawn_where_the_task_knows_how(readhead, key, drawn):
    name = model_file(Path.cwd())
    shown = (
        f'{{"tokens": torch.full((len(inputs), 3), 4), "{key}": torch.rand(len(inputs), 3, inputs.source.shape[1])}}'
    )
    Path("mine.py").write_text(
        Path("mine.py").read_text() + f"    def explain(self, inputs):\n        return {shown}\n"
    )
    assert readhead("run", name, *RUN)[0] == 0
    assert readhead("leaderboard")[0] == 0
    figure = Path("results/plots/seq2seq-copy-default-smoke-explained.svg")
    assert figure.exists() == drawn
    assert (figure.name in Path("leaderboard.md").read_text()) == drawn
    assert readhead("leaderboard", "--check")[0] == 0


def test_an_out_of_date_board_fails_the_check(readhead):
    assert run_mine(readhead)[0] == 0
    assert readhead("leaderboard")[0] == 0
    Path("leaderboard.md").write_text("edited")
    code, _, err = readhead("leaderboard", "--check")
    assert code == 1
    assert "leaderboard.md" in err


def test_list_and_show(readhead):
    code, out, _ = readhead("list")
    assert code == 0
    for name in ("seq2seq/copy", "ntm/copy", "bahdanau", "tape-transformer"):
        assert name in out
    code, out, _ = readhead("show", "ntm/copy", "--n", "2")
    assert code == 0
    for part in ("test-120", "bits per sequence", "example 0", "#"):
        assert part in out


def test_output_in_a_pipe_is_plain_and_short(readhead):
    _, out, _ = run_mine(readhead, "transduction", "", "--set", "batch_size=1")
    assert "\r" not in out
    assert "\x1b" not in out
    assert len(out.splitlines()) < 50


def test_help_is_fast():
    """Under 0.4 s on a quiet machine: nothing heavy may be imported."""
    heavy = ("torch", "pandas", "numpy", "pydantic", "mlflow")
    code = f"import sys, harness.cli; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_export_prints_a_split_in_the_format_of_its_field(readhead):
    code, out, err = readhead("data", "text", "babi/qa4", "validation-1k")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == 300  # two statements and a question each
    assert re.fullmatch(r"1 The \w+ is \w+ of the \w+\.", lines[0])
    assert re.fullmatch(r"3 What is .*\?\t\w+\t[12]", lines[2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["seq2seq/copy", "test"], "seq2seq/copy has no text format to export its splits in"),
        (["babi/qa4", "tests"], "unknown split of babi/qa4 'tests'. Did you mean 'test'?"),
        (["seq2seq/copy", "train"], "split train of seq2seq/copy is a training stream and has no end"),
        (["babi/qa21", "test"], "unknown task 'babi/qa21'. Did you mean 'babi/qa2"),
    ],
)
def test_what_cannot_be_exported_is_told(readhead, arguments, message):
    code, out, err = readhead("data", "text", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
