"""The folder to send: what is there of somebody else's stays, what cannot be replaced is told before any training."""

import errno
import os
import subprocess
from pathlib import Path

import pytest
from bundles import write_trained

from harness import parcel, provenance, submission
from harness.errors import UserError
from harness.recipe import Recipe
from harness.results import find_bundles, read_run

COPY = "seq2seq/copy"
RECIPE = Recipe(row="mine", model="mine.py:Mine", title="Mine", community=True)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with two finished seeds in ``results``, a model in ``mine.py`` and a thesis."""
    monkeypatch.setattr(provenance, "stale_reason", lambda run: None)
    monkeypatch.chdir(tmp_path)
    for seed in range(2):
        write_trained(Path("results"), COPY, "mine", seed, 0.02, kind="community")
    Path("mine.py").write_text("# the model\n")
    Path("thesis.tex").write_text("years of work\n")


def write(out: str) -> list[Path]:
    return submission.write_submission(Path("results"), RECIPE, "smoke", [], Path(out), [Path("mine.py")])


def files(folder: str = ".") -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


@pytest.mark.parametrize("out", [".", "outer", "outer/inner", "submissions/mine"])
def test_nothing_else_is_touched_at_first_or_again(out):
    Path(out, "deep").mkdir(parents=True, exist_ok=True)
    Path(out, "helper.py").write_text("# beside it, as docs/submit.md says\n")
    Path(out, "deep", "thesis.tex").write_text("more\n")
    before = files()
    written = {str(path) for path in write(out)}
    assert before.items() <= files().items()
    assert written == set(files()) - set(before)
    whole = files()
    write(out)
    assert files() == whole
    Path("mine.py").write_text("# the model, better\n")
    write(out)
    assert Path(out, "mine.py").read_text() == "# the model, better\n"
    assert before.keys() <= files().keys()


def test_bundles_that_no_longer_belong_do_not_linger():
    write("send")
    assert [path.name for path in find_bundles(Path("send"))] == ["seed-0", "seed-1"]
    old = Path("results/runs", COPY, "default/mine/smoke/seed-0")
    old.rename("elsewhere")
    write("send")
    assert [path.name for path in find_bundles(Path("send"))] == ["seed-1"]
    assert not Path("send/runs", COPY, "default/mine/smoke/seed-0").exists()


def test_the_list_is_one_of_sha256sum():
    write("send")
    subprocess.run(["sha256sum", "--check", "--quiet", "submission.sha256"], cwd="send", check=True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("submission.md", "my own words"),
        ("mine.py", "another model"),
        ("runs", "a file"),
        ("runs/events.out", "of another program"),
        ("submission.sha256", "no list"),
        ("submission.sha256", "0" * 64 + "  ../thesis.tex\n"),
        ("submission.sha256", "0" * 64 + "  runs/../../thesis.tex\n"),
        ("submission.sha256", "0" * 64 + "  /etc/passwd\n"),
    ],
)
def test_what_is_in_the_way_is_named_and_stays(name, content):
    path = Path("outer", name)
    path.parent.mkdir(parents=True)
    path.write_text(content)
    before = files()
    with pytest.raises(UserError, match=f"{path} is .*move it away, or choose another folder with --out"):
        write("outer")
    assert files() == before


@pytest.mark.parametrize("name", ["submission.md", "mine.py", f"runs/{COPY}/default/mine/smoke/seed-0/run.json"])
def test_what_was_changed_since_is_not_lost(name):
    write("send")
    Path("send", name).write_text("edited")
    before = files()
    with pytest.raises(UserError, match=f"send/{name} is not as"):
        write("send")
    assert files() == before


def test_an_edited_copy_of_a_source_that_is_no_longer_sent_is_not_lost():
    write("send")
    Path("send/mine.py").write_text("edited")
    Path("theirs.py").write_text("# another\n")
    before = files()
    with pytest.raises(UserError, match=r"send/mine\.py is not as"):
        submission.write_submission(Path("results"), RECIPE, "smoke", [], Path("send"), [Path("theirs.py")])
    assert files() == before


@pytest.mark.parametrize("out", ["results", "results/runs", "results/runs/seq2seq", "linked", "results/../results"])
def test_stored_runs_are_no_submission(out):
    Path("linked").mkdir()
    Path("linked/runs").symlink_to("../results/runs")
    before = files()
    with pytest.raises(UserError, match="lies among the runs of results"):
        write(out)
    assert files() == before


@pytest.mark.parametrize("out", ["mine.py", "mine.py/below", "/proc/submission", "x" * 300, "dangling"])
def test_places_that_cannot_be_written(out):
    Path("dangling").symlink_to("nowhere")
    before = files()
    with pytest.raises(UserError, match=r"cannot be written: .*; choose another folder with --out"):
        write(out)
    assert files() == before


def test_links_below_the_runs_are_not_followed(tmp_path):
    """A folder of the list that has become a link since: what it leads to is somebody's."""
    write("send")
    inside = Path("send/runs/seq2seq")
    inside.rename("moved")
    inside.symlink_to(tmp_path / "moved")
    before = files()
    with pytest.raises(UserError, match="send/runs/seq2seq is not as"):
        write("send")
    assert files() == before


@pytest.mark.parametrize(
    ("out", "moment"),
    [*(("send", moment) for moment in range(1, 14, 3)), *(("fresh/deep", moment) for moment in range(1, 10, 3))],
)  # so many files are renamed
def test_nothing_is_half_written(out, moment, monkeypatch):
    write("send")
    before = files()
    Path("mine.py").write_text("# the model, better\n")
    before["mine.py"] = b"# the model, better\n"
    calls, replace = 0, os.replace

    def fail(*arguments):
        nonlocal calls
        calls += 1
        if calls == moment:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace(*arguments)

    monkeypatch.setattr(parcel.os, "replace", fail)
    folders = {path for path in Path().rglob("*") if path.is_dir()}
    with pytest.raises(UserError, match="cannot be written: No space left on device"):
        write(out)
    assert files() == before
    assert {path for path in Path().rglob("*") if path.is_dir()} == folders


def test_a_model_that_lies_in_the_folder_is_neither_copied_nor_removed():
    write(".")
    assert "mine.py" not in Path("submission.sha256").read_text()
    Path("other").mkdir()
    Path("other/theirs.py").write_text("# another\n")
    submission.write_submission(Path("results"), RECIPE, "smoke", [], Path(), [Path("other/theirs.py")])
    assert Path("theirs.py").exists()
    write(".")
    assert not Path("theirs.py").exists()
    assert Path("mine.py").exists()
    assert {read_run(folder).identity.seed for folder in find_bundles(Path("results"))} == {0, 1}


def test_a_copy_that_became_the_model_stays():
    write("send")
    submission.write_submission(Path("results"), RECIPE, "smoke", [], Path("send"), [Path("send/mine.py")])
    assert Path("send/mine.py").read_text() == "# the model\n"
    assert "mine.py" not in Path("send/submission.sha256").read_text()
