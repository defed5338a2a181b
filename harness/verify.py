"""Recompute every stored number from stored predictions and regenerated targets, without training."""

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import numpy as np

from harness.claims import doubt
from harness.errors import ReadheadError, UserError
from harness.markdown import printable
from harness.results import half_written, runs_folder
from harness.splits import Split
from harness.task import Task

SEED_FOLDER = re.compile(r"seed-\d+")
"""A row may be called so, too."""
SHARED = 50
"""From so many bundles on further processes pay for their start."""


@dataclass(frozen=True)
class Finding:
    """What ``verify`` says of one bundle; ``message`` is empty where all is well."""

    folder: Path
    status: Literal["verified", "unverified", "failed"]
    message: str = ""


def verify(path: Path, workers: int = 1, *, references: bool = False) -> Iterator[Finding]:
    """Check every bundle at or below ``path`` (a results folder, a part of one, or one bundle).

    With ``references`` their predictions are made again, too. More ``workers`` are further processes, which share many
    bundles by suite. Raises ``UserError`` if there is none.
    """
    if not path.exists():
        raise UserError(f"{str(path)!r} does not exist; give a results folder or a bundle")
    folders = [path] if (path / "run.json").exists() else list(_bundles(path))
    if not folders:
        raise UserError(f"no bundle (a folder with run.json) lies below {str(path)!r}")
    if workers <= 1 or len(folders) < SHARED:
        yield from (verify_bundle(folder, references) for folder in folders)
        return
    shares: dict[tuple[str, ...], list[Path]] = {}
    for folder in folders:  # by suite: its tasks may be made of the same data; the largest first
        shares.setdefault(folder.parts[:-5], []).append(folder)
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        largest_first = sorted(shares, key=lambda key: -len(shares[key]))
        begun = {key: pool.submit(_verify_all, shares[key], references) for key in largest_first}
        for key in shares:
            yield from begun[key].result()


def _verify_all(folders: Sequence[Path], references: bool) -> list[Finding]:
    return [verify_bundle(folder, references) for folder in folders]


@dataclass(frozen=True)
class Proof:
    """What was proven of the committed targets of one split: how many, and what is wrong with some of them."""

    task: str
    split: str
    count: int
    wrong: tuple[str, ...]


def prove(tasks: Iterable[Task], per_size: int | None = None) -> Iterator[Proof]:
    """Prove the committed targets of ``tasks`` again, split by split; ``per_size`` examples of each size, or all."""
    for task in tasks:
        if not task.committed:
            continue
        for split in task.splits:
            if isinstance(split, Split):
                sizes = task.load(split.name).sizes
                rows = [row for size in np.unique(sizes) for row in np.flatnonzero(sizes == size)[:per_size].tolist()]
                yield Proof(task.name, split.name, len(rows), tuple(task.prove(split, rows)))


def _bundles(path: Path) -> Iterator[Path]:
    """Yield the bundles of a results folder, or of any folder below its ``runs``, even one without its ``run.json``."""
    root = runs_folder(path) if runs_folder(path).is_dir() else path
    seeds = {each for each in root.rglob("seed-*") if SEED_FOLDER.fullmatch(each.name) and each.is_dir()}
    held = {file.parent for file in root.rglob("run.json")}
    above = {parent for folder in held | seeds for parent in folder.parents}  # what holds bundles is none itself
    yield from sorted(folder for folder in held | (seeds - above) if not half_written(folder.relative_to(root)))


def verify_bundle(folder: Path, references: bool = False) -> Finding:
    """Check one bundle, which may be a stranger's: checksums, place, task version, data, every score, the weights.

    What it cannot check is what nobody can but by training again: that the named model, with the named
    hyperparameters, gave these predictions, and what that cost.
    """
    try:
        message = doubt(folder, references)
    except ReadheadError as error:
        message = str(error) if str(folder) in str(error) else f"{folder}: {error}"
        return Finding(folder, "failed", printable(message))
    except Exception as error:  # a finding and no traceback, whatever is in it: many more may be waiting
        return Finding(folder, "failed", printable(f"{folder}: cannot be checked: {type(error).__name__}: {error}"))
    return Finding(folder, "unverified" if message else "verified", printable(message))
