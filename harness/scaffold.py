"""``readhead new``: a commented model file that passes ``check`` and learns, to be changed into one's own."""

import ast
import keyword
import re
from pathlib import Path

from harness.errors import UserError
from harness.families import get_family
from harness.files import write_whole

TEMPLATES = Path(__file__).parent / "templates"


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[-_ ]+|(?<=[a-z0-9])(?=[A-Z])", name) if word]


def class_name(name: str) -> str:
    """Return ``MyModel`` for ``my-model``."""
    return "".join(word[0].upper() + word[1:] for word in _words(name))


def new(name: str, family: str, folder: Path = Path(".")) -> Path:
    """Write ``<folder>/<name>.py`` with a model class for ``family`` and return its path.

    ``name`` becomes a module and a class name: ``my-model`` gives ``my_model.py`` with ``MyModel``.
    """
    get_family(family)
    module = "_".join(_words(name)).lower()
    if not module.isidentifier() or keyword.iskeyword(module) or keyword.iskeyword(class_name(name)):
        raise UserError(f"name {name!r} is not valid: it must make a Python module name, such as my_model")
    path = folder / f"{module}.py"
    if path.exists():
        raise UserError(f"{path} exists; choose another name")
    template = (TEMPLATES / f"model_{family}.py.txt").read_text(encoding="utf-8")
    imports = [node for node in ast.walk(ast.parse(template)) if isinstance(node, ast.Import | ast.ImportFrom)]
    if class_name(name) in {alias.asname or alias.name for node in imports for alias in node.names}:
        raise UserError(f"name {name!r} is not valid: a model file imports something called {class_name(name)}")
    try:
        write_whole(path, template.replace("MyModel", class_name(name)).replace("my_model", module).encode())
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    return path
