"""Where an interrupted run goes on from: one folder a run identity below the cache, written atomically."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from harness.errors import UnavailableError, UserError
from harness.ranks import leading
from harness.records import Identity


def cache_folder() -> Path:
    """Return ``READHEAD_CACHE``, or the user's cache folder for Readhead."""
    return Path(os.environ.get("READHEAD_CACHE") or user_cache_path("readhead"))


class Checkpoints:
    """The checkpoint of a run in progress (``last.ckpt``) and the weights of a finished one (``weights.pt``).

    A reproduction has the identity of the run that it repeats, so it has a place of its own, and keeps no weights:
    those in the cache stay what the stored run was scored with.
    """

    def __init__(self, identity: Identity, *, reproduction: bool = False):
        self.identity, self.reproduction = identity, reproduction
        self.folder = cache_folder() / ("reproductions" if reproduction else "checkpoints") / identity.digest
        self.last = self.folder / "last.ckpt"
        self.weights = self.folder / "weights.pt"

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the run, so that two processes never train the same identity, but for those of its own devices."""
        if not leading():
            yield
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.folder / "lock", timeout=0)
            lock.acquire()
        except Timeout as error:
            raise UnavailableError(f"{self.identity.label} is being trained by another process") from error
        except OSError as error:
            raise UnavailableError(
                f"cache {self.folder} cannot be written ({error.strerror}); set READHEAD_CACHE"
            ) from error
        try:
            yield
        finally:
            lock.release()

    def load_last(self) -> dict[str, Any] | None:
        """Return the checkpoint to go on from, None where there is none that can be read."""
        if not self.last.exists():
            return None
        try:
            # Written by this program into the user's own cache; a model's hyperparameters may be any object.
            return torch.load(self.last, map_location="cpu", weights_only=False)
        except Exception:
            return None

    def save(self, path: Path, write: Callable[[Path], None]) -> None:
        """Write a file through ``write(temporary path)`` and rename it; a full disk is one clear error.

        Every process of a run has to call it, for Lightning's processes wait for each other; one of them writes.
        """
        scratch = path.with_suffix(".tmp")
        try:
            write(scratch)
            if leading():
                os.replace(scratch, path)
        except (OSError, RuntimeError) as error:
            scratch.unlink(missing_ok=True)
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error).splitlines()[0]
            raise UserError(
                f"the checkpoint could not be saved in the cache {cache_folder()}: {reason}. "
                "Free some space, or point READHEAD_CACHE to another folder"
            ) from error

    def finish(self, state_dict: dict[str, Any]) -> None:
        """Keep the scored weights and drop the checkpoint."""
        if not leading():
            return
        if not self.reproduction:
            self.save(self.weights, lambda path: torch.save(state_dict, path))
        self.last.unlink(missing_ok=True)

    def clear(self) -> None:
        """Drop the checkpoint; the weights of a finished run stay until others take their place."""
        if leading():
            self.last.unlink(missing_ok=True)


def interrupted() -> list[Path]:
    """Return the folders of runs that were started and are neither finished nor cleared."""
    return sorted(path.parent for path in (cache_folder() / "checkpoints").glob("*/last.ckpt"))
