"""Every command as a function.

For example::

    from harness import api

    for done in api.run("bahdanau", "seq2seq/copy", seeds=[0]):
        print(done.run.score("test", "exact_match"))

They raise ``harness.errors.ReadheadError`` where the command would print one line and exit.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from harness import exchange, reproduction, submission
from harness.check import Check
from harness.check import check as check
from harness.comparison import compare as compare
from harness.errors import UserError
from harness.exchange import STREAMED
from harness.files import write_whole
from harness.forecast import Forecast, forecast
from harness.listing import models, rows, runs, show, tasks
from harness.pins import fingerprint as fingerprint
from harness.plan import Plan, make_plan
from harness.reception import receive as receive
from harness.recipe import Recipe, get_recipe
from harness.recipe import sources as recipe_sources
from harness.records import Run
from harness.registry import get_task, match_tasks
from harness.reproduction import Outcome, rows_to_reproduce
from harness.results import RESULTS
from harness.scaffold import new as new
from harness.submission import Standing
from harness.sweep import Done, run_all
from harness.task import Task
from harness.trained import evaluate as evaluate
from harness.trained import load as load
from harness.verify import Finding, Proof
from harness.verify import prove as prove_labels
from harness.verify import verify as verify


def run(
    row: str,
    task: str,
    *,
    regime: str | None = None,
    budget: str = "standard",
    seeds: Sequence[int] = (0, 1, 2),
    settings: Sequence[str] = (),
    workers: int = 1,
    cluster: str | None = None,
    force: bool = False,
    results: Path = RESULTS,
    mlflow: bool = True,
) -> Iterator[Done]:
    """Train and score rows or models on tasks and yield how each run ended.

    ``row`` is a row of the board, a glob of rows, a recipe file, or a model (``file.py:Class``, ``module:Class``);
    ``task`` a task or a glob; ``settings`` are ``key=value`` overrides. A run that is finished is not run again without
    ``force``; an interrupted one goes on. ``workers`` processes of this machine, or the Ray ``cluster`` at an address,
    do them side by side. Raises ``UserError`` for what cannot be run at all.
    """
    plan = make_plan(row, task, regime, budget, seeds, settings)
    yield from run_all(plan.runs, results, workers=workers, cluster=cluster, force=force, mlflow=mlflow)


def dry_run(
    row: str,
    task: str,
    *,
    regime: str | None = None,
    budget: str = "standard",
    seeds: Sequence[int] = (0, 1, 2),
    settings: Sequence[str] = (),
    force: bool = False,
    results: Path = RESULTS,
) -> tuple[Plan, Forecast]:
    """Return what ``run`` with these arguments would do, what it leaves out and why, and what it would take."""
    plan = make_plan(row, task, regime, budget, seeds, settings)
    return plan, forecast(plan.runs, results, force=force)


def references(task: str = "*", *, results: Path = RESULTS) -> list[Path]:
    """Write the bundles of every reference (floor, ceiling, heuristics) of the tasks that a glob names."""
    from harness.references import run_references

    return run_references(match_tasks(task), results)


def leaderboard(*, results: Path = RESULTS, board: Path | None = None) -> list[Path]:
    """Write the board, its tables and its plots from the bundles of ``results``; return what was written."""
    from harness.leaderboard import write_board

    return write_board(results, board_path(results, board))


def check_leaderboard(*, results: Path = RESULTS, board: Path | None = None) -> list[str]:
    """Return the files that ``leaderboard`` would change, add or remove; empty if all of them are up to date."""
    from harness.leaderboard import check_board

    return check_board(results, board_path(results, board))


def board_path(results: Path, board: Path | None = None) -> Path:
    """Return where the board goes: ``leaderboard.md`` beside ``./results``, else inside the results folder."""
    if board is not None:
        return board
    return Path("leaderboard.md") if results == RESULTS else results / "leaderboard.md"


def export_text(task: str, split: str, path: Path | str | None = None) -> str:
    """Return a bounded split as text, in the format that the task's data was released in; write it to ``path``, too.

    ``UserError`` if the task has no such format, or the file cannot be written.
    """
    found = get_task(task)
    text = found.export(found.bounded(split).name)
    if path is not None:
        try:
            write_whole(Path(path), text.encode())
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror}") from error
    return text


def export_data(
    task: str, *, regime: str | None = None, out: Path | str | None = None, form: str = "npz", training: int = STREAMED
) -> Iterator[Path]:
    """Write a regime's splits (the first regime's by default) below ``out`` and yield each file.

    ``out`` is ``data/<suite>-<task>`` by default, with ``-<regime>`` where there are several. See
    ``harness.exchange.export_data``.
    """
    found = get_task(task)
    name = _regime(found, regime)
    plain = found.name.replace("/", "-") + (f"-{name}" if len(found.regimes) > 1 else "")
    yield from exchange.export_data(found, name, Path("data", plain) if out is None else Path(out), form, training)


def score(
    task: str,
    predictions: Path | str,
    row: str,
    *,
    regime: str | None = None,
    seed: int = 0,
    title: str = "",
    tuning: str = "",
    force: bool = False,
    results: Path = RESULTS,
) -> tuple[Path, Run]:
    """Score predictions that were made elsewhere and return their bundle of kind ``external``, and its run.

    ``predictions`` is an npz keyed ``<split>/<field of Prediction>``; see ``harness.exchange.score_predictions``.
    """
    found = get_task(task)
    name = _regime(found, regime)
    return exchange.score_predictions(
        found, name, Path(predictions), row, results, seed=seed, title=title, tuning=tuning, force=force
    )


def submit(
    model: str, *, budget: str = "standard", results: Path = RESULTS, out: Path | None = None
) -> tuple[list[Standing], list[Path]]:
    """Set a model's finished runs beside the board, and write the folder to send: bundles, sources, the text.

    The command checks, trains and verifies before (``check``, ``run``, ``verify``). Returns where the row would stand
    and the files of the folder, ``submissions/<row>`` by default. Raises ``UserError`` if there is no such run, if one
    is not of the model as it is now (raise its version, or ``run`` with ``force``), and if something of somebody else's
    is in the folder's way.
    """
    recipe, folder = require_submittable(model, budget=budget, results=results, out=out)
    found = submission.standings(results, recipe.row, budget)
    if not found:
        raise UserError(f"{recipe.row} has no runs with budget {budget} in {results}; `readhead run` makes them")
    files = submission.write_submission(results, recipe, budget, found, folder, recipe_sources(model))
    return found, files


def require_submittable(
    model: str, *, budget: str, results: Path, out: Path | None, again: Collection[Path] = ()
) -> tuple[Recipe, Path]:
    """Return a model's recipe and the folder to send; raise the ``UserError`` of ``submit`` before anything is trained.

    ``again`` are the folders, below ``results/runs``, of the runs that will be.
    """
    recipe = get_recipe(model)
    if not recipe.community:
        raise UserError(
            f"row {recipe.row!r} comes with an installed package; what is submitted is a model of one's own"
        )
    folder = out if out is not None else Path("submissions", recipe.row)
    submission.require_place(folder, results, recipe_sources(model))
    submission.require_current(results, recipe, budget, again)
    return recipe, folder


def prove(task: str = "*") -> Iterator[Proof]:
    """Prove the committed targets of the tasks that a glob names again, and yield what was proven of each split."""
    yield from prove_labels(match_tasks(task))


def reproduce(
    row: str = "*",
    task: str = "*",
    *,
    regime: str | None = None,
    budget: str = "standard",
    seeds: int = 1,
    workers: int = 1,
    results: Path = RESULTS,
) -> Iterator[Outcome]:
    """Train the first ``seeds`` of the stored rows that two globs name again, and yield what came of each row.

    *reproduced*: the predictions are equal, or the headline on the first test lies where a new seed is to be expected
    by the stored ones, and nowhere else has it failed; that is recorded in the row's bundles, and a stranger's give way
    to those made here. *drift*: outside, but not by more than chance may do now and then. *failed*: neither, there or
    on another test. *not run*: today's code or data are others, or it cannot be run here and now. ``cells`` of an
    outcome have a verdict each. Raises ``UserError`` if no row is named.
    """
    yield from reproduction.reproduce(rows_to_reproduce(results, row, task, regime, budget), results, seeds, workers)


def _regime(task: Task, regime: str | None) -> str:
    """Return a regime's name; the task's first by default."""
    return next(iter(task.regimes)) if regime is None else regime


__all__ = [
    "Check",
    "Done",
    "Finding",
    "Forecast",
    "Outcome",
    "Plan",
    "Proof",
    "check",
    "check_leaderboard",
    "compare",
    "dry_run",
    "evaluate",
    "export_data",
    "export_text",
    "fingerprint",
    "leaderboard",
    "load",
    "models",
    "new",
    "prove",
    "receive",
    "references",
    "reproduce",
    "rows",
    "run",
    "runs",
    "score",
    "show",
    "submit",
    "tasks",
    "verify",
]
