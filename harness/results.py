"""Bundles: one folder a run, written whole or not at all, readable without the code that made it.

``results/runs/<task>/<regime>/<row>/<budget>/seed-<k>/`` holds ``run.json`` (identity, scores, cost, provenance),
``curve.csv`` (training curve), ``predictions.npz`` (what was scored) and, if the model explains itself,
``examples.npz``.
"""

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import shutil
import stat
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
from filelock import FileLock
from pydantic import ValidationError

from harness.errors import CorruptBundleError, UserError
from harness.families.base import Stored
from harness.records import SCHEMA_VERSION, FileName, Identity, Reproduction, Run, canonical_json

RESULTS = Path("results")
"""Where runs lie if nothing else is said."""
REFERENCE_BUDGET, EXTERNAL_BUDGET = "reference", "external"
"""What stands for a budget where nothing was trained here."""
LARGEST_ARCHIVE = 2**29
"""Bytes of arrays, packed or unpacked, that a file of predictions may hold."""
LARGEST_TEXT = 2**24
"""Bytes of ``run.json`` or ``curve.csv``; those of our own runs stay below 20,000."""
LEFTOVER_SECONDS = 600
"""Nobody takes so long to write a bundle."""
CURVE_TYPES = {"step": int, "examples": int, "seconds": float, "training_loss": float, "validation": float}
CURVE_COLUMNS = tuple(CURVE_TYPES)


def _seal(run: Run) -> str:
    content = run.model_dump(mode="json")
    content.pop("checksum")
    return hashlib.sha256(canonical_json(content)).hexdigest()


def _text(run: Run) -> str:
    return json.dumps(run.model_dump(mode="json"), indent=1, sort_keys=False, allow_nan=False) + "\n"


def _curve_bytes(curve: pd.DataFrame) -> bytes:
    return curve.astype(CURVE_TYPES).to_csv(index=False, lineterminator="\n").encode()


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return a compressed ``.npz`` of plain arrays; equal arrays give equal bytes."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{name: np.ascontiguousarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]
    return buffer.getvalue()


def runs_folder(results: Path) -> Path:
    """Return ``results/runs``."""
    return results / "runs"


def require_writable(results: Path, bundles: Iterable[Path] = ()) -> None:
    """Raise a ``UserError`` now rather than after hours of training if bundles cannot be written.

    Nor, of those that are there, the ``bundles`` in which something is to be recorded.
    """
    try:
        runs_folder(results).mkdir(parents=True, exist_ok=True)
        for folder in (results, runs_folder(results), *bundles):
            with tempfile.TemporaryFile(dir=folder):
                pass
    except OSError as error:
        raise UserError(
            f"results folder {str(results)!r} cannot be written ({error.strerror}); choose another with --results"
        ) from error


def write_bundle(
    results: Path,
    run: Run,
    stored: Mapping[str, Stored],
    curve: pd.DataFrame | None = None,
    explained: Mapping[str, np.ndarray] | None = None,
) -> Path:
    """Write a run's bundle and return its folder; an older bundle of the same place is replaced.

    ``stored`` maps each split to its prediction arrays.
    """
    files = {
        "predictions.npz": npz_bytes(
            {f"{split}/{name}": array for split, arrays in stored.items() for name, array in arrays.items()}
        )
    }
    if curve is not None:
        files["curve.csv"] = _curve_bytes(curve)
    if explained:
        files["examples.npz"] = npz_bytes(explained)
    sealed = run.model_copy(update={"files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}})
    sealed = sealed.model_copy(update={"checksum": _seal(sealed)})
    return place_bundle(results, run.identity, {**files, "run.json": _text(sealed).encode()})


def place_bundle(results: Path, identity: Identity, files: Mapping[str, bytes]) -> Path:
    """Put the files of a bundle where its identity says, and return the folder; an older bundle is replaced.

    Everything is written to a temporary folder beside the target, then renamed under a lock, so that a reader sees the
    old bundle or the new one and never a part. Between two renames there is neither: what ends the process there is
    undone, or, if nothing can be, mended by the next writer of this bundle.
    """
    target = runs_folder(results) / identity.folder
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        scratch = Path(tempfile.mkdtemp(prefix=f".tmp-{target.name}-", dir=target.parent))
        try:
            for name, data in files.items():
                (scratch / name).write_bytes(data)
            scratch.chmod(0o755)
            with FileLock(results / ".lock"):
                if target.exists():
                    old = Path(tempfile.mkdtemp(prefix=f".tmp-{target.name}-", dir=target.parent))
                    try:
                        os.replace(target, old / "replaced")
                        try:
                            os.replace(scratch, target)
                        except BaseException:  # a Ctrl-C, too, must not lose both
                            os.rename(old / "replaced", target)
                            raise
                    finally:
                        shutil.rmtree(old, ignore_errors=True)
                else:
                    os.replace(scratch, target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise UserError(f"the bundle {target} could not be saved: {error.strerror or error}") from error
    return target


def _sweep(target: Path) -> None:
    """Remove what a process left that was killed while it wrote ``target``; a younger folder may be somebody's.

    A bundle that was about to be replaced goes back to its place, if there is none.
    """
    for leftover in target.parent.glob(f".tmp-{target.name}-*"):
        if time.time() - leftover.stat().st_mtime > LEFTOVER_SECONDS:
            if (leftover / "replaced").exists() and not target.exists():
                os.rename(leftover / "replaced", target)
            shutil.rmtree(leftover, ignore_errors=True)


def add_reproduction(results: Path, folder: Path, reproduction: Reproduction) -> None:
    """Record in a bundle that its row was reproduced."""
    scratch = folder / ".tmp-run.json"
    try:
        with FileLock(results / ".lock"):
            run = read_run(folder)
            run = run.model_copy(update={"reproductions": [*run.reproductions, reproduction]})
            scratch.write_text(_text(run.model_copy(update={"checksum": _seal(run)})))
            os.replace(scratch, folder / "run.json")
    except OSError as error:
        with contextlib.suppress(OSError):  # where nothing can be written, nothing can be removed either
            scratch.unlink(missing_ok=True)
        raise UserError(f"the bundle {folder} could not be saved: {error.strerror or error}") from error


def bundle_files(folder: Path, run: Run) -> dict[str, bytes]:
    """Return a bundle's own files by name, checked; whatever else lies in its folder is none of them."""
    return {"run.json": _text(run).encode(), **{name: read_file(folder, run, name) for name in run.files}}


def read_run(folder: Path) -> Run:
    """Return a bundle's ``run.json``; ``CorruptBundleError`` names what is wrong with it."""
    path = folder / "run.json"
    try:
        text = _read_plain(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise CorruptBundleError(f"{path}: cannot be read ({error})") from error
    _require_schema(path, text)
    try:
        run = Run.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CorruptBundleError(f"{path}: {where + ': ' if where else ''}{first['msg']}") from error
    try:
        whole = run.checksum == _seal(run) and text == _text(run)
    except ValueError as error:  # a number that JSON has not, in a field that may hold anything
        raise CorruptBundleError(f"{path}: {error}") from error
    if not whole:
        raise CorruptBundleError(f"{path}: its content does not match its checksum; it was edited or damaged")
    return run


def _require_schema(path: Path, text: str) -> None:
    """Refuse another schema version by its number, whatever else is new in it."""
    try:
        version = json.loads(text).get("schema_version", SCHEMA_VERSION)
    except (ValueError, AttributeError, RecursionError):
        return  # not a run at all: validation says what is wrong
    if version != SCHEMA_VERSION:
        raise CorruptBundleError(f"{path}: schema version {version}; this Readhead reads {SCHEMA_VERSION}")


def _read_plain(path: Path) -> bytes:
    """Return the bytes of a file that may be a stranger's; ``OSError`` for a link, a pipe, a device or a huge one."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    limit = LARGEST_TEXT if path.suffix in (".json", ".csv") else LARGEST_ARCHIVE
    if status.st_size > limit:
        raise OSError(errno.EFBIG, f"{status.st_size:,} bytes; at most {limit:,} are read")
    return path.read_bytes()


def read_file(folder: Path, run: Run, name: str) -> bytes:
    """Return the bytes of one of the bundle's other files, checked against ``run.json``."""
    path = folder / name
    try:
        data = _read_plain(path)
    except OSError as error:
        raise CorruptBundleError(f"{path}: cannot be read ({error.strerror})") from error
    if hashlib.sha256(data).hexdigest() != run.files.get(cast(FileName, name)):
        raise CorruptBundleError(f"{path}: its bytes do not match the sha256 in run.json; it was edited or truncated")
    return data


def read_arrays(folder: Path, run: Run, file: str = "predictions.npz", group: str | None = None) -> dict[str, Stored]:
    """Return the arrays of ``predictions.npz`` or ``examples.npz`` by split (or group) and array name.

    Of one ``group`` where it is named: the others are not unpacked.
    """
    arrays = npz_arrays(read_file(folder, run, file), folder / file, "" if group is None else f"{group}/")
    grouped: dict[str, Stored] = {}
    for key, array in arrays.items():
        name, _, field = key.rpartition("/")
        grouped.setdefault(name, {})[field] = array
    return grouped


def npz_arrays(data: bytes, path: Path, prefix: str = "") -> dict[str, np.ndarray]:
    """Return the arrays of an npz archive that may be a stranger's: no pickles, and no more than memory holds.

    Only those whose names begin with ``prefix``. ``CorruptBundleError`` names ``path``, where the ``data`` are from.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [member for member in archive.infolist() if member.filename.startswith(prefix)]
            size = sum(member.file_size for member in members)
            if size > LARGEST_ARCHIVE:
                raise ValueError(f"{size:,} bytes of arrays; at most {LARGEST_ARCHIVE:,} are read")
            arrays = {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}
        if len(arrays) < len(members):
            raise ValueError("two arrays have one name")
        return arrays
    except Exception as error:  # zipfile, tokenize and NumPy have many ways to say that bytes are no archive
        raise CorruptBundleError(f"{path}: not a readable npz ({error})") from error


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """Return one array of an archive; ``ValueError`` for objects and for a header that promises more than there is."""
    if not member.filename.endswith(".npy"):
        raise ValueError(f"{member.filename} is no array")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename} is packed in an unusual way")
    with archive.open(member) as packed:
        data = packed.read(member.file_size)  # a size: without one, more than the archive admits may be unpacked
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    else:
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    if dtype.hasobject:
        raise ValueError(f"{member.filename} holds Python objects")
    if math.prod(shape) * dtype.itemsize != len(data) - stream.tell() or min(shape, default=0) < 0:
        raise ValueError(f"{member.filename} does not hold what its header says")
    flat = np.frombuffer(data, dtype, offset=stream.tell()) if math.prod(shape) * dtype.itemsize else np.empty(0, dtype)
    return flat.reshape(shape, order="F" if fortran else "C").copy()


def read_curve(folder: Path, run: Run) -> pd.DataFrame:
    """Return the training curve; columns as ``CURVE_COLUMNS``."""
    data = read_file(folder, run, "curve.csv")
    try:
        curve = pd.read_csv(io.BytesIO(data), float_precision="round_trip")
        if tuple(curve.columns) != CURVE_COLUMNS:
            raise ValueError(f"columns {', '.join(curve.columns)}; expected {', '.join(CURVE_COLUMNS)}")
        if _curve_bytes(curve) != data:
            raise ValueError("it is not as Readhead writes it")
        return curve.astype(CURVE_TYPES)
    except (ValueError, TypeError, OverflowError) as error:
        raise CorruptBundleError(f"{folder / 'curve.csv'}: not a training curve ({error})") from error


def find_bundles(results: Path) -> Iterator[Path]:
    """Yield every bundle folder below ``results/runs`` in path order; half-written ones are not bundles."""
    root = runs_folder(results)
    for path in sorted(root.rglob("run.json")):
        if not half_written(path.relative_to(root)):
            yield path.parent


def half_written(path: Path) -> bool:
    """Return whether a path below ``runs`` is of a bundle that is being written, or that nobody finished writing."""
    return any(part.startswith(".tmp-") for part in path.parts)
