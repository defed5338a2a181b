"""``scores.csv``: one line a cell of the board, from the stored runs and the published numbers alone."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.errors import UserError
from harness.groups import REAL, TEXT, WHOLE, Group, installed_task, read_groups
from harness.metrics import Metric
from harness.published import ALSO, KEY, read_published, source
from harness.records import Run
from harness.results import REFERENCE_BUDGET
from harness.statistics import Summary, summarise
from harness.task import Task

DTYPES = {
    "suite": TEXT,
    "task": TEXT,
    "version": WHOLE,
    "regime": TEXT,
    "row": TEXT,
    "kind": TEXT,
    "budget": TEXT,
    "split": TEXT,
    "size": REAL,
    "metric": TEXT,
    "direction": TEXT,
    "unit": TEXT,
    "n_examples": WHOLE,
    "n_seeds": WHOLE,
    "n_failed": WHOLE,
    "mean": REAL,
    "low": REAL,
    "high": REAL,
    "std": REAL,
    "median": REAL,
    "worst": REAL,
    "best_of_k": REAL,
    "solved_rate": REAL,
    "status": TEXT,
    "reason": TEXT,
    "published": REAL,
    "published_source": TEXT,
    "runs": TEXT,
}
"""Columns of ``scores.csv`` in order. ``size`` is empty for a split of several sizes as a whole.

``n_seeds`` have a value, ``n_failed`` have none. ``status``: ``ok``; ``stale`` (code or recipe moved on); ``diverged``
(no seed finished); ``undefined`` (the metric has no value); ``unsupported`` (the model declined the split); ``missing``
(not run); ``superseded`` (scored on an older version of the task); ``unverified`` (the task as it was scored is not
installed); ``published`` (no run here).
"""

COMPETING = ("trained", "community")
"""Kinds that are ranked."""

Cell = dict[str, Any]
_EMPTY: Cell = {name: {TEXT: "", WHOLE: pd.NA, REAL: math.nan}[dtype] for name, dtype in DTYPES.items()}


def make_cell(task: Task | None, metric: Metric | None, /, **known: Any) -> Cell:
    """Return one cell; what is not ``known`` is empty."""
    cell = _EMPTY | known
    if task is not None:
        cell["suite"], cell["task"], cell["version"] = task.suite, task.name, task.version
    if metric is not None:
        cell["metric"], cell["direction"], cell["unit"] = metric.name, metric.direction or "", metric.unit
    return cell


def collect(results: Path, published: Sequence[Path] | None = None) -> pd.DataFrame:
    """Return ``scores.csv`` as a table with the columns and types of ``DTYPES``.

    A pure function of the bundles below ``results/runs`` and of the ``published`` files (None: those of the installed
    packages). Raises ``UserError`` where a run beats an exact bound or the bundles contradict each other.
    """
    return cells_table(read_groups(results), read_published(published))


def cells_table(groups: Sequence[Group], published: pd.DataFrame) -> pd.DataFrame:
    """Return the table of all cells: measured, missing and published, sorted by task, regime, budget and row."""
    require_bounds(groups)
    cells = [cell for group in groups for cell in group_cells(group)]
    cells += missing_cells(groups)
    cells += join_published(cells, published)
    # Stable: inside a row, splits, sizes and metrics stay in the task's order.
    cells.sort(key=lambda cell: (cell["suite"], cell["task"], cell["regime"], cell["budget"], cell["row"]))
    return pd.DataFrame(cells, columns=list(DTYPES)).astype(DTYPES)


def records(table: pd.DataFrame) -> Iterator[Any]:
    """Yield the lines of a table as named tuples."""
    yield from table.itertuples(index=False)


def split_size(task: Task, split: str) -> float:
    """Return the one size of a split's examples, NaN for a split of several sizes: the size of its first cell."""
    found = task.bounded(split)
    if len(set(found.sizes)) > 1:
        return math.nan
    return float(found.sizes[0]) if isinstance(found.sizes[0], int) else float(task.load(split).sizes[0])


def size_range(task: Task, split: str) -> tuple[float, float]:
    """Return the smallest and the largest size of a split's examples."""
    found = task.bounded(split)
    sizes = (
        task.load(split).sizes if found.count is None else np.array(found.sizes)
    )  # data may be on no machine of ours
    return float(sizes.min()), float(sizes.max())


def whole_cells(scores: pd.DataFrame) -> dict[tuple[str, ...], Any]:
    """Return the cells of splits as a whole, as named tuples: by task, regime, budget, row, split and metric."""
    chosen = scores[scores["metric"] != ""]
    places = list(zip(chosen["task"], chosen["split"], strict=True))
    sizes = {place: _whole_size(*place) for place in set(places)}
    whole = chosen["size"].isna() | (chosen["size"] == np.array([sizes[place] for place in places], float))
    return {(c.task, c.regime, c.budget, c.row, c.split, c.metric): c for c in records(chosen[whole])}


def _whole_size(task: str, split: str) -> float:
    found = installed_task(task)
    return math.nan if found is None else split_size(found, split)


def group_cells(group: Group) -> Iterator[Cell]:
    """Yield the cells of one row, one budget: every test, as a whole and by size, in every metric."""
    task = group.task
    if task is None:
        yield _doubtful(group)
        return
    by_run = [{(s.split, s.size): s for s in member.run.scores} for member in group.members]
    places = list(dict.fromkeys(place for scores in by_run for place in scores))
    scored = {split for split, _ in places}
    common = _common(group)
    for metric in task.metrics:
        values = np.array(
            [[_value(scores.get(place), metric.name) for scores in by_run] for place in places], dtype=float
        ).reshape(len(places), len(group.members))
        summary = summarise(values, metric, group.training_loss)
        for index, (split, size) in enumerate(places):
            n = next(scores[split, size].n for scores in by_run if (split, size) in scores)
            measured = {"split": split, "size": math.nan if size is None else size, "n_examples": n}
            yield make_cell(task, metric, **common, **measured, **_numbers(group, summary, index))
        for split in task.regime(group.first.identity.regime).tests:
            if split not in scored:
                size = split_size(task, split)
                absence = _absence(group, split)
                unsolved = 0.0 if metric.solved is not None and absence["n_failed"] else math.nan
                placed = {"split": split, "size": size, "n_seeds": 0, "solved_rate": unsolved}
                yield make_cell(task, metric, **common, **placed, **absence)


def _value(score: Any, metric: str) -> float:
    value = None if score is None else score.values.get(metric)
    return math.nan if value is None else value


def _common(group: Group) -> Cell:
    identity = group.first.identity
    return {
        "regime": identity.regime,
        "row": identity.row,
        "kind": group.first.kind,
        "budget": identity.budget,
        "runs": ";".join(member.path for member in group.members),
    }


def _numbers(group: Group, summary: Summary, index: int) -> Cell:
    """Return the numbers of one cell with its status."""
    own = {
        name: float(getattr(summary, name)[index])
        for name in ("mean", "low", "high", "std", "median", "worst", "best_of_k", "solved_rate")
    }
    count, failed = int(summary.count[index]), int(summary.failed[index])
    return own | {"n_seeds": count, "n_failed": failed} | _status(group, count, failed)


def _status(group: Group, count: int, failed: int) -> Cell:
    """Return status and reason of a measured cell; failures are told even where the cell has a value."""
    reasons = [f"seed {m.run.identity.seed} {m.run.status}: {m.run.reason}" for m in _diverged(group)]
    if failed > len(reasons):
        reasons.append(f"undefined for {failed - len(reasons)} of {count + failed} seeds")
    stale = sorted({member.stale for member in group.members if member.stale})
    if count == 0:
        status = "diverged" if len(_diverged(group)) == failed else "undefined"
    else:
        status = "stale" if stale else "ok"
    return {"status": status, "reason": "; ".join(stale + reasons)}


def _diverged(group: Group) -> list[Any]:
    return [member for member in group.members if member.run.status == "diverged"]


def _absence(group: Group, split: str) -> Cell:
    """Return status and reason of a test that no seed has a score for."""
    declined = [m.run.unsupported[split] for m in group.members if split in m.run.unsupported]
    if declined:
        return {"n_failed": 0, "status": "unsupported", "reason": declined[0]}
    if _diverged(group):
        return {"n_failed": len(_diverged(group))} | _status(group, 0, len(_diverged(group)))
    return {"n_failed": 0, "status": "missing", "reason": "no score of this split is stored"}


def _doubtful(group: Group) -> Cell:
    """Return the one cell of runs whose numbers cannot be set beside today's task."""
    identity = group.first.identity
    suite, version = identity.task.split("/")[0], identity.task_version
    status = "superseded" if group.superseded else "unverified"
    placed = {"suite": suite, "task": identity.task, "version": version, "status": status, "reason": group.doubt}
    return make_cell(None, None, **_common(group), **placed)


def missing_cells(groups: Sequence[Group]) -> Iterator[Cell]:
    """Yield a headline cell for every row of its suite and family, and every reference, that a table has no run of."""
    present = {group.key for group in groups}
    competing = {group.key: group for group in groups if group.first.kind in COMPETING}
    tables: dict[tuple[str, str, str], Task] = {}
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for key, group in competing.items():
        if (task := group.task) is not None:
            tables[key[:3]] = task
            rows.setdefault((task.suite, task.family.name), {})[key[3]] = group.first.kind
    for (name, regime, budget), task in tables.items():
        for row, kind in rows[task.suite, task.family.name].items():
            if (name, regime, budget, row) not in present:
                others = [key[2] for key in competing if (key[0], key[1], key[3]) == (name, regime, row)]
                reason = f"run with budget {', '.join(others)} only" if others else "not run"
                yield _missing(task, regime, budget, row, kind, reason)
    for (name, regime), task in {key[:2]: task for key, task in tables.items()}.items():
        for row in task.references():
            if (name, regime, REFERENCE_BUDGET, row) not in present:
                yield _missing(task, regime, REFERENCE_BUDGET, row, "reference", "not run")


def _missing(task: Task, regime: str, budget: str, row: str, kind: str, reason: str) -> Cell:
    test = task.regime(regime).tests[0]
    placed = {"regime": regime, "row": row, "kind": kind, "budget": budget, "split": test, "reason": reason}
    absent = {"size": split_size(task, test), "n_seeds": 0, "n_failed": 0, "status": "missing"}
    return make_cell(task, task.headline, **placed, **absent)


def join_published(cells: Iterable[Cell], published: pd.DataFrame) -> list[Cell]:
    """Set the published number of every cell that has one; return cells for the numbers that joined none.

    Where several sources give the same number the first of the file stands in the cell and the others in its source.
    """
    known: dict[tuple[str, ...], Cell] = {}
    for _, line in published.iterrows():
        key = tuple(line[name] for name in KEY)
        if key in known:
            known[key]["published_source"] += f"{ALSO}{line['value']:g}: {source(line)}"
        else:
            known[key] = {"published": line["value"], "published_source": source(line), "unit": line["unit"]}
    joined = set()
    for cell in cells:
        key = tuple(cell[name] for name in KEY)
        # Published numbers are of a split as a whole.
        if key in known and (math.isnan(cell["size"]) or cell["size"] == _whole_size(cell["task"], cell["split"])):
            cell["published"], cell["published_source"] = known[key]["published"], known[key]["published_source"]
            joined.add(key)
    return [_published_cell(key, number) for key, number in known.items() if key not in joined]


def _published_cell(key: tuple[str, ...], number: Cell) -> Cell:
    """Return the cell of a number that no row here has; what it names must exist where its task is installed."""
    names = dict(zip(KEY, key, strict=True))
    task = installed_task(names["task"])
    if task is not None:
        task.regime(names["regime"])
        number = number | {"size": split_size(task, names["split"])}
    metric = task.metric(names["metric"]) if task is not None else None
    return make_cell(task, metric, **names, **number, kind="published", status="published")


def require_bounds(groups: Sequence[Group]) -> None:
    """Raise a ``UserError`` that names the run, where one is strictly better than an exact bound."""
    exact: dict[tuple[str, str], list[Run]] = {}
    for group in groups:
        if group.first.bound == "exact" and group.task is not None:
            exact.setdefault(group.key[:2], []).append(group.first)
    for group in groups:
        if group.task is None or group.first.kind == "reference":
            continue
        for bound in exact.get(group.key[:2], []):
            limits = {(score.split, score.size): score.values for score in bound.scores}
            for member in group.members:
                _require_bound(group.task, member.run, bound.identity.row, limits)


def _require_bound(task: Task, run: Run, name: str, limits: Mapping[Any, Mapping[str, float | None]]) -> None:
    directed = [metric for metric in task.metrics if metric.direction is not None]
    for score in run.scores:
        limit = limits.get((score.split, score.size), {})
        for metric in directed:
            own, bound = score.values.get(metric.name), limit.get(metric.name)
            if own is not None and bound is not None and metric.better(own, bound):
                raise UserError(
                    f"{run.identity.label} has {metric.name} = {own:g} on {score.split}, better than the exact bound "
                    f"{bound:g} of {name}: one of the two is wrong"
                )
