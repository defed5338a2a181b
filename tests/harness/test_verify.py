"""Verify: every stored number is recomputed; whatever is changed in a bundle, the check finds it and names the file."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness.errors import UserError
from harness.evaluation import refer, score_split
from harness.records import Cost, Identity, Provenance, Run, Selection, canonical_json
from harness.references import run_reference
from harness.registry import get_task
from harness.results import CURVE_COLUMNS, npz_bytes, read_arrays, read_curve, read_run, write_bundle
from harness.splits import generator
from harness.task import combined_fingerprint
from harness.verify import Finding, verify, verify_bundle

VALIDATION = [0.5, 0.25, 0.25, 0.75]


def trained(task_name: str, results: Path, values: list[float], status: str = "completed") -> Path:
    """Write the bundle of a run as training would leave it: its answers are those of a reference."""
    task = get_task(task_name)
    tests = task.regime("default").tests
    predict = task.references()["copy-last-symbol"].predict
    stored = {split: predict(task.load(split), generator("x", 1, split, 0)) for split in tests}
    steps = [10 * (index + 1) for index in range(len(values))]
    best = int(np.nanargmax(values) if task.headline.direction == "max" else np.nanargmin(values))
    rows = [(step, 16 * step, step / 4, 1 / step, value) for step, value in zip(steps, values, strict=True)]
    run = Run(
        kind="community",
        status=status,
        reason=None if status == "completed" else "training loss became nan",
        identity=Identity(
            task=task_name,
            task_version=task.version,
            regime="default",
            fingerprint=combined_fingerprint(task, "default"),
            row="copy-cat",
            model="some.module:Model",
            model_version=1,
            hyperparameters={"width": 8},
            training={"batch_size": 16, "validations": 4},
            budget="smoke",
            examples=640,
            seed=0,
        ),
        title="copy cat",
        departs_from_budget=True,
        signatures={metric.name: metric.signature for metric in task.metrics if metric.signature},
        scores=[s for split in tests for s in score_split(task, split, stored[split], task.load(split))]
        if status == "completed"
        else [],
        selection=Selection(
            checkpoint="best",
            step=steps[best],
            examples=16 * steps[best],
            validation=values[best],
            training_loss=round(1 / steps[-1], 9),
        ),
        cost=Cost(parameters=10, examples=16 * steps[-1], seconds=steps[-1] / 4, flops=1.0),
        provenance=Provenance(
            commit=None,
            dirty=None,
            source_hash="",
            harness_version="0",
            libraries={"numpy": "2"},
            python="3.11",
            cpu="a cpu",
            threads=1,
            finished="2000-01-01T00:00:00+00:00",
        ),
    )
    curve = pd.DataFrame(rows, columns=list(CURVE_COLUMNS)).round(9)
    split, row = task.explained("default")[0]
    explained = {f"{split}/{row}/attention": np.zeros((2, 3), np.float16)}
    return write_bundle(results, run, stored if status == "completed" else {}, curve, explained)


@pytest.fixture(scope="module")
def originals(tmp_path_factory) -> dict[str, Path]:
    """One bundle of each kind, in a results folder each."""
    folders = {}
    for name in ("ntm/copy", "seq2seq/copy"):
        suite = name.split("/")[0]
        folders[f"{suite}-trained"] = trained(name, tmp_path_factory.mktemp(f"{suite}-trained"), VALIDATION)
        task = get_task(name)
        results = tmp_path_factory.mktemp(f"{suite}-reference")
        folders[f"{suite}-reference"] = run_reference(task, "default", "random", task.references()["random"], results)
    return folders


@pytest.fixture
def copy_of(originals, tmp_path) -> Callable[[str], Path]:
    """Return a copy of a bundle, which a test may damage, in the same place below a results folder of its own."""

    def copy(kind: str) -> Path:
        folder = originals[kind]
        target = tmp_path / "results/runs" / read_run(folder).identity.folder
        shutil.copytree(folder, target)
        return target

    return copy


@pytest.fixture
def bundle(copy_of) -> Path:
    return copy_of("ntm-trained")


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change ``run.json`` as somebody would who knows how it is sealed."""
    content = json.loads((folder / "run.json").read_text())
    change(content)
    for name in content["files"]:
        if (folder / name).exists():
            content["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    content.pop("checksum")
    checksum = hashlib.sha256(canonical_json(content)).hexdigest()
    (folder / "run.json").write_text(json.dumps({**content, "checksum": checksum}, indent=1) + "\n")
    read_run(folder)  # it is a well-formed, well-sealed run


def edit_predictions(folder: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    """Change the stored predictions, and seal the run again."""
    grouped = read_arrays(folder, read_run(folder))
    flat = {f"{split}/{name}": array for split, arrays in grouped.items() for name, array in arrays.items()}
    change(flat)
    (folder / "predictions.npz").write_bytes(npz_bytes(flat))
    edit(folder, lambda run: None)


def failed(folder: Path, message: str = "") -> None:
    finding = verify_bundle(folder)
    assert finding.status == "failed", finding
    assert re.search(message, finding.message), finding.message
    assert str(folder) in finding.message


@pytest.mark.parametrize("kind", ["ntm-reference", "seq2seq-reference"])
def test_a_reference_with_other_answers_is_found_where_they_are_made_again(copy_of, kind):
    """Scores that follow from the answers do not tell whose answers they are."""
    folder = copy_of(kind)
    assert verify_bundle(folder, references=True).status == "verified"
    run, task = read_run(folder), get_task(read_run(folder).identity.task)
    other = {name for name in task.references() if name != run.identity.row}.pop()
    stored = refer(task, run.identity.regime, other, task.references()[other])
    scores = [score for split in stored for score in score_split(task, split, stored[split], task.load(split))]
    write_bundle(folder.parents[6], run.model_copy(update={"scores": scores}), stored)
    assert verify_bundle(folder).status == "verified"
    finding = verify_bundle(folder, references=True)
    assert (finding.status, "its predictions are not those of" in finding.message) == ("failed", True)


@pytest.mark.parametrize("kind", ["ntm-trained", "ntm-reference", "seq2seq-trained", "seq2seq-reference"])
def test_an_untouched_bundle_is_verified(originals, kind):
    assert verify_bundle(originals[kind]) == Finding(originals[kind], "verified")


def test_a_resealed_but_unchanged_bundle_is_verified(bundle):
    edit(bundle, lambda run: None)
    edit_predictions(bundle, lambda arrays: None)
    assert verify_bundle(bundle).status == "verified"


@pytest.mark.parametrize("kind", ["ntm-trained", "seq2seq-reference"])
def test_every_flipped_byte_is_found_in_the_file_it_is_in(copy_of, kind):
    folder = copy_of(kind)
    missed = []
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        places = {0, len(data) - 1, *range(0, len(data), max(1, len(data) // 40)), data.find(b"\n")}
        for at in places:
            for mask in (0x01, 0x07, 0x20, 0xFF):  # 0x07 makes a carriage return of a new line
                path.write_bytes(data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :])
                finding = verify_bundle(folder)
                if finding.status != "failed" or path.name not in finding.message:
                    missed.append((path.name, at, mask, finding))
        path.write_bytes(data)
    assert not missed
    assert verify_bundle(folder).status == "verified"


@pytest.mark.parametrize("name", ["run.json", "predictions.npz", "curve.csv", "examples.npz"])
@pytest.mark.parametrize("how", ["truncated", "missing"])
def test_a_truncated_or_missing_file_is_named(bundle, name, how):
    path = bundle / name
    data = path.read_bytes()
    path.unlink()
    if how == "truncated":
        path.write_bytes(data[: len(data) // 2])
    failed(bundle, re.escape(name))


# Bundles of something else


def test_a_bundle_of_another_task_version(bundle):
    edit(bundle, lambda run: run["identity"].update(task_version=2))
    failed(bundle, r"is of ntm/copy version 2; this is version 1")


def test_a_bundle_of_other_data(bundle):
    edit(bundle, lambda run: run["identity"].update(fingerprint="0" * 32))
    failed(bundle, "its data fingerprint is not that of ntm/copy version 1")


def test_data_that_changed_since_fail_every_bundle(bundle, monkeypatch):
    task = get_task("ntm/copy")
    pins = {"task": task.name, "version": task.version, "splits": {"test-30": "0" * 64}, "overlap": {}}
    monkeypatch.setitem(vars(task), "pinned", pins)
    monkeypatch.setitem(vars(task), "_loaded", {})
    finding = verify_bundle(bundle)
    assert finding.status == "failed"
    assert "split test-30 of ntm/copy version 1 has fingerprint" in finding.message


@pytest.mark.parametrize(
    "place",
    [
        "seq2seq/copy/default/copy-cat/smoke/seed-0",
        "ntm/copy/default/copy-dog/smoke/seed-0",
        "ntm/copy/default/copy-cat/standard/seed-0",
        "ntm/copy/default/copy-cat/smoke/seed-1",
        "not-ntm/copy/default/copy-cat/smoke/seed-0",
        "seed-0",
    ],
)
def test_a_moved_bundle(bundle, tmp_path, place):
    target = tmp_path / "elsewhere/runs" / place
    target.parent.mkdir(parents=True)
    shutil.move(bundle, target)
    failed(target, "it holds the run of ntm/copy/default/copy-cat/smoke/seed-0")


@pytest.mark.parametrize("row", ["seed-lstm", "seed-1"])
def test_a_row_may_be_called_as_a_seed(bundle, tmp_path, row):
    other = bundle.parent.parent.parent / row / bundle.parent.name / bundle.name
    run, arrays = read_run(bundle), read_arrays(bundle, read_run(bundle))
    explained = {
        f"{place}/{name}": array
        for place, named in read_arrays(bundle, run, "examples.npz").items()
        for name, array in named.items()
    }
    renamed = run.model_copy(update={"identity": run.identity.model_copy(update={"row": row})})
    assert write_bundle(tmp_path / "results", renamed, arrays, read_curve(bundle, run), explained) == other
    assert [(finding.folder, finding.status) for finding in verify(tmp_path / "results")] == [
        (bundle, "verified"),
        (other, "verified"),
    ]
    (other / "run.json").unlink()
    assert [(finding.folder, finding.status) for finding in verify(tmp_path / "results")] == [
        (bundle, "verified"),
        (other, "failed"),
    ]


def test_a_bundle_is_found_from_where_it_stands(bundle, monkeypatch):
    monkeypatch.chdir(bundle)
    assert [finding.status for finding in verify(Path("."))] == ["verified"]


def test_a_task_that_is_not_installed_is_not_verified_and_not_failed(bundle, tmp_path):
    edit(bundle, lambda run: run["identity"].update(task="toy/echo"))
    target = tmp_path / "other/runs/toy/echo/default/copy-cat/smoke/seed-0"
    target.parent.mkdir(parents=True)
    shutil.move(bundle, target)
    assert verify_bundle(target) == Finding(target, "unverified", "task toy/echo is not installed here")


def test_a_regime_that_the_task_has_not(bundle, tmp_path):
    edit(bundle, lambda run: run["identity"].update(regime="hard"))
    target = tmp_path / "other/runs/ntm/copy/hard/copy-cat/smoke/seed-0"
    target.parent.mkdir(parents=True)
    shutil.move(bundle, target)
    assert verify_bundle(target).status == "failed"
    assert "unknown regime of ntm/copy 'hard'" in verify_bundle(target).message


# Scores


def test_every_edited_score_is_found_though_it_was_sealed_again(copy_of):
    for kind in ("ntm-trained", "seq2seq-reference"):
        folder = copy_of(kind)
        text = (folder / "run.json").read_text()
        scores = json.loads(text)["scores"]
        for index in (1, len(scores) - 1):
            for name, value in scores[index]["values"].items():
                for wrong in (value + 1e-6, None) if kind == "ntm-trained" else (value + 1e-6,):

                    def change(run, index=index, name=name, wrong=wrong):
                        run["scores"][index]["values"][name] = wrong

                    edit(folder, change)
                    failed(folder, f"{name} on {scores[index]['split']}.* recomputed")
                    (folder / "run.json").write_text(text)
        assert verify_bundle(folder).status == "verified"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: run["scores"].pop(), "not those of its splits and sizes"),
        (lambda run: run["scores"].pop(3), "not those of its splits and sizes"),
        (lambda run: run["scores"].append(run["scores"][0]), "not those of its splits and sizes"),
        (lambda run: run["scores"][3].update(size=99.0), "not those of its splits and sizes"),
        (lambda run: run["scores"][0].update(split="test-99"), "not those of its splits and sizes"),
        (lambda run: run["scores"][0].update(n=1), "on test is"),
        (lambda run: run["scores"][0]["values"].pop("bits"), "bits on test is None"),
        (lambda run: run["scores"][0]["values"].update(luck=1.0), "test has metrics that ntm/copy has not"),
        (lambda run: run.update(scores=[]), "not those of its splits and sizes"),
        (lambda run: run.update(status="diverged", reason="it did"), "status diverged, but it has scores"),
    ],
)
def test_scores_are_those_of_the_splits_and_sizes(bundle, change, message):
    edit(bundle, change)
    failed(bundle, message)


def test_a_better_answer_does_not_fit_the_scores(bundle):
    edit_predictions(bundle, lambda arrays: arrays["test/logits"].fill(254))
    failed(bundle, "bits on test is .* recomputed")


def test_a_changed_answer_to_one_example_is_found(copy_of):
    folder = copy_of("seq2seq-trained")

    def change(arrays):  # the right answer to the last one
        tokens = arrays["test-60/tokens"]
        tokens[-1] = get_task("seq2seq/copy").load("test-60").targets["target"][-1, : tokens.shape[1]]

    edit_predictions(folder, change)
    failed(folder, r"exact_match on test-60 size 60 is 0\.0, recomputed 0\.01")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("test-120/logits"), "predictions and tests differ in test-120"),
        (lambda a: a.update({"test-99/logits": a["test/logits"]}), "predictions and tests differ in test-99"),
        (lambda a: a.update({"test/logits": a["test/logits"][:-1]}), r"test: logits are \('uint8'"),
        (lambda a: a.update({"test/logits": a["test/logits"].astype(np.float32)}), r"test: logits are \('float32'"),
        (lambda a: a.update({"test/scores": a.pop("test/logits")}), "test: logits are None"),
        (lambda a: a.update({"test/logits": np.full_like(a["test/logits"], 255)}), "test: logits"),
        (lambda a: a.clear(), "predictions and tests differ"),
    ],
    ids=["split missing", "split added", "too few", "floats", "renamed", "level 255", "empty"],
)
def test_predictions_are_those_of_the_splits(bundle, change, message):
    edit_predictions(bundle, change)
    failed(bundle, message)


@pytest.mark.parametrize(
    "tokens",
    [np.full((1000, 3), "x"), np.full((1000, 3), 4.5), np.full((1000, 3), -1), np.zeros((1000, 2, 2), np.uint8)],
    ids=["text", "floats", "negative", "rank"],
)
def test_tokens_that_cannot_be_scored_are_a_finding_and_no_traceback(copy_of, tokens):
    folder = copy_of("seq2seq-trained")
    edit_predictions(folder, lambda arrays: arrays.update({"test/tokens": tokens}))
    failed(folder, "test: tokens")


def test_a_split_that_the_model_does_not_support_is_left_out(bundle):
    def change(run):
        run["unsupported"] = {"test-120": "memory of 64"}
        run["scores"] = [score for score in run["scores"] if score["split"] != "test-120"]

    edit(bundle, change)
    failed(bundle, "predictions and tests differ in test-120")
    edit_predictions(bundle, lambda arrays: arrays.pop("test-120/logits"))
    assert verify_bundle(bundle).status == "verified"


# The choice of weights


def test_the_first_of_two_equal_bests_is_chosen(bundle):
    assert read_run(bundle).selection.step == 20


@pytest.mark.parametrize(
    "selection",
    [
        {"step": 30},  # equal, but later
        {"step": 40, "validation": 0.75},
        {"validation": 0.2},
        {"validation": None},
        {"checkpoint": "last"},
        {"examples": 1},
        {"training_loss": 1e-9},
    ],
    ids=str,
)
def test_the_selection_must_be_that_of_the_curve(bundle, selection):
    edit(bundle, lambda run: run["selection"].update(selection))
    failed(bundle)


def test_the_last_weights_where_the_recipe_says_so(bundle):
    def change(run):
        run["identity"]["training"]["checkpoint"] = "last"
        run["selection"].update(checkpoint="last", step=40, examples=640, validation=0.75)

    edit(bundle, change)
    assert verify_bundle(bundle).status == "verified"
    edit(bundle, lambda run: run["selection"].update(checkpoint="best", step=20, examples=320, validation=0.25))
    failed(bundle, "last")  # the better one is not what the recipe asked for


def test_the_cost_in_examples_is_that_of_the_curve(bundle):
    edit(bundle, lambda run: run["cost"].update(examples=1))
    failed(bundle)


def test_a_changed_curve_does_not_fit_the_selection(bundle):
    path = bundle / "curve.csv"
    path.write_text(path.read_text().replace("0.75", "0.05"))
    edit(bundle, lambda run: None)
    failed(bundle, "step.* 20.* 40")


@pytest.mark.parametrize(
    "text",
    ["", "step,examples\n1,2\n", "step,examples,seconds,training_loss,validation\n", "a\n1,2\n3,4,5\n", "\0\xff"],
    ids=["empty", "columns missing", "no rows", "ragged", "binary"],
)
def test_a_curve_that_is_none_is_a_finding_and_no_traceback(bundle, text):
    (bundle / "curve.csv").write_text(text)
    edit(bundle, lambda run: None)
    failed(bundle, "curve")


def test_a_validation_that_is_no_number_is_a_finding_and_no_traceback(bundle):
    path = bundle / "curve.csv"
    path.write_text(path.read_text().replace("0.75", "good"))
    edit(bundle, lambda run: None)
    failed(bundle, "curve")


def test_a_trained_run_needs_a_curve_and_a_selection(bundle):
    edit(bundle, lambda run: run.update(selection=None))
    failed(bundle, "a trained run needs a selection and a curve")
    (bundle / "curve.csv").unlink()
    edit(bundle, lambda run: run["files"].pop("curve.csv"))
    failed(bundle, r"curve\.csv")


def test_nan_validations_are_worse_than_any_number(tmp_path):
    folder = trained("ntm/copy", tmp_path, [np.nan, 0.5, 0.4, np.nan])
    assert read_run(folder).selection.step == 30
    assert verify_bundle(folder).status == "verified"


def test_a_diverged_run_is_verified(tmp_path):
    folder = trained("ntm/copy", tmp_path, [0.5, 0.4, np.nan], status="diverged")
    assert verify_bundle(folder).status == "verified"


# Folders


def test_every_bundle_below_a_folder_is_checked(tmp_path):
    task = get_task("ntm/copy")
    folders = [run_reference(task, "default", row, r, tmp_path) for row, r in task.references().items()]
    (folders[1] / "predictions.npz").write_bytes(b"")
    shutil.copytree(folders[0], folders[0].parent / ".tmp-half")
    for path in (tmp_path, tmp_path / "runs", tmp_path / "runs/ntm"):
        found = {finding.folder: finding.status for finding in verify(path)}
        assert found == {folder: "failed" if folder == folders[1] else "verified" for folder in folders}
    assert [finding.folder for finding in verify(folders[2])] == [folders[2]]


def test_a_folder_whose_name_looks_temporary_is_checked_all_the_same(originals, tmp_path):
    target = tmp_path / ".tmp-mine" / read_run(originals["ntm-reference"]).identity.folder
    shutil.copytree(originals["ntm-reference"], target)
    assert [finding.status for finding in verify(tmp_path / ".tmp-mine")] == ["verified"]


def test_a_place_without_bundles_is_an_error(tmp_path):
    with pytest.raises(UserError, match="does not exist; give a results folder or a bundle"):
        list(verify(tmp_path / "nothing"))
    with pytest.raises(UserError, match=r"no bundle .* lies below"):
        list(verify(tmp_path))


def test_a_bundle_that_lost_its_run_is_named(tmp_path):
    from bundles import write_references

    folders = write_references(tmp_path, "seq2seq/copy")
    (folders[0] / "run.json").unlink()
    statuses = {finding.folder: finding for finding in verify(tmp_path)}
    assert len(statuses) == len(folders)
    assert statuses[folders[0]].status == "failed"
    assert "run.json: cannot be read" in statuses[folders[0]].message


def test_a_file_that_no_bundle_has_is_named(tmp_path):
    from harness.references import run_references
    from harness.registry import get_task

    folders = run_references([get_task("seq2seq/copy")], tmp_path)
    (folders[0] / "notes.txt").write_text("mine")
    (finding,) = verify(folders[0])
    assert (finding.status, finding.message.rpartition(": ")[2]) == ("failed", "notes.txt is not a file of this bundle")


def test_processes_find_the_same_in_the_same_order(tmp_path, monkeypatch):
    from harness.references import run_references
    from harness.registry import get_task

    run_references([get_task(name) for name in ("ntm/copy", "seq2seq/copy", "seq2seq/reverse")], tmp_path)
    broken = sorted(tmp_path.rglob("predictions.npz"))[1]
    broken.write_bytes(broken.read_bytes()[:-1])
    alone = list(verify(tmp_path))
    monkeypatch.setattr("harness.verify.SHARED", 1)
    assert list(verify(tmp_path, workers=2)) == alone
    assert [finding.status for finding in alone].count("failed") == 1


def test_training_data_are_not_made_again(tmp_path):
    from harness import api
    from harness.registry import get_task

    (done,) = api.run("ngram", "babi/qa1", regime="1k", budget="smoke", seeds=[0], results=tmp_path, mlflow=False)
    task = get_task("babi/qa1")
    task._loaded.clear()
    assert verify_bundle(done.folder).status == "verified"
    assert list(task._loaded) == ["test"]
