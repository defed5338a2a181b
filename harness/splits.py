"""Deterministic data: what an example holds depends on (task, version, split, block, offset) and on nothing else.

A split is made of blocks of examples of one size. Block ``b`` has a generator of its own, seeded from a hash of its
name, so blocks can be made in any order, by any worker, for any batch size. Bounded splits (validation and tests) list
their blocks; a training stream has no last block.
"""

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.random import PCG64, RandomState

from harness.errors import UserError
from harness.families.base import Batch, Examples
from harness.kept import plain_arrays

if TYPE_CHECKING:
    from harness.task import Task

Size = int | tuple[int, ...]
Role = Literal["train", "validation", "test"]

BLOCK = 256
"""Examples in a block of a training stream; a batch is cut from one block, hence of one size."""
GROUP = 32
"""Blocks whose batches are shuffled together, so that neighbouring batches differ in size."""
SEED_STRIDE = 2**24
"""Blocks between the starting points of two run seeds in a stream."""
FINGERPRINTED = 4096
"""Examples of a stream that its fingerprint covers."""


@dataclass(frozen=True)
class Split:
    """A bounded split: ``per_size`` examples of each of ``sizes``.

    ``ladder`` is the numeric size of a test beyond the regime's own distribution, None for all other splits. Where a
    task makes a split in its own way (``Task.make``), ``count`` is the number of examples, whose sizes fall among
    ``sizes`` as they may, and ``per_size`` is 0.
    """

    name: str
    role: Role
    sizes: tuple[Size, ...]
    per_size: int
    ladder: float | None = None
    count: int | None = None

    def __len__(self) -> int:
        return len(self.sizes) * self.per_size if self.count is None else self.count


@dataclass(frozen=True)
class Stream:
    """An unbounded training split; each block of 256 draws its size evenly from ``sizes``."""

    name: str
    sizes: tuple[Size, ...]
    role: Role = "train"


@dataclass(frozen=True)
class Variant:
    """A training split that holds the examples of the bounded split ``of``, varied by the task as they are drawn.

    What ``Task.vary`` makes of an example may differ from one epoch to the next; it depends on the run's seed, the
    phase, the epoch and the batch alone.
    """

    name: str
    of: str
    role: Role = "train"


AnySplit = Split | Stream | Variant


def generator(task: str, version: int, split: str, block: int | str) -> RandomState:
    """Return the random state of one block.

    ``RandomState`` over ``PCG64``: its stream is frozen by NumPy's compatibility policy, unlike ``Generator``'s.
    """
    digest = hashlib.sha256(f"{task}|{version}|{split}|{block}".encode()).digest()
    return RandomState(PCG64(int.from_bytes(digest[:16], "little")))


def draw_split(task: "Task", split: Split) -> Examples:
    """Generate a bounded split, blocks in the order of its sizes, with the targets that ``generate`` gives."""
    parts = []
    for block, size in enumerate(split.sizes):
        rng = generator(task.data_name, task.version, split.name, block)
        parts.append(task.generate(rng, size, split.per_size, split.role))
    return task.family.concatenate(parts)


def load_split(task: "Task", split: Split) -> Examples:
    """Return a bounded split with its final targets."""
    return task.labelled(split, draw_split(task, split))


def load_block(task: "Task", stream: Stream, block: int) -> Examples:
    """Generate block ``block`` of a training stream: 256 examples of one size."""
    rng = generator(task.data_name, task.version, stream.name, block)
    size = stream.sizes[rng.randint(len(stream.sizes))]
    return task.generate(rng, size, BLOCK, stream.role)


class TrainingBatches:
    """The batches of one run, in order; batch ``i`` is the same however the run got there.

    A stream is read from the seed's own offset, in groups of blocks whose batches are shuffled together. A bounded
    training split, or a variant of one, is shuffled anew every epoch, from (seed, epoch). ``phase`` separates the data
    of a run's phases.
    """

    def __init__(self, task: "Task", split: AnySplit, seed: int, batch_size: int, phase: int = 0):
        self.task, self.split, self.seed, self.batch_size, self.phase = task, split, seed, batch_size, phase
        if batch_size < 1:
            raise UserError(f"batch_size {batch_size} is not valid: it must be at least 1")
        if isinstance(split, Stream) and BLOCK % batch_size:
            valid = ", ".join(str(n) for n in range(1, BLOCK + 1) if BLOCK % n == 0)
            raise UserError(
                f"batch_size {batch_size} is not valid for the stream {task.name}:{split.name}: a batch is cut "
                f"from a block of {BLOCK}. Valid: {valid}"
            )

    @property
    def _bounded(self) -> Examples:
        """The split that the batches are of, or the one that they vary; loaded when the first batch is."""
        return self.task.load(self.split.of if isinstance(self.split, Variant) else self.split.name)

    @property
    def _per_round(self) -> int:
        """Batches of a group of blocks, or of an epoch."""
        if isinstance(self.split, Stream):
            return GROUP * BLOCK // self.batch_size
        return -(-len(self._bounded) // self.batch_size)

    def check(self) -> None:
        """Make the fingerprinted part of the split; a ``UserError`` says that its data changed."""
        self.task.load(self.split.name)

    def iterate(self, start: int, stop: int, part: int = 0, parts: int = 1) -> Iterator[Batch]:
        """Yield batches ``start`` to ``stop - 1``; of each, every ``parts``-th row from ``part`` on.

        A batch of fewer rows than parts, such as the last of an epoch may be, is every part's own.
        """
        position = start
        while position < stop:
            round_index, offset = divmod(position, self._per_round)
            count = min(self._per_round - offset, stop - position)
            for examples in self._round(round_index, offset, count):
                undivided = parts == 1 or len(examples) < parts
                own = examples if undivided else examples.take(slice(part, None, parts))
                yield self.task.family.batch(own)
            position += count

    def _round(self, index: int, offset: int, count: int) -> Iterator[Examples]:
        """Yield ``count`` batches of round ``index`` (a group of blocks, or an epoch) from ``offset`` on."""
        name = f"{self.split.name}/order/{self.seed}/{self.phase}"
        rng = generator(self.task.name, self.task.version, name, index)
        if isinstance(self.split, Stream):
            order = rng.permutation(self._per_round)[offset : offset + count]
            first = self.seed * SEED_STRIDE + self.phase * (SEED_STRIDE // 16) + index * GROUP
            per_block = BLOCK // self.batch_size
            blocks = {
                block: load_block(self.task, self.split, first + block) for block in sorted(set(order // per_block))
            }
            for batch in order:
                block, part = divmod(int(batch), per_block)
                cut = slice(part * self.batch_size, (part + 1) * self.batch_size)
                yield blocks[block].take(cut)
        else:
            bounded = self._bounded
            rows = rng.permutation(len(bounded))
            for batch in range(offset, offset + count):
                chosen = rows[batch * self.batch_size : (batch + 1) * self.batch_size]
                examples = bounded.take(chosen)
                if isinstance(self.split, Variant):
                    varying = generator(self.task.name, self.task.version, f"{name}/{index}", batch)
                    examples = self.task.vary(self.split.name, examples, varying)
                yield examples


def fingerprint(examples: Examples) -> str:
    """Return the sha256 of every array: its name, dtype, shape and bytes."""
    digest = hashlib.sha256()
    arrays = plain_arrays(examples)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def stream_sample(task: "Task", stream: Stream, count: int = FINGERPRINTED) -> Examples:
    """Return the first ``count`` examples (a multiple of 256) of a stream, in block order."""
    return task.family.concatenate([load_block(task, stream, block) for block in range(count // BLOCK)])


def variant_sample(task: "Task", variant: Variant) -> Examples:
    """Return the first 256 examples of the split behind a variant, varied."""
    rng = generator(task.data_name, task.version, variant.name, "sample")
    return task.vary(variant.name, task.load(variant.of).take(slice(0, BLOCK)), rng)


def row_hash(rows: np.ndarray) -> np.ndarray:
    """Return a fixed 64-bit hash of each row of an integer array ``(n,w) -> (n,) uint64``.

    Polynomial in the row with a final mix (splitmix64): the same on every machine and in every NumPy.
    """
    state = np.full(len(rows), 0x9E3779B97F4A7C15, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in rows.T.astype(np.uint64):
            state = (state ^ column) * np.uint64(0xBF58476D1CE4E5B9)
            state ^= state >> np.uint64(29)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def partition(rows: np.ndarray) -> np.ndarray:
    """Return the role each row may appear in, ``(n,) '<U10'``: 1/16 test, 1/16 validation, the rest train.

    Tasks draw until a row's role is the split's, so that no test input can occur in training, whatever the seed.
    """
    part = row_hash(rows) >> np.uint64(60)
    return np.select([part == 0, part == 1], ["test", "validation"], "train")


def draw_of_role(draw: Callable[[int], np.ndarray], count: int, role: Role) -> np.ndarray:
    """Return ``count`` rows from ``draw(n) -> (n, ...)`` whose ``partition`` is ``role``, in the order drawn."""
    kept: list[np.ndarray] = []
    missing = count
    share = 14 / 16 if role == "train" else 1 / 16
    while missing > 0:
        rows = draw(int(missing / share * 1.2) + 8)
        rows = rows[partition(rows.reshape(len(rows), math.prod(rows.shape[1:]))) == role][:missing]
        kept.append(rows)
        missing -= len(rows)
    return np.concatenate(kept)
