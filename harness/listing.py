"""What commands print: tables on a terminal, plain aligned lines in a pipe."""

import inspect
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from harness.check import Check
from harness.checkpoints import interrupted
from harness.expectation import Against, against_published
from harness.forecast import Forecast
from harness.groups import Group
from harness.plan import Plan
from harness.progress import console
from harness.published import read_published
from harness.recipe import get_recipe, recipe_paths
from harness.records import Run, Score
from harness.registry import get_task, load_model_class, model_names, task_names
from harness.reproduction import Outcome, expected_seconds
from harness.results import find_bundles, read_run
from harness.splits import AnySplit, Split, Variant
from harness.sweep import Done
from harness.verify import Finding, Proof

Rows = Iterable[dict[str, Any]]


def table(title: str, rows: Rows) -> None:
    """Print ``rows`` under their keys."""
    found = list(rows)
    if not found:
        console.print(f"no {title}")
        return
    grid = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for key in found[0]:
        grid.add_column(key, overflow="fold")
    for row in found:
        grid.add_row(*(escape(str(value)) for value in row.values()))
    console.print(grid, soft_wrap=False)


def tasks() -> Rows:
    """Yield a line a task."""
    for name in task_names():
        task = get_task(name)
        budgets = ", ".join(f"{key} {value:,}" for key, value in task.budgets.items())
        yield {
            "task": name,
            "version": task.version,
            "family": task.family.name,
            "regimes": ", ".join(task.regimes),
            "headline": task.headline.title,
            "budgets (examples)": budgets,
        }


def models() -> Rows:
    """Yield a line a model."""
    for name in model_names():
        model = load_model_class(name)
        summary = (inspect.getdoc(model) or "").split("\n")[0]
        yield {"model": name, "version": model.version, "families": ", ".join(model.families), "what": summary}


def rows() -> Rows:
    """Yield a line a row of the board."""
    for name in recipe_paths():
        recipe = get_recipe(name)
        settings = ", ".join(f"{key}={value}" for key, value in recipe.hyperparameters.items())
        yield {"row": name, "model": recipe.model, "paper": recipe.paper, "hyperparameters": settings}


def runs(results: Path) -> Rows:
    """Yield a line a bundle, then a line a run that was interrupted."""
    for folder in find_bundles(results):
        run = read_run(folder)
        yield {"run": run.identity.label, "kind": run.kind, "status": run.status, **_headline(run)}
    for folder in interrupted():
        yield {
            "run": folder.name,
            "kind": "interrupted",
            "status": "goes on when run again",
            "headline": "",
            "value": "",
        }


def _headline(run: Run) -> dict[str, Any]:
    """Return the headline on the first test, if the task is installed here."""
    if run.identity.task not in task_names():
        return {"headline": "task not installed", "value": ""}
    task = get_task(run.identity.task)
    value = run.whole(task.regime(run.identity.regime).tests[0], task.headline.name)
    return {"headline": task.headline.title, "value": "-" if math.isnan(value) else f"{value:.4g}"}


def show(name: str, n: int) -> None:
    """Print all that there is to know of a task before training on it."""
    task = get_task(name)
    console.print(f"[bold]{task.name}[/bold] version {task.version}, family {task.family.name}\n")
    console.print(escape(inspect.getdoc(type(task)) or ""), "")
    table(
        "metrics",
        (
            {
                "metric": m.name,
                "title": m.title,
                "unit": m.unit,
                "better": m.direction or "-",
                "solved": m.solved or "-",
                "signature": m.signature,
            }
            for m in task.metrics
        ),
    )
    table("references", ({"row": row, "what": r.title, "bound": r.bound} for row, r in task.references().items()))
    for regime, splits in task.regimes.items():
        absent = task.missing(regime)
        about = str(task.spec(regime)) if absent is None else f"its data are not here: {absent}"
        console.print(f"\nregime [bold]{regime}[/bold]: {escape(about)}")
        prints = task.fingerprints(regime) if absent is None else task.pinned["splits"]
        table(
            "splits",
            (
                {
                    "split": s,
                    "examples": _count(task.split(s)),
                    "sizes": _sizes(task.split(s)),
                    "fingerprint": prints.get(s, "-")[:16],
                    "overlap": _overlap(task.pinned, regime, s),
                }
                for s in splits.names
            ),
        )
        if absent is not None:
            continue
        examples = task.load(splits.tests[0])
        for row in range(0, len(examples), max(1, len(examples) // n)) if n else ():
            console.print(f"\n{splits.tests[0]}, example {row}\n{escape(task.render(examples, row))}")


def _count(split: AnySplit) -> str:
    if isinstance(split, Variant):
        return f"{split.of}, varied"
    return f"{len(split):,}" if isinstance(split, Split) else "stream"


def _sizes(split: AnySplit) -> str:
    if isinstance(split, Variant):
        return "-"
    sizes = split.sizes
    return str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]}-{sizes[-1]}"


def _overlap(pinned: dict[str, Any], regime: str, split: str) -> str:
    rates = pinned["overlap"].get(regime, {}).get(split, {})
    return ", ".join(f"{rate:.1%} in {other}" for other, rate in rates.items()) or "-"


def skipped(plan: Plan) -> None:
    """Print what a plan leaves out and why."""
    for line in plan.skipped:
        console.print(f"skipped: {escape(line)}")


def forecast(found: Forecast, workers: int) -> None:
    """Print what runs would take."""
    console.print(f"{len(found.todo)} runs to do, {found.finished} finished already")
    for planned in found.todo:
        console.print(f"  {planned.identity.label}: {planned.identity.examples:,} examples")
    basis = "measured just now on this machine" if found.measured else "from finished runs of these rows"
    minutes = f"about {found.seconds / 60 / min(workers, max(len(found.todo), 1)):.1f} minutes ({basis})"
    if math.isnan(found.seconds):
        minutes = "how long is not known, for a step of this model cannot be timed outside of a run"
    console.print(f"{minutes}, {found.disk / 2**20:.1f} MiB")


def outcome(done: Done) -> None:
    """Print how one run ended."""
    if done.run is None:
        console.print(f"failed: {escape(str(done.failure))}")
    elif done.run.status != "completed":
        reason, folder = escape(str(done.run.reason)), escape(str(done.folder))
        console.print(f"{done.run.status}: {escape(done.identity.label)}: {reason} ({folder})")
    else:
        console.print(
            f"finished: {escape(done.identity.label)}: {_summary_text(done.run)} ({escape(str(done.folder))})"
        )


def _summary_text(run: Run) -> str:
    task = get_task(run.identity.task) if run.identity.task in task_names() else None
    if not run.scores:
        return "it supports none of the tests"
    split = run.scores[0].split
    values = {name: value for name, value in run.scores[0].values.items() if value is not None}
    titles = {m.name: m.title for m in task.metrics} if task is not None else {}
    return f"{split}: " + ", ".join(f"{titles.get(name, name)} {value:.4g}" for name, value in values.items())


def summary(done: Sequence[Done], results: Path) -> None:
    """Print what failed or diverged, all in one place, and what to do next."""
    for one in done if len(done) > 1 else ():  # a single one has just been told
        if one.failure is not None:
            console.print(f"failed: {escape(str(one.failure))}")
        elif one.run is not None and one.run.status == "diverged":
            console.print(f"diverged: {escape(one.identity.label)}: {escape(one.run.reason or '')}")
    kept = sum(one.run is not None for one in done)
    folder = escape(str(results / "runs"))
    console.print(f"{kept} of {len(done)} runs are in {folder}; `readhead leaderboard` puts them on the board")


def written(paths: Iterable[Path]) -> None:
    """Print the files that a command wrote."""
    for path in paths:
        console.print(f"wrote {escape(str(path))}")


def checks(found: Iterable[Check]) -> bool:
    """Print each check as it comes; return whether none failed."""
    failed = 0
    for check in found:
        mark = {True: "ok", False: "FAILED", None: "n/a"}[check.passed]
        console.print(f"{mark:7}{check.task:26} {check.name:26} {escape(check.detail)}".rstrip())
        failed += check.passed is False
    console.print("all checks passed" if not failed else f"{failed} checks failed")
    return not failed


def findings(found: Iterable[Finding]) -> bool:
    """Print what ``verify`` found: problems a line each, then the count; return whether none failed."""
    counts = {"verified": 0, "unverified": 0, "failed": 0}
    for finding in found:
        counts[finding.status] += 1
        if finding.status != "verified":
            console.print(f"{finding.status}: {escape(finding.message)}")
    console.print(", ".join(f"{count} {status}" for status, count in counts.items() if count or status == "verified"))
    return not counts["failed"]


def proofs(found: Iterable[Proof]) -> bool:
    """Print what was proven, a line a split, and what is wrong; return whether nothing is."""
    wrong = 0
    for proof in found:
        console.print(f"{proof.task} {proof.split}: {proof.count - len(proof.wrong)} of {proof.count} targets proven")
        for message in proof.wrong:
            console.print(f"failed: {escape(message)}")
        wrong += len(proof.wrong)
    return not wrong


def scores(found: Iterable[Score]) -> None:
    """Print scores over a file, then by size."""
    shown = (
        {"size": "all" if score.size is None else f"{score.size:g}", "n": score.n, **score.values} for score in found
    )
    table(
        "scores",
        ({k: "-" if v is None else f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()} for row in shown),
    )


def comparisons(a: str, b: str, found: Rows) -> None:
    """Print paired differences."""
    shown = (
        {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()} for row in found
    )
    table(f"{a} minus {b}", shown)


def expected(groups: Sequence[Group], seeds: int, workers: int) -> None:
    """Print how long reproducing rows takes."""
    runs = sum(len(group.members[:seeds]) for group in groups)
    minutes = expected_seconds(groups, seeds) / 60 / min(workers, max(runs, 1))
    console.print(f"{runs} runs of {len(groups)} rows to train again: about {minutes:.1f} minutes by the stored runs")


def reproduced(outcome: Outcome) -> None:
    """Print what came of one row's new runs."""
    task, regime, budget, row = outcome.group.key
    reason = f": {escape(outcome.reason)}" if outcome.reason else ""
    console.print(f"{outcome.verdict}: {escape(row)} on {task}:{regime}, {budget}{reason}")


def verdicts(groups: Sequence[Group], outcomes: Sequence[Outcome]) -> None:
    """Print one table, row by row: what was trained again, then each published number of kind exact."""
    came = {outcome.group.key: outcome for outcome in outcomes}
    published = read_published()
    lines = (_verdict_lines(group, came.get(group.key), against_published(group, published)) for group in groups)
    table("rows trained again and published numbers", chain.from_iterable(lines))


def _verdict_lines(group: Group, outcome: Outcome | None, found: Iterable[Against]) -> Iterator[dict[str, str]]:
    """Yield a row's lines, a verdict each: of ``ours``, which are the stored runs, and what is held against them."""
    name, regime, _, row = group.key
    named = {"row": row, "task": f"{name}:{regime}"}
    if outcome is not None and not outcome.cells:
        yield named | {"what": "", "ours": "", "beside": "again -", "verdict": outcome.verdict}
    for cell in outcome.cells if outcome is not None else ():
        again = ", ".join(f"{value:.4g}" for value in cell.values)
        yield named | {
            "what": f"{cell.metric.title} on {cell.split}",
            "ours": "" if math.isnan(cell.low) else f"{cell.low:.4g} to {cell.high:.4g}",
            "beside": f"again {again}",
            "verdict": cell.verdict,
        }
    for against in found:
        yield named | {
            "what": f"{against.metric.title} on {against.split}",
            "ours": f"{against.ours:.4g} ({against.low:.4g} to {against.high:.4g})",
            "beside": f"published {against.value:.4g}, {against.source}",
            "verdict": against.verdict,
        }
