"""References become bundles too, so that every table has its floor and its ceiling from the same code path."""

from pathlib import Path

from harness import provenance
from harness.errors import UserError
from harness.evaluation import refer, score_split
from harness.plan import untrained_identity
from harness.records import Run
from harness.results import REFERENCE_BUDGET, require_writable, write_bundle
from harness.task import Reference, Task


def run_reference(task: Task, regime: str, row: str, reference: Reference, results: Path) -> Path:
    """Predict every test with ``reference``, score it, write its bundle and return its folder."""
    stored = refer(task, regime, row, reference)
    scores = [score for split in stored for score in score_split(task, split, stored[split], task.load(split))]
    run = Run(
        kind="reference",
        status="completed",
        identity=untrained_identity(task, regime, row, REFERENCE_BUDGET),
        title=reference.title,
        bound=reference.bound,
        signatures={metric.name: metric.signature for metric in task.metrics if metric.signature},
        scores=scores,
        provenance=provenance.collect(None, threads=1),
    )
    return write_bundle(results, run, stored)


def run_references(tasks: list[Task], results: Path) -> list[Path]:
    """Write the bundles of every reference of ``tasks`` in every regime whose data are here.

    Raises ``UserError`` if there is none.
    """
    require_writable(results)
    absent = {(task.name, regime): task.missing(regime) for task in tasks for regime in task.regimes}
    if all(absent.values()):
        raise UserError(f"nothing to refer to: {next(iter(absent.values()))}")
    return [
        run_reference(task, regime, row, reference, results)
        for task in tasks
        for regime in task.regimes
        if absent[task.name, regime] is None
        for row, reference in task.references().items()
    ]
