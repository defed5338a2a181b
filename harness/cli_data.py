"""The commands ``readhead data``: a task's data as files."""

from pathlib import Path
from typing import Annotated

import typer

from harness.options import OneRegime

data = typer.Typer(help="Write a task's data as files.", no_args_is_help=True)


@data.command("export")
def data_export(
    task: Annotated[str, typer.Argument(help="The task.")],
    regime: OneRegime = None,
    out: Annotated[Path | None, typer.Option("--out", help="The folder; data/TASK[-REGIME] by default.")] = None,
    form: Annotated[str, typer.Option("--format", help="npz (padded arrays) or jsonl (lines, no padding).")] = "npz",
    training: Annotated[int, typer.Option("--training", help="Examples of an unbounded training stream.")] = 10_240,
) -> None:
    """Write a task's splits for models trained elsewhere; the targets of the tests lie in files of their own."""
    from harness import api, listing

    listing.written(api.export_data(task, regime=regime, out=out, form=form, training=training))


@data.command("text")
def data_text(
    task: Annotated[str, typer.Argument(help="The task.")],
    split: Annotated[str, typer.Argument(help="One of its validation or test splits.")],
    file: Annotated[Path | None, typer.Argument(help="The file to write; the text is printed without one.")] = None,
) -> None:
    """Write a split as text, in the format that the task's data was released in."""
    from harness import api, listing

    text = api.export_text(task, split, file)
    if file is None:
        typer.echo(text, nl=False)
    else:
        listing.written([file])
