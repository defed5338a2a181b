"""Each command that README and docs show works as written, in a folder of its own, with the smoke budget."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

import harness
from harness.cli import app
from harness.mirror import tracking_uri
from harness.model import get_model
from harness.options import expand
from harness.recipe import match_recipes, read_recipe, recipe_paths
from harness.registry import TASKS, match_tasks
from harness.results import find_bundles, read_run
from harness.studies import read_studies

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]
GO_ON = ("how-a-number-is-made", "reproduce", "results", "CONTRIBUTING")
"""Documents that speak of the runs that the README has made; the others stand alone."""
FILE = re.compile(r"# (\w+\.py)\n")
"""What a Python block begins with that is a file."""


def steps(document: Path) -> list[str]:
    """Return the ``readhead`` lines of every console block, and the Python blocks, in order of appearance.

    A block marked ``console cluster`` needs more than one machine, and is not among them.
    """
    found = []
    for language, block in re.findall(r"```(console|sh|bash|python)\n(.*?)```", document.read_text(), re.S):
        if language == "python":
            found.append(block)
            continue
        for line in block.replace("\\\n", " ").splitlines():
            line = line.removeprefix("$ ").split("  #")[0].strip()
            if line.startswith("readhead "):
                found.append(line)
    return found


def commands() -> list[str]:
    """Return the ``readhead`` lines of all documents."""
    return [step for document in DOCUMENTS for step in steps(document) if step.startswith("readhead ")]


def make_targets() -> set[str]:
    """Return the ``make`` targets that the documents name."""
    text = "\n".join(document.read_text() for document in DOCUMENTS)
    return set(re.findall(r"^\$? ?make ([a-z.-]+)", text, re.M))


def test_the_documents_show_commands():
    shown = " ".join(commands())
    names = [command.name or command.callback.__name__ for command in app.registered_commands]
    for group in app.registered_groups:
        names += [f"{group.name} {command.name}" for command in group.typer_instance.registered_commands]
    assert len(names) > 10
    for name in names:
        assert f"readhead {name}" in shown


def test_documented_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    assert make_targets()
    for target in make_targets():
        assert re.search(rf"^{re.escape(target)}:", makefile, re.M), target


def test_what_is_not_run_needs_a_cluster():
    blocks = [
        b for document in DOCUMENTS for b in re.findall(r"```console cluster\n(.*?)```", document.read_text(), re.S)
    ]
    assert blocks
    for line in "".join(blocks).splitlines():
        assert re.match(r"\$ readhead run .* --ray ", line), line


def blocks(name: str, language: str) -> list[str]:
    """Return the blocks of a language in a document of ``docs/``."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / f"{name}.md").read_text(), re.S)


def options_of(command: Any, words: list[str]) -> dict[str, Any]:
    """Return what a command line is understood as, without doing it; a word that it does not know is an error."""
    with command.make_context("documented", [words[0]]) as context:
        found = command.get_command(context, words[0])
        assert found is not None, words
        with found.make_context(words[0], expand(words[1:]), parent=context) as inner:
            return dict(inner.params)


def cluster_lines() -> list[list[str]]:
    """Return the words after ``readhead`` of the commands that need a cluster."""
    text = "\n".join(document.read_text() for document in DOCUMENTS)
    found = re.findall(r"```console cluster\n(.*?)```", text, re.S)
    return [shlex.split(line.removeprefix("$ readhead ")) for line in "".join(found).splitlines()]


def test_what_needs_a_cluster_is_understood_as_written():
    for words in cluster_lines():
        options = options_of(typer.main.get_command(app), words)
        assert options["ray"]
        assert match_tasks(options["task"])
        assert ".py:" in options["row"] or match_recipes(options["row"])


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A cluster started as documented, with ports of its own; the address of its client server is what this gives."""
    monkeypatch.setenv("HOME", str(tmp_path))  # there may be a token in the real one
    monkeypatch.delenv("RAY_ADDRESS", raising=False)  # Ray would take it for `auto`
    # Sockets' paths may not be long, and Ray may still write while it is killed.
    temporary = tempfile.TemporaryDirectory(prefix="rh-", dir="/tmp", ignore_cleanup_errors=True)
    monkeypatch.setenv("RAY_TMPDIR", temporary.name)
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        port, client = (each.getsockname()[1] for each in (one, other))
    assert "`ray start --head`" in (ROOT / "docs" / "cluster.md").read_text()
    command = ["ray", "start", "--head", "--block", f"--port={port}", f"--ray-client-server-port={client}"]
    log = tmp_path / "ray.log"
    with log.open("w") as out:
        running = subprocess.Popen(
            [str(Path(sys.executable).parent / command[0]), *command[1:], "--include-dashboard=false", "--num-cpus=2"],
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        for _ in range(300):
            if "Ray runtime started" in log.read_text() or running.poll() is not None:
                break
            time.sleep(0.2)
        assert "Ray runtime started" in log.read_text(), log.read_text()
        yield f"127.0.0.1:{client}"
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait(30)
        temporary.cleanup()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_needs_a_cluster_works_on_one(tmp_path, monkeypatch, cluster):
    """One task, one seed and the budget `smoke`; else, but for the address of the head, all is as written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert CliRunner().invoke(app, ["new", "MyModel", "--family", "transduction"]).exit_code == 0
    for words in cluster_lines():
        shorter = [word.replace("head:10001", cluster).replace("seq2seq/*", "seq2seq/copy") for word in words]
        command = [sys.executable, "-m", "harness.cli", *shorter, "--budget", "smoke", "--seeds", "0"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{shorter}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    rows = {read_run(folder).identity.row for folder in find_bundles(Path("results"))}
    assert rows == {"my-model", *(name for name in recipe_paths() if name.startswith("luong-"))}


def test_commands_of_ray_and_mlflow_exist_as_shown():
    from mlflow.cli import cli as mlflow
    from ray.scripts.scripts import cli as ray

    programs, shown = {"ray": ray, "mlflow": mlflow}, []
    for document in DOCUMENTS:
        for line in re.findall(r"`((?:ray|mlflow) [^`]+)`", document.read_text()):
            program, *words = shlex.split(line)
            shown.append((program, words[0], options_of(programs[program], words)))
    assert {(program, word) for program, word, _ in shown} == {
        ("ray", "start"),
        ("ray", "get-auth-token"),
        ("mlflow", "ui"),
    }
    (store,) = [options["backend_store_uri"] for program, _, options in shown if program == "mlflow"]
    assert store.replace("results", str(Path("results").resolve())) == tracking_uri(Path("results"))


def test_the_entry_point_shown_brings_the_task_shown(tmp_path, monkeypatch):
    (source,) = [block for block in blocks("add-a-task", "python") if FILE.match(block)]
    (text,) = blocks("add-a-task", "toml")
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").touch()
    (tmp_path / "my_package" / "my_task.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    ((group, entries),) = tomllib.loads(text)["project"]["entry-points"].items()
    assert group == TASKS
    for name, value in entries.items():
        assert EntryPoint(name, value, group).load()().name == name


def test_the_files_of_rows_and_studies_shown_are_valid(tmp_path):
    (recipe,), (study,) = blocks("models", "yaml"), blocks("results", "yaml")
    (tmp_path / "my-row.yaml").write_text(recipe)
    assert get_model(read_recipe(tmp_path / "my-row.yaml", community=True).model)
    (tmp_path / "my-study.yaml").write_text(study)
    (found,) = read_studies([tmp_path / "my-study.yaml"])
    assert len(found.places) == 2


def test_links_lead_somewhere():
    for document in DOCUMENTS:
        text = document.read_text()
        for target in re.findall(r"\]\((?!https?://)([^)]+)\)", text):
            path, _, heading = target.partition("#")
            file = document.parent / path if path else document
            assert file.exists(), f"{document.name}: {target}"
            if heading:
                found = [
                    re.sub(r"[^\w -]", "", line).strip() for line in re.findall(r"^#+ (.*)$", file.read_text(), re.M)
                ]
                assert heading in [each.lower().replace(" ", "-") for each in found], f"{document.name}: {target}"


def test_every_document_is_linked_from_the_readme():
    text = (ROOT / "README.md").read_text()
    for document in [*DOCUMENTS[1:], ROOT / "LICENSE", ROOT / "CHANGELOG.md", ROOT / "CITATION.cff"]:
        assert f"]({document.relative_to(ROOT)})" in text


def test_licence_and_version_are_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert project["version"] == harness.__version__ == citation["version"]
    assert project["license"] == citation["license"] == "Apache-2.0"
    assert project["license-files"] == ["LICENSE"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in project["authors"]]
    words = " ".join((ROOT / "LICENSE").read_text().split())
    assert words.startswith("Apache License Version 2.0, January 2004")
    assert "9. Accepting Warranty or Additional Liability." in words
    (version,) = re.findall(r"^## \[([0-9.]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)[:1]
    assert version == harness.__version__


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".venv/bin/readhead").exists(), reason="make would install an environment first")
def test_the_demo_says_where_to_look(tmp_path):
    """Budget `smoke` instead of `demo`; everything else is what `make demo` does."""
    command = ["make", "--no-print-directory", "demo", f"DEMO={tmp_path}", "DEMO_BUDGET=smoke"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    table, picture = (line.partition(":")[2].strip() for line in done.stdout.splitlines()[-2:])
    assert "`bahdanau`" in Path(table).read_text()
    assert Path(picture).suffix == ".svg"
    assert Path(picture).is_file()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(document, marks=pytest.mark.slow(seconds=240) if document.stem == "README" else ())
        for document in DOCUMENTS
        if steps(document) and document.stem not in GO_ON
    ],
    ids=lambda document: document.stem,
)
def test_every_documented_command_works_in_order(tmp_path, first):
    """Budgets are cut to `smoke`, so that it takes minutes; everything else is as written."""
    documents = [first, *(d for d in DOCUMENTS if d.stem in GO_ON and first.stem == "README")]
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for line in [step for document in documents for step in steps(document)]:
        if not line.startswith("readhead "):
            if file := FILE.match(line):
                (tmp_path / file[1]).write_text(line)
            else:
                subprocess.run([sys.executable, "-c", line], cwd=tmp_path, check=True, timeout=300)
            continue
        words = shlex.split(line)[1:]
        if words[0] == "fingerprint" and ":" not in words[1]:
            continue  # stands for a task that is not there
        if words[0] in ("run", "compare", "reproduce", "submit"):
            words = [*words, "--budget", "smoke"] if "--budget" not in words else words
            words = [w if words[max(i - 1, 0)] != "--budget" else "smoke" for i, w in enumerate(words)]
        done = subprocess.run(
            [sys.executable, "-m", "harness.cli", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
