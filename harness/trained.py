"""The trained model of a bundle, as long as this machine's cache has its weights."""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from harness import checkpoints
from harness.cells import COMPETING
from harness.errors import UserError
from harness.recipe import comes_with_a_package, row_name
from harness.records import Run, Score
from harness.registry import get_task
from harness.results import read_run

if TYPE_CHECKING:
    import pytorch_lightning as pl


def load(folder: Path | str) -> "pl.LightningModule":
    """Return the trained model of a bundle, in evaluation mode, where its weights are in this machine's cache.

    ``folder`` is the bundle, e.g. ``results/runs/seq2seq/copy/default/bahdanau/standard/seed-0``.
    """
    import torch

    from harness.model import build, get_model

    run = read_run(Path(folder))
    if run.kind not in COMPETING:
        raise UserError(f"{folder} is of kind {run.kind}; there is no model to load")
    path = checkpoints.Checkpoints(run.identity).weights
    if not path.exists():
        raise UserError(
            f"the weights of {run.identity.label} are not in the cache {checkpoints.cache_folder()}; "
            f"train it again with `{_command(run)}`"
        )
    spec = get_task(run.identity.task).spec(run.identity.regime)
    model = build(get_model(run.identity.model), spec, run.identity.hyperparameters, run.identity.row)
    model.load_state_dict(torch.load(path, weights_only=True))
    return model.eval()


def evaluate(folder: Path | str, path: Path | str) -> list[Score]:
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


def _command(run: Run) -> str:
    """Return the command that trains a run again, as far as its bundle tells what was trained.

    A row of an installed package goes by its name, a model of one's own by its class, and what is left is a recipe of
    one's own, whose file is named like the row but lies nobody knows where.
    """
    identity = run.identity
    row, _, suffix = identity.row.partition("+")
    if "~" in suffix:  # the name holds only a part of the settings; the title ends in all of them
        suffix = run.title.rpartition(" (")[2].removesuffix(")")
    installed = comes_with_a_package(row, identity.model)
    what = row if installed else identity.model if row == row_name(identity.model) else f"{row}.yaml"
    settings = [part for one in re.split(r",(?=\w+=)", suffix) if one for part in ("--set", one)]
    place = ["--task", identity.task, "--regime", identity.regime, "--budget", identity.budget]
    return shlex.join(["readhead", "run", what, *settings, *place, "--seeds", f"{identity.seed}", "--force"])
