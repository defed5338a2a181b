"""Names to classes: built-in tasks and models come in through the same entry points as a stranger's.

A task or model is named by its entry point (``seq2seq/copy``, ``bahdanau``), by ``package.module:Class``, or by
``path/to/file.py:Class``.
"""

import fnmatch
import hashlib
import importlib
import importlib.util
import inspect
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from harness.errors import UserError, first_line, unknown
from harness.task import Task

TASKS, MODELS, RECIPES = "readhead.tasks", "readhead.models", "readhead.recipes"


@lru_cache
def _entries(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name; a name that two packages claim is an error naming both."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        other = found.get(entry.name)
        if other is not None and other.value != entry.value:
            raise UserError(f"{group} {entry.name!r} is defined twice: {other.value} and {entry.value}")
        found[entry.name] = entry
    return found


def _load_entry(entry: EntryPoint) -> Any:
    """Return what an entry point names; a ``UserError`` names the one of a broken package."""
    try:
        return entry.load()
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {first_line(error)}"
        raise UserError(f"{entry.group} {entry.name!r} ({entry.value}) cannot be loaded: {said}") from error


def task_names() -> list[str]:
    """Return the names of all installed tasks, sorted."""
    return sorted(_entries(TASKS))


def model_names() -> list[str]:
    """Return the names of all installed models, sorted."""
    return sorted(_entries(MODELS))


@lru_cache
def get_task(name: str) -> Task:
    """Return the task called ``name`` (entry point, ``module:Class`` or ``file.py:Class``)."""
    found = _entries(TASKS)
    if name not in found and ":" not in name:
        raise unknown("task", name, found)
    loaded = _load_entry(found[name]) if name in found else _load_named(name, "task")
    if not (isinstance(loaded, type) and issubclass(loaded, Task)):
        raise UserError(f"{name!r} is not a task class: it must derive from harness.task.Task")
    if inspect.isabstract(loaded):
        raise UserError(f"task class {name!r} does not define {', '.join(sorted(loaded.__abstractmethods__))}")
    return loaded()


def match_tasks(pattern: str) -> list[Task]:
    """Return the tasks whose name matches a glob such as ``seq2seq/*``, or the one that ``pattern`` names."""
    if ":" in pattern:
        return [get_task(pattern)]
    names = fnmatch.filter(task_names(), pattern)
    if not names:
        raise unknown("task", pattern, task_names())
    return [get_task(name) for name in names]


def tasks_of(suite: str | None) -> str:
    """Return the glob of a suite's tasks, of all tasks for None; a ``UserError`` lists the suites there are."""
    suites = {name.split("/")[0] for name in task_names()}
    if suite is not None and suite not in suites:
        raise unknown("suite", suite, suites)
    return "*" if suite is None else f"{suite}/*"


def load_model_class(name: str) -> type[Any]:
    """Return the model class called ``name`` (entry point, ``module:Class`` or ``file.py:Class``), unchecked."""
    found = _entries(MODELS)
    if name in found:
        return _load_entry(found[name])
    if ":" not in name:
        raise unknown("model", name, found)
    return _load_named(name, "model")


def recipe_folders() -> list[Path]:
    """Return the folders ``recipes/`` of every package that offers recipes."""
    folders = []
    for entry in _entries(RECIPES).values():
        package = _load_entry(entry)
        folders.append(Path(package.__path__[0]) / "recipes")
    return folders


def published_files() -> list[Path]:
    """Return every ``published.csv`` that lies beside a ``recipes/`` folder."""
    return [path for folder in recipe_folders() if (path := folder.parent / "published.csv").exists()]


def study_files() -> list[Path]:
    """Return every file of a folder ``studies/`` that lies beside a ``recipes/`` folder, by name."""
    return sorted(path for folder in recipe_folders() for path in (folder.parent / "studies").glob("*.yaml"))


def _load_named(name: str, kind: str) -> type[Any]:
    """Import ``module:Class`` or ``file.py:Class``."""
    where, _, class_name = name.rpartition(":")
    module = _import_file(Path(where), kind) if where.endswith(".py") else _import_module(where, kind)
    if not hasattr(module, class_name):
        classes = [n for n, v in vars(module).items() if isinstance(v, type) and v.__module__ == module.__name__]
        raise unknown(f"{kind} class in {where}", class_name, classes)
    return getattr(module, class_name)


def _import_module(name: str, kind: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UserError(f"{kind} module {name!r} cannot be imported: {first_line(error)}") from error
    except (Exception, SystemExit) as error:
        raise UserError(
            f"{kind} module {name!r} fails to import: {type(error).__name__}: {first_line(error)}"
        ) from error


def _import_file(path: Path, kind: str) -> Any:
    """Import a Python file under a name of its own; its folder is importable while it loads."""
    if not path.is_file():
        raise UserError(f"{kind} file {str(path)!r} does not exist")
    path = path.resolve()
    module_name = f"readhead_file_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        del sys.modules[module_name]
        where = Path(error.filename or path).name
        raise UserError(f"{kind} file {where}: syntax error in line {error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        del sys.modules[module_name]
        said = f"{type(error).__name__}: {first_line(error)}"
        raise UserError(f"{kind} file {path.name} fails to import: {said}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module
