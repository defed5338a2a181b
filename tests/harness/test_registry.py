"""Names to classes: every way to be wrong is one line that names the thing and the valid choices."""

import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from harness import registry
from harness.errors import UserError
from harness.registry import get_task, load_model_class, match_tasks, model_names, task_names
from harness.task import Task

MODEL = """
class MyModel:
    size = 3

class Other:
    pass
"""

TASK = """
from harness.task import Task

class Half(Task):
    name = "toy/half"
    version = 1
"""


@pytest.fixture
def entries(monkeypatch):
    """Replace the entry points by those that a test gives."""

    def replace(*points: tuple[str, str, str]) -> None:
        found = [EntryPoint(name, value, group) for group, name, value in points]
        monkeypatch.setattr(registry, "entry_points", lambda group: [e for e in found if e.group == group])
        registry._entries.cache_clear()

    yield replace
    monkeypatch.undo()
    registry._entries.cache_clear()


@pytest.fixture
def write(tmp_path):
    def file(text: str, name: str = "my_model.py") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return file


def test_installed_tasks_and_models_load():
    assert {"seq2seq/copy", "ntm/copy"} <= set(task_names())
    assert task_names() == sorted(task_names())
    for name in task_names():
        assert isinstance(get_task(name), Task)
        assert get_task(name) is get_task(name)
    for name in model_names():
        assert isinstance(load_model_class(name), type)


@pytest.mark.parametrize(
    ("load", "name", "message"),
    [
        (get_task, "seq2seq/cpoy", "unknown task 'seq2seq/cpoy'. Did you mean 'seq2seq/copy'? Valid: "),
        (match_tasks, "nothing/*", "unknown task 'nothing/*'."),
        (match_tasks, "ntm/cop", "Did you mean 'ntm/copy'?"),
        (load_model_class, "bahdanua", "unknown model 'bahdanua'. Did you mean 'bahdanau'? Valid: "),
    ],
)
def test_unknown_names_are_refused_with_a_suggestion(load, name, message):
    with pytest.raises(UserError, match=re.escape(message)):
        load(name)


def test_a_glob_names_several_tasks():
    assert [task.name for task in match_tasks("*/copy")] == [n for n in task_names() if n.endswith("/copy")]
    assert [task.name for task in match_tasks("ntm/copy")] == ["ntm/copy"]
    assert [task.name for task in match_tasks("tasks.ntm.copy:Copy")] == ["ntm/copy"]


def test_a_class_comes_from_a_file_a_module_or_an_entry_point(write, entries):
    path = write(MODEL)
    loaded = load_model_class(f"{path}:MyModel")
    assert loaded.size == 3
    assert load_model_class(f"{path}:MyModel") is loaded
    assert load_model_class("baselines.lstm:LSTM").__name__ == "LSTM"
    entries((registry.MODELS, "mine", "baselines.lstm:LSTM"))
    assert load_model_class("mine") is load_model_class("baselines.lstm:LSTM")
    assert model_names() == ["mine"]


def test_a_file_may_import_its_neighbours(write):
    write("WIDTH = 7\n", "neighbour_of_mine.py")
    before = list(sys.path)
    path = write("from neighbour_of_mine import WIDTH\nclass MyModel:\n    width = WIDTH\n")
    assert load_model_class(f"{path}:MyModel").width == 7
    assert sys.path == before


def test_two_files_of_one_name_are_two_modules(tmp_path):
    for folder, value in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "m.py").write_text(f"class M:\n    value = {value}\n")
    assert [load_model_class(f"{tmp_path / folder}/m.py:M").value for folder in "ab"] == [1, 2]


def test_a_relative_path_is_found_from_where_one_stands(write, monkeypatch):
    path = write(MODEL, "standing.py")
    monkeypatch.chdir(path.parent)
    assert load_model_class("standing.py:MyModel") is load_model_class(f"{path}:MyModel")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class A:\n    def f(self:\n", "model file my_model.py: syntax error in line 2: "),
        (
            "import no_such_package_here\n",
            "model file my_model.py fails to import: ModuleNotFoundError: No module named",
        ),
        ("x = 1 / 0\n", "model file my_model.py fails to import: ZeroDivisionError: division by zero"),
        ("raise ValueError('no')\n", "fails to import: ValueError: no"),
        ("\0", "my_model.py"),
    ],
    ids=["syntax", "missing package", "division", "raise", "null byte"],
)
def test_a_file_that_fails_to_import_is_named(write, text, message):
    path = write(text)
    before = list(sys.path)
    with pytest.raises(UserError, match=re.escape(message)):
        load_model_class(f"{path}:MyModel")
    assert sys.path == before
    path.write_text(MODEL)  # nothing half-imported is left: the mended file loads
    assert load_model_class(f"{path}:MyModel").size == 3


def test_a_syntax_error_in_a_neighbour_names_the_neighbour(write):
    write("def f(:\n", "broken_neighbour.py")
    path = write("\n\n\nimport broken_neighbour\n")
    with pytest.raises(UserError, match="broken_neighbour"):
        load_model_class(f"{path}:MyModel")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("MyModle", "Did you mean 'MyModel'? Valid: MyModel, Other"),
        ("", "unknown model class in "),
    ],
)
def test_a_missing_class_is_refused_with_those_there_are(write, name, message):
    with pytest.raises(UserError, match=re.escape(message)):
        load_model_class(f"{write(MODEL)}:{name}")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no/such/file.py:MyModel", "model file 'no/such/file.py' does not exist"),
        ("no_such_module:MyModel", "model module 'no_such_module' cannot be imported: No module named"),
        ("baselines.no_such:MyModel", "model module 'baselines.no_such' cannot be imported"),
        (":MyModel", "model module '' fails to import"),
        ("baselines.lstm:Lstm", "unknown model class in baselines.lstm 'Lstm'."),
    ],
)
def test_a_module_or_file_that_is_not_there_is_named(name, message):
    with pytest.raises(UserError, match=re.escape(message)):
        load_model_class(name)


def test_a_folder_is_not_a_file(tmp_path):
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(UserError, match="does not exist"):
        load_model_class(f"{tmp_path}/folder.py:MyModel")


def test_a_name_that_two_packages_claim_is_an_error_that_names_both(entries):
    entries((registry.MODELS, "lstm", "baselines.lstm:LSTM"), (registry.MODELS, "lstm", "stranger.lstm:LSTM"))
    message = "readhead.models 'lstm' is defined twice: baselines.lstm:LSTM and stranger.lstm:LSTM"
    with pytest.raises(UserError, match=re.escape(message)):
        model_names()


def test_one_package_seen_twice_is_no_conflict(entries):
    entries(*[(registry.MODELS, "lstm", "baselines.lstm:LSTM")] * 2)
    assert model_names() == ["lstm"]


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (MODEL, "MyModel", "is not a task class: it must derive from harness.task.Task"),
        ("Half = 3\n", "Half", "is not a task class"),
        (TASK, "Half", "generate"),  # what is still to be written is named
    ],
    ids=["no task", "no class", "abstract"],
)
def test_what_is_no_task_is_refused(write, text, name, message):
    with pytest.raises(UserError, match=message):
        get_task(f"{write(text, 'my_task.py')}:{name}")


def test_recipe_folders_lie_in_their_package():
    folders = registry.recipe_folders()
    assert [folder.name for folder in folders] == ["recipes"] * len(folders)
    assert all(path.name == "published.csv" and path.exists() for path in registry.published_files())
