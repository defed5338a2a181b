"""What a machine can do to a run: no room for the bundle, a folder that cannot be written, somebody else at once."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import RUN, in_a_folder, model_file, readhead  # noqa: F401 (fixtures)

from harness.results import find_bundles, read_run
from harness.verify import verify_bundle


def bundles() -> list[Path]:
    return list(find_bundles(Path("results")))


def left() -> list[Path]:
    return [path for path in Path.cwd().rglob("*") if ".tmp" in path.name]


@pytest.mark.parametrize("file", ["predictions.npz", "curve.csv", "run.json", "the folder"])
def test_the_disk_is_full_when_the_bundle_is_written(readhead, monkeypatch, file):  # noqa: F811
    name = model_file(Path.cwd())
    write, make = Path.write_bytes, os.mkdir

    def full(path: Path, data: bytes) -> int:
        if path.name != file:
            return write(path, data)
        write(path, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def no_room(path: str, *arguments: object) -> None:
        if ".tmp-seed-" in str(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        make(path, *arguments)

    monkeypatch.setattr(Path, "write_bytes", full)
    if file == "the folder":
        monkeypatch.setattr(os, "mkdir", no_room)
    code, out, err = readhead("run", name, *RUN)
    assert code == 2
    assert re.fullmatch(r"error: the bundle .*seed-0 could not be saved: No space left on device\n", err)
    assert (bundles(), left()) == ([], [])
    monkeypatch.setattr(Path, "write_bytes", write)
    monkeypatch.setattr(os, "mkdir", make)
    code, out, _ = readhead("run", name, *RUN)  # the training is not lost: only the tests are scored again
    assert code == 0
    assert "100%" not in out
    (folder,) = bundles()
    assert verify_bundle(folder).status == "verified"
    assert left() == []


def test_a_file_in_the_place_of_the_results_folder_is_told_before_anything_is_trained(readhead):  # noqa: F811
    name = model_file(Path.cwd())
    Path("results").write_text("mine")
    code, out, err = readhead("run", name, *RUN)
    assert (code, "%" in out) == (2, False)
    assert err.startswith("error: results folder 'results' cannot be written (")
    assert err.endswith("choose another with --results\n")
    assert Path("results").read_text() == "mine"
    assert readhead("run", name, *RUN, "--results", "elsewhere")[0] == 0


def test_a_read_only_results_folder_is_told_before_anything_is_trained(readhead, monkeypatch):  # noqa: F811
    name = model_file(Path.cwd())
    assert readhead("run", name, *RUN)[0] == 0
    (folder,) = bundles()
    before = (folder / "run.json").read_bytes()
    opened = os.open

    def read_only(path: object, flags: int, *arguments: object, **options: object) -> int:
        if "results" in str(path) and flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return opened(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", read_only)  # tests may run as root, whom no mode stops
    code, out, err = readhead("run", name, *RUN, "--force")
    assert (code, "%" in out) == (2, False)
    assert err == (
        "error: results folder 'results' cannot be written (Read-only file system); choose another with --results\n"
    )
    monkeypatch.setattr(os, "open", opened)
    assert (folder / "run.json").read_bytes() == before
    assert verify_bundle(folder).status == "verified"


WAITS = """import os, time
        while self.global_step == 8 and not os.path.exists("go"):
            time.sleep(0.01)
        return ((self.weight - 1) ** 2).sum()"""


@pytest.mark.timeout(600)
def test_two_sweeps_on_one_results_folder(tmp_path):
    name = model_file(tmp_path, "tape")
    source = tmp_path / "mine.py"
    source.write_text(source.read_text().replace("return ((self.weight - 1) ** 2).sum()", WAITS))
    command = [sys.executable, "-m", "harness.cli", "run", name, "--task", "ntm/copy", "--budget", "smoke"]
    command += ["--seeds", "0", "1", "--no-mlflow"]
    environment = {**os.environ, "READHEAD_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    options = {"cwd": tmp_path, "env": environment, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    first = subprocess.Popen([*command], **options)
    assert first.stdout is not None
    assert "%" in first.stdout.readline()  # it is training
    second = subprocess.Popen([*command], **options)
    assert second.stdout is not None
    told = "mine on ntm/copy:default, smoke, seed 0 is being trained by another process"
    assert told in second.stdout.readline()  # it leaves this one alone, and goes on to the next
    (tmp_path / "go").touch()
    ends = [(process.communicate(timeout=400), process.returncode) for process in (first, second)]
    assert [err for (_, err), _ in ends] == ["", ""]
    assert ends[1][1] == 1
    folders = list(find_bundles(tmp_path / "results"))
    assert [read_run(folder).identity.seed for folder in folders] == [0, 1]
    assert [verify_bundle(folder).status for folder in folders] == ["verified", "verified"]
    assert not list(tmp_path.rglob(".tmp-*"))
    again = subprocess.run([*command], **options, timeout=400, check=False)  # and now it finds all done
    assert (again.returncode, "%" in again.stdout) == (0, False)
