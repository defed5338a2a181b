"""The folder to send, which may be somebody's: only what was written there before is replaced, whole or not at all.

``submission.sha256`` lists what was written, in the form of ``sha256sum``; whatever else lies there stays.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import UserError
from harness.results import runs_folder

LIST, TEXT, RUNS = "submission.sha256", "submission.md", "runs"
LINE = re.compile(r"([0-9a-f]{64})  ((?:runs/)?[^/]+|runs/.+/[^/]+)")
"""Of the list: a hash, and a file of the folder itself or below ``runs``."""
OTHERWISE = "choose another folder with --out"


def require_place(folder: Path, results: Path, sources: Sequence[Path]) -> dict[str, str]:
    """Return what was written to a folder before, name to sha256, if a submission may be written there.

    Raises ``UserError`` for a folder that cannot be written, for one among the stored runs, and for one where something
    of somebody else's is in the way: a file that has the name of one of ours, or anything below ``runs``.
    """
    try:
        nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
        with tempfile.TemporaryFile(dir=nearest):
            pass
        place, stored = (folder / RUNS).resolve(), runs_folder(results).resolve()
        among = place.is_relative_to(stored) or stored.is_relative_to(place) or folder.resolve().is_relative_to(stored)
        if among:
            raise UserError(f"{folder} lies among the runs of {results}, which are not to be replaced; {OTHERWISE}")
        own = _listed(folder / LIST)
        foreign = next(_foreign(folder, own, sources), None)
    except (OSError, RuntimeError) as error:  # a link that leads to itself is a RuntimeError
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise UserError(f"the submission {folder} cannot be written: {reason}; {OTHERWISE}") from error
    if foreign is not None:
        raise UserError(f"{foreign} is not as `readhead submit` wrote it, or not from it: move it away, or {OTHERWISE}")
    return own


def _listed(path: Path) -> dict[str, str]:
    """Return what the list says; it may come from a stranger, so it names nothing outside of its folder."""
    if not os.path.lexists(path):
        return {}
    found = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        lines = [""]
    for line in lines:
        match = LINE.fullmatch(line)
        if match is None or not {".", ".."}.isdisjoint(match[2].split("/")):
            raise UserError(f"{path} is no list that `readhead submit` wrote: move it away, or {OTHERWISE}")
        found[match[2]] = match[1]
    return found


def _foreign(folder: Path, own: Mapping[str, str], sources: Sequence[Path]) -> Iterator[Path]:
    """Yield what would be replaced, or sent along, and was not written here or was changed since."""
    names = {TEXT: None, **dict.fromkeys(source.name for source in sources), **dict.fromkeys(own)}
    kept = in_place(folder, sources)
    found = [folder / name for name in names if name not in kept and os.path.lexists(folder / name)]
    runs = folder / RUNS
    if runs.is_dir() and not runs.is_symlink():
        found += [path for path in sorted(runs.rglob("*")) if path.is_symlink() or not path.is_dir()]
    elif os.path.lexists(runs):
        yield runs
    for path in found:
        wanted = own.get(path.relative_to(folder).as_posix())
        if path.is_symlink() or not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != wanted:
            yield path


def in_place(folder: Path, sources: Sequence[Path]) -> set[str]:
    """Return the names of the sources that are no copies in a folder but lie there themselves."""
    return {
        source.name for source in sources if (folder / source.name).exists() and source.samefile(folder / source.name)
    }


@contextmanager
def replacing(folder: Path, own: Collection[str], sources: Sequence[Path]) -> Iterator[Path]:
    """Yield an empty folder to fill; its files then take the place of the ``own`` ones of ``folder``, with their list.

    Whatever ends this before, the folder is as it was.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".tmp-", dir=folder) as scratch:
            fresh, old = Path(scratch, "fresh"), Path(scratch, "old")
            fresh.mkdir()
            yield fresh
            new = sorted(path.relative_to(fresh).as_posix() for path in fresh.rglob("*") if path.is_file())
            hashes = [hashlib.sha256((fresh / name).read_bytes()).hexdigest() for name in new]
            listed = "".join(f"{h}  {name}\n" for h, name in zip(hashes, new, strict=True))
            (fresh / LIST).write_text(listed, encoding="utf-8")
            kept = in_place(folder, sources)
            leaving = [name for name in (*own, LIST) if name not in kept]
            moves = [(folder / name, old / name) for name in leaving if os.path.lexists(folder / name)]
            try:
                _move([*moves, *((fresh / name, folder / name) for name in (*new, LIST))])
            finally:
                _prune(folder, [*leaving, *new])
    except BaseException:
        for path in made:
            with suppress(OSError):
                path.rmdir()
        raise


def _move(moves: Sequence[tuple[Path, Path]]) -> None:
    """Rename files one after the other, or none of them."""
    try:
        for source, target in moves:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(source, target)
    except BaseException:
        for source, target in reversed(moves):
            if not os.path.lexists(source) and os.path.lexists(target):
                os.replace(target, source)
        raise


def _prune(folder: Path, names: Sequence[str]) -> None:
    """Remove the folders of files that are empty now."""
    left = {parent for name in names for parent in Path(name).parents if parent != Path(".")}
    for parent in sorted(left, reverse=True):
        with suppress(OSError):
            (folder / parent).rmdir()
