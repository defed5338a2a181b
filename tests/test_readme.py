"""Each command that README and docs show works as written, in a folder of its own, with the smoke budget."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import app

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def steps() -> list[str]:
    """Return the ``readhead`` lines of every console block, and the Python blocks, in order of appearance."""
    found = []
    for document in DOCUMENTS:
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
    """Return the ``readhead`` lines alone."""
    return [step for step in steps() if step.startswith("readhead ")]


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


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_documented_command_works_in_order(tmp_path):
    """Budgets are cut to `smoke` and seeds to one, so that it takes minutes; everything else is as written."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    done_before = set()
    for line in steps():
        if not line.startswith("readhead "):
            subprocess.run([sys.executable, "-c", line], cwd=tmp_path, check=True, timeout=60)
            continue
        words = shlex.split(line)[1:]
        if words[0] == "fingerprint":
            continue  # pins a new task's data, which is refused for the built-in ones
        if words[0] == "new" and line in done_before:
            continue  # shown twice; the file is there
        done_before.add(line)
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
