"""Files of release 1.2 of the bAbI tasks: found where ``READHEAD_BABI`` says, checked, and read; nothing is fetched.

``READHEAD_BABI`` is the unpacked folder (``tasks_1-20_v1-2``, or one that holds it), the archive as it was downloaded,
or a folder with archives that hold parts of it.
"""

import csv
import hashlib
import os
import tarfile
import zlib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from harness.errors import UserError
from tasks.babi.text import Story, parse

VARIABLE = "READHEAD_BABI"
TOP = "tasks_1-20_v1-2"
SOURCE = (
    f"get release 1.2 of the bAbI tasks ({TOP}.tar.gz, https://research.facebook.com/downloads/babi/, licence CC BY "
    f"3.0) and set {VARIABLE} to its folder or archive; nothing is downloaded"
)


class File(NamedTuple):
    """One file of the release: how many questions it has, how many of its last ones are whole stories for validation.

    ``longest`` is the most statements before a question, 0 where it is not known; ``checksum`` a SHA-256, or the
    object name that git gives to the file.
    """

    questions: int
    validation: int
    longest: int
    checksum: str


def _table() -> dict[str, File]:
    with Path(__file__).with_name("release.csv").open(newline="") as lines:
        return {
            line["file"]: File(
                int(line["questions"]), int(line["validation"]), int(line["longest"] or 0), line["checksum"]
            )
            for line in csv.DictReader(lines)
        }


FILES = _table()
"""By path in the release, such as ``en/qa1_single-supporting-fact_train.txt``."""


def file_of(folder: str, task: int, part: str) -> str:
    """Return the path of a task's ``train`` or ``test`` file in ``en`` or ``en-10k``."""
    return next(path for path in FILES if path.startswith(f"{folder}/qa{task}_") and path.endswith(f"_{part}.txt"))


def missing(paths: list[str]) -> str | None:
    """Return why not all files can be read here, None if they can."""
    if not os.environ.get(VARIABLE):
        return SOURCE
    root = _root()
    if not root.exists():
        return f"{VARIABLE}={root} does not exist; {SOURCE}"
    absent = [path for path in paths if _find(root, path) is None]
    if absent:
        return f"{VARIABLE}={root} has no {absent[0]}; {SOURCE}"
    return None


_parsed = lru_cache(maxsize=len(FILES) // 2)(parse)
"""Files are parsed once a process, for a task's own splits and the joint one's; a changed file is another text."""


def read(path: str) -> list[Story]:
    """Return the stories of a file; a ``UserError`` says why it cannot be read, or where it was changed."""
    reason = missing([path])
    content = None if reason else _find(_root(), path)
    if content is None:
        raise UserError(f"{path} of the bAbI tasks is not here: {reason}")
    kind, _, expected = FILES[path].checksum.partition(":")
    git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    found = git if kind == "git" else hashlib.sha256(content).hexdigest()
    try:
        stories = list(_parsed(content.decode("ascii"), path))
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not the release's file: {error}") from error
    if found != expected:
        raise UserError(f"{path}: its checksum is {found[:16]}, not the release's {expected[:16]}; it was changed")
    return stories


def _root() -> Path:
    return Path(os.environ[VARIABLE])


def _find(root: Path, path: str) -> bytes | None:
    """Return the bytes of a file of the release below ``root``, None if there is none."""
    for place in (root / path, root / TOP / path):
        if place.is_file():
            return place.read_bytes()
    archives = [root] if root.is_file() else sorted([*root.glob("*.tar.gz"), *(root / path).parent.glob("*.tar.gz")])
    for archive in archives:
        content = _members(archive, archive.stat().st_mtime_ns).get(path)
        if content is not None:
            return content
    return None


@lru_cache(maxsize=8)
def _members(archive: Path, changed: int) -> dict[str, bytes]:
    """Return the release's files in an archive by path; ``changed`` is when it was, so that it is read again then."""
    found = {}
    try:
        with tarfile.open(archive, "r:gz") as members:
            for member in members:
                path = "/".join(Path(member.name).parts[-2:])
                content = members.extractfile(member) if path in FILES else None
                if content is not None:
                    found[path] = content.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise UserError(f"{archive}: not a readable archive ({error}); {SOURCE}") from error
    return found
