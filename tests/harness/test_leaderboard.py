"""The board from synthetic bundles of the real tasks: what it must show, and what may never change it."""

import math
import shutil
from pathlib import Path

import bundles
import numpy as np
import pandas as pd
import pytest

from harness import provenance, standings, tables
from harness.cells import COMPETING, DTYPES, records
from harness.errors import CorruptBundleError, UserError
from harness.leaderboard import check_board, collect, write_board
from harness.markdown import DASH, escape, interval, number
from harness.published import COLUMNS
from harness.registry import get_task, task_names
from harness.reruns import record_rerun
from harness.results import find_bundles, read_run, write_bundle
from harness.sections import ladder
from harness.standings import STORY, Board, load_board, suite_order
from harness.statistics import t_interval
from harness.tables import csv_bytes, read_runs, read_scores

TAPE, COPY = "ntm/copy", "seq2seq/copy"
NUMBERS = ["mean", "low", "high", "std", "median", "worst", "best_of_k", "solved_rate", "published"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(provenance, "stale_reason", lambda run: None)


@pytest.fixture
def no_figures(monkeypatch):
    """For what is in the tables alone."""
    monkeypatch.setattr("harness.leaderboard.figures", lambda *_: {})


@pytest.fixture
def results(tmp_path) -> Path:
    return tmp_path / "results"


def fill(results: Path) -> None:
    """Two tasks, two budgets, rows that tie, win, lose, fail in part and fail wholly."""
    for task, rows in {COPY: {"lstm": 0.03, "bahdanau": 0.002}, TAPE: {"tape-lstm": 0.08, "None": 0.02}}.items():
        bundles.write_references(results, task)
        for row, damage in rows.items():
            for seed in range(2):
                bundles.write_trained(results, task, row, seed, damage, "standard")
    bundles.write_trained(results, TAPE, "tape-lstm", 0, 0.1)
    bundles.write_trained(results, TAPE, "partly", 0, 0.02, "standard")
    bundles.write_diverged(results, TAPE, "partly", 1, "standard")
    bundles.write_diverged(results, TAPE, "NA", 0, "standard")


def cell(scores: pd.DataFrame, row: str, metric: str = "bits", split: str = "test", budget: str = "standard"):
    found = scores[(scores["row"] == row) & (scores["metric"] == metric) & (scores["split"] == split)]
    found = found[(found["budget"] == budget) & (found["size"].isna() | (split != "test"))]
    assert len(found) == 1
    return next(records(found))


def ranks(board: Board, task: str, budget: str = "standard") -> dict[str, int | None]:
    return {
        ranked.row: ranked.rank
        for contest, rows in board.contests.items()
        if contest.key == (task, "default", budget)
        for ranked in rows
    }


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def published_file(folder: Path, *lines: dict[str, object]) -> list[Path]:
    known = {"suite": "ntm", "task": TAPE, "regime": "default", "row": "tape-lstm", "split": "test", "metric": "bits"}
    known |= {"value": 0.5, "unit": "bits", "paper": "A 2014", "where": "Table 1", "setting": "", "protocol": ""}
    known |= {"kind": "exact", "confidence": 0.9}
    path = folder / "published.csv"
    pd.DataFrame([known | line for line in lines], columns=list(COLUMNS)).to_csv(path, index=False)
    return [path]


# cells


def test_a_cell_is_the_statistics_of_its_seeds(results):
    values = []
    for seed in range(3):
        folder = bundles.write_trained(results, TAPE, "tape-lstm", seed, 0.08 + 0.02 * seed, "standard")
        values.append(read_run(folder).score("test", "bits"))
    scores = collect(results, [])
    assert list(scores.columns) == list(DTYPES)
    found = cell(scores, "tape-lstm")
    assert (found.n_examples, found.n_seeds, found.n_failed, found.status) == (500, 3, 0, "ok")
    assert found.mean == pytest.approx(np.mean(values), abs=1e-9)
    assert (found.low, found.high) == pytest.approx(t_interval(np.array(values), (0, math.inf)), abs=1e-8)
    assert found.best_of_k == values[2]  # bundles' training loss falls with the seed
    assert found.runs.split(";") == [f"ntm/copy/default/tape-lstm/standard/seed-{seed}" for seed in range(3)]
    assert (results / "runs" / found.runs.split(";")[0] / "run.json").exists()


def test_every_test_size_and_metric_has_one_cell(results):
    bundles.write_trained(results, TAPE, "tape-lstm", 0, 0.08)
    scores = collect(results, [])
    own = scores[scores["row"] == "tape-lstm"]
    assert len(own) == 3 * (1 + 20 + 5)
    assert not own.duplicated(["split", "size", "metric"]).any()
    assert set(own[own["split"] == "test-120"]["size"]) == {120}


def test_a_diverged_seed_is_counted_and_told(results):
    fill(results)
    found = cell(collect(results, []), "partly")
    assert (found.n_seeds, found.n_failed, found.solved_rate) == (1, 1, 0.5)
    assert "seed 1 diverged: training loss became NaN" in found.reason
    lost = cell(collect(results, []), "NA")
    assert (lost.n_seeds, lost.n_failed, lost.status, lost.solved_rate) == (0, 1, "diverged", 0)
    assert math.isnan(lost.mean)


def test_an_undefined_metric_is_no_number(results):
    task = get_task(TAPE)
    for seed in range(2):
        stored, measured = bundles.predicted(TAPE, 0.02, seed)
        changed = [
            score.model_copy(update={"values": score.values | ({"bits": None} if seed else {})}) for score in measured
        ]
        run = bundles.run_of(task, "tape-lstm", seed, "smoke", changed)
        write_bundle(results, run, stored)
    found = cell(collect(results, []), "tape-lstm", budget="smoke")
    assert (found.n_seeds, found.n_failed, found.status) == (1, 1, "ok")
    assert found.reason == "undefined for 1 of 2 seeds"


def test_a_missing_cell_is_a_dash_with_its_reason_and_never_0(results, no_figures):
    fill(results)
    scores = collect(results, [])
    absent = scores[scores["status"].isin(["missing", "diverged", "undefined", "unsupported", "unverified"])]
    assert absent[["mean", "low", "high", "std", "median", "worst", "best_of_k"]].isna().all(axis=None)
    assert (absent["reason"] != "").all()
    found = cell(scores, "None", budget="smoke")
    assert (found.status, found.reason) == ("missing", "run with budget standard only")
    write_board(results, results.parent / "board.md", [])
    smoke = (results.parent / "board.md").read_text().split("### ntm/copy · smoke")[1]
    line = next(line for line in smoke.splitlines() if "| `None` |" in line)
    assert f"| {DASH}<sup>" in line
    assert not any(char.isdigit() for char in line)
    assert "run with budget standard only" in smoke


def test_an_unsupported_split_carries_the_models_reason(results):
    stored, measured = bundles.predicted(TAPE, 0.02, 0)
    kept = [score for score in measured if score.split != "test-120"]
    run = bundles.run_of(get_task(TAPE), "tape-lstm", 0, "smoke", kept, unsupported={"test-120": "memory of 50"})
    write_bundle(results, run, {split: arrays for split, arrays in stored.items() if split != "test-120"})
    found = cell(collect(results, []), "tape-lstm", split="test-120", budget="smoke")
    assert (found.status, found.reason, found.size, found.n_seeds) == ("unsupported", "memory of 50", 120, 0)
    write_board(results, results.parent / "board.md", [])
    assert "memory of 50" in (results.parent / "board.md").read_text()


def test_a_stale_row_is_marked(results, monkeypatch, no_figures):
    fill(results)
    monkeypatch.setattr(provenance, "stale_reason", lambda run: "its recipe changed" if run.title == "lstm" else None)
    scores = collect(results, [])
    assert cell(scores, "lstm", "exact_match").status == "stale"
    assert cell(scores, "bahdanau", "exact_match").status == "ok"
    write_board(results, results.parent / "board.md", [])
    assert "stale: its recipe changed" in (results.parent / "board.md").read_text()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"task_version": 99}, "scored on version 99 of the task; installed is 1"),
        ({"task": "gone/copy"}, "task gone/copy is not installed"),
        ({"regime": "joint"}, "the installed task has no regime joint"),
    ],
)
def test_what_no_installed_task_can_check_is_kept_off_the_tables(results, no_figures, change, reason):
    bundles.write_trained(results, TAPE, "tape-lstm", 0, 0.02)
    stored, measured = bundles.predicted(TAPE, 0.02, 0)
    run = bundles.run_of(get_task(TAPE), "older", 0, "smoke", measured)
    run = run.model_copy(update={"identity": run.identity.model_copy(update=change)})
    write_bundle(results, run, stored)
    scores = collect(results, [])
    (found,) = records(scores[scores["row"] == "older"])
    assert (found.status, found.reason, math.isnan(found.mean)) == ("unverified", reason, True)
    write_board(results, results.parent / "board.md", [])
    shown, hidden = (results.parent / "board.md").read_text().split("## Not shown")
    assert "`older`" not in shown
    assert reason in hidden


def test_seeds_of_different_experiments_are_refused(results):
    bundles.write_trained(results, TAPE, "tape-lstm", 0, 0.02)
    stored, measured = bundles.predicted(TAPE, 0.02, 1)
    run = bundles.run_of(get_task(TAPE), "tape-lstm", 1, "smoke", measured)
    run = run.model_copy(update={"identity": run.identity.model_copy(update={"hyperparameters": {"hidden": 7}})})
    write_bundle(results, run, stored)
    with pytest.raises(UserError, match="hyperparameters"):
        collect(results, [])


def test_a_damaged_bundle_is_named(results):
    folder = bundles.write_trained(results, TAPE, "tape-lstm", 0, 0.02)
    (folder / "run.json").write_text((folder / "run.json").read_text().replace("0.", "1.", 1))
    with pytest.raises(CorruptBundleError, match="seed-0"):
        collect(results, [])


def test_nothing_may_beat_an_exact_bound(results):
    bundles.write_references(results, TAPE)
    stored, measured = bundles.predicted(TAPE, 0.02, 0)
    better = [score.model_copy(update={"values": score.values | {"bits": 0.0}}) for score in measured]
    write_bundle(results, bundles.run_of(get_task(TAPE), "too-good", 0, "smoke", better), stored)
    with pytest.raises(UserError, match=r"too-good on ntm/copy:default, smoke, seed 0 has bits = 0 .* of oracle"):
        collect(results, [])


# published numbers


def test_published_numbers_join_their_row(results, tmp_path):
    fill(results)
    lines = published_file(tmp_path, {}, {"value": 0.7, "paper": "B 2015"}, {"split": "test-120", "value": 10})
    scores = collect(results, lines)
    found = cell(scores, "tape-lstm")
    assert found.published == 0.5
    assert found.published_source == "A 2014, Table 1; exact | also 0.7: B 2015, Table 1; exact"
    assert cell(scores, "tape-lstm", split="test-120").published == 10
    assert scores["published"].notna().sum() == 4  # two budgets, two splits
    assert not (scores["kind"] == "published").any()


def test_a_published_number_without_a_run_stands_alone(results, tmp_path, no_figures):
    fill(results)
    elsewhere = {"suite": "ntm", "task": "ntm/elsewhere", "row": "dnc", "metric": "error"}
    scores = collect(results, published_file(tmp_path, {"row": "ntm"}, elsewhere))
    alone = scores[scores["kind"] == "published"]
    assert list(alone["row"]) == ["ntm", "dnc"]
    assert alone["mean"].isna().all()
    write_board(results, tmp_path / "board.md", published_file(tmp_path, {"row": "ntm"}, elsewhere))
    text = (tmp_path / "board.md").read_text()
    assert "| `dnc` | ntm/elsewhere test | error | 0.500 | A 2014, Table 1; exact |" in text
    assert "`ntm`" in text


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ({"kind": "exakt"}, "unknown kind in published.csv line 2 'exakt'. Did you mean 'exact'"),
        ({"value": "~45"}, "line 2: value = '~45' is not a number"),
        ({"split": "test-7"}, "unknown split of ntm/copy 'test-7'"),
        ({"metric": "nats"}, "unknown metric of ntm/copy 'nats'"),
        ({"regime": "joint"}, "unknown regime of ntm/copy 'joint'"),
    ],
)
def test_a_wrong_published_line_is_named(results, tmp_path, line, complaint):
    with pytest.raises(UserError) as error:
        collect(results, published_file(tmp_path, line))
    assert complaint in str(error.value)


def test_the_shipped_published_numbers_are_valid(results):
    scores = collect(results)
    assert set(scores["kind"]) == {"published"}
    installed = scores[scores["task"].isin([TAPE, COPY])]
    assert len(installed)


# ranks


def test_ranks_follow_direction_and_share_the_leaders(results):
    for task in (COPY, TAPE):
        for row, damage in {"good": 0.002, "twin": 0.002, "poor": 0.1}.items():
            for seed in range(2):
                offset = 10 if row == "twin" else 0
                stored, measured = bundles.predicted(task, damage, seed + offset)
                run = bundles.run_of(get_task(task), row, seed, "standard", measured)
                write_bundle(results, run, stored)
    board = load_board(results, [])
    assert ranks(board, COPY) == {"good": 1, "twin": 1, "poor": 3}
    assert list(ranks(board, TAPE))[-1] == "poor"


def test_no_score_is_last_in_both_directions(results):
    for task in (COPY, TAPE):
        bundles.write_trained(results, task, "poor", 0, 0.3, "standard")
        bundles.write_diverged(results, task, "a-diverged", 0, "standard")
        assert list(ranks(load_board(results, []), task).items()) == [("poor", 1), ("a-diverged", None)]


def test_a_failed_seed_ranks_below_every_row_without_one(results):
    for task in (COPY, TAPE):
        for seed in range(3):
            bundles.write_trained(results, task, "steady", seed, 0.1, "standard")
            bundles.write_trained(results, task, "brittle", seed, 0.002, "standard")
        bundles.write_diverged(results, task, "brittle", 3, "standard")
        assert ranks(load_board(results, []), task) == {"steady": 1, "brittle": 2}


def test_tapes_rank_by_solved_rate_before_the_mean(results):
    """Two of three seeds solved with one wreck, against three middling seeds with the better mean."""
    for seed, damage in enumerate((0.02, 0.02, 1.5)):
        bundles.write_trained(results, TAPE, "often", seed, damage, "standard")
    for seed in range(3):
        bundles.write_trained(results, TAPE, "never", seed, 0.4, "standard")
    scores = collect(results, [])
    often, never = cell(scores, "often"), cell(scores, "never")
    assert (often.solved_rate, never.solved_rate) == (pytest.approx(2 / 3), 0)
    assert often.mean > never.mean
    assert ranks(load_board(results, []), TAPE) == {"often": 1, "never": 2}


# the whole board


def test_writing_twice_and_reading_in_another_order_changes_no_byte(results, tmp_path, monkeypatch):
    fill(results)
    board = tmp_path / "leaderboard.md"
    written = write_board(results, board)
    first = files(tmp_path)
    assert {path.relative_to(tmp_path).as_posix() for path in written} == {
        name for name in first if not name.startswith("results/runs") and name != "results/.lock"
    }
    assert check_board(results, board) == []
    write_board(results, board)
    assert files(tmp_path) == first
    shuffled = list(reversed(list(find_bundles(results))))
    monkeypatch.setattr("harness.groups.find_bundles", lambda _: shuffled)
    write_board(results, board)
    assert files(tmp_path) == first


def test_check_names_what_changed(results, tmp_path):
    bundles.write_trained(results, TAPE, "tape-lstm", 0, 0.08, "standard")
    board = tmp_path / "docs" / "board.md"
    write_board(results, board, [])
    assert "(../results/tables/scores.csv)" in board.read_text()
    assert check_board(results, board, []) == []
    figure = results / "plots" / "ntm-copy-default-standard-size.svg"
    board.write_text(board.read_text() + "x")
    (results / "tables" / "runs.csv").unlink()
    figure.write_bytes(figure.read_bytes() + b" ")
    (results / "plots" / "gone-default-standard-size.svg").write_text("old")
    stale = [board, figure.parent / "gone-default-standard-size.svg", figure, results / "tables" / "runs.csv"]
    assert check_board(results, board, []) == sorted(map(str, stale))
    (results / "plots" / "versions.json").unlink()
    assert str(figure) in check_board(results, board, [])
    (results / "plots" / "versions.json").write_text("{}")
    assert check_board(results, board, []) == sorted(map(str, (board, results / "tables" / "runs.csv")))
    write_board(results, board, [])
    assert check_board(results, board, []) == []
    assert not (results / "plots" / "gone-default-standard-size.svg").exists()


def test_a_removed_bundle_is_noticed(results, tmp_path, no_figures):
    fill(results)
    write_board(results, tmp_path / "board.md", [])
    shutil.rmtree(results / "runs" / TAPE / "default" / "None")
    assert str(tmp_path / "board.md") in check_board(results, tmp_path / "board.md", [])


def test_tables_come_back_as_they_were(results, tmp_path):
    fill(results)
    board = load_board(results, published_file(tmp_path, {}))
    (tmp_path / "scores.csv").write_bytes(csv_bytes(board.scores))
    (tmp_path / "runs.csv").write_bytes(csv_bytes(board.runs))
    scores, runs = read_scores(tmp_path / "scores.csv"), read_runs(tmp_path / "runs.csv")
    assert {"None", "NA"} <= set(scores["row"]) & set(runs["row"])
    assert dict(scores.dtypes) == dict(board.scores.dtypes)
    pd.testing.assert_frame_equal(scores, board.scores, rtol=1e-5)
    assert csv_bytes(scores) == csv_bytes(board.scores)
    assert csv_bytes(runs) == csv_bytes(board.runs)


def test_floor_and_ceiling_are_always_in_the_table(results, tmp_path):
    bundles.write_trained(results, TAPE, "tape-lstm", 0, 0.02)
    write_board(results, tmp_path / "board.md", [])
    text = (tmp_path / "board.md").read_text()
    for row in get_task(TAPE).references():
        assert f"*`{row}`*" in text
    scores = collect(results, [])
    absent = scores[scores["kind"] == "reference"]
    assert (absent["status"] == "missing").all()


def test_the_page_shows_what_it_must(results, tmp_path):
    fill(results)
    write_board(results, tmp_path / "board.md", published_file(tmp_path, {}))
    text = (tmp_path / "board.md").read_text()
    assert "nan" not in text.replace("NA", "").lower().split("## ntm")[1]
    for wanted in ("BLEU: `nrefs:1|case:mixed|eff:yes", "exact bound", "| 1/2 |", "0.500<sup>", "## ntm", "## seq2seq"):
        assert wanted in text
    for line in text.splitlines():
        if line.startswith("![") and "(" in line:
            assert (tmp_path / line.rpartition("(")[2].rstrip(")")).exists()
    header = [line for line in text.splitlines() if line.startswith("| rank")]
    assert all(len(block.split("|")) > 10 for block in header)


def test_a_test_of_the_ladder_is_called_by_its_label(results, tmp_path, no_figures):
    """Where its size says little: length 10 twenty times is a tape of 212 steps."""
    line = {"task": "ntm/repeat-copy", "split": "test-10x20", "value": 7}
    bundles.write_trained(results, "ntm/repeat-copy", "tape-lstm", 0, 0.08, "standard")
    write_board(results, tmp_path / "board.md", published_file(tmp_path, line))
    text = (tmp_path / "board.md").read_text()
    assert "| at 10x20 | at 20x10 |" in text
    assert "| 7.00 at 10x20<sup>" in text


def test_an_empty_results_folder_makes_an_empty_board(results, tmp_path):
    results.mkdir()
    written = write_board(results, tmp_path / "board.md", [])
    assert check_board(results, tmp_path / "board.md", []) == []
    assert len(written) == 7


def test_a_place_that_cannot_be_written_is_named(results, tmp_path):
    results.mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_board(results, tmp_path / "file" / "board.md", [])


def test_shipped_cells_fill_in_for_rows_without_runs(results, tmp_path, monkeypatch, no_figures):
    fill(results)
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    board = load_board(results, published_file(tmp_path, {}))
    (shipped / "scores.csv").write_bytes(csv_bytes(board.scores))
    (shipped / "runs.csv").write_bytes(csv_bytes(board.runs))
    local = tmp_path / "local"
    bundles.write_trained(local, TAPE, "mine", 0, 0.02, "standard")
    bundles.write_trained(local, TAPE, "tape-lstm", 0, 0.3, "standard")
    monkeypatch.setattr(tables, "shipped_folder", lambda: shipped)
    merged = load_board(local, published_file(tmp_path, {}))
    assert cell(merged.scores, "tape-lstm").n_seeds == 1  # the run here, not the shipped two
    assert cell(merged.scores, "None").n_seeds == 2
    assert cell(merged.scores, "oracle", budget="reference").mean < 1e-3
    assert not merged.scores.duplicated(["task", "regime", "budget", "row", "split", "size", "metric"]).any()
    assert ranks(merged, TAPE)["None"] is not None
    write_board(local, tmp_path / "board.md", [])
    assert "no tie is tested" in (tmp_path / "board.md").read_text()
    alone = load_board(tmp_path / "nothing", [])
    assert {contest.key for contest in alone.contests} == {contest.key for contest in board.contests}


def test_a_checkout_ships_no_tables():
    assert tables.shipped_folder() is None


# numbers as text


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (math.nan, "share", DASH),
        (0.98765, "share", "0.988"),
        (0.0, "bits", "0.000"),
        (0.0000123, "bits", "<0.001"),
        (0.05, "bits", "0.050"),
        (1.2345, "bits", "1.23"),
        (84.04, "bits", "84.0"),
        (399.7, "bits", "400"),
        (1_352_969, "count", "1.35 M"),
        (131_072, "count", "131 k"),
        (999_600, "count", "1 M"),
        (999_400, "count", "999 k"),
        (999.6, "count", "1 k"),
        (7, "count", "7"),
        (2.5e12, "FLOPs", "2.5 T"),
        (4.35e15, "FLOPs", "4.35 P"),
    ],
)
def test_numbers(value, unit, shown):
    assert number(value, unit) == shown


def test_intervals():
    assert interval(0.5, 0.4, 0.6, "share") == "0.500 (0.400–0.600)"
    assert interval(0.5, math.nan, math.nan, "share") == "0.500"
    assert interval(math.nan, math.nan, math.nan) == DASH
    assert interval(1.0, 1.0, 1.0, "share") == "1.000"


def test_text_cannot_break_a_table():
    assert escape("a|b\n*c*") == "a\\|b \\*c\\*"


def test_competing_kinds_are_those_that_train():
    assert COMPETING == ("trained", "community")
    assert standings.COMPETING is COMPETING


def test_a_strangers_row_has_a_rank_once_it_was_run_again_here(tmp_path, no_figures):
    for seed in range(2):
        bundles.write_trained(tmp_path, "seq2seq/copy", "ours", seed, 0.02)
        bundles.write_trained(tmp_path, "seq2seq/copy", "theirs", seed, 0.001, kind="community")
    bundles.write_references(tmp_path, "seq2seq/copy")

    def ranks() -> dict[str, tuple[int | None, str]]:
        board = load_board(tmp_path, [])
        (rows,) = board.contests.values()
        origins = dict(zip(board.runs["row"], board.runs["origin"], strict=True))
        return {ranked.row: (ranked.rank, origins[ranked.row]) for ranked in rows}

    assert ranks() == {"ours": (1, ""), "theirs": (None, "self-reported")}
    write_board(tmp_path, tmp_path / "board.md", [])
    assert "self-reported: nobody has re-run it here, so it has no rank" in (tmp_path / "board.md").read_text()
    own = tmp_path / "runs" / "seq2seq" / "copy" / "default" / "theirs" / "smoke"
    record_rerun(tmp_path, own / "seed-0")
    assert ranks()["theirs"][0] is None
    write_board(tmp_path, tmp_path / "board.md", [])
    text = (tmp_path / "board.md").read_text()
    assert "self-reported: 1 of 2 seeds re-run here; it has a rank once all are" in text
    record_rerun(tmp_path, own / "seed-1")
    assert ranks() == {"theirs": (1, "re-run"), "ours": (2, "")}
    write_board(tmp_path, tmp_path / "board.md", [])
    assert "community row, re-run here" in (tmp_path / "board.md").read_text()
    bundles.write_trained(tmp_path, "seq2seq/copy", "theirs", 1, 0.0, kind="community")  # another in its place
    assert ranks()["theirs"][0] is None


def test_suites_stand_in_the_order_of_the_story():
    known = [*reversed(STORY), "zebra", "aardvark"]
    assert sorted(known, key=suite_order) == [*STORY, "aardvark", "zebra"]
    assert {name.split("/")[0] for name in task_names()} == set(STORY)


def test_the_ladder_of_a_table_has_tests_of_several_sizes():
    assert ladder(get_task("seq2seq/translate"), "15")[0] == ("test-20", 20)
