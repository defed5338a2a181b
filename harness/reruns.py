"""Which strangers' runs were made again here: ``results/reruns.csv``, which no sender's bundle can hold.

A line names a bundle below ``runs`` and the sha256 of its ``run.json``, so that another one in its place is not meant.
"""

import csv
import hashlib
import io
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock

from harness.errors import UserError
from harness.results import runs_folder

FILE = "reruns.csv"
COLUMNS = ("bundle", "run_sha256", "recorded")


def read_reruns(results: Path) -> Mapping[str, str]:
    """Return the sha256 of each recorded bundle's ``run.json`` by its path below ``runs``."""
    return {bundle: digest for bundle, digest, _ in _read(results)}


def digest_of(folder: Path) -> str:
    """Return the sha256 of a bundle's ``run.json``, which holds those of its other files."""
    return hashlib.sha256((folder / "run.json").read_bytes()).hexdigest()


def record_rerun(results: Path, folder: Path) -> None:
    """Record that the bundle in ``folder``, below ``results/runs``, was made here."""
    bundle = folder.relative_to(runs_folder(results)).as_posix()
    scratch = results / f".tmp-{FILE}"
    try:
        with FileLock(results / ".lock"):
            lines = {line[0]: line for line in _read(results)}
            lines[bundle] = [bundle, digest_of(folder), datetime.now(UTC).isoformat(timespec="seconds")]
            text = io.StringIO()
            csv.writer(text, lineterminator="\n").writerows([COLUMNS, *(lines[name] for name in sorted(lines))])
            scratch.write_text(text.getvalue(), encoding="utf-8")
            os.replace(scratch, results / FILE)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        raise UserError(f"{results / FILE} could not be written: {error.strerror or error}") from error


def _read(results: Path) -> list[list[str]]:
    """Return the lines below the header, none without a file; a ``UserError`` if it is not such a file."""
    path = results / FILE
    if not path.exists():
        return []
    try:
        lines = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    if lines[:1] != [[*COLUMNS]] or any(len(line) != len(COLUMNS) for line in lines):
        raise UserError(f"{path}: its columns are not {', '.join(COLUMNS)}")
    return lines[1:]
