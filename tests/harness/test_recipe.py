"""Recipes: unknown keys at every level, the order in which overrides merge, ``--set``, names of rows."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import recipe as recipes
from harness.errors import UserError
from harness.recipe import (
    COMMUNITY_COLOUR,
    Phase,
    Recipe,
    TaskOverride,
    Training,
    get_recipe,
    match_recipes,
    override,
    read_recipe,
)
from harness.registry import get_task

MODEL = """
class GatedThing:
    def __init__(self, spec, *, width=8, layers=1, rate=0.1, cell="gru", gated=False, **kwargs):
        pass
"""


@pytest.fixture
def write(tmp_path):
    def file(text: str, name: str = "my-row.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return file


@pytest.fixture
def thing(tmp_path) -> Recipe:
    """A recipe of a small model in a file."""
    (tmp_path / "thing.py").write_text(MODEL)
    return Recipe(row="thing", title="Thing", model=f"{tmp_path}/thing.py:GatedThing", colour="#123456")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Replace the installed rows by files of the test's own."""
    for name in ("tape-lstm", "tape-ntm", "luong"):
        (tmp_path / f"{name}.yaml").write_text(f"model: lstm\ntitle: {name}!\n")
    paths = {path.stem: path for path in sorted(tmp_path.glob("*.yaml"))}
    monkeypatch.setattr(recipes, "recipe_paths", lambda: paths)
    get_recipe.cache_clear()
    yield paths
    get_recipe.cache_clear()


# Files


def test_a_file_names_its_row_and_needs_only_a_model(write):
    recipe = read_recipe(write("model: lstm\n"), community=True)
    assert (recipe.row, recipe.title, recipe.model, recipe.community) == ("my-row", "my-row", "lstm", True)
    assert recipe.training == Training()
    full = """
model: lstm
title: My row
paper: Somebody 2020
colour: "#ff0000"
hyperparameters: {hidden: 64}
training: {batch_size: 32, clip_norm: 5, checkpoint: last, phases: [{name: warm, examples: 0.1, learning_rate: 0.01}]}
tasks:
  seq2seq/*: {hyperparameters: {hidden: 128}, training: {batch_size: 16}}
tuning: learning rate, 5 trials
"""
    recipe = read_recipe(write(full), community=False)
    assert recipe.title == "My row"
    assert recipe.training.phases == [Phase(name="warm", examples=0.1, learning_rate=0.01)]
    assert not recipe.community


@pytest.mark.parametrize("key", ["row: bahdanau", "community: false"])
def test_a_file_cannot_pass_for_an_installed_row(write, key):
    path = write(f"model: lstm\n{key}\n")
    try:
        recipe = read_recipe(path, community=True)
    except UserError:
        return
    assert (recipe.row, recipe.community) == ("my-row", True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: [lstm\n", "is not valid YAML"),
        ("model: lstm\n\ttitle: tab\n", "is not valid YAML"),
        ("model: !!python/object/apply:os.getcwd []\n", "is not valid YAML"),
        ("", "must be a mapping with at least the key 'model'"),
        ("- lstm\n", "must be a mapping"),
        ("lstm\n", "must be a mapping"),
        ("title: no model\n", "model"),
        ("model: 3\n", "recipe my-row.yaml: model = 3 is not valid"),
        ("1: 2\nmodel: lstm\n", "recipe my-row.yaml"),
        ("model: lstm\ntraining: 3\n", "training = 3 is not valid"),
        ("model: lstm\ntraining: {batch_size: 0}\n", "training.batch_size = 0 is not valid"),
        ("model: lstm\ntraining: {batch_size: many}\n", "training.batch_size = 'many' is not valid"),
        ("model: lstm\ntraining: {checkpoint: first}\n", "'best' or 'last'"),
        ("model: lstm\ntraining: {clip_norm: -1}\n", "training.clip_norm = -1 is not valid"),
        ("model: lstm\ntraining: {phases: [{name: a, examples: 0}]}\n", "training.phases.0.examples = 0 is not valid"),
        ("model: lstm\nhyperparameters: [1]\n", "hyperparameters"),
        ("model: lstm\ncolour: red\n", "colour = 'red' is not valid"),
        ("model: lstm\nmarker: circle\n", "marker = 'circle' is not valid"),
    ],
)
def test_a_wrong_file_is_refused_by_name(write, text, message):
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        read_recipe(write(text), community=True)
    assert "my-row.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "wrong", "right"),
    [
        ("model: lstm\nhyperparametres: {}\n", "hyperparametres", "hyperparameters"),
        ("model: lstm\ncolor: red\n", "color", "colour"),
        ("model: lstm\ntraining: {bach_size: 3}\n", "bach_size", "batch_size"),
        ("model: lstm\ntraining: {clipnorm: 3}\n", "clipnorm", "clip_norm"),
        ("model: lstm\ntraining: {phases: [{name: a, examples: 1, batchsize: 3}]}\n", "batchsize", "batch_size"),
        (
            "model: lstm\ntraining: {phases: [{name: a, examples: 1, lerning_rate: 3}]}\n",
            "lerning_rate",
            "learning_rate",
        ),
        ("model: lstm\ntasks: {ntm/copy: {hyperparametres: {}}}\n", "hyperparametres", "hyperparameters"),
        ("model: lstm\ntasks: {seq2seq/copy: {trainig: {}}}\n", "trainig", "training"),
    ],
)
def test_an_unknown_key_is_refused_with_a_suggestion_at_every_level(write, text, wrong, right):
    with pytest.raises(UserError, match=wrong) as caught:
        read_recipe(write(text), community=True)
    assert f"Did you mean {right!r}?" in str(caught.value)
    assert "my-row.yaml" in str(caught.value)


def test_the_valid_keys_are_those_of_the_level(write):
    with pytest.raises(UserError, match="Valid: accelerator, batch_size, checkpoint, clip_norm"):
        read_recipe(write("model: lstm\ntraining: {zzz: 3}\n"), community=True)
    with pytest.raises(UserError, match="Valid: batch_size, examples, learning_rate, name, split"):
        read_recipe(write("model: lstm\ntraining: {phases: [{name: a, examples: 1, zzz: 3}]}\n"), community=True)
    with pytest.raises(UserError, match=r"Valid: hyperparameters, training$"):
        read_recipe(write("model: lstm\ntasks: {ntm/copy: {zzz: 3}}\n"), community=True)


def test_an_unknown_training_key_of_a_task_is_refused_at_the_latest_when_it_is_used(write):
    with pytest.raises(UserError, match="Did you mean 'batch_size'"):
        read_recipe(write("model: lstm\ntasks: {ntm/*: {training: {bach_size: 3}}}\n"), community=True).resolve(
            get_task("ntm/copy")
        )


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"no\.yaml cannot be read"):
        read_recipe(tmp_path / "no.yaml", community=True)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00model")
    with pytest.raises(UserError, match=r"binary\.yaml"):
        read_recipe(tmp_path / "binary.yaml", community=True)


def test_a_rate_written_3e_4_is_a_number_wherever_it_stands(write):
    text = """
model: lstm
hyperparameters: {learning_rate: 3e-4}
training: {clip_norm: 1e1}
tasks: {"*": {hyperparameters: {warm_up: 1e-2}}}
"""
    recipe = read_recipe(write(text), community=True)
    assert recipe.hyperparameters["learning_rate"] == 3e-4
    assert recipe.training.clip_norm == 10
    assert recipe.resolve(get_task("ntm/copy")).hyperparameters["warm_up"] == 1e-2


def test_two_ways_to_clip_at_once_are_refused(write):
    with pytest.raises(UserError, match="clip_"):
        read_recipe(write("model: lstm\ntraining: {clip_norm: 5, clip_value: 10}\n"), community=True)


# By task


def test_later_globs_win_and_the_rest_stays():
    recipe = Recipe(
        row="r",
        model="lstm",
        title="r",
        hyperparameters={"hidden": 1, "layers": 1, "embedding": 1},
        training=Training(batch_size=8, validations=5),
        tasks={
            "ntm/*": TaskOverride(hyperparameters={"hidden": 2, "layers": 2}, training={"batch_size": 16}),
            "ntm/copy": TaskOverride(hyperparameters={"hidden": 3}, training={"batch_size": 32}),
            "seq2seq/*": TaskOverride(hyperparameters={"hidden": 9}),
        },
    )
    resolved = recipe.resolve(get_task("ntm/copy"))
    assert resolved.hyperparameters == {"hidden": 3, "layers": 2, "embedding": 1}
    assert resolved.training.model_dump(exclude_unset=True) == {"batch_size": 32, "validations": 5}
    assert resolved.tasks == {}
    other = recipe.resolve(get_task("seq2seq/copy"))
    assert other.hyperparameters["hidden"] == 9
    assert other.training.batch_size == 8
    assert recipe.hyperparameters["hidden"] == 1  # resolving changes nothing
    assert resolved.resolve(get_task("ntm/copy")) == resolved


def test_a_tasks_training_is_validated():
    recipe = Recipe(row="r", model="lstm", title="r", tasks={"*": TaskOverride(training={"batch_size": 0})})
    with pytest.raises(UserError, match=r"r: batch_size = 0 is not valid"):
        recipe.resolve(get_task("ntm/copy"))


# --set


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("width=32", {"width": 32}),
        ("rate=3e-4", {"rate": 3e-4}),
        ("rate=1E+2", {"rate": 100.0}),
        ("rate=-2.5e3", {"rate": -2500.0}),
        ("rate=0.5", {"rate": 0.5}),
        ("gated=true", {"gated": True}),
        ("gated=False", {"gated": False}),
        ("cell=lstm", {"cell": "lstm"}),
        ("cell='1'", {"cell": "1"}),
        ("cell=a=b", {"cell": "a=b"}),
        ("cell=null", {"cell": None}),
        ("width=[1, 2]", {"width": [1, 2]}),
    ],
)
def test_settings_are_yaml_values(thing, setting, expected):
    resolved = override(thing, [setting]).resolve(get_task("ntm/copy"))
    assert resolved.hyperparameters == expected
    value = next(iter(expected.values()))
    assert type(next(iter(resolved.hyperparameters.values()))) is type(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_that_python_writes_is_read_back(value):
    read = recipes._scalar(repr(value))
    assert isinstance(read, float)
    assert read == value


def test_settings_reach_training_too(thing):
    changed = override(thing, ["batch_size=32", "checkpoint=last", "examples=1e3", "width=4"])
    resolved = changed.resolve(get_task("ntm/copy"))
    assert resolved.hyperparameters == {"width": 4}
    assert resolved.training == Training(batch_size=32, checkpoint="last", examples=1000)
    with pytest.raises(UserError, match="batch_size = 'x' is not valid"):
        override(thing, ["batch_size=x"]).resolve(get_task("ntm/copy"))


@pytest.mark.parametrize(
    "tasks",
    [
        {"ntm/copy": TaskOverride(hyperparameters={"width": 1, "layers": 5}, training={"batch_size": 1})},
        {"*": TaskOverride(hyperparameters={"width": 1, "layers": 5}, training={"batch_size": 1})},
        {
            "*": TaskOverride(hyperparameters={"width": 1, "layers": 5}),
            "ntm/*": TaskOverride(hyperparameters={"width": 2}, training={"batch_size": 1}),
        },
    ],
    ids=["task", "star", "star, then task"],
)
def test_a_setting_wins_over_all_that_the_recipe_says_and_leaves_the_rest(thing, tasks):
    recipe = thing.model_copy(update={"tasks": tasks})
    resolved = override(recipe, ["width=32", "batch_size=64"]).resolve(get_task("ntm/copy"))
    assert resolved.hyperparameters == {"width": 32, "layers": 5}
    assert resolved.training.batch_size == 64


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("widht=3", "unknown key for thing 'widht'. Did you mean 'width'?"),
        ("bachsize=3", "Did you mean 'batch_size'?"),
        ("phases=[]", "unknown key for thing 'phases'"),
        ("spec=3", "unknown key for thing 'spec'"),
        ("kwargs=3", "unknown key for thing 'kwargs'"),
        ("width", "--set 'width' is not valid: write key=value"),
        ("=3", "unknown key for thing ''"),
        ("width=[1", "--set value '[1' cannot be read"),
    ],
)
def test_a_wrong_setting_is_refused(thing, setting, message):
    with pytest.raises(UserError, match=re.escape(message)):
        override(thing, [setting])


def test_an_overridden_row_says_so(thing):
    changed = override(thing, ["width=32", "rate=3e-4"])
    assert changed.row == "thing+rate=3e-4,width=32"  # whatever the order
    assert changed.title == "Thing (rate=3e-4,width=32)"
    assert changed.row == override(thing, ["rate=3e-4", "width=32"]).row
    assert changed.community
    assert changed.colour == COMMUNITY_COLOUR
    assert override(thing.model_copy(update={"tuning": "width, 3 trials"}), ["width=32"]).tuning == ""
    assert override(thing, []) is thing
    assert thing.row == "thing"


@pytest.mark.parametrize("setting", ["cell=../../x", "cell=a b", "cell=ä", "width=[1,2]", "cell='x'"])
def test_an_overridden_row_is_a_plain_folder_name(thing, setting):
    row = override(thing, [setting]).row
    assert re.fullmatch(r"[A-Za-z0-9=.+,_-]+~[0-9a-f]{6}", row)


def test_a_key_that_is_set_twice_is_refused(thing):
    """The row would have one name for either value."""
    with pytest.raises(UserError, match="--set 'width=4' is not valid: width is set already"):
        override(thing, ["width=8", "width=4"])


@pytest.mark.parametrize("value", ["2020-01-01", "[.inf]"])
def test_a_setting_that_no_bundle_can_hold_is_refused(thing, value):
    with pytest.raises(UserError, match=r"--set for thing: .*width is .*which JSON cannot hold"):
        override(thing, [f"width={value}"])


@pytest.mark.parametrize("value", ["2020-01-01", ".inf", "[.nan]", "{a: 2020-01-01}"])
@pytest.mark.parametrize("where", ["hyperparameters: ", "tasks: {'*': {hyperparameters: "])
def test_a_hyperparameter_that_no_bundle_can_hold_is_refused(write, where, value):
    path = write(f"model: lstm\ntitle: L\n{where}{{width: {value}}}" + "}}" * where.startswith("tasks"))
    with pytest.raises(UserError, match=r"width is .*which JSON cannot hold"):
        read_recipe(path, community=True)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("training: {clip_norm: .inf}", "training.clip_norm"),
        ("training: {phases: [{name: a, examples: 0.5, learning_rate: .inf}]}", "training.phases.0.learning_rate"),
        ("tasks: {'*': {training: {clip_norm: .inf}}}", "clip_norm"),
    ],
)
def test_a_setting_of_training_must_be_finite_too(write, text, key):
    with pytest.raises(UserError, match=rf"{key} = inf is not valid"):
        read_recipe(write(f"model: lstm\n{text}"), community=True).resolve(get_task("seq2seq/copy"))


def test_two_settings_never_share_a_row_and_a_long_list_fits_a_folder_name(thing):
    assert override(thing, ["cell=a b"]).row != override(thing, ["cell=a_b"]).row
    assert override(thing, ["cell=a,width=8"]).row != override(thing, ["cell=a", "width=8"]).row
    long = [f"cell={'x' * 300}", f"width={2**40}"]
    assert len(override(thing, long).row) < 120
    assert override(thing, long).row != override(thing, [*long, "rate=1"]).row


@pytest.mark.parametrize("text", [".nan", ".inf", "-.inf"])
def test_a_setting_must_be_finite(thing, text):
    with pytest.raises(UserError, match="must be finite"):
        override(thing, [f"rate={text}"])


# Names


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("MyModel", "my-model"),
        ("LSTM", "file-lstm"),  # the installed row keeps its name
        ("Seq2SeqModel", "seq2-seq-model"),
        ("my_model", "my-model"),
        ("X", "x"),
    ],
)
def test_a_model_file_names_its_row(tmp_path, name, row):
    recipe = get_recipe(f"{tmp_path}/file.py:{name}")
    assert (recipe.row, recipe.title, recipe.community) == (row, row, True)
    assert recipe.hyperparameters == {}


def test_a_file_without_a_class_names_those_it_has(tmp_path):
    (tmp_path / "mine.py").write_text("class Mine:\n    pass\n")
    with pytest.raises(UserError, match=r"unknown model class in .*mine\.py ''\. Valid: Mine"):
        get_recipe(str(tmp_path / "mine.py"))
    with pytest.raises(UserError, match="does not exist"):
        get_recipe(str(tmp_path / "yours.py"))


def test_an_installed_model_without_a_recipe_is_a_row():
    recipe = get_recipe("tape-lstm")
    assert (recipe.row, recipe.model, recipe.community) == ("tape-lstm", "tape-lstm", False)


def test_rows_are_found_by_name_and_by_glob(installed):
    assert get_recipe("luong").title == "luong!"
    assert [r.row for r in match_recipes("tape-*")] == ["tape-lstm", "tape-ntm"]
    assert [r.row for r in match_recipes("tape-ntm")] == ["tape-ntm"]
    assert not get_recipe("luong").community
    assert get_recipe(str(installed["luong"])) == get_recipe("luong")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("luogn", "unknown row or model 'luogn'. Did you mean 'luong'?"),
        ("bahdanaus", "Did you mean 'bahdanau'?"),
        ("none-*", "unknown row 'none-*'"),
        ("no-such.yaml", "recipe no-such.yaml cannot be read"),
    ],
)
def test_an_unknown_row_is_refused(installed, name, message):
    with pytest.raises(UserError, match=re.escape(message)):
        match_recipes(name)


def test_a_row_that_two_packages_define_is_an_error(tmp_path, monkeypatch):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lstm.yaml").write_text("model: lstm\n")
    monkeypatch.setattr(recipes, "recipe_folders", lambda: [tmp_path / "a", tmp_path / "b"])
    recipes.recipe_paths.cache_clear()
    with pytest.raises(UserError, match="row 'lstm' is defined twice"):
        recipes.recipe_paths()
    recipes.recipe_paths.cache_clear()


def test_every_installed_recipe_is_valid_on_every_task():
    for name in recipes.recipe_paths():
        recipe = get_recipe(name)
        for task in ("seq2seq/copy", "ntm/copy"):
            recipe.resolve(get_task(task))


def test_a_file_may_not_take_the_name_of_an_installed_row(tmp_path, monkeypatch):
    """Its runs would lie in the folders of the installed row."""
    monkeypatch.chdir(tmp_path)
    Path("lstm.yaml").write_text("model: lstm\n")
    get_recipe.cache_clear()
    with pytest.raises(UserError, match=r"recipe lstm\.yaml: 'lstm' is a row of an installed package; rename the file"):
        get_recipe("lstm.yaml")
    installed = get_recipe(str(recipes.recipe_paths()["lstm"]))
    assert (installed.row, installed.community) == ("lstm", False)


@pytest.mark.parametrize("name", [".hidden", "a$b", "a|b", "<b>"])
def test_a_rows_name_is_a_plain_folder_name(tmp_path, name):
    (tmp_path / f"{name}.yaml").write_text("model: lstm\n")
    with pytest.raises(UserError, match=r"row = .* is not valid"):
        get_recipe(str(tmp_path / f"{name}.yaml"))
