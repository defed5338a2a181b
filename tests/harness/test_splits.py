"""Deterministic data: order, batch size, seed and global generators change nothing that they should not."""

import itertools
import random
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UserError
from harness.families.base import Batch, Examples
from harness.families.transduction import EOS, TRANSDUCTION, Spec
from harness.metrics.transduction import SEQUENCE_METRICS
from harness.registry import get_task
from harness.splits import (
    BLOCK,
    GROUP,
    Split,
    Stream,
    TrainingBatches,
    draw_of_role,
    fingerprint,
    generator,
    load_block,
    load_split,
    partition,
    row_hash,
    stream_sample,
)
from harness.task import Regime, Task


class Echo(Task):
    """Repeat two to four symbols of ten; a bounded training split beside a stream."""

    name = "toy/echo"
    version = 1
    family = TRANSDUCTION
    splits: ClassVar[tuple[Split | Stream, ...]] = (
        Split("train", "train", (2, 3, 4), 7),
        Stream("stream", (2, 3, 4)),
        Split("validation", "validation", (2, 3, 4), 5),
        Split("test", "test", (2, 3, 4), 5),
    )
    regimes: ClassVar[Mapping[str, Regime]] = {"default": Regime("train", "validation", ("test",))}
    metrics = SEQUENCE_METRICS
    plotted = ("exact_match",)
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 42}
    size_name = "symbols"

    def spec(self, regime):
        return Spec(4, 4, 14, 14, 1, 1)

    def generate(self, rng, size, count, role):
        source = draw_of_role(lambda n: rng.randint(4, 14, (n, size)), count, role)
        target = np.concatenate([source, np.full((count, 1), EOS)], axis=1)
        return Examples(
            {"source": source, "source_length": np.full(count, size)}, {"target": target}, np.full(count, size)
        )

    def references(self):
        return {}

    def render(self, examples, row, stored=None):
        return ""


def keys(batch: Batch) -> list[bytes]:
    """One key an example, free of padding."""
    source = getattr(batch.inputs, "source", None)
    if source is None:
        return [t[: int(n)].numpy().tobytes() for t, n in zip(batch.inputs.inputs, batch.inputs.length, strict=True)]
    return [s[: int(n)].numpy().tobytes() for s, n in zip(source, batch.inputs.source_length, strict=True)]


def batches(task: Task, split: str, seed: int, size: int, start: int, stop: int, phase: int = 0) -> list[list[bytes]]:
    return [keys(b) for b in TrainingBatches(task, task.split(split), seed, size, phase).iterate(start, stop)]


def flat(parts: list[list[bytes]]) -> list[bytes]:
    return [key for part in parts for key in part]


@pytest.fixture(params=["seq2seq/copy", "ntm/copy"])
def task(request) -> Task:
    return get_task(request.param)


# Pinned constants: what was published must be generated for ever


def test_the_generator_is_frozen():
    rng = generator("seq2seq/copy", 1, "train", 0)
    assert rng.randint(0, 1000, size=8).tolist() == [61, 140, 351, 564, 46, 821, 287, 429]
    assert rng.random_sample(2).tolist() == [0.8485148681792587, 0.06997930313985001]
    assert generator("a", 2, "b", "c").randint(0, 2**31 - 1, size=3).tolist() == [1264227773, 220884594, 1552664720]


def test_every_part_of_a_blocks_name_counts():
    draws = {
        tuple(generator(*name).randint(0, 2**31 - 1, size=4))
        for name in [("t", 1, "s", 0), ("u", 1, "s", 0), ("t", 2, "s", 0), ("t", 1, "r", 0), ("t", 1, "s", 1)]
    }
    assert len(draws) == 5


def by_the_book(row: list[int]) -> int:
    """The hash in Python integers."""
    state = 0x9E3779B97F4A7C15
    for value in row:
        state = ((state ^ value) * 0xBF58476D1CE4E5B9) % 2**64
        state ^= state >> 29
    state = ((state ^ (state >> 30)) * 0x94D049BB133111EB) % 2**64
    return state ^ (state >> 31)


def test_row_hashes_are_pinned():
    rows = np.array([[4, 5, 6], [6, 5, 4], [0, 0, 0], [1, 0, 0]])
    expected = [0xA965BE53F8D2F61A, 0x83F730FE864A1C08, 0x245C7CFF992AE653, 0x3FD7720B50C4392]
    assert row_hash(rows).tolist() == expected
    assert partition(rows).tolist() == ["train", "train", "train", "test"]


@given(st.lists(st.lists(st.integers(0, 2**40), min_size=3, max_size=3), min_size=1, max_size=5))
def test_row_hash_is_the_same_in_plain_integers_and_row_by_row(rows):
    assert row_hash(np.array(rows)).tolist() == [by_the_book(row) for row in rows]


def test_row_hash_takes_any_integer_type():
    rows = np.array([[0, 1, 1], [1, 0, 0]])
    for dtype in (np.uint8, np.int32, np.int64, bool):
        assert row_hash(rows.astype(dtype)).tolist() == row_hash(rows).tolist()


FINGERPRINTS = {
    "seq2seq/copy": ("67bec3a0305caee4", "9564219df508b851", "0b900898d360d64a"),
    "ntm/copy": ("b158803561a95990", "b1a0ca6deafb4151", "cb2411b33a7ebfdd"),
}


def test_fingerprints_of_the_first_tasks_are_pinned(task):
    splits = [task.split(name) for name in ("train", "validation", "test")]
    made = [stream_sample(task, s) if isinstance(s, Stream) else load_split(task, s) for s in splits]
    assert tuple(fingerprint(examples)[:16] for examples in made) == FINGERPRINTS[task.name]


def test_a_fingerprint_moves_with_every_part_of_the_data(task):
    examples = load_split(task, task.bounded("validation"))
    variants = [
        examples,
        Examples(examples.inputs, examples.targets, examples.sizes + 1),
        examples.take(slice(0, -1)),
        examples.take(np.arange(len(examples))[::-1]),
    ]
    for side in ("inputs", "targets"):
        for name, array in getattr(examples, side).items():
            for changed in (flip_first(array), array.astype(np.int16), array[..., None]):
                variants.append(replace(examples, **{side: {**getattr(examples, side), name: changed}}))
            others = {key: value for key, value in getattr(examples, side).items() if key != name}
            variants.append(replace(examples, **{side: {**others, "renamed": array}}))
    assert len({fingerprint(variant) for variant in variants}) == len(variants)


def flip_first(array: np.ndarray) -> np.ndarray:
    changed = array.copy()
    changed.flat[0] = 1 - changed.flat[0] if array.dtype == bool else changed.flat[0] + 1
    return changed


def test_a_fingerprint_does_not_see_memory_layout(task):
    examples = load_split(task, task.bounded("validation"))
    turned = {name: np.asfortranarray(array) for name, array in examples.inputs.items()}
    assert fingerprint(Examples(turned, examples.targets, examples.sizes)) == fingerprint(examples)


# Nothing but its name decides what a block holds


def test_blocks_are_the_same_in_any_order_and_from_any_worker(task):
    stream = task.split("train")
    one_by_one = [fingerprint(load_block(task, stream, block)) for block in range(20)]
    assert len(set(one_by_one)) == 20
    backwards = [fingerprint(load_block(task, stream, block)) for block in reversed(range(20))]
    assert backwards[::-1] == one_by_one
    with ThreadPoolExecutor(4) as workers:
        assert list(workers.map(lambda b: fingerprint(load_block(task, stream, b)), range(20))) == one_by_one


def test_another_process_makes_the_same_data():
    names = ("seq2seq/copy", "ntm/copy")
    code = (
        "from harness.registry import get_task; from harness.splits import *; import numpy, random;"
        "numpy.random.seed(5); random.seed(5);"
        f"tasks = [get_task(name) for name in {names}];"
        "print(*[fingerprint(load_block(t, t.split('train'), 7)) for t in tasks]);"
        "print(*[fingerprint(load_split(t, t.split('test'))) for t in tasks])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    tasks = [get_task(name) for name in names]
    here = [load_block(t, t.split("train"), 7) for t in tasks] + [load_split(t, t.split("test")) for t in tasks]
    assert done.stdout.split() == [fingerprint(examples) for examples in here]


def test_building_one_data_set_does_not_change_another(task):
    alone = fingerprint(load_split(task, task.bounded("test")))
    other = get_task("ntm/copy" if task.name == "seq2seq/copy" else "seq2seq/copy")
    load_split(other, other.bounded("test"))
    list(TrainingBatches(task, task.split("train"), 3, 64).iterate(0, 3))
    assert fingerprint(load_split(task, task.bounded("test"))) == alone


def test_global_generators_are_neither_read_nor_moved(task):
    def data() -> list[str]:
        made = [load_split(task, task.bounded("test")), load_block(task, task.split("train"), 0)]
        list(TrainingBatches(task, task.split("train"), 0, 32).iterate(0, 2))
        return [fingerprint(examples) for examples in made]

    results = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
        results.append(data())
        assert torch.equal(before[0], torch.get_rng_state())
        assert before[1:] == (np.random.get_state()[1].tolist(), random.getstate())  # noqa: NPY002
    assert results[0] == results[1]


# Streams


@pytest.mark.parametrize("size", [16, 64, 256])
def test_a_round_holds_the_same_examples_for_every_batch_size(task, size):
    round_of = flat(batches(task, "train", 0, size, 0, GROUP * BLOCK // size))
    blocks = [task.family.batch(load_block(task, task.split("train"), block)) for block in range(GROUP)]
    assert sorted(round_of) == sorted(flat([keys(block) for block in blocks]))


def test_a_batch_has_one_size_and_no_padding(task):
    stream = task.split("train")
    for batch in TrainingBatches(task, stream, 1, 32).iterate(0, 40):
        assert len(batch) == 32
        lengths = batch.inputs.source_length if hasattr(batch.inputs, "source_length") else batch.inputs.length
        width = (batch.inputs.source if hasattr(batch.inputs, "source") else batch.inputs.inputs).shape[1]
        assert (lengths == width).all()


def test_neighbouring_batches_differ_in_size(task):
    sizes = [len(batch[0]) for batch in batches(task, "train", 0, 64, 0, 128)]
    assert sum(a != b for a, b in itertools.pairwise(sizes)) > 100  # 4 in 5 would be equal inside a block


def test_stream_sizes_are_drawn_evenly():
    task = get_task("seq2seq/copy")
    stream = task.split("train")
    drawn = [load_block(task, stream, block).sizes for block in range(1000)]
    assert all((sizes == sizes[0]).all() for sizes in drawn)
    counts = np.bincount([sizes[0] for sizes in drawn], minlength=21)[1:]
    assert ((counts - 50) ** 2 / 50).sum() < 43.8  # chi-squared, 19 degrees of freedom, 0.1 %


@given(st.sampled_from([16, 64, 256]), st.integers(0, 3), st.data())
def test_resuming_at_a_batch_gives_the_batches_from_there_on(size, seed, data):
    task = Echo()
    for split, last in (("stream", 3 * GROUP * BLOCK // size), ("train", 30)):
        start = data.draw(st.integers(0, last))
        stop = min(last + 2, start + data.draw(st.integers(0, 5)))
        if split == "stream":
            whole = batches(task, split, seed, size, max(0, start - 3), stop)[min(3, start) :]
        else:
            whole = batches(task, split, seed, size, 0, stop)[start:]
        assert batches(task, split, seed, size, start, stop) == whole
        assert len(whole) == stop - start


def test_resuming_across_a_round_boundary(task):
    per_round = GROUP * BLOCK // 256
    from_zero = batches(task, "train", 2, 256, 0, per_round + 4)
    assert batches(task, "train", 2, 256, per_round - 2, per_round + 4) == from_zero[per_round - 2 :]
    assert len(from_zero) == per_round + 4


def test_no_example_of_a_stream_is_seen_twice(task):
    seen = flat(batches(task, "train", 0, 256, 0, 2 * GROUP))
    shortest = min(map(len, seen))
    long = [key for key in seen if len(key) >= 10 * shortest]  # short ones recur by chance
    assert len(long) > 4000
    assert len(set(long)) == len(long)


def test_seeds_and_phases_read_different_data(task):
    runs = [set(flat(batches(task, "train", seed, 64, 0, 64, phase))) for seed, phase in ((0, 0), (1, 0), (0, 1))]
    shortest = min(len(key) for run in runs for key in run)
    long = [{key for key in run if len(key) >= 10 * shortest} for run in runs]
    assert all(len(run) > 500 for run in long)
    assert not long[0] & long[1]
    assert not long[0] & long[2]
    assert not long[1] & long[2]


def test_two_runs_of_a_seed_read_the_same_data(task):
    assert batches(task, "train", 4, 128, 0, 6) == batches(task, "train", 4, 128, 0, 6)


@pytest.mark.parametrize("size", [3, 100, 257, 512])
def test_a_batch_that_does_not_divide_a_block_is_refused(task, size):
    with pytest.raises(UserError, match=rf"batch_size {size} is not valid.*Valid: 1, 2, 4, 8, 16, 32, 64, 128, 256$"):
        TrainingBatches(task, task.split("train"), 0, size)


@pytest.mark.parametrize("split", ["train", "stream"])
@pytest.mark.parametrize("size", [0, -4])
def test_a_batch_of_nothing_is_refused(split, size):
    with pytest.raises(UserError, match=f"batch_size {size} is not valid: it must be at least 1"):
        TrainingBatches(Echo(), Echo().split(split), 0, size)


# A bounded training split


@pytest.mark.parametrize("size", [1, 4, 21, 50])
def test_an_epoch_covers_every_example_once(size):
    task = Echo()
    per_epoch = -(-21 // size)
    every = sorted(keys(task.family.batch(task.load("train"))))
    assert len(every) == 21
    for epoch in range(3):
        parts = batches(task, "train", 0, size, epoch * per_epoch, (epoch + 1) * per_epoch)
        assert sorted(flat(parts)) == every
        assert [len(part) for part in parts[:-1]] == [size] * (per_epoch - 1)


def test_every_epoch_seed_and_phase_has_its_own_order():
    task = Echo()
    orders = [
        tuple(flat(batches(task, "train", seed, 7, 3 * epoch, 3 * epoch + 3, phase)))
        for seed in (0, 1)
        for phase in (0, 1)
        for epoch in (0, 1, 2)
    ]
    assert len(set(orders)) == 12
    again = tuple(flat(batches(task, "train", 0, 7, 3, 6)))
    assert again == orders[1]


def test_examples_of_an_epoch_do_not_depend_on_the_batch_size():
    task = Echo()
    assert flat(batches(task, "train", 0, 1, 0, 42)) == flat(batches(task, "train", 0, 7, 0, 6))


# Partitions


def test_roles_share_out_all_rows_of_two_vectors():
    bits = (np.arange(2**16)[:, None] >> np.arange(16)) & 1
    names, counts = np.unique(partition(bits), return_counts=True)
    assert dict(zip(names, (counts / 2**16).round(2), strict=True)) == {"test": 0.06, "train": 0.87, "validation": 0.06}


@given(st.integers(0, 2**32 - 1), st.sampled_from(["train", "validation", "test"]), st.integers(1, 40))
def test_draws_have_their_role_and_keep_their_order(seed, role, count):
    rng = np.random.RandomState(seed)
    drawn: list[np.ndarray] = []

    def draw(n: int) -> np.ndarray:
        drawn.append(rng.randint(0, 9, (n, 2, 3)))
        return drawn[-1]

    rows = draw_of_role(draw, count, role)
    assert rows.shape == (count, 2, 3)
    assert (partition(rows.reshape(count, 6)) == role).all()
    every = np.concatenate(drawn)
    of_role = every[partition(every.reshape(len(every), 6)) == role]
    assert np.array_equal(rows, of_role[:count])


def test_no_partitioned_input_of_a_test_occurs_in_training_or_validation(task):
    for regime in task.regimes.values():
        names = (regime.validation, *regime.tests)
        sets = {split: set(keys(task.family.batch(task.load(split)))) for split in names}
        train = task.split(regime.train)
        seen = set()
        for seed in (0, 1):
            for batch in TrainingBatches(task, train, seed, 256).iterate(0, 64):
                seen |= set(keys(batch))
        smallest = min(map(len, seen))
        for split, own in sets.items():
            shared = own & seen
            assert all(len(key) == smallest for key in shared), (split, len(shared))  # size 1 occurs in all of them
        tested = set().union(*(sets[split] for split in regime.tests))
        assert all(len(key) == smallest for key in tested & sets[regime.validation])


def test_train_and_validation_of_the_same_size_differ():
    task = Echo()
    train, validation = (load_split(task, task.bounded(name)) for name in ("train", "validation"))
    assert not set(keys(task.family.batch(train))) & set(keys(task.family.batch(validation)))
    assert not np.array_equal(train.inputs["source"][:5], validation.inputs["source"][:5])


def test_a_split_has_its_sizes_evenly_in_order(task):
    for split in task.splits:
        if isinstance(split, Split):
            examples = task.load(split.name)
            assert len(examples) == len(split)
            assert examples.sizes.tolist() == [size for size in split.sizes for _ in range(split.per_size)]
            if split.ladder is not None:
                assert set(examples.sizes) == {split.ladder}
