"""Recipes: a row of the board is a model with hyperparameters and training settings, by task where they differ."""

import fnmatch
import hashlib
import inspect
import math
import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.errors import UserError, unknown
from harness.records import LONGEST_TUNING, Name, canonical_json
from harness.registry import load_model_class, model_names, recipe_folders
from harness.task import Task

COMMUNITY_COLOUR = "#949494"
Marker = Literal["o", "s", "D", "^", "v", "P", "X", "*", "<", ">", "d", "p"]
"""Matplotlib's names of the markers that tell rows apart where colours do not."""
LONGEST_SUFFIX = 80
"""Characters of a row name that say what was overridden: it is a folder name, too."""


class _Loader(yaml.SafeLoader):
    """YAML with ``3e-4`` for a number, which YAML 1.1 takes for a string."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def _storable(hyperparameters: dict[str, Any]) -> dict[str, Any]:
    """Refuse what a bundle cannot hold: values that are not JSON, and numbers that are not finite."""
    for name, value in hyperparameters.items():
        try:
            canonical_json({name: value})
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} is {value!r}, which JSON cannot hold (numbers have to be finite)") from error
    return hyperparameters


Hyperparameters = Annotated[dict[str, Any], AfterValidator(_storable)]


class Strict(BaseModel):
    """A key that the schema does not know is an error, and so is a number that is not finite: no bundle can hold it."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Phase(Strict):
    """A stretch of training. What is not given is as in the rest of the recipe.

    ``examples`` is a share of the budget where it is at most 1, else a number. ``learning_rate`` is set on every
    parameter group, and as the base of every scheduler, when the phase begins; a model that defines
    ``on_phase(name)`` is told.
    """

    name: str
    examples: float = Field(gt=0, le=1e15)
    split: str | None = None
    batch_size: int | None = Field(None, ge=1)
    learning_rate: float | None = Field(None, gt=0)


class Training(Strict):
    """How the harness trains: nothing here is the model's own business.

    ``precision`` is Lightning's, of training steps alone: validation and tests are predicted in single precision.
    ``accelerator``, ``devices`` and ``strategy`` are Lightning's, too; they are settings, for they move the numbers.
    Each of several devices takes its share of the rows of every batch.
    """

    batch_size: int = Field(64, ge=1)
    clip_norm: float | None = Field(None, gt=0)
    clip_value: float | None = Field(None, gt=0)
    precision: Literal["32-true", "16-mixed", "bf16-mixed"] = "32-true"
    accelerator: Literal["cpu", "gpu"] = "cpu"
    devices: int = Field(1, ge=1)
    strategy: str = "auto"
    checkpoint: Literal["best", "last"] = "best"
    validations: int = Field(20, ge=1, le=10_000)
    examples: int | None = Field(None, ge=1)
    phases: list[Phase] = []

    @model_validator(mode="after")
    def _consistent(self) -> "Training":
        if self.clip_norm is not None and self.clip_value is not None:
            raise ValueError("clip_norm and clip_value exclude each other")
        if self.batch_size % self.devices:
            raise ValueError(f"batch_size {self.batch_size} cannot be shared evenly by {self.devices} devices")
        return self


class TaskOverride(Strict):
    """What a recipe does differently on the tasks that a glob names."""

    hyperparameters: Hyperparameters = {}
    training: dict[str, Any] = {}


class Recipe(Strict):
    """One YAML file, or one model with its defaults.

    ``row`` names it on the board; ``community`` says that it did not come with an installed package.
    """

    row: Name
    model: str
    title: str
    paper: str = ""
    colour: str = Field(COMMUNITY_COLOUR, pattern=r"^#[0-9a-fA-F]{6}$")
    marker: Marker | None = None
    hyperparameters: Hyperparameters = {}
    training: Training = Training()
    tasks: dict[str, TaskOverride] = {}
    tuning: str = Field("", max_length=LONGEST_TUNING)
    community: bool = False

    def resolve(self, task: Task) -> "Recipe":
        """Return the recipe with what it says for ``task`` merged in, later globs last, and no ``tasks`` left."""
        hyperparameters, training = dict(self.hyperparameters), self.training.model_dump(exclude_unset=True)
        for pattern, override in self.tasks.items():
            if fnmatch.fnmatch(task.name, pattern):
                hyperparameters |= override.hyperparameters
                training |= override.training
        return self.model_copy(
            update={
                "hyperparameters": hyperparameters,
                "training": validated(Training, training, self.row),
                "tasks": {},
            }
        )


def validated(schema: type[Any], content: Any, source: str) -> Any:
    """Return ``content`` as a ``schema``; the first complaint becomes one line with the key and the valid ones."""
    try:
        return schema.model_validate(content)
    except ValidationError as error:
        wrong = sorted(
            error.errors(), key=lambda each: each["type"] != "extra_forbidden"
        )  # a misspelled key is missing
        first = wrong[0]
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            owner = schema
            for part in first["loc"][:-1]:
                owner = _field_schema(owner, part)
            *above, key = map(str, first["loc"])
            place = f"{source}, {'.'.join(above)}" if above else source
            raise unknown(f"key in {place}:", key, owner.model_fields) from error
        if first["type"] == "missing":
            raise UserError(f"{source} lacks the key {where!r}") from error
        raise UserError(f"{source}: {where} = {first['input']!r} is not valid: {first['msg']}") from error


def _field_schema(owner: type[Any], part: Any) -> type[Any]:
    """Return the schema below ``owner`` at one step of a validation error's location."""
    nested = {"training": Training, "tasks": TaskOverride, "phases": Phase}
    return nested.get(part, owner) if isinstance(part, str) else owner


@lru_cache
def recipe_paths() -> dict[str, Path]:
    """Return the YAML file of every installed row by row name."""
    paths: dict[str, Path] = {}
    for folder in recipe_folders():
        for path in sorted(folder.glob("*.yaml")):
            if path.stem in paths:
                raise UserError(f"row {path.stem!r} is defined twice: {paths[path.stem]} and {path}")
            paths[path.stem] = path
    return paths


def read_mapping(path: Path, kind: str, required: str) -> dict[str, Any]:
    """Read a YAML file of one mapping; ``kind`` and the key ``required`` are for the messages of a ``UserError``."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{kind} {path} cannot be read: {error}") from error
    except (yaml.YAMLError, ValueError) as error:  # a date that does not exist is a ValueError
        raise UserError(f"{kind} {path} is not valid YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(content, dict):
        raise UserError(f"{kind} {path} must be a mapping with at least the key {required!r}")
    return content


def read_recipe(path: Path, *, community: bool) -> Recipe:
    """Read one YAML file; the row is named by the file."""
    content = read_mapping(path, "recipe", "model")
    for key in ("row", "community"):
        if key in content:
            raise UserError(f"recipe {path.name}: {key} is not for a recipe to say; the file names the row")
    given = {"row": path.stem, "title": path.stem, "community": community}
    return validated(Recipe, given | content, f"recipe {path.name}")


@lru_cache
def get_recipe(name: str) -> Recipe:
    """Return the recipe of a row, of a YAML file, or of a model with its defaults.

    ``name`` is a row of the board, ``path/to/row.yaml``, or anything that names a model.
    """
    if name in recipe_paths():
        return read_recipe(recipe_paths()[name], community=False)
    if name.endswith((".yaml", ".yml")):
        installed = recipe_paths().get(Path(name).stem)
        if installed is not None and installed.resolve() != Path(name).resolve():
            raise UserError(f"recipe {name}: {Path(name).stem!r} is a row of an installed package; rename the file")
        return read_recipe(Path(name), community=installed is None)
    if name.endswith(".py"):
        load_model_class(f"{name}:")  # which says that it has no such class, and those that it has
    if ":" not in name and name not in model_names():
        raise unknown("row or model", name, {*recipe_paths(), *model_names()})
    return Recipe(row=row_name(name), model=name, title=row_name(name), community=":" in name)


def comes_with_a_package(row: str, model: str) -> bool:
    """Return whether an installed package has a row, of this model."""
    return row in {*recipe_paths(), *model_names()} and get_recipe(row).model == model


def sources(name: str) -> list[Path]:
    """Return the files of one's own that a name stands for: a recipe, a model file; none for what is installed."""
    files = [Path(name)] if name.endswith((".yaml", ".yml")) else []
    where = get_recipe(name).model.rpartition(":")[0]
    return files + ([Path(where)] if where.endswith(".py") else [])


def match_recipes(pattern: str) -> list[Recipe]:
    """Return the installed rows that a glob such as ``tape-*`` matches, or the one recipe that ``pattern`` names."""
    if any(char in pattern for char in "*?["):
        rows = fnmatch.filter(sorted(recipe_paths()), pattern)
        if not rows:
            raise unknown("row", pattern, recipe_paths())
        return [get_recipe(row) for row in rows]
    return [get_recipe(pattern)]


def row_name(model: str) -> str:
    """Return ``my-model`` for ``path/my_model.py:MyModel``, after the file's name where an installed row has it."""
    where, _, class_name = model.rpartition(":")
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", class_name).replace("_", "-").lower()
    file = re.split(r"[/\\.]", where.removesuffix(".py"))[-1].replace("_", "-").lower()
    return f"{file}-{name}" if where and name in {*recipe_paths(), *model_names()} else name


def hyperparameter_names(model: type[Any]) -> list[str]:
    """Return the constructor's parameters after ``self`` and ``spec``."""
    return [name for name in list(inspect.signature(model.__init__).parameters)[2:] if name != "kwargs"]


def override(recipe: Recipe, settings: list[str]) -> Recipe:
    """Return ``recipe`` with ``key=value`` settings applied, and a row name that says so.

    A key is a hyperparameter of the model or a setting of training; values are YAML (``3e-4``, ``true``, ``gru``).
    """
    if not settings:
        return recipe
    names = hyperparameter_names(load_model_class(recipe.model))
    hyperparameters, training = {}, {}
    for setting in settings:
        key, separator, text = setting.partition("=")
        if not separator:
            raise UserError(f"--set {setting!r} is not valid: write key=value")
        if key in hyperparameters or key in training:
            raise UserError(f"--set {setting!r} is not valid: {key} is set already")
        value = _scalar(text)
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"--set {setting!r} is not valid: the value must be finite")
        if key in names:
            hyperparameters[key] = value
        elif key in Training.model_fields and key != "phases":
            training[key] = value
        else:
            raise unknown(f"key for {recipe.row}", key, [*names, *(k for k in Training.model_fields if k != "phases")])
    suffix = ",".join(sorted(settings))
    plain = re.sub(r"[^A-Za-z0-9=.,+-]", "_", suffix)[:LONGEST_SUFFIX]
    # Two different settings may not share a name: `a=1,b=2` may be one of a text, or two.
    if plain != suffix or any("," in setting for setting in settings):
        plain += f"~{hashlib.sha256(suffix.encode()).hexdigest()[:6]}"
    content = {"hyperparameters": hyperparameters, "training": training}
    everywhere = validated(TaskOverride, content, f"--set for {recipe.row}")
    changed = {
        "row": f"{recipe.row}+{plain}",
        "title": f"{recipe.title} ({suffix})",
        "tasks": {**recipe.tasks, "**": everywhere},  # after, and beside, a recipe's own "*"
        "community": True,
        "colour": COMMUNITY_COLOUR,
        "tuning": "",  # what was tuned was another row
    }
    return recipe.model_copy(update=changed)


def _scalar(text: str) -> Any:
    """Read a YAML value; ``3e-4``, which YAML 1.1 takes for a string, is a number."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"--set value {text!r} cannot be read: {str(error).splitlines()[0]}") from error
