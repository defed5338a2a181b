"""Bundles of strangers: whatever is in them, verify says what is wrong, never raises, and accepts no false number."""

import hashlib
import io
import json
import os
import pickle
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bundles
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_verify import VALIDATION, trained

from harness.leaderboard import render
from harness.recipe import Recipe
from harness.records import Reproduction, Run, canonical_json
from harness.registry import get_task
from harness.results import (
    LARGEST_ARCHIVE,
    LARGEST_TEXT,
    add_reproduction,
    npz_arrays,
    npz_bytes,
    read_curve,
    read_run,
)
from harness.standings import load_board
from harness.tables import csv_bytes
from harness.verify import Finding, verify_bundle

SAID = {
    "title",
    "provenance.*",
    "identity.model",
    "identity.model_version",
    "identity.hyperparameters.*",
    "identity.training.clip_norm",
    "cost.parameters",
    "cost.flops",
}
"""What a sender only says: no score follows from it, and no file of the bundle could show it. ``reproduce`` does."""
PERIPHERAL = {"training_loss", "validation", "seconds"}
"""Columns of a curve that nothing can be held against but in the rows that the selection and the cost name."""


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> dict[str, bytes]:
    """The files of a verified bundle."""
    folder = trained("ntm/copy", tmp_path_factory.mktemp("original"), VALIDATION)
    assert verify_bundle(folder).status == "verified"
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def place(tmp_path_factory, original) -> Path:
    """Where the bundle belongs, below a results folder of its own."""
    folder = tmp_path_factory.mktemp("strangers") / "results/runs/ntm/copy/default/copy-cat/smoke/seed-0"
    folder.mkdir(parents=True)
    return folder


def sealed(files: dict[str, bytes], change: Callable[[dict[str, Any]], object] = lambda run: None) -> dict[str, bytes]:
    """Return ``files`` with ``run.json`` changed, and checksums made anew as by somebody who knows how."""
    run = json.loads(files["run.json"])
    for name in run["files"]:
        if name in files:
            run["files"][name] = hashlib.sha256(files[name]).hexdigest()
    change(run)
    run.pop("checksum", None)
    try:
        run["checksum"] = hashlib.sha256(canonical_json(run)).hexdigest()
    except ValueError:
        run["checksum"] = "0" * 64
    return {**files, "run.json": (json.dumps(run, indent=1) + "\n").encode()}


def judged(place: Path, files: dict[str, bytes]) -> Finding:
    """Write ``files`` as the bundle and return what verify says; it may neither raise nor be at a loss."""
    for path in place.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for name, data in files.items():
        (place / name).write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # NumPy on headers of its own early days
        finding = verify_bundle(place)
    assert "cannot be checked" not in finding.message
    assert finding.message.isprintable()
    return finding


def refused(place: Path, files: dict[str, bytes], reason: str = "") -> None:
    finding = judged(place, files)
    assert finding.status == "failed", finding
    assert reason in finding.message


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every leaf of a JSON value; empty lists and objects are leaves."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not items:
        yield path
    for key, below in items:
        yield from leaves(below, (*path, key))


def put(run: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        run = run[key]
    run[path[-1]] = value


def at(run: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        run = run[key]
    return run


def only_said(path: tuple[Any, ...]) -> bool:
    return ".".join(map(str, path)) in SAID or ".".join([*map(str, path[:-1]), "*"]) in SAID or path[0] == "provenance"


# Every leaf of run.json

OTHERS = [None, True, False, 0, 1, -1, 7, 0.5, 1e300, 10**30, "", "x", "../../etc", "a/b", ".", "\x1b[2J", [], {}]


def test_no_leaf_of_the_record_but_what_is_only_said_can_be_changed(place, original):
    run = json.loads(original["run.json"])
    paths = [path for path in leaves(run) if path[0] not in ("scores", "checksum", "files")]
    assert len(paths) >= 40
    accepted = set()
    for index, path in enumerate(paths):
        for other in {0: OTHERS, 1: OTHERS[::2], 2: OTHERS[1::2]}[0 if only_said(path) else 1 + index % 2]:
            if other == at(run, path) and type(other) is type(at(run, path)):
                continue
            finding = judged(place, sealed(original, lambda run, path=path, other=other: put(run, path, other)))
            if finding.status != "failed":
                assert only_said(path), (path, other, finding)
                accepted.add(path)
    assert {path for path in paths if only_said(path)} == accepted


LARGE = [10**9, 10**15, 10**21, 10**30, 1e300, "x" * 5_000, "\ud800"]


def test_whatever_verify_accepts_the_board_can_show(place, original):
    """What a sender only says may be anything; it must not be a number that no table can hold."""
    run, results = json.loads(original["run.json"]), place.parents[6]
    accepted = 0
    for path in filter(only_said, leaves(run)):
        for other in LARGE:
            finding = judged(place, sealed(original, lambda run, path=path, other=other: put(run, path, other)))
            if finding.status == "verified":
                accepted += 1
                board = load_board(results, [])
                csv_bytes(board.runs)
                assert render(board, [], [], results, results / "board.md")
    assert accepted > 10
    (results / ".lock").unlink(missing_ok=True)


@settings(max_examples=100)
@given(data=st.data())
def test_no_score_can_be_changed(place, original, data):
    run = json.loads(original["run.json"])
    path = data.draw(st.sampled_from([path for path in leaves(run) if path[0] in ("scores", "files")]))
    was = at(run, path)
    other = data.draw(
        st.one_of(st.sampled_from(OTHERS), st.floats(0, 1, width=32), st.integers(0, 2000), st.text(max_size=5))
    )
    if other != was or type(other) is not type(was):
        refused(place, sealed(original, lambda run: put(run, path, other)))


@settings(max_examples=60)
@given(data=st.data())
def test_no_part_of_the_record_can_be_taken_out_added_or_swapped(place, original, data):
    run = json.loads(original["run.json"])
    nodes = sorted({path[:depth] for path in leaves(run) for depth in range(len(path))}, key=str)
    where = data.draw(st.sampled_from([node for node in nodes if node != ("files",)]))
    how = data.draw(st.sampled_from(["delete", "add", "replace"]))

    def change(run: dict[str, Any]) -> None:
        node = at(run, where)
        if how == "delete" and isinstance(node, dict):
            node.pop(data.draw(st.sampled_from(sorted(node))))
        elif how == "add" and isinstance(node, dict):
            node[data.draw(st.text(max_size=3)) + "_"] = data.draw(st.sampled_from(OTHERS))
        elif isinstance(node, list):
            node.pop(data.draw(st.integers(0, len(node) - 1))) if how == "delete" else node.append(node[0])
        elif where:
            put(run, where, data.draw(st.sampled_from([None, 1, "x", [], [node]])))
        else:
            run.clear()

    finding = judged(place, sealed(original, change))
    said = where[:2] in {("identity", "hyperparameters"), ("provenance", "libraries")}
    assert finding.status == "failed" or said, (where, how, finding)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"schema_version": ' + "9" * 10_000 + "}",
        '{"schema_version": "\x1b]0;mine\x07"}',
        "null",
        "[]",
        "\ud800".encode("utf-16", "surrogatepass"),
        "",
    ],
    ids=["nested lists", "nested objects", "a long number", "a title for the terminal", "null", "list", "16", "empty"],
)
def test_a_record_that_is_none(place, original, text):
    data = text if isinstance(text, bytes) else text.encode()
    refused(place, {**original, "run.json": data}, "run.json")


@pytest.mark.parametrize("text", ["NaN", "1e999", "-Infinity", "1" + "0" * 5000], ids=["nan", "inf", "-inf", "long"])
def test_numbers_that_are_none_where_anything_may_be(place, original, text):
    data = original["run.json"].replace(b'"width": 8', b'"width": ' + text.encode())
    refused(place, {**original, "run.json": data}, "run.json")


# Bytes of any file, sealed again or not


@settings(max_examples=250)
@given(
    name=st.sampled_from(["run.json", "predictions.npz", "curve.csv", "examples.npz"]),
    how=st.sampled_from(["flip", "delete", "insert", "cut", "double"]),
    share=st.floats(0, 1, exclude_max=True),
    bits=st.integers(1, 255),
    length=st.integers(1, 40),
    seal=st.booleans(),
)
def test_damaged_bytes_are_found_or_say_the_same(place, original, name, how, share, bits, length, seal):
    data = original[name]
    start = int(share * len(data))
    damage = {
        "flip": data[:start] + bytes([data[start] ^ bits]) + data[start + 1 :],
        "delete": data[:start] + data[start + length :],
        "insert": data[:start] + bytes([bits]) * length + data[start:],
        "cut": data[:start],
        "double": data[:start] + data[start : start + length] * 2 + data[start + length :],
    }[how]
    if damage == data:
        return
    files = {**original, name: damage}
    if name == "run.json" or not seal:
        refused(place, files, name)
        return
    if judged(place, sealed(files)).status == "failed":
        return
    if name == "curve.csv":
        assert peripheral(place, original)
    elif name == "predictions.npz":
        before, after = npz_arrays(data, Path(name)), npz_arrays(damage, Path(name))
        assert before.keys() == after.keys()
        assert all(np.array_equal(before[key], after[key]) for key in before)
    else:
        assert npz_arrays(damage, Path(name)).keys() == npz_arrays(data, Path(name)).keys()


def peripheral(place: Path, original: dict[str, bytes]) -> bool:
    """Whether the curve differs from the original's in nothing that the selection or the cost say."""
    after = read_curve(place, read_run(place))
    (place / "curve.csv").write_bytes(original["curve.csv"])
    for name, data in original.items():
        (place / name).write_bytes(data)
    run = read_run(place)
    before = read_curve(place, run)
    assert run.selection is not None
    chosen = before["step"] == run.selection.step
    same = all(before[column].tolist() == after[column].tolist() for column in before if column not in PERIPHERAL)
    assert after.loc[chosen, "validation"].tolist() == before.loc[chosen, "validation"].tolist()
    assert after[["training_loss", "seconds"]].iloc[-1].equals(before[["training_loss", "seconds"]].iloc[-1])
    return same


# Archives


class Trap:
    """Unpickled, it would leave a folder."""

    def __reduce__(self):
        return os.mkdir, (str(Path(os.environ["READHEAD_CACHE"]) / "sprung"),)


def header(text: str, data: bytes = b"") -> bytes:
    """Return an ``.npy`` file with a header of one's own."""
    packed = text.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(packed).to_bytes(2, "little") + packed + data


def archive(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED, also: tuple[Any, ...] = ()) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as packed:
        for name, data in (*members.items(), *also):
            packed.writestr(name, data)
    return buffer.getvalue()


def dictionary(shape: str, descr: str = "'|u1'", fortran: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}"


HEADERS = {
    "a terabyte promised": header(dictionary("(1099511627776,)")),
    "a size that wraps around": header(dictionary("(4294967296, 4294967296)")),
    "a negative size": header(dictionary("(-2, -3)"), b"123456"),
    "more than there is": header(dictionary("(9,)"), b"12345678"),
    "less than there is": header(dictionary("(7,)"), b"12345678"),
    "no dictionary": header("[1, 2"),
    "brackets": header("(" * 5_000),
    "bad indentation": header("  1\n 2\n\t3"),
    "an unclosed string": header("{'descr': '''"),
    "a call": header("{'descr': __import__('os').mkdir('sprung'), 'fortran_order': False, 'shape': ()}"),
    "items of no size": header(dictionary("(1000000000000,)", "'|V0'")),
    "no text": header(dictionary("(1,)", "'<U0'")),
    "fields": header(dictionary("(2,)", "[('a', '|u1'), ('b', '|O')]"), b"1234"),
    "version 3": b"\x93NUMPY\x03\x00" + b"\x00" * 30,
    "nothing": b"",
    "magic alone": b"\x93NUMPY",
}


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("file", ["predictions.npz", "examples.npz"])
def test_headers_that_lie_cost_nothing(place, original, name, file):
    arrays = {f"{key}.npy": HEADERS[name] for key in npz_arrays(original[file], Path(file))}
    refused(place, sealed({**original, file: archive(arrays)}), file)
    assert not Path("sprung").exists()


@pytest.mark.parametrize("kind", ["an object array", "a pickle in place of an array", "a pickle in place of the file"])
def test_a_pickle_is_never_loaded(place, original, kind):
    boxed = np.empty(1, object)
    boxed[0] = Trap()
    buffer = io.BytesIO()
    np.save(buffer, boxed, allow_pickle=True)
    files = {
        "an object array": archive({"test/logits.npy": buffer.getvalue()}),
        "a pickle in place of an array": archive({"test/logits.npy": pickle.dumps(Trap())}),
        "a pickle in place of the file": pickle.dumps(Trap()),
    }
    for file in ("predictions.npz", "examples.npz"):
        refused(place, sealed({**original, file: files[kind]}), file)
    assert not Path(os.environ["READHEAD_CACHE"], "sprung").exists()


def test_arrays_that_are_not_the_predictions(place, original):
    good = npz_arrays(original["predictions.npz"], Path("predictions.npz"))
    test = good["test/logits"]
    members = {
        info.filename: zipfile.ZipFile(io.BytesIO(original["predictions.npz"])).read(info)
        for info in zipfile.ZipFile(io.BytesIO(original["predictions.npz"])).infolist()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        twice = archive(members, also=(("test/logits.npy", members["test/logits.npy"]),))
    packed = [
        npz_bytes({**good, "test/luggage": np.zeros(3)}),
        npz_bytes({**good, "../../test/logits": test}),
        npz_bytes({**good, "/etc/passwd": test}),
        npz_bytes({**good, "logits": test}),
        npz_bytes({**good, "test/logits": test[::-1]}),
        npz_bytes({**good, "test/logits": test.reshape(1, -1)}),
        npz_bytes({**good, "test/logits": test.astype(np.int8)}),
        npz_bytes({**good, "test/logits": test.astype(">u2")}),
        npz_bytes({**good, "test/logits": test.astype(complex)}),
        npz_bytes({**good, "test/logits": test.astype("datetime64[s]")}),
        npz_bytes({**good, "test/logits": test.view([("a", "u1")])}),
        npz_bytes({**good, "test": test}),
        npz_bytes({name: good[other] for name, other in zip(good, [*good][1:] + [*good][:1], strict=True)}),
        archive({**members, "readme.txt": b"hello"}),
        archive(members, zipfile.ZIP_BZIP2),
        archive(members, zipfile.ZIP_LZMA),
        twice,
    ]
    for data in packed:
        refused(place, sealed({**original, "predictions.npz": data}))
    assert judged(place, sealed({**original, "predictions.npz": archive(members)})).status == "verified"


def test_more_than_memory_is_refused_before_it_is_unpacked(place, original):
    bomb = archive({"test/logits.npy": header(dictionary(f"({LARGEST_ARCHIVE},)")) + bytes(LARGEST_ARCHIVE)})
    assert len(bomb) < 2**20
    refused(place, sealed({**original, "predictions.npz": bomb}), "at most")
    true, said = (LARGEST_ARCHIVE + 46).to_bytes(4, "little"), (50).to_bytes(4, "little")
    sizes = [at for at in range(len(bomb) - 4) if bomb[at + 1 : at + 4] == true[1:]]
    lying = bytearray(bomb)
    for at_byte in sizes:  # in the header and in the directory
        lying[at_byte : at_byte + 4] = said
    refused(place, sealed({**original, "predictions.npz": bytes(lying)}), "predictions.npz")


# Folders


def test_a_folder_holds_the_files_of_a_bundle_and_nothing_else(place, original, tmp_path):
    refused(place, {**original, "notes.txt": b"hello"}, "notes.txt is not a file of this bundle")
    listed = sealed({**original, "evil.sh": b"rm"}, lambda run: run["files"].update({"evil.sh": "0" * 64}))
    refused(place, listed, "run.json: files.evil.sh")
    outside = tmp_path / "secret"
    outside.write_bytes(b"secret")
    digest = hashlib.sha256(b"secret").hexdigest()
    for name in ("../secret", str(outside), "../../../../../../../etc/passwd"):
        refused(place, sealed(original, lambda run, name=name: run["files"].update({name: digest})), "run.json")
    for name in original:
        for make in (lambda path: path.symlink_to(outside), os.mkfifo, Path.mkdir, lambda path: path.symlink_to(path)):
            judged(place, original)
            (place / name).rename(outside.with_name(name))
            make(place / name)
            finding = verify_bundle(place)
            assert (finding.status, name in finding.message) == ("failed", True)
        (place / name).unlink()
        (place / name).symlink_to(outside.with_name(name))  # the right bytes, from elsewhere
        assert "it is no regular file" in verify_bundle(place).message
    for name, size in (("run.json", LARGEST_TEXT), ("curve.csv", LARGEST_TEXT), ("predictions.npz", LARGEST_ARCHIVE)):
        judged(place, original)
        with (place / name).open("ab") as file:
            file.truncate(size + 1)  # a hole: nothing is written
        assert "are read" in verify_bundle(place).message


# Claims


def phases(split: str) -> Callable[[dict[str, Any]], None]:
    phase = {"name": "all", "examples": 1.0, "split": split}
    return lambda run: run["identity"]["training"].update(phases=[phase])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (phases("test"), "unknown training split of ntm/copy:default 'test'"),
        (phases("validation"), "unknown training split of ntm/copy:default 'validation'"),
        (lambda run: run["identity"].update(fingerprint="f" * 32), "its data fingerprint is not that of ntm/copy"),
        (lambda run: run["identity"]["training"].update(batch_size=32), "its curve is not that of 640 examples"),
        (lambda run: run["identity"]["training"].update(validations=2), "its curve is not that of 640 examples"),
        (lambda run: run["identity"]["training"].update(luck=2), "unknown key in"),
        (
            lambda run: run["identity"].update(examples=get_task("ntm/copy").budget("smoke")),
            "departs_from_budget is True",
        ),
        (lambda run: run.update(departs_from_budget=False), "departs_from_budget is False"),
        (lambda run: run.update(bound="exact"), "bound exact is not what ntm/copy says"),
        (lambda run: run.update(kind="reference"), "it is no run of kind reference"),
        (lambda run: run.update(kind="external"), "it is no run of kind external"),
        (lambda run: run.update(unsupported={"train": "no"}), "unsupported on what is no test"),
        (lambda run: run.update(signatures={"bits": "`<script>`"}), "the signatures of its metrics"),
        (lambda run: run.update(reason="luck"), "status completed of a community run, and reason luck"),
        (lambda run: run.update(cost=None), "a trained run needs its cost"),
        (lambda run: run["cost"].update(seconds=0.1), "are not those at the end of its curve"),
        (lambda run: run.update(status="diverged", reason="so", scores=[]), "but it has predictions"),
    ],
)
def test_what_a_run_says_of_itself_must_fit(place, original, change, reason):
    refused(place, sealed(original, change), reason)


def test_a_row_of_a_package_that_is_not_installed_is_not_verified(place, original):
    finding = judged(place, sealed(original, lambda run: run.update(kind="trained")))
    assert (finding.status, "none has here" in finding.message) == ("unverified", True)


def test_a_strangers_row_may_not_take_the_name_of_an_installed_one(place, original, monkeypatch):
    model = json.loads(original["run.json"])["identity"]["model"]
    monkeypatch.setattr("harness.claims.recipe_paths", lambda: {"copy-cat": Path("copy-cat.yaml")})
    monkeypatch.setattr("harness.claims.get_recipe", lambda row: Recipe(row=row, model=model, title=row))
    monkeypatch.setattr("harness.claims.comes_with_a_package", lambda row, model: True)
    refused(place, original, "it is no run of kind community")
    assert judged(place, sealed(original, lambda run: run.update(kind="trained"))).status == "verified"
    monkeypatch.setattr("harness.claims.get_recipe", lambda row: Recipe(row=row, model="ntm", title=row))
    refused(place, sealed(original, lambda run: run.update(kind="trained")), "it is no run of kind trained")


def test_what_the_board_would_draw_must_be_drawable(place, original, monkeypatch):
    """The task's own arrays are in it, so the board would draw them, but in a shape that it cannot draw."""
    task = get_task("ntm/copy")
    split, row = task.explained("default")[0]
    shown = {f"{split}/{row}/{name}": np.ones((2, 2, 2, 2, 2), np.float16) for name in task.draws}
    files = {**original, "examples.npz": npz_bytes(shown)}
    listed = {"examples.npz": hashlib.sha256(files["examples.npz"]).hexdigest()}
    refused(place, sealed(files, lambda run: run["files"].update(listed)), "cannot be drawn")
    monkeypatch.setattr(type(task), "draws", ())  # then the board draws nothing
    assert judged(place, sealed(files, lambda run: run["files"].update(listed))).status == "verified"
    monkeypatch.setattr("harness.claims.LARGEST_EXPLANATION", 31)
    refused(place, sealed(files, lambda run: run["files"].update(listed)), "is not what a model shows")


def test_a_strangers_bundle_cannot_say_that_it_was_reproduced(place, original):
    again = Reproduction(seed=0, source_hash="", commit=None, exact=True, finished="2000-01-01T00:00:00+00:00")
    assert judged(place, original).status == "verified"
    add_reproduction(place.parents[6], place, again)
    finding = verify_bundle(place)
    assert (finding.status, "reruns.csv does" in finding.message) == ("failed", True)
    (place.parents[6] / ".lock").unlink(missing_ok=True)


@pytest.mark.parametrize("row", ["theirs", "tape-lstm"])
def test_the_board_runs_no_code_that_a_bundle_names(tmp_path, original, row):
    """Of a row that says it comes with a package, under a name of its own and under that of a row that does."""
    touched, evil = tmp_path / "touched", tmp_path / "evil.py"
    evil.write_text(f"open({str(touched)!r}, 'w')\n")
    run = json.loads(original["run.json"])
    run["kind"] = "trained"
    run["identity"] |= {"row": row, "model": f"{evil}:Model"}
    folder = tmp_path / "results" / "runs" / Path(*Run.model_validate(run).identity.folder.parts)
    folder.mkdir(parents=True)
    for name, data in sealed(original, lambda old: old.update(run)).items():
        (folder / name).write_bytes(data)
    (group,) = load_board(tmp_path / "results", []).groups.values()
    assert group.self_reported
    assert not touched.exists()


HOSTILE = "</td><script>alert(1)</script> | [x](http://a) ![i](b) `c` $\\frac{1$ &lt; *d* \x1b[31m\n# e"


def test_a_hostile_title_is_text_on_the_board(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.provenance.stale_reason", lambda run: None)
    bundles.write_trained(tmp_path, "ntm/copy", "theirs", 0, 0.02, kind="community", title=HOSTILE)
    text = render(load_board(tmp_path, []), [], [], tmp_path, tmp_path / "board.md")
    (line,) = (line for line in text.splitlines() if "alert" in line)
    assert line.startswith("|")
    for char in "<>[]`*$&|":
        shown = HOSTILE.count(char)
        assert line.count(f"\\{char}") >= shown
    assert "\\x1b" in line
    assert "\n# e" not in text
    assert text.isascii() or all(char.isprintable() or char == "\n" for char in text)
