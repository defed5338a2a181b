"""The fingerprints that fix what a task's splits hold, and how much of one split another repeats."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import UserError
from harness.families.base import Examples
from harness.files import write_whole
from harness.registry import get_task
from harness.splits import Stream, stream_sample
from harness.task import Task


def fingerprint(task: str) -> Path:
    """Pin the fingerprints and overlap rates of a task in the JSON beside its module, and return that file.

    Splits that the task did not have before are added; what is pinned stays, and a ``UserError`` says so where nothing
    is new.
    """
    found = get_task(task)
    regimes = [regime for regime in found.regimes if found.missing(regime) is None]
    if found.pinned["splits"] and all(found.pinned["splits"].keys() >= {*found.regime(r).names} for r in regimes):
        raise UserError(
            f"{found.name} version {found.version} has pinned fingerprints in {found.fingerprint_path.name}; they are "
            "fixed. Raise the task's version to change what a split holds"
        )
    if not regimes:
        raise UserError(f"{found.name} cannot be pinned: {found.missing(next(iter(found.regimes)))}")
    pinned = found.pinned
    new = {name: value for regime in regimes for name, value in found.fingerprints(regime).items()}
    content: dict[str, Any] = {
        "task": found.name,
        "version": found.version,
        "splits": pinned["splits"] | new,
        "overlap": pinned["overlap"] | {r: overlap(found, r) | pinned["overlap"].get(r, {}) for r in regimes},
    }
    found.fingerprint_path.parent.mkdir(exist_ok=True)
    return write_whole(found.fingerprint_path, (json.dumps(content, indent=1) + "\n").encode())


def overlap(task: Task, regime: str, train_examples: int = 65_536) -> dict[str, dict[str, float]]:
    """Return, for each bounded split, the share of its inputs that occur in each split listed before it.

    A stream is represented by its first ``train_examples`` examples.
    """

    def keys(examples: Examples) -> list[bytes]:
        arrays = [examples.inputs[name] for name in sorted(examples.inputs)]
        return [
            b"|".join(np.trim_zeros(array[row].ravel(), "b").tobytes() for array in arrays)
            for row in range(len(examples))
        ]

    train = task.split(task.regime(regime).train)
    loaded = stream_sample(task, train, train_examples) if isinstance(train, Stream) else task.load(train.name)
    seen = {train.name: set(keys(loaded))}
    rates: dict[str, dict[str, float]] = {}
    for name in (task.regime(regime).validation, *task.regime(regime).tests):
        own = keys(task.load(name))
        rates[name] = {
            other: round(sum(key in there for key in own) / len(own), 6)
            for other, there in seen.items()
            if any(key in there for key in own)
        }
        seen[name] = set(own)
    return rates
