"""What a stranger's code and files can do to a command: one line, the right exit code, and no number of other code."""

import sys
from pathlib import Path

import pytest
from test_cli import RUN, in_a_folder, model_file, readhead  # noqa: F401 (fixtures)

from harness import api, registry
from harness.errors import UserError
from harness.model import get_model
from harness.provenance import source_hash
from harness.results import find_bundles, read_run

STEP = "return ((self.weight - 1) ** 2).sum()"


def change(old: str, new: str) -> None:
    """Edit the model's file, and let it be imported anew as a new process would."""
    text = Path("mine.py").read_text()
    assert old in text
    Path("mine.py").write_text(text.replace(old, new))
    for module in [name for name in sys.modules if name.startswith("readhead_file_")]:
        del sys.modules[module]


def test_a_run_interrupted_in_other_code_starts_afresh(readhead):  # noqa: F811
    name = model_file(Path.cwd())
    change("return Prediction(", "assert self.global_step < 32\n        return Prediction(")  # fails when it is scored
    code, out, _ = readhead("run", name, *RUN)
    assert code == 1
    assert "failed: mine on seq2seq/copy" in out
    change("assert self.global_step < 32", "pass")
    code, out, _ = readhead("run", name, *RUN)
    assert code == 0
    assert "was interrupted in other code; it starts afresh" in out
    (folder,) = find_bundles(Path("results"))
    assert read_run(folder).cost.examples == 2048
    assert readhead("verify")[0] == 0


def test_a_run_finished_by_other_code_is_told(readhead):  # noqa: F811
    name = model_file(Path.cwd())
    assert readhead("run", name, *RUN)[0] == 0
    assert "finished by other code" not in readhead("run", name, *RUN)[1]
    change("- 1)", "- 2)")
    code, out, _ = readhead("run", name, *RUN)
    assert code == 0
    assert "was finished by other code: raise the model's version" in out


@pytest.mark.parametrize(
    ("step", "known"),
    [
        ('return {"loss": ((self.weight - 1) ** 2).sum()}', True),
        ("return self.trainer.estimated_stepping_batches * self.weight.sum()", False),
        ("raise ValueError('no')", False),
    ],
)
def test_a_dry_run_says_where_it_cannot_tell_how_long(readhead, step, known):  # noqa: F811
    name = model_file(Path.cwd())
    change(STEP, step)
    code, out, err = readhead("run", name, *RUN, "--dry-run")
    assert (code, err) == (0, "")
    assert ("how long is not known" in out) != known


def test_a_model_that_supports_no_test_has_a_bundle_without_scores(readhead):  # noqa: F811
    name = model_file(Path.cwd())
    supports = "@classmethod\n    def supports(cls, spec, size):\n        return 'never'\n    def configure_optimizers"
    change("def configure_optimizers", supports)
    code, out, _ = readhead("run", name, *RUN)
    assert code == 0
    assert "it supports none of the tests" in out
    assert readhead("verify")[1] == "1 verified\n"


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        (STEP, "raise SystemExit(5)", 1, "failed: SystemExit: 5 at mine.py"),
        ("class Mine", "raise SystemExit(0)\nclass Mine", 2, "fails to import: SystemExit: 0"),
        ("class Mine", "raise ValueError('a\\nb')\nclass Mine", 2, "fails to import: ValueError: a\n"),
        ("super().__init__()", "raise ValueError('a\\nb')", 2, "cannot be built with its defaults: a\n"),
    ],
)
def test_what_a_model_raises_is_one_line_and_an_exit_code_of_ours(readhead, old, new, code, message):  # noqa: F811
    name = model_file(Path.cwd())
    change(old, new)
    found, out, err = readhead("run", name, *RUN)
    assert found == code
    assert message in out + err
    assert err.count("\n") <= 1


def test_folders_that_look_like_markup(readhead):  # noqa: F811
    name = model_file(Path.cwd())
    code, out, _ = readhead("run", name, *RUN, "--results", "r[/x]")
    assert code == 0
    assert "(r[/x]/runs/seq2seq" in out
    assert "wrote r[/x]/tables/scores.csv" in readhead("leaderboard", "--results", "r[/x]")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "lstm", *RUN, "--set", "hidden=2020-13-45"], "--set value '2020-13-45' cannot be read"),
        (["compare", "a", "b", "--task", "seq2seq/copy", "--regime", "x"], "unknown regime of seq2seq/copy 'x'"),
        (["compare", "a", "b", "--task", "seq2seq/copy", "--budget", "standrd"], "unknown budget of seq2seq/copy"),
        (["leaderboard", "--results", "nowhere"], "no runs lie in 'nowhere'"),
        (["runn"], "No such command 'runn'. Did you mean 'run'? (see `readhead --help`)"),
        (["run", "lstm"], "Missing option '--task' (see `readhead run --help`)"),
        (["run", "lstm", *RUN, "--workers", "two"], "Invalid value for '--workers': Input should be a valid integer"),
        (["show", "ntm/copy", "--n", "-1"], "Input should be greater than or equal to 0, not '-1'"),
        (["run", "lstm", "--taks", "ntm/copy"], "No such option: --taks (Possible options: --task)"),
    ],
)
def test_the_thing_that_is_wrong_is_named(readhead, arguments, message):  # noqa: F811
    code, _, err = readhead(*arguments)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert not Path("nowhere").exists()


def test_a_broken_package_is_named(readhead, monkeypatch):  # noqa: F811
    from importlib.metadata import EntryPoint

    broken = EntryPoint("sad/task", "no_such_package:Task", registry.TASKS)
    monkeypatch.setattr(registry, "_entries", lambda group: {"sad/task": broken} if group == registry.TASKS else {})
    code, _, err = readhead("show", "sad/task")
    assert code == 2
    assert "readhead.tasks 'sad/task' (no_such_package:Task) cannot be loaded: ModuleNotFoundError" in err


def test_a_recipe_without_a_model_is_told_so(readhead):  # noqa: F811
    Path("row.yaml").write_text("title: mine\n")
    assert readhead("run", "row.yaml", *RUN)[2] == "error: recipe row.yaml lacks the key 'model'\n"


def test_an_interrupted_submission_leaves_the_old_one(readhead, monkeypatch):  # noqa: F811
    from harness import submission

    command = ("submit", model_file(Path.cwd()), "--suite", "seq2seq", "--budget", "smoke", "--seeds", "1")
    assert readhead(*command, "--no-mlflow")[0] == 0
    before = sorted(path for path in Path("submissions").rglob("*"))

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(submission.shutil, "copy2", interrupt)
    assert readhead(*command, "--no-mlflow")[0] == 130
    assert sorted(path for path in Path("submissions").rglob("*")) == before


SUBMIT = ("--suite", "seq2seq", "--budget", "smoke", "--no-mlflow", "--seeds")


def test_numbers_of_other_code_are_not_sent_with_the_new(readhead):  # noqa: F811
    name = model_file(Path.cwd())
    assert readhead("submit", name, *SUBMIT, "1")[0] == 0
    sent = {path: path.read_bytes() for path in Path("submissions").rglob("*") if path.is_file()}
    change("- 1)", "- 2)")
    code, _, err = readhead("submit", name, *SUBMIT, "1")
    assert code == 2
    assert err.startswith("error: mine on seq2seq/copy:default, smoke, seed 0, mine on seq2seq/reverse")
    assert "finished by other code than the model has now. Raise the model's version" in err
    assert "--force" in err
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in Path("submissions").rglob("*") if path.is_file()} == sent
    with pytest.raises(UserError, match="finished by other code"):
        api.submit(name, budget="smoke")
    code, out, _ = readhead("submit", name, *SUBMIT, "1", "--force")
    assert code == 0
    assert "4 runs to do, 0 finished already" in out
    hashes = {read_run(path).provenance.source_hash for path in find_bundles(Path("submissions/mine"))}
    assert hashes == {source_hash(get_model(name))}
    assert "- 2)" in Path("submissions/mine/mine.py").read_text()


def test_force_does_not_send_what_it_does_not_run_again(readhead):  # noqa: F811
    name = model_file(Path.cwd())
    assert readhead("run", name, *RUN[:-3], "--seeds", "7", "--no-mlflow")[0] == 0
    change("- 1)", "- 2)")
    code, _, err = readhead("submit", name, *SUBMIT, "1", "--force")
    assert code == 2
    assert err.startswith("error: mine on seq2seq/copy:default, smoke, seed 7: finished by other code")


@pytest.mark.parametrize("command", ["run", "dry run", "submit"])
def test_seeds_of_another_version_are_not_left_beside_new_ones(readhead, command):  # noqa: F811
    name = model_file(Path.cwd())
    both = ("--task", "seq2seq/copy", "--budget", "smoke", "--no-mlflow", "--seeds", "0", "1")
    assert readhead("run", name, *both)[0] == 0
    before = [(path / "run.json").read_bytes() for path in find_bundles(Path("results"))]
    change('("transduction",), 1', '("transduction",), 2')
    asked = {"run": ("run", name, *RUN), "dry run": ("run", name, *RUN, "--dry-run"), "submit": ("submit", name)}
    code, _, err = readhead(*asked[command], *((*SUBMIT, "1") if command == "submit" else ()))
    assert code == 2
    folder = "results/runs/seq2seq/copy/default/mine/smoke"
    assert f"would not be a seed of one experiment with {folder}/seed-1: model_version is 1 and 2" in err
    assert f"move {folder} away" in err
    assert [(path / "run.json").read_bytes() for path in find_bundles(Path("results"))] == before
    assert readhead("run", name, *both)[0] == 0  # all of them at once replace the old ones
    assert readhead("leaderboard")[0] == 0


def test_tasks_of_an_older_version_are_not_sent(readhead):  # noqa: F811
    name = model_file(Path.cwd())
    assert readhead("submit", name, *SUBMIT, "1")[0] == 0
    change('("transduction",), 1', '("transduction",), 2')
    assert readhead("run", name, *RUN)[0] == 0
    with pytest.raises(UserError, match=r"seq2seq/reverse.*of another experiment now: model_version is 1 and 2"):
        api.submit(name, budget="smoke")


@pytest.mark.parametrize("out", ["mine.py", "results", "results/runs"])
def test_a_target_that_cannot_be_is_told_before_any_training(readhead, out):  # noqa: F811
    name = model_file(Path.cwd())
    code, _, err = readhead("submit", name, *SUBMIT, "1", "--out", out)
    assert code == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert not list(find_bundles(Path("results")))
    assert Path("mine.py").is_file()


def test_the_current_folder_may_be_sent(readhead):  # noqa: F811
    name = model_file(Path.cwd())
    Path("thesis.tex").write_text("years of work")
    assert readhead("submit", name, *SUBMIT, "1", "--out", ".")[0] == 0
    assert readhead("submit", name, *SUBMIT, "1", "--out", ".")[0] == 0
    assert Path("thesis.tex").read_text() == "years of work"
    assert readhead("verify", ".")[1] == "4 verified\n"
    assert len(list(find_bundles(Path("results")))) == 4
