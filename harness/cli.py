"""The command ``readhead``: a thin layer over ``harness.api``. Nothing heavy is imported before a command needs it."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli_data import data
from harness.errors import ReadheadError, UserError, unknown
from harness.options import Budget, OneRegime, Regime, Results, TaskGlob, expand
from harness.ranks import leading

app = typer.Typer(
    name="readhead",
    help="Train, score, verify and publish sequence models on synthetic reasoning tasks.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

app.add_typer(data, name="data")


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(help="tasks, models, rows or runs; all but runs by default.")] = "",
    results: Results = Path("results"),
) -> None:
    """List tasks, models, rows of the board, or runs."""
    from harness import listing

    sections = {
        "tasks": listing.tasks,
        "models": listing.models,
        "rows": listing.rows,
        "runs": lambda: listing.runs(results),
    }
    if what and what not in sections:
        raise unknown("thing to list", what, sections)
    for name in [what] if what else ["tasks", "models", "rows"]:
        listing.table(name, sections[name]())


@app.command()
def show(
    task: Annotated[str, typer.Argument(help="The task.")],
    n: Annotated[int, typer.Option("--n", min=0, help="Examples to print.")] = 3,
) -> None:
    """Show a task: rule, spec, regimes, splits with sizes and fingerprints, metrics, examples."""
    from harness import listing

    listing.show(task, n)


@app.command()
def run(
    row: Annotated[str, typer.Argument(help="A row, a glob of rows, row.yaml, file.py:Class or module:Class.")],
    task: TaskGlob,
    regime: Regime = None,
    budget: Budget = "standard",
    seeds: Annotated[list[int], typer.Option("--seeds", help="Run seeds, e.g. --seeds 0 1 2.")] = [0, 1, 2],  # noqa: B006
    settings: Annotated[list[str], typer.Option("--set", help="Override key=value; repeatable.")] = [],  # noqa: B006
    workers: Annotated[int, typer.Option("--workers", help="Runs side by side, one thread each.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Run again what is finished.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done and what it takes.")] = False,
    results: Results = Path("results"),
    mlflow: Annotated[bool, typer.Option("--mlflow/--no-mlflow", help="Mirror runs to MLflow.")] = True,
    ray: Annotated[str | None, typer.Option("--ray", help="Address of a Ray cluster that does the runs.")] = None,
    accelerator: Annotated[str | None, typer.Option("--accelerator", help="cpu or gpu; Lightning's.")] = None,
    devices: Annotated[int | None, typer.Option("--devices", help="Devices of one run; Lightning's.")] = None,
    strategy: Annotated[str | None, typer.Option("--strategy", help="How they work together; Lightning's.")] = None,
    precision: Annotated[str | None, typer.Option("--precision", help="Of training steps; Lightning's.")] = None,
) -> None:
    """Train and score a row or a model of your own; an interrupted run goes on where it was."""
    from harness import forecast, listing, plan, sweep

    lightning = {"accelerator": accelerator, "devices": devices, "strategy": strategy, "precision": precision}
    settings = [*settings, *(f"{name}={value}" for name, value in lightning.items() if value is not None)]
    planned = plan.make_plan(row, task, regime, budget, seeds, settings)
    if workers < 1:
        raise UserError(f"workers {workers} is not valid: it must be at least 1")
    listing.skipped(planned)
    if dry_run:
        listing.forecast(forecast.forecast(planned.runs, results, force=force), workers)
        return
    done = []
    for one in sweep.run_all(planned.runs, results, workers=workers, cluster=ray, force=force, mlflow=mlflow):
        listing.outcome(one)
        done.append(one)
    listing.summary(done, results)
    if any(one.run is None or one.run.status != "completed" for one in done):
        raise typer.Exit(1)


@app.command()
def references(task: TaskGlob = "*", results: Results = Path("results")) -> None:
    """Write the floor, ceiling and heuristic rows of tasks."""
    from harness import api, listing

    listing.written(api.references(task, results=results))


@app.command()
def check(model: Annotated[str, typer.Argument(help="A model or row, e.g. my_model.py:MyModel.")]) -> None:
    """Find out in seconds whether a model keeps the contract."""
    from harness import api, listing

    if not listing.checks(api.check(model)):
        raise typer.Exit(2)


@app.command()
def submit(
    model: Annotated[str, typer.Argument(help="Your model or recipe: file.py:Class, row.yaml, module:Class.")],
    suite: Annotated[
        str | None, typer.Option("--suite", help="One suite; all that the model can do by default.")
    ] = None,
    budget: Budget = "standard",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds.")] = 3,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Runs side by side, one thread each.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Run again what is finished.")] = False,
    results: Results = Path("results"),
    out: Annotated[Path | None, typer.Option("--out", help="The folder to send; submissions/ROW by default.")] = None,
    mlflow: Annotated[bool, typer.Option("--mlflow/--no-mlflow", help="Mirror runs to MLflow.")] = True,
) -> None:
    """Check, train and verify your model, show its place beside the board, and write the folder to send."""
    from harness import api, forecast, listing, plan, registry, submission, sweep

    if not listing.checks(api.check(model)):
        raise typer.Exit(2)
    planned = plan.make_plan(model, registry.tasks_of(suite), None, budget, range(seeds))
    listing.skipped(planned)
    expected = forecast.forecast(planned.runs, results, force=force)
    again = {one.identity.folder for one in expected.todo}
    api.require_submittable(model, budget=budget, results=results, out=out, again=again)
    listing.forecast(expected, workers)
    done = []
    for one in sweep.run_all(planned.runs, results, workers=workers, force=force, mlflow=mlflow):
        listing.outcome(one)
        done.append(one)
    if not listing.findings(f for one in done if one.folder for f in api.verify(one.folder)):
        raise typer.Exit(2)
    if any(one.run is None for one in done):
        raise typer.Exit(1)
    found, files = api.submit(model, budget=budget, results=results, out=out)
    listing.table("beside the board", submission.lines(found))
    for remark in submission.remarks(found):
        typer.echo(remark)
    listing.written(files)


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the model, e.g. my-model.")],
    family: Annotated[str, typer.Option("--family", help="transduction, pointing, tape, story or scene.")],
) -> None:
    """Write a commented model file to start from."""
    from harness import scaffold

    path = scaffold.new(name, family)
    typer.echo(f"wrote {path}; next: readhead check {path}:{scaffold.class_name(name)}")


@app.command()
def verify(
    path: Annotated[Path, typer.Argument(help="A results folder, a part of one, or one bundle.")] = Path("results"),
    prove: Annotated[bool, typer.Option("--prove", help="Committed targets and references, too: minutes.")] = False,
) -> None:
    """Recompute every number from stored predictions; no training."""
    from harness import api, listing

    verified = listing.findings(api.verify(path, workers=min(os.cpu_count() or 1, 4), references=prove))
    proven = not prove or listing.proofs(api.prove())
    if not (verified and proven):
        raise typer.Exit(2)


@app.command()
def evaluate(
    bundle: Annotated[Path, typer.Argument(help="The bundle of a trained run, whose weights are in the cache.")],
    file: Annotated[Path, typer.Argument(help="Examples in the format that the task's data was released in.")],
) -> None:
    """Score a trained model on a file, e.g. one that a paper's authors released."""
    from harness import api, listing

    listing.scores(api.evaluate(bundle, file))


@app.command()
def score(
    task: Annotated[str, typer.Argument(help="The task.")],
    predictions: Annotated[Path, typer.Argument(help="An npz of predictions, as task.json of the export says.")],
    row: Annotated[str, typer.Option("--row", help="What the row is called on the board, e.g. my-jax-model.")],
    regime: OneRegime = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The seed of the run that predicted.")] = 0,
    title: Annotated[str, typer.Option("--title", help="The row's title; its name by default.")] = "",
    tuning: Annotated[str, typer.Option("--tuning", help="What was tuned, on what, over how many trials.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an older bundle of the row and seed.")] = False,
    results: Results = Path("results"),
) -> None:
    """Score predictions that were made elsewhere, on exported data; the board shows them without a rank."""
    from harness import api, listing

    folder, run = api.score(
        task, predictions, row, regime=regime, seed=seed, title=title, tuning=tuning, force=force, results=results
    )
    listing.scores(run.scores)
    listing.written([folder])


@app.command()
def leaderboard(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail if anything would change.")] = False,
    results: Results = Path("results"),
    board: Annotated[Path | None, typer.Option("--board", help="The board file.")] = None,
) -> None:
    """Regenerate the board, its tables and its plots from stored runs."""
    from harness import api, listing

    if not check:
        listing.written(api.leaderboard(results=results, board=board))
        return
    changed = api.check_leaderboard(results=results, board=board)
    if changed:
        typer.echo(f"error: not up to date, run `readhead leaderboard`: {', '.join(changed)}", err=True)
        raise typer.Exit(1)
    typer.echo("the board is up to date")


@app.command()
def compare(
    a: Annotated[str, typer.Argument(help="A row.")],
    b: Annotated[str, typer.Argument(help="Another row.")],
    task: Annotated[str, typer.Option("--task", help="The task.")],
    regime: OneRegime = None,
    budget: Budget = "standard",
    metric: Annotated[str | None, typer.Option("--metric", help="A metric; the headline by default.")] = None,
    results: Results = Path("results"),
) -> None:
    """Compare two rows on the same test examples: difference with its 95 % interval, split by split."""
    from harness import api, listing

    listing.comparisons(a, b, api.compare(a, b, task, regime=regime, budget=budget, metric=metric, results=results))


@app.command()
def receive(
    folder: Annotated[Path, typer.Argument(help="The folder that `readhead submit` wrote.")],
    results: Results = Path("results"),
) -> None:
    """Take in what somebody sent: verify its bundles and copy them into the results. Then `readhead reproduce` them."""
    from harness import api, listing

    listing.written(api.receive(folder, results))


@app.command()
def reproduce(
    row: Annotated[str, typer.Argument(help="A row, or a glob of rows.")] = "*",
    task: TaskGlob = "*",
    regime: Regime = None,
    budget: Budget = "standard",
    seeds: Annotated[int, typer.Option("--seeds", min=0, help="How many of a row's stored seeds to train again.")] = 1,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Runs side by side, one thread each.")] = 1,
    results: Results = Path("results"),
) -> None:
    """Train stored rows again: reproduced, drift or failed, with the published numbers beside. 0 seeds: only those."""
    from harness import listing, reproduction

    groups = reproduction.rows_to_reproduce(results, row, task, regime, budget)
    listing.expected(groups, seeds, workers)
    outcomes = []
    for outcome in reproduction.reproduce(groups, results, seeds, workers):
        listing.reproduced(outcome)
        outcomes.append(outcome)
    listing.verdicts(groups, outcomes)
    found = {outcome.verdict for outcome in outcomes}
    if "failed" in found or found == {"not run"}:
        raise typer.Exit(1)


@app.command()
def fingerprint(task: Annotated[str, typer.Argument(help="The task.")]) -> None:
    """Pin the fingerprints of a new task, of a new version of one, or of splits that it did not have before."""
    from harness import api, listing

    listing.written([api.fingerprint(task)])


def main() -> None:
    """Entry point: one clear line and an exit code for whatever goes wrong (2 bad input, 1 failed run, 130 Ctrl-C)."""
    if not leading():
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
    try:
        code = app(expand(sys.argv[1:]), prog_name="readhead", standalone_mode=False) or 0
    except ReadheadError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except typer.TyperException as error:  # of the command line; no message where help was asked for by saying nothing
        if error.format_message():
            reasons, context = getattr(error.__cause__, "errors", None), getattr(error, "ctx", None)
            value = f", not {reasons()[0]['input']!r}" if reasons is not None else ""  # pydantic's
            command = context.command_path if context is not None else "readhead"
            typer.echo(f"error: {error.format_message().rstrip('.')}{value} (see `{command} --help`)", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    if code == 130:  # what Typer makes of Ctrl-C
        typer.echo("interrupted; a run goes on from its last checkpoint with the same command", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
