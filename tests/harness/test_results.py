"""Bundles: what is written is read back, equal content is equal bytes, and damage of any kind is named."""

import errno
import json
import math
import os
import re
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from pydantic import ValidationError

from harness import results as store
from harness.errors import CorruptBundleError, UserError
from harness.records import Cost, Identity, Provenance, Reproduction, Run, Score, Selection, canonical_json
from harness.results import (
    CURVE_COLUMNS,
    add_reproduction,
    find_bundles,
    npz_arrays,
    npz_bytes,
    read_arrays,
    read_curve,
    read_file,
    read_run,
    require_writable,
    write_bundle,
)

STORED = {
    "test": {"tokens": np.array([[4, 5, 2], [6, 2, 0]], np.uint8)},
    "test-30": {"tokens": np.array([[300, 2]], np.uint16), "extra": np.array([1.5, -2], np.float32)},
}
EXPLAINED = {"test/0/attention": np.arange(6, dtype=np.float16).reshape(2, 3)}


def identity(**changes: object) -> Identity:
    known = {
        "task": "toy/echo",
        "task_version": 1,
        "regime": "default",
        "fingerprint": "ab" * 16,
        "row": "row-a",
        "model": "some.module:Model",
        "model_version": 3,
        "hyperparameters": {"width": 8, "rate": 3e-4, "gated": True, "cell": "grü"},
        "training": {"batch_size": 16},
        "budget": "smoke",
        "examples": 100,
        "seed": 2,
    }
    return Identity.model_validate(known | changes)


def run_of(**changes: object) -> Run:
    known = {
        "kind": "trained",
        "status": "completed",
        "identity": identity(),
        "title": "Row “A”",
        "scores": [
            Score(split="test", size=None, n=2, values={"exact_match": 1 / 3, "bleu": None}),
            Score(split="test", size=30, n=1, values={"exact_match": 0.0, "bleu": 12.345678901}),
        ],
        "unsupported": {"test-60": "too long"},
        "selection": Selection(checkpoint="best", step=7, examples=112, validation=0.25, training_loss=1e-9),
        "cost": Cost(parameters=10, examples=112, seconds=1.25, flops=1e9),
        "provenance": Provenance(
            commit=None,
            dirty=None,
            source_hash="0",
            harness_version="0",
            libraries={"numpy": "2"},
            python="3.11",
            cpu="a cpu",
            threads=1,
            finished="2000-01-01T00:00:00+00:00",
        ),
    }
    return Run.model_validate(known | changes)


def curve() -> pd.DataFrame:
    rows = [(3, 48, 0.5, 2.25, 0.1), (7, 112, 1.0, 1 / 3, 0.25), (9, 144, 1.5, math.nan, math.nan)]
    return pd.DataFrame(rows, columns=list(CURVE_COLUMNS))


def write(results: Path, **changes: object) -> Path:
    return write_bundle(results, run_of(**changes), STORED, curve(), EXPLAINED)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def bundle(tmp_path) -> Path:
    return write(tmp_path / "results")


def test_what_is_written_is_read_back(bundle):
    run = read_run(bundle)
    assert sorted(contents(bundle)) == ["curve.csv", "examples.npz", "predictions.npz", "run.json"]
    assert run.model_copy(update={"files": {}, "checksum": ""}) == run_of()
    arrays = read_arrays(bundle, run)
    assert arrays.keys() == STORED.keys()
    for split, stored in STORED.items():
        assert arrays[split].keys() == stored.keys()
        for name, array in stored.items():
            assert arrays[split][name].dtype == array.dtype
            assert np.array_equal(arrays[split][name], array)
    assert np.array_equal(
        read_arrays(bundle, run, "examples.npz")["test/0"]["attention"], EXPLAINED["test/0/attention"]
    )
    pd.testing.assert_frame_equal(read_curve(bundle, run), curve(), check_exact=True)


def test_the_place_of_a_bundle_follows_from_its_identity(bundle, tmp_path):
    assert bundle == tmp_path / "results/runs/toy/echo/default/row-a/smoke/seed-2"


def test_equal_content_gives_equal_bytes(tmp_path, monkeypatch):
    first = contents(write(tmp_path / "a"))
    monkeypatch.setattr(time, "time", lambda: 2e9)
    monkeypatch.setattr(time, "localtime", lambda *a: time.gmtime(1.5e9))
    assert contents(write(tmp_path / "b")) == first
    assert contents(write(tmp_path / "b", title="another")) != first
    assert contents(write(tmp_path / "b")) == first  # replacing leaves no trace


def test_a_bundle_that_is_read_and_written_again_is_the_same(bundle, tmp_path):
    run = read_run(bundle)
    again = write_bundle(
        tmp_path / "again",
        run,
        read_arrays(bundle, run),
        read_curve(bundle, run),
        {f"{g}/{n}": a for g, arrays in read_arrays(bundle, run, "examples.npz").items() for n, a in arrays.items()},
    )
    assert contents(again) == contents(bundle)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9-]{0,8}/[a-z]{1,5}", fullmatch=True),
        npst.arrays(st.sampled_from([np.uint8, np.uint16, np.int64, np.float32, bool]), npst.array_shapes(max_side=4)),
        max_size=3,
    )
)
def test_any_plain_arrays_survive(tmp_path_factory, arrays):
    folder = tmp_path_factory.mktemp("arrays")
    stored = {key.split("/")[0]: {} for key in arrays}
    for key, array in arrays.items():
        stored[key.split("/")[0]][key.split("/")[1]] = array
    written = write_bundle(folder, run_of(), stored)
    back = read_arrays(written, read_run(written))
    assert back.keys() == stored.keys()
    for split in stored:
        for name in stored[split]:
            np.testing.assert_array_equal(back[split][name], stored[split][name])
            assert back[split][name].dtype == stored[split][name].dtype


def test_arrays_are_compressed():
    assert len(npz_bytes({"test/tokens": np.zeros((1000, 100), np.uint8)})) < 1_000


def test_predictions_hold_no_pickles(tmp_path):
    folder = write_bundle(tmp_path, run_of(), {"test": {"tokens": np.array([{}, []], dtype=object)}})
    with pytest.raises(CorruptBundleError, match=r"predictions\.npz: not a readable npz"):
        read_arrays(folder, read_run(folder))


# All or nothing


@pytest.mark.parametrize("nth", range(4))
def test_a_failure_while_writing_leaves_the_old_bundle_and_nothing_else(tmp_path, monkeypatch, nth):
    old = contents(write(tmp_path))
    original, calls = Path.write_bytes, []

    def fails(self, data):
        calls.append(self)
        if len(calls) == nth + 1:
            original(self, data[: len(data) // 2])
            raise OSError(28, "No space left on device")
        return original(self, data)

    monkeypatch.setattr(Path, "write_bytes", fails)
    folder = tmp_path / "runs" / identity().folder
    with pytest.raises(UserError, match=re.escape(f"the bundle {folder} could not be saved: No space left on device")):
        write(tmp_path, title="new")
    monkeypatch.undo()
    assert len(calls) == nth + 1
    assert contents(folder) == old
    assert sorted(path.name for path in folder.parent.iterdir()) == ["seed-2"]


@pytest.mark.parametrize("nth", [0, 1])
def test_a_failure_while_renaming_leaves_the_old_bundle_in_its_place(tmp_path, monkeypatch, nth):
    folder = write(tmp_path)
    old = contents(folder)
    original, calls = os.replace, []

    def fails(source, target):
        calls.append(target)
        if len(calls) == nth + 1:
            raise OSError(5, "Input/output error")
        return original(source, target)

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(UserError, match="could not be saved: Input/output error"):
        write(tmp_path, title="new")
    monkeypatch.undo()
    assert folder.exists()
    assert contents(folder) == old
    assert sorted(path.name for path in folder.parent.iterdir()) == ["seed-2"]


def test_a_failed_first_write_leaves_no_bundle(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "write_bytes", lambda self, data: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    with pytest.raises(UserError, match="could not be saved"):
        write(tmp_path)
    assert list(find_bundles(tmp_path)) == []
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".tmp-")]


def test_a_reader_sees_the_old_bundle_or_the_new_one(tmp_path):
    folder = write(tmp_path)
    titles, errors, stop = set(), set(), threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                run = read_run(folder)
                read_arrays(folder, run)
                titles.add(run.title)
            except Exception as error:
                errors.add(str(error))

    reader = threading.Thread(target=read)
    reader.start()
    for index in range(20):
        write(tmp_path, title=str(index))
    stop.set()
    reader.join()
    assert titles <= {"Row “A”", *map(str, range(20))}
    assert all("cannot be read" in error for error in errors)  # gone for a moment, but never a part of a bundle
    assert read_run(folder).title == "19"


def test_what_a_killed_writer_left_is_no_bundle_and_is_cleared_away(tmp_path):
    folder = write(tmp_path)
    left = folder.parent / ".tmp-seed-2-abc"
    shutil.copytree(folder, left)
    assert list(find_bundles(tmp_path)) == [folder]
    write(tmp_path)
    assert left.exists(), "it is young, somebody may be writing it"
    os.utime(left, (0, 0))
    write(tmp_path)
    assert not left.exists()


def test_a_bundle_that_a_killed_writer_was_about_to_replace_goes_back(tmp_path, monkeypatch):
    folder = write(tmp_path, title="first")
    left = folder.parent / ".tmp-seed-2-abc"
    left.mkdir()
    os.rename(folder, left / "replaced")
    os.utime(left, (0, 0))
    monkeypatch.setattr(Path, "write_bytes", lambda self, data: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(UserError, match="could not be saved"):
        write(tmp_path, title="second")
    assert read_run(folder).title == "first"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_ctrl_c_between_the_renames_keeps_the_old_bundle(tmp_path, monkeypatch):
    folder = write(tmp_path, title="first")
    real = os.replace

    def interrupted(source: Path, target: Path) -> None:
        if Path(target) == folder:
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, title="second")
    assert read_run(folder).title == "first"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_bundles_are_found_in_path_order(tmp_path):
    folders = [write(tmp_path, identity=identity(row=row, seed=seed)) for row in ("b", "a-1", "a") for seed in (1, 0)]
    assert list(find_bundles(tmp_path)) == sorted(folders)
    assert list(find_bundles(tmp_path / "nothing")) == []


# Reproductions

AGAIN = Reproduction(seed=2, source_hash="new", commit=None, exact=True, finished="2001-01-01T00:00:00+00:00")


def test_a_reproduction_is_added_and_changes_nothing_else(bundle, tmp_path):
    before, files = read_run(bundle), contents(bundle)
    add_reproduction(tmp_path / "results", bundle, AGAIN)
    add_reproduction(tmp_path / "results", bundle, AGAIN.model_copy(update={"seed": 3}))
    after = read_run(bundle)
    assert [r.seed for r in after.reproductions] == [2, 3]
    assert after.model_copy(update={"reproductions": [], "checksum": before.checksum}) == before
    assert contents(bundle).keys() == files.keys()
    assert all(contents(bundle)[name] == data for name, data in files.items() if name != "run.json")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_reproduction_in_a_closed_folder_is_one_clear_error(bundle, tmp_path, monkeypatch, code):
    """Its scratch file can neither be written nor removed."""

    def refuse(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "write_text", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(UserError, match=rf"could not be saved: {os.strerror(code)}"):
        add_reproduction(tmp_path / "results", bundle, AGAIN)


def test_a_reproduction_that_cannot_be_saved_leaves_the_bundle_as_it_was(bundle, tmp_path, monkeypatch):
    files = contents(bundle)
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(UserError, match="No space left on device"):
        add_reproduction(tmp_path / "results", bundle, AGAIN)
    monkeypatch.undo()
    assert contents(bundle) == files


# Damage


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1))


def read_all(bundle: Path) -> None:
    run = read_run(bundle)
    for name in run.files:
        read_file(bundle, run, name)
    read_arrays(bundle, run)


def damaged(bundle: Path, message: str | None = None) -> None:
    with pytest.raises(CorruptBundleError, match=message) as caught:
        read_all(bundle)
    assert str(bundle) in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"exact_match": 0.3333333333333333', '"exact_match": 0.9'),
        ('"bleu": null', '"bleu": 100.0'),
        ('"seed": 2', '"seed": 3'),
        ('"title": "', '"title": "My '),
        ('"status": "completed"', '"status": "diverged"'),
        ('"threads": 1', '"threads": 2'),
        ('"too long"', '"too short"'),
        ('"checksum": "', '"checksum": "0'),
        ('\n "kind"', '\n  "kind"'),
        ('"kind": "trained"', '"kind":  "trained"'),
        (",\n", ",\n\n"),
        ('"n": 2', '"n": 2.0'),
        ('"schema_version": 1', '"kind": "trained",\n "schema_version": 1'),
    ],
)
def test_an_edited_run_is_corrupt(bundle, old, new):
    edit(bundle / "run.json", old, new)
    damaged(bundle, re.escape(str(bundle / "run.json")))


def test_changed_line_ends_are_an_edit_too(bundle):
    path = bundle / "run.json"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n", 1))
    damaged(bundle, "does not match its checksum")


def test_a_key_that_the_schema_does_not_know_is_corrupt(bundle):
    edit(bundle / "run.json", '"kind"', '"colour": "red",\n "kind"')
    damaged(bundle, "colour")


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "1e999"])
def test_a_number_that_is_none_is_corrupt(bundle, constant):
    edit(bundle / "run.json", '"validation": 0.25', f'"validation": {constant}')
    damaged(bundle)


def test_a_newer_schema_is_said_to_be_one(bundle):
    edit(bundle / "run.json", '"schema_version": 1', '"schema_version": 2')
    damaged(bundle, r"run\.json: schema version 2; this Readhead reads 1")


def test_a_newer_schema_is_said_to_be_one_even_where_it_has_new_keys(bundle):
    edit(bundle / "run.json", '"schema_version": 1,', '"schema_version": 2, "weather": "fine",')
    damaged(bundle, "schema version 2")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"kind": "trained"}', "\ufeff{}"])
def test_a_run_that_is_no_run_is_corrupt(bundle, text):
    (bundle / "run.json").write_text(text)
    damaged(bundle, re.escape(str(bundle / "run.json")))


def test_a_run_that_is_no_text_or_is_missing_is_corrupt(bundle):
    (bundle / "run.json").write_bytes(b"\xff\xfe\x00")
    damaged(bundle, "cannot be read")
    (bundle / "run.json").unlink()
    damaged(bundle, "cannot be read")


def test_one_split_is_read_without_the_others(tmp_path):
    data = npz_bytes({"test/tokens": np.arange(3), "test-21/tokens": np.arange(2)})
    assert npz_arrays(data, tmp_path, "test/").keys() == {"test/tokens"}
    assert npz_arrays(data, tmp_path, "validation/") == {}


@pytest.mark.parametrize("name", ["predictions.npz", "curve.csv", "examples.npz"])
@pytest.mark.parametrize("damage", ["truncated", "longer", "empty", "missing", "flipped"])
def test_every_other_file_is_covered_by_a_hash(bundle, name, damage):
    path = bundle / name
    data = path.read_bytes()
    flipped = data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]
    cases = {"truncated": data[:-1], "longer": data + b"\n", "empty": b"", "flipped": flipped}
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(cases[damage])
    damaged(bundle, re.escape(str(path)))


def test_a_file_that_the_run_does_not_name_is_not_read(bundle):
    (bundle / "other.npz").write_bytes(npz_bytes({"a/b": np.zeros(1)}))
    with pytest.raises(CorruptBundleError, match=r"other\.npz"):
        read_arrays(bundle, read_run(bundle), "other.npz")


def test_an_archive_that_was_damaged_before_it_was_sealed_is_corrupt_or_harmless(tmp_path, monkeypatch):
    """Whatever the damage to the zip, reading it raises no other exception."""
    whole = npz_bytes({"test/tokens": np.arange(200, dtype=np.uint8).reshape(10, 20)})
    refused, other = [], {}
    for at in range(0, len(whole), 3):
        for mask in (0x01, 0xFF):
            data = whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :]
            monkeypatch.setattr(store, "npz_bytes", lambda arrays, data=data: data)
            folder = write_bundle(tmp_path, run_of(), {})
            try:
                read_arrays(folder, read_run(folder))
            except CorruptBundleError as error:
                refused.append(str(error))
            except Exception as error:
                other[at, mask] = f"{type(error).__name__}: {error}"
    assert not other
    assert len(refused) > 100
    assert all(message.startswith(str(tmp_path)) for message in refused)


# Records


def test_scores_are_finite_or_null():
    for value in (math.nan, math.inf):
        with pytest.raises(ValidationError):
            Score(split="test", size=None, n=1, values={"bits": value})


def test_a_score_is_looked_up_by_split_metric_and_size():
    run = run_of()
    assert run.score("test", "exact_match") == 1 / 3
    assert run.score("test", "exact_match", 30) == 0
    assert run.score("test", "bleu") is None
    assert run.score("test", "no_such") is None
    assert run.score("test-60", "exact_match") is None


def test_everything_in_an_identity_counts():
    changes = {
        "task": "toy/other",
        "task_version": 2,
        "regime": "hard",
        "fingerprint": "cd" * 16,
        "row": "row-b",
        "model": "other:Model",
        "model_version": 4,
        "hyperparameters": {"width": 9},
        "training": {},
        "budget": "paper",
        "examples": 101,
        "seed": 3,
    }
    assert changes.keys() == set(Identity.model_fields)
    digests = {identity(**{name: value}).digest for name, value in changes.items()} | {identity().digest}
    assert len(digests) == len(changes) + 1
    assert all(re.fullmatch("[0-9a-f]{16}", digest) for digest in digests)


def test_an_identity_does_not_depend_on_the_order_of_its_settings():
    a = identity(hyperparameters={"width": 8, "rate": 0.1})
    b = identity(hyperparameters={"rate": 0.1, "width": 8})
    assert a == b
    assert a.digest == b.digest
    assert canonical_json({"b": 1, "a": [1.5, None]}) == b'{"a":[1.5,null],"b":1}'


def test_an_identity_survives_the_bundle(bundle):
    assert read_run(bundle).identity == identity()
    assert read_run(bundle).identity.digest == identity().digest
    assert json.loads((bundle / "run.json").read_text())["identity"]["hyperparameters"]["cell"] == "grü"


# Folders


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "runs").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "half", Path("/proc/no/such")):
        with pytest.raises(UserError, match=r"cannot be written .*; choose another with --results") as caught:
            require_writable(path)
        assert str(path) in str(caught.value)
        with pytest.raises(UserError, match="could not be saved"):
            write(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_refused(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(UserError, match="Permission denied"):
        require_writable(tmp_path)


def test_asking_whether_a_folder_can_be_written_leaves_nothing_in_it(tmp_path):
    require_writable(tmp_path / "new")
    require_writable(tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").rglob("*")] == ["runs"]
