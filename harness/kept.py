"""Splits that took long to make, kept in the cache by their pinned fingerprint, against which they are checked."""

import contextlib
import os
import tempfile
from pathlib import Path

import numpy as np

from harness.checkpoints import cache_folder
from harness.families.base import Examples
from harness.families.ragged import Ragged

KEEP_SECONDS = 1.0
"""A split that takes longer to make is kept."""


def plain_arrays(examples: Examples) -> dict[str, np.ndarray]:
    """Return every array by name, the parts of ragged ones apart; together they are all there is to ``examples``."""
    arrays = {**examples.inputs, **examples.targets, "sizes": examples.sizes}
    plain = {name: array for name, array in arrays.items() if not isinstance(array, Ragged)}
    for name, array in arrays.items():
        if isinstance(array, Ragged):
            plain |= {f"{name}/{part}": getattr(array, part) for part in ("data", "first", "count")}
    return plain


def _path(fingerprint: str) -> Path:
    return cache_folder() / "splits" / f"{fingerprint}.npz"


def keep(examples: Examples, fingerprint: str) -> None:
    """Write a split to the cache; one that cannot be written is made again next time."""
    path = _path(fingerprint)
    sides = {f"inputs/{name}" for name in examples.inputs} | {f"targets/{name}" for name in examples.targets}
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as scratch:
            try:
                np.savez(scratch, fields=np.array(sorted(sides)), **plain_arrays(examples))  # type: ignore[arg-type]
                os.replace(scratch.name, path)
            except BaseException:
                os.unlink(scratch.name)
                raise


def read_kept(fingerprint: str) -> Examples | None:
    """Return the split kept under ``fingerprint``, None where there is none that can be read."""
    try:
        with np.load(_path(fingerprint), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        sides: dict[str, dict[str, np.ndarray]] = {"inputs": {}, "targets": {}}
        for field in arrays["fields"].tolist():
            side, _, name = field.partition("/")
            parts = [arrays.get(f"{name}/{part}") for part in ("data", "first", "count")]
            sides[side][name] = arrays[name] if name in arrays else Ragged(*parts)  # type: ignore[arg-type, assignment]
        return Examples(sides["inputs"], sides["targets"], arrays["sizes"])
    except Exception:  # a bit that fell over may raise anything; whoever asked makes the split again
        return None
