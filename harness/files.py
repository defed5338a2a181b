"""Files that are written whole or not at all."""

import os
from pathlib import Path


def write_whole(path: Path, data: bytes) -> Path:
    """Write ``data`` and return ``path``: a reader sees the old file or the new one, whatever ends the writing.

    An ``OSError`` names ``path``.
    """
    scratch = path.with_name(f".tmp-{path.name}-{os.getpid()}")
    try:
        scratch.write_bytes(data)
        os.replace(scratch, path)
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = str(path)
        if scratch.exists():
            scratch.unlink()
        raise
    return path
