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
    """Return a hash of the code of a model's module and of the modules of its own that it imports, directly or not.

    Its own are those of its package; of a module without one, such as a model's file, those beside it in its folder.
    Comments, docstrings and layout do not count: the hash is over the syntax tree.
    """
    pending, seen = [model.__module__], set[str]()
    digest = hashlib.sha256()
    while pending:
        name = pending.pop()
        path = _own_source(name, model.__module__)
        if name in seen or path is None:
            continue
        seen.add(name)
        tree = ast.parse(path.read_bytes())
        pending += sorted(_imported(tree, name), reverse=True)
        digest.update(f"{name.rpartition('.')[2]}\n{_code(tree)}\n".encode())
    return digest.hexdigest()[:16]


def _own_source(name: str, model: str) -> Path | None:
    """Return the file of module ``name`` if it is the module ``model`` or one of that one's own, None otherwise."""
    package = model.rpartition(".")[0]
    file = getattr(sys.modules.get(name), "__file__", None)
    if name == model or package:
        own = name == model or name.startswith(f"{package}.")
        return Path(file) if own and file is not None else None
    home = getattr(sys.modules.get(model), "__file__", None)
    if home is None:
        return None
    folder = Path(home).parent.resolve()
    # What a function imports later may not be loaded yet; the hash is not to depend on when it is asked for.
    path = Path(file) if file is not None else folder / f"{name}.py"
    return path if path.parent.resolve() == folder and path.suffix == ".py" and path.is_file() else None


def _imported(tree: ast.Module, module: str) -> set[str]:
    """Return the full names of what ``module`` imports, relative imports too; some are not modules, but in one.

    Without a package, as a model's file is, a relative import fails and names nothing.
    """
    package = getattr(sys.modules.get(module), "__package__", None)
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (package or not node.level):
            base = "." * node.level + (node.module or "")
            origin = resolve_name(base, package) if node.level else base
            names |= {origin, *(f"{origin}.{alias.name}" for alias in node.names)}
    return names


def _code(tree: ast.Module) -> str:
    """Dump a module's syntax tree without docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:]
    return _dump(tree)


def _dump(node: object) -> str:
    """Return what Python 3.11's ``ast.dump`` says of a parsed tree, or of a part of one, on every Python.

    That of others moves: 3.12 has type parameters, and ends a nested format in an empty text; 3.13 leaves out what is
    empty. Stored hashes are to outlive that.
    """
    if isinstance(node, list):
        return f"[{', '.join([_dump(each) for each in node])}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = []
    for name in node._fields:
        value = getattr(node, name)
        if isinstance(node, ast.JoinedStr):
            value = [part for part in value if not (isinstance(part, ast.Constant) and part.value == "")]
        optional = getattr(type(node), name, ...) is None  # else None is a value, as that of a constant
        if not (value is None and optional) and not (name == "type_params" and not value):
            fields.append(f"{name}={_dump(value)}")
    return f"{type(node).__name__}({', '.join(fields)})"


def now() -> str:
    """Return the time, in UTC and ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def collect(model: type[Any] | None, threads: int) -> Provenance:
    """Return the provenance of a run of ``model`` (None for a reference) with the code as it is now.

    ``finished`` is now, too: who trains after that sets it again at the end.
    """
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
        finished=now(),
    )


def stale_reason(run: Run) -> str | None:
    """Return why a stored run may no longer be what its row gives today, None where nothing moved.

    Looks at the recipe, the number of training examples, the model's version and its source of a row that comes with an
    installed package. No other is ever stale: to look at it would run a stranger's code.
    """
    from harness.errors import ReadheadError
    from harness.model import get_model
    from harness.recipe import comes_with_a_package, get_recipe
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
    recipe = get_recipe(identity.row).resolve(task)
    training = recipe.training.model_dump(exclude_unset=True, exclude={"examples"})
    if (recipe.hyperparameters, training) != (identity.hyperparameters, identity.training):
        return "its recipe changed"
    examples = recipe.training.examples
    if examples is None and identity.budget in task.budgets and identity.regime in task.regimes:
        examples = task.budget(identity.budget, identity.regime)
    if examples not in (None, identity.examples):
        return f"training examples were {identity.examples:,}, are {examples:,}"
    if source_hash(model) not in run.source_hashes:
        return "the model's source changed"
    return None
