"""The trained model of a bundle, as long as this machine's cache has its weights."""

from pathlib import Path
from typing import TYPE_CHECKING

from harness import checkpoints
from harness.cells import COMPETING
from harness.errors import UserError
from harness.recipe import recipe_paths
from harness.records import Identity, Score
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
            f"train it again with `{_command(run.identity)}`"
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


def _command(identity: Identity) -> str:
    """Return the command that trains a run again: a row by its name, one with settings, or a model of one's own."""
    row, _, settings = identity.row.partition("+")
    known = row in recipe_paths() and "~" not in settings  # which stands for settings that made no name
    what = [row, *(f"--set {setting}" for setting in settings.split(",") if setting)] if known else [identity.model]
    place = f"--task {identity.task} --regime {identity.regime} --budget {identity.budget} --seeds {identity.seed}"
    return f"readhead run {' '.join(what)} {place} --force"
