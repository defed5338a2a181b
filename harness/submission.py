"""From a model to a submission: its place beside the board, its bundles in a folder of their own, the text to send."""

import math
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from harness.errors import UserError
from harness.groups import installed_task, other_experiment
from harness.markdown import DASH, code, escape, interval, number, table
from harness.model import get_model
from harness.parcel import LIST, RUNS, TEXT, in_place, replacing, require_place
from harness.plan import identify
from harness.provenance import source_hash
from harness.ranking import centre_of, paired
from harness.recipe import Recipe
from harness.records import Run
from harness.results import bundle_files, find_bundles, read_run, runs_folder
from harness.standings import Board, Contest, load_board
from harness.statistics import Comparison

NAMED = 4
"""Most runs that an error lists."""


@dataclass(frozen=True)
class Against:
    """Another row, its score, and the difference to it; no interval where its predictions are not here."""

    row: str
    score: float
    difference: Comparison


@dataclass(frozen=True)
class Standing:
    """Where a row would stand in one table if it were ranked: ``rank`` of ``rows``, None without a score."""

    contest: Contest
    cell: Any
    rank: int | None
    tied: bool
    rows: int
    best: Against | None
    nearest: Against | None


def standings(results: Path, row: str, budget: str) -> list[Standing]:
    """Return where ``row`` would stand in every table of a budget that it has runs in.

    *best* is the best other row, *nearest* the baseline whose score is nearest to the row's own.
    """
    board = load_board(results)
    contests = [contest for contest in board.contests if contest.budget == budget and board.row(contest, row)]
    return [_standing(board, contest, row) for contest in contests]


def _standing(board: Board, contest: Contest, row: str) -> Standing:
    cells = {cell.row: cell for cell in board.headline_cells(contest)}
    score = {name: _score(cell, contest) for name, cell in cells.items()}
    ranked = [place for place in board.rank(contest, claims=True) if place.rank is not None]
    own = next((place for place in ranked if place.row == row), None)
    others = [place.row for place in ranked if place.row != row]
    baselines = [name for name in others if cells[name].kind == "trained"]
    nearest = min(baselines, key=lambda name: abs(score[name] - score[row]), default=None) if own else None

    def against(name: str | None) -> Against | None:
        if name is None:
            return None
        ours, theirs = board.row(contest, row), board.row(contest, name)
        if own is None or ours is None or theirs is None:  # no score, or it is from the installed package
            return Against(name, score[name], Comparison(score[row] - score[name], math.nan, math.nan))
        return Against(name, score[name], paired(ours, theirs, contest.task))

    return Standing(
        contest=contest,
        cell=cells[row],
        rank=own.rank if own else None,
        tied=bool(own and own.tied),
        rows=len(ranked),
        best=against(next(iter(others), None)),
        nearest=against(nearest),
    )


def _score(cell: Any, contest: Contest) -> float:
    """Return what a table ranks its rows by, as far as it is one number."""
    return float(cell.median if centre_of(contest.task) == "median" else cell.mean)


def lines(found: Sequence[Standing]) -> list[dict[str, str]]:
    """Return one line a table: score, the rank it would have, and the differences to the best and the nearest row."""
    return [
        {
            "task": f"{one.contest.task.name}:{one.contest.regime}",
            "headline": one.contest.task.headline.title,
            "seeds": f"{one.cell.n_seeds}/{one.cell.n_seeds + one.cell.n_failed}",
            "score": interval(one.cell.mean, one.cell.low, one.cell.high, one.cell.unit),
            "would rank": f"{one.rank}{'=' if one.tied else ''} of {one.rows}" if one.rank and one.best else DASH,
            "minus the best": _difference(one.best, one.cell.unit),
            "minus the nearest baseline": _difference(one.nearest, one.cell.unit),
        }
        for one in found
    ]


def remarks(found: Sequence[Standing]) -> list[str]:
    """Return what has to be said of ranks and differences that could not be told: the board's runs are not all here."""
    alone = [one.contest for one in found if one.rank is not None and one.best is None]
    bare = [one for one in found if one.rank and one.best and math.isnan(one.best.difference.low)]
    said = []
    if alone:
        tasks = ", ".join(f"{contest.task.name}:{contest.regime}" for contest in alone)
        said.append(
            f"No rank and no difference on {tasks}: no other row's runs with this budget are in this results folder. "
            "The board's own lie in the results of Readhead's repository."
        )
    if bare:
        tasks = ", ".join(f"{one.contest.task.name}:{one.contest.regime}" for one in bare)
        said.append(
            f"No interval of the difference on {tasks}: the other row is from the tables of the installed package, and "
            "its predictions are not here."
        )
    return said


def _difference(against: Against | None, unit: str) -> str:
    """Return a signed difference with its interval, and the row that it is to."""
    if against is None:
        return DASH
    found = against.difference
    shown = f"{'+' if found.difference >= 0 else ''}{number(found.difference, unit)}"
    if not math.isnan(found.low):
        shown += f" ({number(found.low, unit)} to {number(found.high, unit)})"
    return f"{shown}, {against.row} {number(against.score, unit)}"


def write_submission(
    results: Path, recipe: Recipe, budget: str, found: Sequence[Standing], folder: Path, sources: Sequence[Path] = ()
) -> list[Path]:
    """Write a folder to send: the row's bundles, the ``sources`` of its model, and ``submission.md``; return its files.

    What an older submission wrote there is replaced, and nothing else is. Raises ``UserError`` if the folder cannot be
    written, or something else is in the way.
    """
    own = require_place(folder, results, sources)
    bundles = list(_bundles(results, recipe.row, budget))
    text = _text([run for _, run in bundles], recipe, budget, found, sources)
    try:
        with replacing(folder, own, sources) as fresh:
            for path, run in bundles:
                target = fresh / RUNS / path.relative_to(runs_folder(results))
                target.mkdir(parents=True)
                for name, data in bundle_files(path, run).items():
                    (target / name).write_bytes(data)
            for source in sources:
                if source.name not in in_place(folder, sources):
                    shutil.copy2(source, fresh / source.name)
            (fresh / TEXT).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"the submission {folder} cannot be written: {error.strerror or error}") from error
    return [folder / name for name in (*require_place(folder, results, sources), LIST)]


def require_current(results: Path, recipe: Recipe, budget: str, again: Collection[Path] = ()) -> None:
    """Raise a ``UserError`` that names the runs that would be sent and are not of the model as it is now.

    Those in the folders ``again`` (below ``results/runs``) are about to be done anew.
    """
    moved: dict[str, list[str]] = {}
    for path, run in _bundles(results, recipe.row, budget):
        if path.relative_to(runs_folder(results)) not in again and (reason := _moved(run, recipe)) is not None:
            moved.setdefault(reason, []).append(run.identity.label)
    for reason, labels in moved.items():
        named = ", ".join(labels[:NAMED]) + (f" and {len(labels) - NAMED} more" if len(labels) > NAMED else "")
        raise UserError(f"{named}: {reason}")


def _moved(run: Run, recipe: Recipe) -> str | None:
    """Return why a run is none of the model as it is now, and what is to be done; None if it is one."""
    identity, model, task = run.identity, get_model(recipe.model), installed_task(run.identity.task)
    if task is not None and identity.regime in task.regimes:
        today = identify(task, identity.regime, recipe.resolve(task), identity.budget, identity.seed)
        reason = other_experiment(identity, today)
        if reason is not None:
            return f"finished, and of another experiment now: {reason}. Run it again, or move its folder away"
    if source_hash(model) not in run.source_hashes:
        return (
            "finished by other code than the model has now. Raise the model's version if what changed changes its "
            "numbers, or run it again with --force"
        )
    return None


def _bundles(results: Path, row: str, budget: str) -> Iterator[tuple[Path, Run]]:
    """Yield what is sent: every finished run of a row with a budget, lest somebody chooses among the seeds."""
    for path in find_bundles(results):
        run = read_run(path)
        if run.identity.row == row and run.identity.budget == budget:
            yield path, run


def _text(runs: Sequence[Run], recipe: Recipe, budget: str, found: Sequence[Standing], sources: Sequence[Path]) -> str:
    """Return ``submission.md``: what a maintainer has to know, from the bundles and the recipe alone."""
    shown = lines(found)
    header = list(shown[0]) if shown else []
    environment = Environment(loader=PackageLoader("harness"), undefined=StrictUndefined, trim_blocks=True)
    first = runs[0]
    return environment.get_template("submission.md.j2").render(
        title=escape(recipe.title),
        row=code(recipe.row),
        model=code(recipe.model),
        version=first.identity.model_version,
        paper=escape(recipe.paper),
        budget=budget,
        settings=[(code(k), code(str(v))) for k, v in sorted(first.identity.hyperparameters.items())],
        tuning=escape(recipe.tuning),
        remarks=remarks(found),
        table=table(header, [[escape(cell) for cell in line.values()] for line in shown], range(3, 5)),
        bundles=len(runs),
        dirty=any(run.provenance.dirty for run in runs),
        commits=sorted({run.provenance.commit or "no repository" for run in runs}),
        libraries=first.provenance.libraries,
        sources=[code(source.name) for source in sources],
    )
