"""Options that several commands have, and the form in which the command line gives several seeds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

Results = Annotated[Path, typer.Option("--results", help="Folder of bundles, tables and plots.")]
TaskGlob = Annotated[str, typer.Option("--task", help="A task, or a glob such as 'seq2seq/*'.")]
Regime = Annotated[str | None, typer.Option("--regime", help="One regime of the task; all by default.")]
OneRegime = Annotated[str | None, typer.Option("--regime", help="A regime of the task; its first by default.")]
Budget = Annotated[str, typer.Option("--budget", help="Training examples: smoke, demo, standard, paper.")]


def expand(arguments: Sequence[str]) -> list[str]:
    """Write ``--seeds 0 1 2`` as ``--seeds 0 --seeds 1 --seeds 2``, the form that the parser knows."""
    out: list[str] = []
    within = False
    for argument in arguments:
        if within and argument.lstrip("-").isdigit():
            out += ["--seeds", argument]
        elif argument == "--seeds":
            within = True
        else:
            if within and (not out or out[-2:-1] != ["--seeds"]):
                out.append("--seeds")
            within = False
            out.append(argument)
    return [*out, "--seeds"] if within and out[-2:-1] != ["--seeds"] else out
