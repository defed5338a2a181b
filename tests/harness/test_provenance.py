"""Where numbers come from: hashes that see code and not layout, a dirty flag that sees code alone, stale cells."""

import ast
import hashlib
import importlib
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

import harness
from harness import execution, provenance
from harness import recipe as recipes
from harness.model import get_model
from harness.plan import identify, make_plan
from harness.provenance import collect, source_hash, stale_reason
from harness.recipe import Recipe, Training
from harness.records import Reproduction, Run
from harness.registry import get_task, load_model_class

MODEL = '''
"""A module."""
from {package}.layers import Layer


class Model:
    """A model."""

    def f(self, x):
        return Layer().g(x) + 1
'''
LAYERS = """
class Layer:
    def g(self, x):
        return 2 * x
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write a package of two modules, afresh with each call, and return its model's class."""
    monkeypatch.syspath_prepend(tmp_path)
    name = f"package_of_{tmp_path.name}"

    def forget() -> None:
        for module in [m for m in sys.modules if m.split(".")[0] == name]:
            del sys.modules[module]

    def make(model: str = MODEL, layers: str = LAYERS) -> type:
        forget()
        (tmp_path / name).mkdir(exist_ok=True)
        for module, text in {"__init__": "", "model": model, "layers": layers}.items():
            (tmp_path / name / f"{module}.py").write_text(text.replace("{package}", name))
        importlib.invalidate_caches()
        return importlib.import_module(f"{name}.model").Model

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield make
    forget()


def test_a_hash_is_stable_and_short(package):
    first = source_hash(package())
    assert first == source_hash(package())
    assert len(first) == 16
    assert int(first, 16) >= 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""A module."""', '"""Another text."""'),
        ('"""A module."""\n', ""),
        ('    """A model."""\n\n', ""),
        ("+ 1", "+ 1  # one more"),
        ("(self, x)", "(self,   x)"),
        ("def f", "\n\n    def f"),
        ("Layer().g(x) + 1", "(Layer().g(x)\n            + 1)"),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(package, old, new):
    assert old in MODEL
    assert source_hash(package(MODEL)) == source_hash(package(MODEL.replace(old, new, 1)))


@pytest.mark.parametrize(("old", "new"), [("+ 1", "+ 2"), ("+ 1", "- 1"), ("def f", "def h"), ("self, x", "self, x=3")])
def test_code_counts(package, old, new):
    assert source_hash(package(MODEL)) != source_hash(package(MODEL.replace(old, new, 1)))


@pytest.mark.parametrize(
    "how",
    [
        "from {package}.layers import Layer",
        "from {package} import layers\nfrom {package}.layers import Layer",
        "from .layers import Layer",
        "from . import layers\nLayer = layers.Layer",
        "import {package}.layers\nLayer = {package}.layers.Layer",
    ],
)
def test_code_in_the_modules_that_a_model_imports_counts(package, how):
    model = package(MODEL.replace("from {package}.layers import Layer", how))
    first = source_hash(model)
    path = Path(sys.modules[model.__module__].__file__).parent / "layers.py"
    path.write_text(LAYERS.replace("2 * x", "3 * x"))
    assert source_hash(model) != first
    path.write_text(LAYERS + "\n# a remark\n")
    assert source_hash(model) == first


def test_modules_that_import_each_other_are_hashed_once(package):
    assert source_hash(package(MODEL, LAYERS + "\nimport {package}.model\n"))


def test_models_of_this_package_have_different_hashes():
    hashes = {source_hash(get_model(name)) for name in ("tape-lstm", "lstm", "bahdanau")}
    assert len(hashes) == 3


def test_a_module_may_be_in_another_encoding(package):
    model = package()
    path = Path(sys.modules[model.__module__].__file__)
    first = source_hash(model)
    path.write_bytes("# coding: latin-1\n# caf\u00e9\n".encode("latin-1") + path.read_bytes())
    assert source_hash(model) == first


# Hashes on other Pythons

SYNTAX = """
from os import path as p, sep
@p.join
class A(B, metaclass=C):
    x: int
    y: int = 1
    def f(self, a, /, b=1, *c, d, e=None, **g) -> None: return
    async def h(self): return [i async for i in self if i]
lambda: (yield)
u"a", b"a", 1.0, 2j, ..., None, True, {1: 2, **x}, {1}, f"", f"a{x!r:>{w}}{y:}" "", x[1:, ::2]
match x:
    case {"a": None, **rest}: pass
    case [1, *_] | A(x=2) | None as y if z: pass
try: pass
except* E: global s; del s
with a as b, c: assert d, e
for i in j: continue
else: x @= -y if z else not w
"""


def test_a_dump_is_the_same_on_every_python():
    assert hashlib.sha256(provenance._code(ast.parse(SYNTAX)).encode()).hexdigest()[:16] == "e3d04a7c4bf0dd3c"


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="that of other Pythons differs")
def test_a_dump_is_that_of_python_3_11():
    for path in (None, *sorted(Path(harness.__file__).parent.rglob("*.py"))):
        tree = ast.parse(SYNTAX if path is None else path.read_bytes())
        assert provenance._code(tree) == ast.dump(tree), path


@pytest.mark.parametrize("text", ["def f(): 1", "async def f(): 1", "class C: 1"])
def test_a_field_that_python_3_12_added_counts_where_it_is_used(text):
    tree = ast.parse(text)
    node = tree.body[0]
    plain = provenance._code(tree)
    assert "type_params" not in plain
    fields = (*(name for name in type(node)._fields if name != "type_params"), "type_params")
    values = {name: getattr(node, name) for name in fields[:-1]}
    later = type(type(node).__name__, (type(node),), {"_fields": fields})
    tree.body = [later(**values, type_params=[])]
    assert provenance._code(tree) == plain
    tree.body = [later(**values, type_params=[ast.Name(id="T", ctx=ast.Load())])]
    assert provenance._code(tree) == plain.replace("])], type_i", "], type_params=[Name(id='T', ctx=Load())])], type_i")


def test_an_empty_text_that_python_3_12_ends_a_nested_format_in_does_not_count():
    tree = ast.parse('f"{x:>{w}}"')
    plain = provenance._code(tree)
    nested = tree.body[0].value.values[0].format_spec
    nested.values = [*nested.values, ast.Constant(value="")]
    assert provenance._code(tree) == plain
    assert provenance._code(ast.parse('f("")')) != provenance._code(ast.parse("f()"))


# A model's file


@pytest.fixture
def file_model(tmp_path, monkeypatch):
    """Write a model's file with modules beside it and return its class; the modules' names begin with ``beside_``."""

    def forget() -> None:
        for module in [m for m in sys.modules if m.startswith("beside_")]:
            del sys.modules[module]

    def make(text: str, **beside: str) -> type:
        for name, content in ({"my_model": text + "class MyModel: ...\n"} | beside).items():
            (tmp_path / f"{name}.py").write_text(content)
        importlib.invalidate_caches()
        return load_model_class(f"{tmp_path / 'my_model.py'}:MyModel")

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield make
    forget()


@pytest.mark.parametrize(
    "how",
    [
        "import beside_a",
        "from beside_a import x",
        "try:\n    from .beside_a import x\nexcept ImportError:\n    from beside_a import x",
        "def later():\n    import beside_a",
    ],
)
def test_code_beside_a_models_file_that_it_imports_counts(file_model, tmp_path, how):
    model = file_model(f"{how}\n", beside_a="import beside_b\nx = 1\n", beside_b="y = 1\n", beside_c="z = 1\n")
    first = source_hash(model)
    for name, counts in (("beside_a", True), ("beside_b", True), ("beside_c", False)):
        path = tmp_path / f"{name}.py"
        before = path.read_text()
        path.write_text(before.replace("= 1", "= 2"))
        assert (source_hash(model) != first) is counts
        path.write_text(before + "# a remark\n")
        assert source_hash(model) == first
        path.write_text(before)


def test_when_a_module_beside_is_loaded_does_not_matter(file_model, monkeypatch, tmp_path):
    model = file_model("def later():\n    import beside_a\n", beside_a="x = 1\n")
    first = source_hash(model)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("beside_a")
    assert source_hash(model) == first


def test_a_models_file_without_modules_of_its_own_is_hashed_alone(file_model, tmp_path):
    model = file_model("import json\nimport harness.errors\n", unused="x = 1\n")
    code = provenance._code(ast.parse((tmp_path / "my_model.py").read_bytes()))
    assert source_hash(model) == hashlib.sha256(f"{model.__module__}\n{code}\n".encode()).hexdigest()[:16]


# The checkout


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A git repository that the harness seems to be imported from."""
    for folder in ("harness", "baselines", "results", "docs"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file.py").write_text("x = 1\n")
    monkeypatch.setattr(harness, "__file__", str(tmp_path / "harness" / "__init__.py"))
    (tmp_path / "harness" / "__init__.py").write_text("")

    def git(*arguments: str) -> str:
        settings = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *settings, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    return tmp_path, git


def test_a_clean_checkout(checkout):
    _, git = checkout
    origin = collect(None, threads=3)
    assert origin.commit == git("rev-parse", "HEAD")
    assert origin.dirty is False
    assert origin.threads == 3
    assert origin.source_hash == ""
    assert {"torch", "numpy", "pytorch-lightning"} <= origin.libraries.keys()
    assert origin.cpu


@pytest.mark.parametrize(
    ("path", "dirty"),
    [
        ("harness/file.py", True),
        ("harness/new.py", True),
        ("baselines/recipes.yaml", True),
        ("pyproject.toml", True),
        ("results/file.py", False),
        ("results/runs/run.json", False),
        ("docs/file.py", False),
        ("leaderboard.md", False),
    ],
)
def test_dirty_looks_at_code_alone(checkout, path, dirty):
    folder, _ = checkout
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_text("x = 2\n")
    assert collect(None, threads=1).dirty is dirty


def test_outside_a_checkout_nothing_is_claimed(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "__file__", str(tmp_path / "harness" / "__init__.py"))
    origin = collect(None, threads=1)
    assert origin.commit is None
    assert origin.dirty is None


def test_without_git_nothing_is_claimed(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    origin = collect(None, threads=1)
    assert (origin.commit, origin.dirty) == (None, None)


# Stale cells


@pytest.fixture
def fresh(monkeypatch) -> Run:
    """A run of an installed row as it is today."""
    recipe = Recipe(row="small", model="tape-lstm", title="small", hyperparameters={"hidden": 8}, training=Training())
    monkeypatch.setattr(recipes, "recipe_paths", lambda: {"small": Path("small.yaml")})
    monkeypatch.setattr(recipes, "get_recipe", lambda name: recipe)
    task = get_task("ntm/copy")
    return Run(
        kind="trained",
        status="completed",
        identity=identify(task, "default", recipe.resolve(task), "smoke", 0),
        title="small",
        scores=[],
        provenance=collect(get_model("tape-lstm"), 1),
    )


def moved(run: Run, **changes: object) -> Run:
    return run.model_copy(update={"identity": run.identity.model_copy(update=changes)})


def test_a_run_of_today_is_not_stale(fresh):
    assert stale_reason(fresh) is None


def test_a_run_is_stale_where_its_recipe_model_or_source_moved_on(fresh):
    assert stale_reason(moved(fresh, hyperparameters={"hidden": 9})) == "its recipe changed"
    assert stale_reason(moved(fresh, training={"batch_size": 9})) == "its recipe changed"
    assert stale_reason(moved(fresh, model_version=0)) == f"model version was 0, is {get_model('tape-lstm').version}"
    other = fresh.model_copy(update={"provenance": fresh.provenance.model_copy(update={"source_hash": "0"})})
    assert stale_reason(other) == "the model's source changed"


def test_a_run_is_stale_where_it_had_another_number_of_examples(fresh, monkeypatch):
    task = get_task("ntm/copy")
    today = task.budgets["smoke"]
    reason = f"training examples were {today + 1_000:,}, are {today:,}"
    assert stale_reason(moved(fresh, examples=today + 1_000)) == reason
    for gone in ({"budget": "none"}, {"regime": "none"}):
        assert stale_reason(moved(fresh, examples=today + 1_000, **gone)) is None
    monkeypatch.setattr(type(task), "regime_budgets", {"default": {"smoke": 7_000}})
    assert stale_reason(fresh) == f"training examples were {today:,}, are 7,000"
    assert stale_reason(moved(fresh, examples=7_000)) is None


def test_a_recipe_may_set_the_number_of_examples(fresh, monkeypatch):
    recipe = recipes.get_recipe("small").model_copy(update={"training": Training(examples=96)})
    monkeypatch.setattr(recipes, "get_recipe", lambda name: recipe)
    assert stale_reason(moved(fresh, examples=96)) is None
    assert stale_reason(fresh) == f"training examples were {fresh.identity.examples:,}, are 96"


def test_a_reproduction_with_the_source_of_today_clears_a_stale_cell(fresh):
    old = fresh.model_copy(update={"provenance": fresh.provenance.model_copy(update={"source_hash": "0"})})
    again = Reproduction(seed=0, source_hash=fresh.provenance.source_hash, commit=None, exact=False, finished="now")
    cleared = old.model_copy(update={"reproductions": [again]})
    assert stale_reason(cleared) is None
    earlier = old.model_copy(update={"reproductions": [again.model_copy(update={"source_hash": "1"})]})
    assert stale_reason(earlier) == "the model's source changed"
    assert stale_reason(moved(cleared, hyperparameters={"hidden": 9})) == "its recipe changed"


def test_a_row_with_settings_of_its_own_has_no_recipe_to_follow(fresh):
    assert stale_reason(moved(fresh, row="small+hidden=9", hyperparameters={"hidden": 9})) is None


def test_what_cannot_be_loaded_or_is_no_training_is_not_stale(fresh):
    assert stale_reason(moved(fresh, model="no.such.module:Model")) is None
    assert stale_reason(moved(fresh, task="toy/none")) is None
    assert stale_reason(moved(fresh, model_version=0).model_copy(update={"kind": "reference"})) is None


def test_the_processor_has_a_name():
    assert provenance.cpu_name() == provenance.cpu_name() != ""


def test_a_run_has_finished_when_it_ends_and_not_when_it_began(tmp_path, monkeypatch):
    began = collect(None, 1).model_copy(update={"finished": "2001-01-01T00:00:00+00:00"})
    monkeypatch.setattr(provenance, "collect", lambda model, threads: began)
    model = f"{Path(__file__).parent / 'test_training.py'}:Tiny"
    planned = make_plan(model, "ntm/copy", budget="smoke", seeds=[0], settings=["examples=64"]).runs[0]
    before = datetime.now(UTC).replace(microsecond=0)
    _, run = execution.execute(planned, tmp_path, mlflow=False, quiet=True)
    assert before <= datetime.fromisoformat(run.provenance.finished) <= datetime.now(UTC)
    assert len(run.provenance.finished) == len(began.finished)
    assert run.provenance == began.model_copy(update={"finished": run.provenance.finished})
