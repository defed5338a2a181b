"""Data for models trained elsewhere, and scores for what they predict: as if a model of this harness had."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bundles import write_references, write_trained

from harness import api
from harness.errors import UserError
from harness.families.transduction import EOS
from harness.leaderboard import write_board
from harness.registry import get_task
from harness.results import find_bundles, read_run
from harness.verify import verify

COPY = "seq2seq/copy"
TASKS = [COPY, "ntm/copy", "geometry/sort", "babi/qa4", "sort-of-clevr/state"]


@pytest.mark.parametrize("name", TASKS)
def test_exported_arrays_are_the_tasks_own_and_test_targets_lie_apart(name, tmp_path):
    task = get_task(name)
    regime = next(iter(task.regimes))
    files = set(api.export_data(name, out=tmp_path, training=300))
    named = task.regime(regime)
    assert {p.relative_to(tmp_path).as_posix() for p in files} == {
        "task.json",
        *(f"{split}.npz" for split in (named.train, named.validation, *named.tests)),
        *(f"targets/{split}.npz" for split in named.tests),
    }
    test, examples = np.load(tmp_path / f"{named.tests[0]}.npz"), task.load(named.tests[0])
    assert not any(key.startswith("targets") for key in test.files)
    for key, array in examples.inputs.items():
        assert np.array_equal(test[f"inputs/{key}"], np.array(array))
    targets = np.load(tmp_path / "targets" / f"{named.tests[0]}.npz")
    for key, array in examples.targets.items():
        assert np.array_equal(targets[f"targets/{key}"], array)
    assert {key.split("/")[0] for key in np.load(tmp_path / f"{named.train}.npz").files} == {
        "inputs",
        "targets",
        "sizes",
    }
    described = json.loads((tmp_path / "task.json").read_text())
    assert described["spec"] == json.loads(json.dumps(vars(task.spec(regime))))
    assert described["fingerprint"]


def test_a_stream_is_exported_in_whole_blocks(tmp_path):
    list(api.export_data(COPY, out=tmp_path, training=300))
    assert len(np.load(tmp_path / "train.npz")["sizes"]) == 512


def test_lines_hold_the_same_without_padding(tmp_path):
    list(api.export_data(COPY, out=tmp_path, form="jsonl", training=1))
    lines = [json.loads(line) for line in (tmp_path / "test.jsonl").read_text().splitlines()]
    answers = [json.loads(line) for line in (tmp_path / "targets" / "test.jsonl").read_text().splitlines()]
    examples = get_task(COPY).load("test")
    assert len(lines) == len(answers) == len(examples)
    for row in (0, len(lines) - 1):
        source = lines[row]["inputs"]["source"]
        assert lines[row]["size"] == lines[row]["inputs"]["source_length"] == len(source)
        assert answers[row]["targets"]["target"] == [*source, EOS]
        assert source == examples.inputs["source"][row, : len(source)].tolist()


def predictions(task_name: str, path: Path, tests: int = 1) -> Path:
    """Write the right answers to the first tests, as a stranger would."""
    task = get_task(task_name)
    arrays = {}
    for split in next(iter(task.regimes.values())).tests[:tests]:
        targets = task.load(split).targets
        if "target" in targets:
            arrays[f"{split}/tokens"] = targets["target"]
        elif "indices" in targets:
            arrays[f"{split}/indices"] = targets["indices"]
        elif "bits" in targets:
            arrays[f"{split}/logits"] = (2 * targets["bits"] - 1) * 20.0
        else:
            arrays[f"{split}/scores"] = np.eye(int(targets["answer"].max()) + 60)[targets["answer"]]
            arrays[f"{split}/scores"] = arrays[f"{split}/scores"][..., : task.spec(next(iter(task.regimes))).answers]
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("name", TASKS)
def test_right_answers_from_elsewhere_score_as_the_oracle(name, tmp_path):
    folder, run = api.score(name, predictions(name, tmp_path / "p.npz"), "elsewhere", results=tmp_path / "results")
    task = get_task(name)
    assert run.scores[0].values[task.headline.name] == pytest.approx(
        1 if task.headline.direction == "max" else 0, abs=1e-4
    )
    assert (run.kind, run.identity.budget) == ("external", "external")
    assert [finding.status for finding in verify(folder)] == ["verified"]


def test_it_stands_on_the_board_without_a_rank(tmp_path):
    write_trained(tmp_path, COPY, "mine", 0, 0.02)
    write_references(tmp_path, COPY)
    path = predictions(COPY, tmp_path / "p.npz", tests=2)
    told = "The prompt\n on validation,  5 trials"
    api.score(COPY, path, "elsewhere", title="Else|where", tuning=told, results=tmp_path)
    board = tmp_path / "board.md"
    write_board(tmp_path, board)
    line, _ = [line for line in board.read_text().splitlines() if "`elsewhere`" in line]
    assert line.startswith("|  | **Else\\|where `elsewhere`**")
    assert "| 1.000 |" in line
    assert "self-reported: nobody has re-run it here, so it has no rank" in board.read_text()
    assert "its predictions were made elsewhere" in board.read_text()
    assert "| `elsewhere` | The prompt on validation, 5 trials |" in board.read_text()


def test_a_text_on_tuning_without_end_is_refused(tmp_path):
    with pytest.raises(UserError, match="tuning of 4,001 characters is not valid: at most 4,000"):
        api.score(COPY, predictions(COPY, tmp_path / "p.npz"), "elsewhere", tuning="x" * 4001, results=tmp_path)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"tests/tokens": np.ones((1000, 3), int)}, "unknown split in p.npz 'tests'. Did you mean 'test'?"),
        ({"test-21/tokens": np.ones((50, 3), int)}, "p.npz has no predictions for test, the test that ranks"),
        ({"test/token": np.ones((1000, 3), int)}, "unknown array for test in p.npz 'token'. Did you mean 'tokens'?"),
        (
            {"test/tokens": np.ones((3, 3), int)},
            r"p.npz, test: tokens of shape \(3, 3\); expected \(B,T'\) with B = 1000",
        ),
        ({"test/tokens": np.full((1000, 3), 99)}, "p.npz, test: token 99; the target vocabulary is 0..53"),
        ({"test/tokens": np.full((1000, 3), 4.0)}, "p.npz, test: tokens of dtype torch.float32; expected torch.int64"),
        ({"test/tokens": np.full((1000, 3), "a")}, "p.npz, test/tokens: dtype <U1 is not valid"),
        ({"test/tokens": np.full((1000, 3), None)}, "not a readable npz"),  # a pickle, which is never loaded
    ],
)
def test_bad_predictions_are_refused_and_leave_nothing(arrays, message, tmp_path):
    assert len(get_task(COPY).load("test")) == 1000
    np.savez(tmp_path / "p.npz", **arrays)
    with pytest.raises(UserError, match=message):
        api.score(COPY, tmp_path / "p.npz", "elsewhere", results=tmp_path / "results")
    assert list(find_bundles(tmp_path / "results")) == []


@pytest.mark.parametrize("row", ["bahdanau", "oracle", "../up", "A b", "", "x" * 65])
def test_names_that_are_taken_or_no_names_are_refused(row, tmp_path):
    with pytest.raises(UserError, match=r"row .* is (taken|not valid)"):
        api.score(COPY, predictions(COPY, tmp_path / "p.npz"), row, results=tmp_path)


def test_archives_that_unpack_to_more_than_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("harness.results.LARGEST_ARCHIVE", 10_000)
    np.savez_compressed(tmp_path / "p.npz", **{"test/tokens": np.zeros((1000, 50), int)})
    assert (tmp_path / "p.npz").stat().st_size < 10_000
    with pytest.raises(UserError, match="bytes of arrays; at most 10,000 are read"):
        api.score(COPY, tmp_path / "p.npz", "elsewhere", results=tmp_path)


def test_files_that_are_no_archives_are_refused(tmp_path):
    (tmp_path / "p.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(UserError, match="not a readable npz"):
        api.score(COPY, tmp_path / "p.npz", "elsewhere", results=tmp_path)
    with zipfile.ZipFile(tmp_path / "q.npz", "w") as archive:
        archive.writestr("test/tokens.npy", b"not an array")
    with pytest.raises(UserError, match=r"not a readable npz|dtype"):
        api.score(COPY, tmp_path / "q.npz", "elsewhere", results=tmp_path)
    with pytest.raises(UserError, match="cannot be read"):
        api.score(COPY, tmp_path / "none.npz", "elsewhere", results=tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"form": "csv"}, "unknown format 'csv'. Valid: jsonl, npz"),
        ({"training": 0}, "training examples 0 is not valid"),
        ({"regime": "15"}, "unknown regime of seq2seq/copy '15'"),
    ],
)
def test_what_cannot_be_exported_is_told(changes, message, tmp_path):
    with pytest.raises(UserError, match=message):
        list(api.export_data(COPY, out=tmp_path / "x", **changes))
    assert not (tmp_path / "x").exists()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        list(api.export_data(COPY, out=tmp_path / "file"))


def test_a_run_that_is_replaced_by_another_seed_stays(tmp_path):
    for seed in (0, 1):
        api.score(COPY, predictions(COPY, tmp_path / "p.npz"), "elsewhere", seed=seed, results=tmp_path)
    assert [read_run(folder).identity.seed for folder in find_bundles(tmp_path)] == [0, 1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": 2**32}, r"seed 4294967296 is not valid: a whole number from 0 to 4294967295"),
        ({"seed": -1}, "seed -1 is not valid"),
        ({"title": "\udcff\udcfe"}, r"title is not valid: the character '\\udcff' cannot be printed"),
        ({"title": "\x1b[31mred"}, r"title is not valid: the character '\\x1b'"),
        ({"title": "x" * 201}, "title of 201 characters is not valid: at most 200"),
        ({"tuning": "rate \udcff"}, r"tuning is not valid: the character '\\udcff' cannot be printed"),
    ],
)
def test_what_no_bundle_can_hold_is_refused(given, message, tmp_path):
    with pytest.raises(UserError, match=message):
        api.score(COPY, predictions(COPY, tmp_path / "p.npz"), "elsewhere", results=tmp_path / "results", **given)
    assert not (tmp_path / "results").exists()


def test_the_largest_seed_and_letters_of_any_script_stand_on_the_board(tmp_path):
    write_trained(tmp_path, COPY, "mine", 0, 0.02)
    path = predictions(COPY, tmp_path / "p.npz")
    api.score(COPY, path, "elsewhere", seed=2**32 - 1, title="Überraschung\n 模型 🙂", results=tmp_path)
    write_board(tmp_path, tmp_path / "board.md")
    assert "Überraschung 模型 🙂" in (tmp_path / "board.md").read_text()


def test_a_seed_that_was_scored_is_replaced_by_force_alone(tmp_path):
    path = predictions(COPY, tmp_path / "p.npz")
    folder, _ = api.score(COPY, path, "elsewhere", results=tmp_path)
    before = (folder / "run.json").read_bytes()
    with pytest.raises(UserError, match=r"elsewhere on seq2seq/copy.*, seed 0 has been scored: .*--force"):
        api.score(COPY, path, "elsewhere", title="Other", results=tmp_path)
    assert (folder / "run.json").read_bytes() == before
    api.score(COPY, path, "elsewhere", title="Other", force=True, results=tmp_path)
    assert read_run(folder).title == "Other"


def test_seeds_of_two_versions_of_a_task_do_not_mix(tmp_path, monkeypatch):
    path = predictions(COPY, tmp_path / "p.npz")
    api.score(COPY, path, "elsewhere", results=tmp_path)
    monkeypatch.setattr(type(get_task(COPY)), "version", 2)
    monkeypatch.setattr("harness.plan.combined_fingerprint", lambda *_: "0" * 16)
    with pytest.raises(
        UserError, match=r"would not be a seed of one experiment with .*seed-0: task_version is 1 and 2"
    ):
        api.score(COPY, path, "elsewhere", seed=1, results=tmp_path)


def test_a_folder_holds_one_export(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    translate = "seq2seq/translate"
    assert all(path.is_relative_to("data/seq2seq-translate-15") for path in api.export_data(translate, training=1))
    folder = Path("data/seq2seq-translate-15")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for other in ({"task": translate, "regime": "30"}, {"task": translate, "form": "jsonl"}, {"task": COPY}):
        with pytest.raises(UserError, match=r"task.json is of seq2seq/translate, 15, npz; choose another folder"):
            list(api.export_data(out=folder, training=1, **other))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert list(api.export_data(translate, out=folder, training=1))  # the same again
    (folder / "task.json").write_text("[]")
    with pytest.raises(UserError, match=r"task.json is of something else"):
        list(api.export_data(translate, out=folder, training=1))


@pytest.mark.parametrize("name", [COPY, "ntm/copy"])
def test_a_row_from_elsewhere_alone_on_a_task_is_on_the_board(name, tmp_path):
    for row in ("elsewhere", "other"):
        api.score(name, predictions(name, tmp_path / "p.npz"), row, results=tmp_path)
    write_references(tmp_path, name)
    write_board(tmp_path, tmp_path / "board.md")
    text = (tmp_path / "board.md").read_text()
    assert f"### {name} · external" in text
    scored, _ = (line for line in text.splitlines() if "`elsewhere`" in line and "not said" not in line)
    assert scored.startswith("|  | **`elsewhere`**")
    assert sum("**`other`**" in line for line in text.splitlines()) == 1
    ranks = pd.read_csv(tmp_path / "tables/ranks.csv")
    assert ranks["rank"].isna().all()
    write_trained(tmp_path, name, "mine", 0, 0.02)
    write_board(tmp_path, tmp_path / "board.md")
    assert "· external" not in (tmp_path / "board.md").read_text()
