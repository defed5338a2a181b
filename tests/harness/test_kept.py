"""Splits that took long are kept by their fingerprint, and read back only if they are what was pinned."""

import io

import numpy as np
import pytest
from stories import stories

from harness import kept, task
from harness.checkpoints import cache_folder
from harness.registry import get_task
from harness.splits import fingerprint
from tasks.babi.qa1 import Qa1


@pytest.fixture
def everything_is_kept(monkeypatch):
    monkeypatch.setattr(kept, "KEEP_SECONDS", -1.0)


class Counting(Qa1):
    """Counts how often its splits are made."""

    def __init__(self):
        self.made = 0

    @property
    def fingerprint_path(self):
        return get_task("babi/qa1").fingerprint_path

    def make(self, split):
        self.made += 1
        return super().make(split)


@pytest.mark.parametrize(
    "examples",
    [
        stories([3, 1, 4]),
        get_task("ntm/copy").load("validation"),
        get_task("sort-of-clevr/pixels").load("validation"),
    ],
    ids=["ragged", "padded", "bytes"],
)
def test_what_is_kept_is_read_back(examples):
    kept.keep(examples, "abc")
    back = kept.read_kept("abc")
    assert fingerprint(back) == fingerprint(examples)
    assert list(back.inputs) == sorted(examples.inputs)
    assert {name: array.dtype for name, array in back.inputs.items()} == {
        name: array.dtype for name, array in examples.inputs.items()
    }
    assert [path.name for path in (cache_folder() / "splits").iterdir()] == ["abc.npz"]
    assert kept.read_kept("abd") is None


def test_a_pinned_split_is_made_once(everything_is_kept):
    first, second = Counting(), Counting()
    assert len(first.load("validation-1k")) == 100
    assert fingerprint(second.load("validation-1k")) == fingerprint(first.load("validation-1k"))
    assert (first.made, second.made) == (1, 0)


def test_a_split_that_is_made_quickly_is_not_kept(monkeypatch):
    monkeypatch.setattr(kept, "KEEP_SECONDS", 1e9)
    Counting().load("validation-1k")
    assert not (cache_folder() / "splits").exists()


def archive(**arrays):
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


@pytest.mark.parametrize("at", range(30, 4_000, 331))
def test_whatever_bit_falls_over_the_split_is_made_again(everything_is_kept, at):
    Counting().load("validation-1k")
    (path,) = (cache_folder() / "splits").iterdir()
    content = bytearray(path.read_bytes())
    content[at % len(content)] ^= 0x40
    path.write_bytes(content)
    again = Counting()
    assert fingerprint(again.load("validation-1k")) == again.pinned["splits"]["validation-1k"]


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", archive(sizes=np.ones(3)), archive(fields=np.array(["inputs/x"]), sizes=np.ones(3)), None],
    ids=["empty", "text", "no-fields", "no-such-field", "altered"],
)
def test_a_damaged_or_altered_copy_is_made_again(everything_is_kept, content):
    Counting().load("validation-1k")
    (path,) = (cache_folder() / "splits").iterdir()
    if content is None:
        other = Counting().load("validation-1k")
        other.targets["answer"][0] ^= 1
        kept.keep(other, path.stem)
    else:
        path.write_bytes(content)
    again = Counting()
    assert fingerprint(again.load("validation-1k")) == again.pinned["splits"]["validation-1k"]
    assert again.made == 1


def test_an_unpinned_split_is_not_kept(everything_is_kept):
    class Unpinned(Counting):
        pinned = {"splits": {}, "overlap": {}}  # noqa: RUF012

    assert len(Unpinned().load("validation-1k")) == 100
    assert not (cache_folder() / "splits").exists()


def test_a_cache_that_cannot_be_written_is_done_without(everything_is_kept, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("READHEAD_CACHE", str(tmp_path / "file"))
    assert len(Counting().load("validation-1k")) == 100


def test_plain_arrays_are_all_there_is():
    examples = stories([2, 3])
    plain = kept.plain_arrays(examples)
    assert {name for name in plain if "/" in name} == {
        f"{name}/{part}" for name in ("story", "sentence_length") for part in ("data", "first", "count")
    }
    assert all(isinstance(array, np.ndarray) for array in plain.values())
    assert task.kept_splits is kept
