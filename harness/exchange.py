"""For models that this harness does not train: a task's data as files, and scores for predictions made elsewhere."""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness import provenance
from harness.errors import CorruptBundleError, PredictionError, UserError, unknown
from harness.evaluation import score_split
from harness.families.base import Examples, Stored
from harness.files import write_whole
from harness.groups import require_seeds_alike
from harness.plan import untrained_identity
from harness.recipe import recipe_paths
from harness.records import LARGEST_SEED, LONGEST_TUNING, Run, Score
from harness.registry import model_names
from harness.results import EXTERNAL_BUDGET, npz_arrays, npz_bytes, require_writable, runs_folder, write_bundle
from harness.splits import BLOCK, AnySplit, Stream, stream_sample
from harness.task import Task, combined_fingerprint

FORMATS = ("npz", "jsonl")
STREAMED = 10_240
"""Training examples exported of an unbounded stream, unless more are asked for."""
LONGEST_TITLE = 200
ROW_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")


def export_data(task: Task, regime: str, folder: Path, form: str = "npz", training: int = STREAMED) -> Iterator[Path]:
    """Write a regime's splits below ``folder`` and yield each file: what a model needs that is trained elsewhere.

    Training and validation examples hold inputs and targets; those of the tests hold inputs, and their targets lie in
    ``targets/``. Of an unbounded training stream the first ``training`` examples are written, in whole blocks of 256.
    ``task.json`` says what the arrays are, and what a file of predictions has to hold. Raises ``UserError`` for an
    unknown format, for a folder that cannot be written, and for one that holds another export: one ``task.json``
    describes one.
    """
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    if training < 1:
        raise UserError(f"training examples {training} is not valid: it must be at least 1")
    named = task.regime(regime)
    absent = task.missing(regime)
    if absent is not None:
        raise UserError(f"{task.name}:{regime} cannot be exported: {absent}")
    _require_same_export(task, regime, folder, form)
    try:
        (folder / "targets").mkdir(parents=True, exist_ok=True)
        about = json.dumps(_description(task, regime, form), indent=1) + "\n"
        yield write_whole(folder / "task.json", about.encode())
        for name in (named.train, named.validation):
            examples = _examples(task, task.split(name), training)
            yield write_whole(folder / f"{name}.{form}", _packed(examples, form, ("inputs", "targets"), task))
        for name in named.tests:
            examples = task.load(name)
            yield write_whole(folder / f"{name}.{form}", _packed(examples, form, ("inputs",), task))
            yield write_whole(folder / "targets" / f"{name}.{form}", _packed(examples, form, ("targets",), task))
    except OSError as error:
        raise UserError(f"{error.filename or folder} cannot be written: {error.strerror}") from error


def _require_same_export(task: Task, regime: str, folder: Path, form: str) -> None:
    """Refuse a folder that holds another task, regime or format."""
    try:
        found = json.loads((folder / "task.json").read_text())
        held = [found[key] for key in ("task", "regime", "format")]
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError, KeyError, TypeError):
        held = ["something else"]
    if held != [task.name, regime, form]:
        raise UserError(f"{folder / 'task.json'} is of {', '.join(map(str, held))}; choose another folder with --out")


def _examples(task: Task, split: AnySplit, training: int) -> Examples:
    """Return a bounded split, or the beginning of a stream."""
    if isinstance(split, Stream):
        return stream_sample(task, split, -(-training // BLOCK) * BLOCK)
    return task.load(split.name)


def _packed(examples: Examples, form: str, sides: tuple[str, ...], task: Task) -> bytes:
    """Return examples as a compressed npz of padded arrays, or as JSON lines without padding."""
    if form == "npz":
        arrays = {f"{side}/{name}": np.array(a) for side in sides for name, a in getattr(examples, side).items()}
        return npz_bytes(arrays | {"sizes": examples.sizes})
    lines = []
    for row in range(len(examples)):
        one = task.family.trim(examples.take(slice(row, row + 1)))
        content: dict[str, Any] = {"size": int(one.sizes[0])}
        for side in sides:
            content[side] = {name: np.array(array)[0].tolist() for name, array in getattr(one, side).items()}
        lines.append(json.dumps(content, separators=(",", ":")) + "\n")
    return "".join(lines).encode()


def _description(task: Task, regime: str, form: str) -> dict[str, Any]:
    """Return what ``task.json`` holds."""
    family = task.family
    named = task.regime(regime)
    return {
        "task": task.name,
        "version": task.version,
        "regime": regime,
        "fingerprint": combined_fingerprint(task, regime),
        "format": form,
        "family": family.name,
        "spec": vars(task.spec(regime)),
        "inputs": " ".join((family.Inputs.__doc__ or "").split()),
        "targets": " ".join((family.Targets.__doc__ or "").split()),
        "predictions": " ".join((family.Prediction.__doc__ or "").split()),
        "prediction arrays": [f"{split}/{field.name}" for split in named.tests for field in fields(family.Prediction)],
        "splits": {"training": named.train, "validation": named.validation, "tests": list(named.tests)},
        "budgets": {name: task.budget(name, regime) for name in task.budgets},
    }


def score_predictions(
    task: Task,
    regime: str,
    path: Path,
    row: str,
    results: Path,
    *,
    seed: int = 0,
    title: str = "",
    tuning: str = "",
    force: bool = False,
) -> tuple[Path, Run]:
    """Score predictions that were made elsewhere and return their bundle, of kind ``external``, and its run.

    ``path`` is an npz of the arrays of the family's ``Prediction``, keyed ``<split>/<field>``, a row an example in the
    order of the exported split. The first test must be there; other tests may be left out. ``tuning`` says what was
    tuned, on what, over how many trials. With ``force`` an older bundle of the same row and seed is replaced. Raises
    ``UserError`` that names the file, the array and what is wrong with it.
    """
    _require_row(row, task)
    if not 0 <= seed <= LARGEST_SEED:
        raise UserError(f"seed {seed} is not valid: a whole number from 0 to {LARGEST_SEED}")
    title, tuning = _text("title", title, LONGEST_TITLE), _text("tuning", tuning, LONGEST_TUNING)
    identity = untrained_identity(task, regime, row, EXTERNAL_BUDGET, seed)
    target = runs_folder(results) / identity.folder
    if target.exists() and not force:
        raise UserError(f"{identity.label} has been scored: {target}; another run has another --seed, or use --force")
    require_seeds_alike(results, [identity])
    require_writable(results)
    named, spec = task.regime(regime), task.spec(regime)
    arrays = _read(path)
    given = {name.rpartition("/")[0] for name in arrays}
    for split in sorted(given - set(named.tests)):
        raise unknown(f"split in {path.name}", split, named.tests)
    if named.tests[0] not in given:
        raise UserError(f"{path.name} has no predictions for {named.tests[0]}, the test that ranks")
    stored: dict[str, Stored] = {}
    scores: list[Score] = []
    for split in named.tests:
        if split in given:
            own = {name.rpartition("/")[2]: array for name, array in arrays.items() if name.rpartition("/")[0] == split}
            stored[split] = _stored(task, spec, split, own, path)
            scores += score_split(task, split, stored[split], task.load(split))
    run = Run(
        kind="external",
        status="completed",
        identity=identity,
        title=title or row,
        tuning=tuning,
        signatures={metric.name: metric.signature for metric in task.metrics if metric.signature},
        scores=scores,
        unsupported={split: "no predictions were sent" for split in named.tests if split not in given},
        provenance=provenance.collect(None, threads=1),
    )
    return write_bundle(results, run, stored), run


def _text(name: str, text: str, longest: int) -> str:
    """Return a text on one line; refuse what no file and no table can hold."""
    text = " ".join(text.split())
    bad = next((char for char in text if unicodedata.category(char) in ("Cc", "Cs")), None)
    if bad is not None:
        raise UserError(f"{name} is not valid: the character {bad!r} cannot be printed; give it in UTF-8")
    if len(text) > longest:
        raise UserError(f"{name} of {len(text):,} characters is not valid: at most {longest:,}")
    return text


def _require_row(row: str, task: Task) -> None:
    """Refuse names that are no folder names, or somebody else's."""
    if not ROW_NAME.fullmatch(row):
        raise UserError(f"row {row!r} is not valid: lower-case letters, digits, dots and hyphens, 64 at most")
    if row in {*recipe_paths(), *model_names(), *task.references()}:
        raise UserError(f"row {row!r} is taken by a row of the board; choose another name")


def _read(path: Path) -> Mapping[str, np.ndarray]:
    try:
        return npz_arrays(path.read_bytes(), path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except CorruptBundleError as error:
        raise UserError(str(error)) from error


def _stored(task: Task, spec: Any, split: str, arrays: Mapping[str, np.ndarray], path: Path) -> Stored:
    """Return one split's predictions in stored form, checked as a model's are."""
    family, examples = task.family, task.load(split)
    known = [field.name for field in fields(family.Prediction)]
    for name in arrays:
        if name not in known:
            raise unknown(f"array for {split} in {path.name}", name, known)
    tensors = {}
    for name, array in arrays.items():
        if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
            raise UserError(f"{path.name}, {split}/{name}: dtype {array.dtype} is not valid: whole or real numbers")
        whole = np.issubdtype(array.dtype, np.integer)
        tensors[name] = torch.from_numpy(array.astype(np.int64 if whole else np.float32))
    try:
        stored = family.store(family.Prediction(**tensors), family.batch(examples), spec)
        family.check_stored(stored, examples)
    except (PredictionError, CorruptBundleError, TypeError) as error:
        raise UserError(f"{path.name}, {split}: {str(error).removeprefix('predict_step returned ')}") from error
    return stored
