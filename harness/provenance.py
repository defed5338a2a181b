"""Where a run's numbers come from: the commit, the libraries, the processor, and a hash of the model's source."""

import ast
import hashlib
import importlib.metadata
import platform
import subprocess
import sys
from datetime import UTC, datetime
from functools import lru_cache
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

import harness
from harness.records import Provenance, Run

CODE_PATHS = ("harness", "tasks", "baselines", "pyproject.toml", "constraints.txt")
"""What `dirty` looks at: results and documents may change while runs go on."""

LIBRARIES = ("torch", "pytorch-lightning", "numpy")


def _git(*arguments: str) -> str | None:
    """Return the output of a git command in the checkout that the harness was imported from; None outside one."""
    root = Path(harness.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


@lru_cache
def cpu_name() -> str:
    """Return the processor's marketing name where the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def source_hash(model: type[Any]) -> str:
    """Return a hash of the code of a model's module and of the modules of its own package that it imports.

    Comments, docstrings and layout do not count: the hash is over the syntax tree.
    """
    package = model.__module__.rpartition(".")[0]
    pending, seen = [model.__module__], set[str]()
    digest = hashlib.sha256()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        path = getattr(sys.modules.get(name), "__file__", None)
        if path is None:
            continue
        tree = ast.parse(Path(path).read_text())
        own = f"{package}."
        pending += sorted((other for other in _imported(tree, name) if package and other.startswith(own)), reverse=True)
        digest.update(f"{name.rpartition('.')[2]}\n{_code(tree)}\n".encode())
    return digest.hexdigest()[:16]


def _imported(tree: ast.Module, module: str) -> set[str]:
    """Return the full names of the loaded modules that ``module`` imports, relative imports too."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            origin = resolve_name(base, sys.modules[module].__package__) if node.level else base
            names |= {origin, *(f"{origin}.{alias.name}" for alias in node.names)}
    return {name for name in names if name in sys.modules}


def _code(tree: ast.Module) -> str:
    """Dump a module's syntax tree without docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:]
    return ast.dump(tree)


def collect(model: type[Any] | None, threads: int) -> Provenance:
    """Return the provenance of a run of ``model`` (None for a reference) that ends now."""
    status = _git("status", "--porcelain", "--", *CODE_PATHS)
    return Provenance(
        commit=_git("rev-parse", "HEAD"),
        dirty=None if status is None else bool(status),
        source_hash=source_hash(model) if model is not None else "",
        harness_version=harness.__version__,
        libraries={name: importlib.metadata.version(name) for name in LIBRARIES},
        python=platform.python_version(),
        cpu=cpu_name(),
        threads=threads,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def stale_reason(run: Run) -> str | None:
    """Return why a stored run may no longer be what its row gives today, None where nothing moved.

    Looks at the recipe, the model's version and its source of a row that comes with an installed package. No other is
    ever stale: to look at it would run a stranger's code.
    """
    from harness.errors import ReadheadError
    from harness.model import get_model
    from harness.recipe import comes_with_a_package, get_recipe, recipe_paths
    from harness.registry import get_task

    identity = run.identity
    if run.kind != "trained" or not comes_with_a_package(identity.row, identity.model):
        return None
    try:
        model = get_model(identity.model)
        task = get_task(identity.task)
    except ReadheadError:
        return None
    if model.version != identity.model_version:
        return f"model version was {identity.model_version}, is {model.version}"
    if identity.row in recipe_paths():
        recipe = get_recipe(identity.row).resolve(task)
        training = recipe.training.model_dump(exclude_unset=True, exclude={"examples"})
        if (recipe.hyperparameters, training) != (identity.hyperparameters, identity.training):
            return "its recipe changed"
    if source_hash(model) not in run.source_hashes:
        return "the model's source changed"
    return None
