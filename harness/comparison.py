"""Two rows on one task: what ``readhead compare`` tells."""

from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import UserError, unknown
from harness.registry import get_task
from harness.results import REFERENCE_BUDGET, RESULTS, read_arrays, read_run
from harness.statistics import compare as paired
from harness.task import Task


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
    where seeds diverged, ``without`` says how many. ``UserError`` for a row that was scored on other data.
    """
    found = get_task(task)
    name = next(iter(found.regimes)) if regime is None else regime
    found.regime(name)
    found.budget(budget)
    measure = found.headline if metric is None else found.metric(metric)
    statistics, failed = [], []
    for row in (a, b):
        seeds = [(read_run(folder), folder) for folder in _row(results, found, name, row, _budget(found, row, budget))]
        for run, folder in seeds:
            if run.identity.task_version != found.version:
                scored = f"version {run.identity.task_version}, installed is {found.version}"
                raise UserError(f"{folder} was scored on other data of {found.name}: {scored}")
        arrays = [read_arrays(folder, run) for run, folder in seeds if run.status == "completed"]
        statistics.append(arrays)
        failed += [f"{len(seeds) - len(arrays)} of {len(seeds)} seeds of {row}"] * (len(arrays) < len(seeds))
    records = []
    for split in found.regime(name).tests:
        if not all(rows and all(split in arrays for arrays in rows) for rows in statistics):
            continue
        examples = found.load(split)
        for stored in (arrays[split] for rows in statistics for arrays in rows):
            found.family.check_stored(stored, examples)
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
            | ({"without": ", ".join(failed)} if failed else {})
        )
    return records


def _budget(task: Task, row: str, budget: str) -> str:
    """References have a budget of their own."""
    return REFERENCE_BUDGET if row in task.references() else budget
