"""Two rows on one task: what ``readhead compare`` tells."""

from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import CorruptBundleError, UserError, unknown
from harness.families.base import Examples, Stored
from harness.records import Run
from harness.registry import get_task
from harness.results import REFERENCE_BUDGET, RESULTS, read_arrays, read_run
from harness.statistics import compare as paired
from harness.task import Task, combined_fingerprint


def _row(results: Path, task: Task, regime: str, row: str, budget: str) -> list[Path]:
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
    95 % interval (hierarchical paired bootstrap over seeds and examples), ``n``, and ``differs`` where it excludes 0;
    where seeds diverged, ``without`` says how many. ``UserError`` for a row that was scored on other data, or that has
    no seed that finished; ``CorruptBundleError`` for predictions that are not of these tests.
    """
    found = get_task(task)
    name = next(iter(found.regimes)) if regime is None else regime
    found.regime(name)
    found.budget(budget)
    measure = found.headline if metric is None else found.metric(metric)
    predictions, failed = [], []
    for row in (a, b):
        seeds = {path: read_run(path) for path in _row(results, found, name, row, _budget(found, row, budget))}
        for path, run in seeds.items():
            _require_same_data(path, run, found)
        finished = {path: read_arrays(path, run) for path, run in seeds.items() if run.status == "completed"}
        if not finished:
            raise UserError(f"no seed of {row} has finished: {len(seeds)} of {len(seeds)} diverged")
        predictions.append(finished)
        if len(finished) < len(seeds):
            failed.append(f"{len(seeds) - len(finished)} of {len(seeds)} seeds of {row}")
    records = []
    for split in found.regime(name).tests:
        if not all(split in arrays for finished in predictions for arrays in finished.values()):
            continue
        examples = found.load(split)
        for finished in predictions:
            for path, arrays in finished.items():
                _require_shape(path, split, arrays[split], found, examples)
        ours, theirs = ([measure.statistics(each[split], examples) for each in rows.values()] for rows in predictions)
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
            | ({"without": ", ".join(failed)} if failed else {})
        )
    return records


def _require_same_data(folder: Path, run: Run, task: Task) -> None:
    """Refuse a bundle that was scored on another version of the task, or on other data of the same."""
    identity = run.identity
    if identity.task_version != task.version:
        reason = f"version {identity.task_version}, installed is {task.version}"
    elif identity.fingerprint != combined_fingerprint(task, identity.regime):
        reason = f"its fingerprint is not that of version {task.version}"
    else:
        return
    raise UserError(f"{folder} was scored on other data of {task.name}: {reason}")


def _require_shape(folder: Path, split: str, stored: Stored, task: Task, examples: Examples) -> None:
    """Refuse predictions that are not of these examples; the error names the bundle."""
    try:
        task.family.check_stored(stored, examples)
    except CorruptBundleError as error:
        raise CorruptBundleError(f"{folder}: {split}: {error}") from error


def _budget(task: Task, row: str, budget: str) -> str:
    """References have a budget of their own."""
    return REFERENCE_BUDGET if row in task.references() else budget
