"""Where numbers come from: hashes that see code and not layout, a dirty flag that sees code alone, stale cells."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from harness import provenance
from harness import recipe as recipes
from harness.model import get_model
from harness.plan import identify
from harness.provenance import collect, source_hash, stale_reason
from harness.recipe import Recipe, Training
from harness.records import Reproduction, Run
from harness.registry import get_task

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
