"""Every command as a function.

For example::

    from harness import api

    for done in api.run("bahdanau", "seq2seq/copy", seeds=[0]):
        print(done.run.score("test", "exact_match"))

They raise ``harness.errors.ReadheadError`` where the command would print one line and exit.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import checkpoints as checkpoint_store
from harness.check import Check
from harness.check import check as check
from harness.errors import RunFailedError, UserError, unknown
from harness.execution import execute
from harness.listing import models, rows, runs, show, tasks
from harness.plan import Plan, make_plan
from harness.records import Reproduction, Score
from harness.registry import get_task, match_tasks
from harness.results import REFERENCE_BUDGET, add_reproduction, read_arrays, read_run
from harness.scaffold import new as new
from harness.sweep import Done, run_all
from harness.task import Task, overlap
from harness.verify import Finding, Proof
from harness.verify import prove as prove_labels
from harness.verify import verify as verify

if TYPE_CHECKING:
    import pytorch_lightning as pl

RESULTS = Path("results")


def run(
    row: str,
    task: str,
    *,
    regime: str | None = None,
    budget: str = "standard",
    seeds: Sequence[int] = (0, 1, 2),
    settings: Sequence[str] = (),
    workers: int = 1,
    force: bool = False,
    results: Path = RESULTS,
    mlflow: bool = True,
) -> Iterator[Done]:
    """Train and score rows or models on tasks and yield how each run ended.

    ``row`` is a row of the board, a glob of rows, a recipe file, or a model (``file.py:Class``, ``module:Class``);
    ``task`` a task or a glob; ``settings`` are ``key=value`` overrides. A run that is finished is not run again without
    ``force``; an interrupted one goes on. Raises ``UserError`` for what cannot be run at all.
    """
    plan = make_plan(row, task, regime, budget, seeds, settings)
    yield from run_all(plan.runs, results, workers=workers, force=force, mlflow=mlflow)


def references(task: str = "*", *, results: Path = RESULTS) -> list[Path]:
    """Write the bundles of every reference (floor, ceiling, heuristics) of the tasks that a glob names."""
    from harness.references import run_references

    return run_references(match_tasks(task), results)


def leaderboard(*, results: Path = RESULTS, board: Path | None = None) -> list[Path]:
    """Write the board, its tables and its plots from the bundles of ``results``; return what was written."""
    from harness.leaderboard import write_board

    return write_board(results, board_path(results, board))


def board_path(results: Path, board: Path | None = None) -> Path:
    """Return where the board goes: ``leaderboard.md`` beside ``./results``, else inside the results folder."""
    if board is not None:
        return board
    return Path("leaderboard.md") if results == RESULTS else results / "leaderboard.md"


def load(folder: Path | str) -> "pl.LightningModule":
    """Return the trained model of a bundle, in evaluation mode, where its weights are in this machine's cache.

    ``folder`` is the bundle, e.g. ``results/runs/seq2seq/copy/default/bahdanau/standard/seed-0``.
    """
    import torch

    from harness.model import build, get_model

    run = read_run(Path(folder))
    if run.kind == "reference":
        raise UserError(f"{folder} is a reference; there is no model to load")
    path = checkpoint_store.Checkpoints(run.identity).weights
    if not path.exists():
        command = f"readhead run {run.identity.row} --task {run.identity.task} --seeds {run.identity.seed} --force"
        raise UserError(
            f"the weights of {run.identity.label} are not in the cache {checkpoint_store.cache_folder()}; "
            f"train it again with `{command}`"
        )
    spec = get_task(run.identity.task).spec(run.identity.regime)
    model = build(get_model(run.identity.model), spec, run.identity.hyperparameters, run.identity.row)
    model.load_state_dict(torch.load(path, weights_only=True))
    return model.eval()


def score(folder: Path | str, path: Path | str) -> list[Score]:
    """Score the trained model of a bundle on a file in the format that its task's data was released in.

    Returns the scores over the whole file, then by size where there are several; nothing is stored. ``UserError`` names
    the file and the line of what cannot be read.
    """
    from harness.evaluation import predict, score_split
    from harness.execution import isolated
    from harness.model import unsupported

    run, path = read_run(Path(folder)), Path(path)
    task = get_task(run.identity.task)
    examples = task.read(path)
    spec = task.spec(run.identity.regime)
    with isolated():
        model = load(folder)
        reason = unsupported(type(model), spec, float(examples.sizes.max()))
        if reason is not None:
            raise UserError(f"{run.identity.row} cannot be run on {path}: {reason}")
        return score_split(task, path.name, predict(model, task, spec, examples), examples)


def export(task: str, split: str, path: Path | str | None = None) -> str:
    """Return a bounded split as text, in the format that the task's data was released in; write it to ``path``, too.

    ``UserError`` if the task has no such format, or the file cannot be written.
    """
    found = get_task(task)
    text = found.export(found.bounded(split).name)
    if path is not None:
        try:
            Path(path).write_text(text)
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror}") from error
    return text


def prove(task: str = "*") -> Iterator[Proof]:
    """Prove the committed targets of the tasks that a glob names again, and yield what was proven of each split."""
    yield from prove_labels(match_tasks(task))


def fingerprint(task: str) -> Path:
    """Pin the fingerprints and overlap rates of a task in the JSON beside its module, and return that file."""
    found = get_task(task)
    if found.pinned["splits"]:
        raise UserError(
            f"{found.name} version {found.version} has pinned fingerprints in {found.fingerprint_path.name}; they are "
            "fixed. Raise the task's version to change what a split holds"
        )
    regimes = [regime for regime in found.regimes if found.missing(regime) is None]
    if not regimes:
        raise UserError(f"{found.name} cannot be pinned: {found.missing(next(iter(found.regimes)))}")
    content: dict[str, Any] = {
        "task": found.name,
        "version": found.version,
        "splits": {name: value for regime in regimes for name, value in found.fingerprints(regime).items()},
        "overlap": {regime: overlap(found, regime) for regime in regimes},
    }
    found.fingerprint_path.parent.mkdir(exist_ok=True)
    found.fingerprint_path.write_text(json.dumps(content, indent=1) + "\n")
    return found.fingerprint_path


def find_row(results: Path, task: Task, regime: str, row: str, budget: str) -> list[Path]:
    """Return the bundles of a row's seeds; a ``UserError`` lists the rows there are."""
    folder = results / "runs" / task.name / regime
    found = sorted((folder / row / budget).glob("seed-*/run.json"))
    if not found:
        rows = [path.name for path in folder.glob("*") if (path / budget).is_dir()]
        raise unknown(f"row with {budget} runs on {task.name}:{regime}", row, rows)
    return [path.parent for path in found]


def compare(
    a: str,
    b: str,
    task: str,
    *,
    regime: str | None = None,
    budget: str = "standard",
    metric: str | None = None,
    results: Path = RESULTS,
) -> list[dict[str, Any]]:
    """Compare two rows on the tests that both were scored on.

    Returns one record a split: ``a`` and ``b`` (mean over seeds), ``difference`` a − b, ``low`` and ``high`` of its
    95 % interval (hierarchical paired bootstrap over seeds and examples), ``n``, and ``differs`` where it excludes 0.
    """
    from harness.statistics import compare as paired

    found = get_task(task)
    name = regime if regime is not None else next(iter(found.regimes))
    measure = found.headline if metric is None else found.metric(metric)
    statistics = []
    for row in (a, b):
        seeds = [
            (read_run(folder), folder) for folder in find_row(results, found, name, row, _budget(found, row, budget))
        ]
        arrays = [read_arrays(folder, run) for run, folder in seeds if run.status == "completed"]
        statistics.append(arrays)
    records = []
    for split in found.regime(name).tests:
        if not all(rows and all(split in arrays for arrays in rows) for rows in statistics):
            continue
        examples = found.load(split)
        ours, theirs = ([measure.statistics(arrays[split], examples) for arrays in rows] for rows in statistics)
        result = paired(ours, theirs, measure)
        records.append(
            {
                "split": split,
                "n": len(examples),
                a: np.mean([measure.score(rows) for rows in ours]),
                b: np.mean([measure.score(rows) for rows in theirs]),
                "difference": result.difference,
                "low": result.low,
                "high": result.high,
                "differs": result.separated,
            }
        )
    return records


def reproduce(
    row: str,
    task: str,
    *,
    regime: str | None = None,
    budget: str = "standard",
    seed: int = 0,
    results: Path = RESULTS,
) -> Reproduction:
    """Train one seed of a stored row again and record in the row's bundles that today's code gives its numbers.

    They agree if the predictions are equal, or, as on another processor, if the headline on the first test lies within
    the t interval of the stored seeds. Raises ``RunFailedError`` if it does not, ``UserError`` if there is no such run.
    """
    from harness.statistics import t_interval

    found = get_task(task)
    name = regime if regime is not None else next(iter(found.regimes))
    folders = find_row(results, found, name, row, budget)
    stored = {run.identity.seed: (run, folder) for folder in folders if (run := read_run(folder))}
    if seed not in stored:
        raise unknown(f"seed of {row} on {found.name}:{name}", seed, stored)
    old, _ = stored[seed]
    (planned,) = make_plan(row, task, name, budget, [seed]).runs
    if planned.identity != old.identity:
        raise UserError(f"{old.identity.label} has another identity today (recipe, version or data); run it anew")
    with tempfile.TemporaryDirectory() as scratch:
        _, new = execute(planned, Path(scratch), force=True, mlflow=False)
        exact = new.files["predictions.npz"] == old.files["predictions.npz"]
    metric, split = found.headline, found.regime(name).tests[0]
    values = [value for run, _ in stored.values() if (value := run.score(split, metric.name)) is not None]
    value = new.score(split, metric.name)
    low, high = t_interval(np.array(values), metric.bounds)
    if not exact and not (value is not None and low <= value <= high):
        raise RunFailedError(
            f"{old.identity.label} is not reproduced: {metric.title} was {old.score(split, metric.name)}, is {value}; "
            f"the stored seeds span {low:.4g} to {high:.4g}"
        )
    origin = new.provenance
    record = Reproduction(
        seed=seed, source_hash=origin.source_hash, commit=origin.commit, exact=exact, finished=origin.finished
    )
    for other in folders:
        add_reproduction(results, other, record)
    return record


def _budget(task: Task, row: str, budget: str) -> str:
    """References have a budget of their own."""
    return REFERENCE_BUDGET if row in task.references() else budget


__all__ = [
    "Check",
    "Done",
    "Finding",
    "Plan",
    "Proof",
    "check",
    "compare",
    "export",
    "fingerprint",
    "leaderboard",
    "load",
    "models",
    "new",
    "prove",
    "references",
    "reproduce",
    "rows",
    "run",
    "runs",
    "score",
    "show",
    "tasks",
    "verify",
]
