"""Synthetic bundles of real tasks: the right answers, damaged by a chosen amount, scored by the task itself."""

import math
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.random import PCG64, RandomState

from harness.evaluation import score_split
from harness.families.base import Examples, Stored
from harness.families.tape import dequantise, quantise
from harness.records import Cost, Identity, Provenance, Run, Score, Selection
from harness.registry import get_task
from harness.results import REFERENCE_BUDGET, write_bundle
from harness.task import Task

PROVENANCE = Provenance(
    commit="0" * 40,
    dirty=False,
    source_hash="",
    harness_version="0",
    libraries={"numpy": "0"},
    python="3.11",
    cpu="test",
    threads=1,
    finished="2000-01-01T00:00:00+00:00",
)


def damaged(task: Task, examples: Examples, damage: float, rng: RandomState) -> Stored:
    """Return the oracle's answers with an error rate that starts at ``damage`` and grows with an example's size."""
    stored = task.references()["oracle"].predict(examples, rng)
    if "tokens" in stored:
        tokens = stored["tokens"]
        rate = np.clip(damage * examples.sizes[:, None] / 20, 0, 0.9)
        wrong = (rng.random_sample(tokens.shape) < rate) & (tokens > 3)
        return {"tokens": np.where(wrong, rng.randint(4, 54, size=tokens.shape), tokens).astype(np.uint8)}
    if "answers" in stored:
        wrong = (rng.random_sample(stored["answers"].shape) < damage) & (examples.targets["answer"] >= 0)
        return {"answers": np.where(wrong, stored["answers"] ^ 1, stored["answers"])}
    if "rank" in stored:
        wrong = rng.random_sample(len(examples)) < damage
        other = np.where(examples.targets["answer"] == 0, 1, 0)
        answer, rank = (np.where(wrong, new, stored[name]) for name, new in (("answer", other), ("rank", 1)))
        return stored | {"answer": answer.astype(np.uint8), "rank": rank.astype(np.uint8)}
    owner = np.repeat(examples.sizes, examples.targets["answer"].sum(1) * examples.targets["bits"].shape[2])
    doubt = rng.standard_normal(len(owner)) * damage * owner
    return {"logits": quantise(dequantise(stored["logits"]) * (1 - min(damage, 0.9)) + doubt)}


def scores(task: Task, stored: dict[str, Stored]) -> list[Score]:
    """Score every split, whole and by size."""
    return [score for split, arrays in stored.items() for score in score_split(task, split, arrays, task.load(split))]


@lru_cache(maxsize=256)
def predicted(task_name: str, damage: float, seed: int) -> tuple[dict[str, Stored], list[Score]]:
    """Return damaged answers for every test of the first regime, and their scores."""
    task = get_task(task_name)
    rng = RandomState(PCG64([seed, int(damage * 1e6)]))
    tests = next(iter(task.regimes.values())).tests
    stored = {split: damaged(task, task.load(split), damage, rng) for split in tests}
    return stored, scores(task, stored)


def curve(examples: int, final: float, points: int = 20, seconds: float = 60.0) -> pd.DataFrame:
    """Return a training curve that ends at the validation score ``final``."""
    share = np.arange(1, points + 1) / points
    return pd.DataFrame(
        {
            "step": (share * examples / 64).astype(int),
            "examples": (share * examples).astype(int),
            "seconds": share * seconds,
            "training_loss": 3 * np.exp(-3 * share),
            "validation": final + (0.5 - final) * np.exp(-4 * share),
        }
    )


def run_of(task: Task, row: str, seed: int, budget: str, measured: list[Score], **changes: object) -> Run:
    """Return a completed run with plausible costs; ``changes`` replace fields of the run."""
    examples = task.budgets.get(budget, 0)
    identity = Identity(
        task=task.name,
        task_version=task.version,
        regime=next(iter(task.regimes)),
        fingerprint="0" * 16,
        row=row,
        model=f"synthetic:{row}",
        model_version=1,
        hyperparameters={"hidden": 128},
        training={"batch_size": 64},
        budget=budget,
        examples=examples,
        seed=seed,
    )
    size = 20_000 * (1 + sum(map(ord, row)) % 17)
    known: dict[str, object] = {
        "kind": "trained",
        "status": "completed",
        "identity": identity,
        "title": row.replace("-", " "),
        "signatures": {metric.name: metric.signature for metric in task.metrics if metric.signature},
        "scores": measured,
        "selection": Selection(
            checkpoint="best", step=examples // 64, examples=examples, validation=0.5, training_loss=1 / (seed + 1)
        ),
        "cost": Cost(parameters=size, examples=examples, seconds=20.0 + seed + size / 5_000, flops=40.0 * size),
        "provenance": PROVENANCE,
    }
    return Run.model_validate(known | changes)


def write_trained(
    results: Path, task_name: str, row: str, seed: int, damage: float, budget: str = "smoke", **changes: object
) -> Path:
    """Write the bundle of a completed run whose answers are damaged by ``damage``."""
    task = get_task(task_name)
    stored, measured = predicted(task_name, damage, seed)
    run = run_of(task, row, seed, budget, measured, **changes)
    final = run.score("test", task.headline.name)
    drawn = curve(run.identity.examples, 0.5 if final is None else final)
    return write_bundle(results, run, stored, drawn)


def write_diverged(results: Path, task_name: str, row: str, seed: int, budget: str = "smoke") -> Path:
    """Write the bundle of a run that diverged: no scores, no predictions."""
    reason = "training loss became NaN at step 40"
    run = run_of(get_task(task_name), row, seed, budget, [], status="diverged", reason=reason, selection=None)
    return write_bundle(results, run, {}, curve(1_000, math.nan, points=3))


def write_references(results: Path, task_name: str) -> list[Path]:
    """Write the bundle of every reference of a task."""
    task = get_task(task_name)
    tests = next(iter(task.regimes.values())).tests
    folders = []
    for row, reference in task.references().items():
        rng = RandomState(PCG64(0))
        stored = {split: reference.predict(task.load(split), rng) for split in tests}
        changes = {"kind": "reference", "bound": reference.bound, "title": reference.title, "selection": None}
        run = run_of(task, row, 0, REFERENCE_BUDGET, scores(task, stored), **changes, cost=None)
        folders.append(write_bundle(results, run, stored))
    return folders
