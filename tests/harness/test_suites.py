"""Suite scores, and what the board says of a suite as a whole: hand-computed values, and what must have no rank."""

import math
from pathlib import Path

import bundles
import numpy as np
import pytest

from harness import provenance, suites
from harness.leaderboard import _numbers_apart, write_board
from harness.overview import superseded, tuned
from harness.registry import get_task, task_names
from harness.results import read_run, write_bundle
from harness.standings import Contest, doubts, load_board
from harness.statistics import t_interval
from harness.suites import Scale, SuiteTable, suite_tables, suites_table

COPY, REVERSE = "seq2seq/copy", "seq2seq/reverse"


@pytest.fixture(autouse=True)
def two_tasks(monkeypatch):
    """A suite of two tasks of one regime each, nothing stale, no figures."""
    monkeypatch.setattr(provenance, "stale_reason", lambda run: None)
    monkeypatch.setattr(suites, "task_names", lambda: [COPY, REVERSE])
    monkeypatch.setattr("harness.leaderboard.figures", lambda *_: {})


@pytest.fixture
def results(tmp_path) -> Path:
    for task in (COPY, REVERSE):
        bundles.write_references(tmp_path / "results", task)
    return tmp_path / "results"


def fill(
    results: Path, row: str, damage: float, seeds: int = 2, tasks=(COPY, REVERSE), **changes: object
) -> np.ndarray:
    """Write the bundles of a row; return its exact matches, ``(tasks, seeds)``."""
    folders = [
        [bundles.write_trained(results, task, row, seed, damage, "standard", **changes) for seed in range(seeds)]
        for task in tasks
    ]
    return np.array([[read_run(folder).score("test", "exact_match") for folder in own] for own in folders])


def only_table(results: Path) -> SuiteTable:
    (found,) = suite_tables(load_board(results, []))
    return found


def floors(results: Path) -> np.ndarray:
    folders = [results / "runs" / task / "default" / "random" / "reference" / "seed-0" for task in (COPY, REVERSE)]
    return np.array([read_run(folder).score("test", "exact_match") for folder in folders])


@pytest.mark.parametrize("name", task_names())
def test_every_task_names_a_floor_and_a_ceiling_that_it_has(name):
    task = get_task(name)
    assert {task.floor, task.ceiling} <= set(task.references())
    assert task.floor != task.ceiling
    assert set(task.counted or ()) <= set(task.regimes)
    assert task.threshold is not None


def test_a_score_is_the_mean_over_tasks_of_each_seed_then_over_seeds(results):
    measured, floor = fill(results, "lstm", 0.02, seeds=3), floors(results)
    assert floor.max() < measured.min() < measured.max() < 1
    by_seed = ((measured - floor[:, None]) / (1 - floor[:, None])).mean(axis=0)
    (row,) = only_table(results).rows.values()
    assert row.status == "complete"
    assert row.score == pytest.approx(by_seed.mean(), abs=1e-9)
    assert row.interval == pytest.approx(t_interval(by_seed, (0, 1)), abs=1e-8)
    assert [row.at(scale) for scale in row.scores] == pytest.approx(
        ((measured - floor[:, None]) / (1 - floor[:, None])).mean(axis=1)
    )


def test_less_is_better_and_both_ends_cut():
    scale = Scale(Contest(get_task("ntm/copy"), "default", "standard"), floor=84.0, ceiling=4.0)
    assert scale.normalise(np.array([84.0, 44.0, 4.0, 3.0, 1000.0, math.nan])) == pytest.approx(
        [0, 0.5, 1, 1, 0, math.nan], nan_ok=True
    )
    assert not Scale(scale.contest, 84.0, math.nan).known
    assert not Scale(scale.contest, 84.0, 84.0).known


def test_rows_rank_by_score_and_tie_with_the_leader(results):
    fill(results, "good", 0.002)
    fill(results, "poor", 0.1)
    for task in (COPY, REVERSE):
        for seed in range(2):
            stored, measured = bundles.predicted(task, 0.002, seed + 10)
            write_bundle(results, bundles.run_of(get_task(task), "twin", seed, "standard", measured), stored)
    ranked = {place.row: place for place in only_table(results).ranked}
    assert {row: place.rank for row, place in ranked.items()} == {"good": 1, "twin": 1, "poor": 3}
    compared = ranked["poor"].comparison
    assert compared is not None
    assert compared.high < 0
    rows = only_table(results).rows
    best = max(rows.values(), key=lambda row: row.score)
    assert compared.difference == pytest.approx(rows["poor"].score - best.score, abs=1e-8)


def test_equal_predictions_differ_by_exactly_nothing(results):
    for row in ("one", "other"):
        fill(results, row, 0.02)
    _, second = only_table(results).ranked
    assert second.comparison is not None
    assert (second.comparison.difference, second.comparison.low, second.comparison.high) == (0, 0, 0)


def test_a_row_that_lacks_a_task_is_partial_without_a_rank(results, tmp_path):
    fill(results, "whole", 0.1)
    fill(results, "half", 0.002, tasks=(COPY,))
    found = only_table(results)
    assert [(place.row, place.rank) for place in found.ranked] == [("whole", 1), ("half", None)]
    half = found.rows["half"]
    assert (half.status, half.missing) == ("partial", {"not run": [REVERSE]})
    assert math.isnan(half.score)
    write_board(results, tmp_path / "board.md", [])
    section = (tmp_path / "board.md").read_text().split("### Suite score · standard")[1].split("###")[0]
    assert "| partial<sup>a</sup> | 1/2 |" in section
    assert f"not run: {REVERSE}<br>" in section
    lines = suites_table([found])
    assert lines[lines["row"] == "half"]["status"].tolist()[0] == "partial"
    assert lines[lines["row"] == "half"]["task"].fillna("").tolist() == ["", COPY]


def test_a_row_that_departs_from_the_budget_is_marked(results, tmp_path):
    fill(results, "whole", 0.1)
    for task in (COPY, REVERSE):
        changes = {"departs_from_budget": task == REVERSE}
        bundles.write_trained(results, task, "longer", 0, 0.002, budget="standard", **changes)
    write_board(results, tmp_path / "board.md", [])
    section = (tmp_path / "board.md").read_text().split("### Suite score · standard")[1].split("###")[0]
    assert "**`longer`**<sup>a</sup>" in section
    assert f"not trained on the budget's number of examples on {REVERSE}" in section
    assert only_table(results).rows["whole"].departing == []


def test_a_task_says_which_regimes_count(results, tmp_path, monkeypatch):
    monkeypatch.setattr(suites, "task_names", lambda: [COPY, REVERSE, "seq2seq/translate"])
    monkeypatch.setattr(type(get_task("seq2seq/translate")), "counted", ("15",))
    fill(results, "whole", 0.1)
    fill(results, "half", 0.002, tasks=(COPY,))
    assert [scale.label for scale in only_table(results).scales] == [COPY, REVERSE, "seq2seq/translate:15"]
    monkeypatch.setattr(type(get_task("seq2seq/translate")), "counted", ())
    assert set(only_table(results).rows) == {"whole", "half"}
    monkeypatch.setattr(type(get_task(COPY)), "counted", ())
    assert suite_tables(load_board(results, [])) == []  # one task is no suite
    monkeypatch.setattr(type(get_task("seq2seq/translate")), "counted", None)
    assert set(only_table(results).rows) == {"whole"}  # the other was run on nothing that counts
    board = write_board(results, tmp_path / "board.md", [])[-1]
    assert "partial" in board.read_text()


def test_the_twenty_babi_tasks_count_once():
    names = [name for name in task_names() if name.startswith("babi")]
    counting = {name: get_task(name).counted for name in names}
    assert [name for name, regimes in counting.items() if not regimes] == ["babi-official/joint", "babi/joint"]
    assert sorted(regimes for regimes in counting.values() if regimes) == [("1k",)] * 20 + [("en",)] * 20


def test_a_suite_of_many_tables_shows_them_folded(results, tmp_path, monkeypatch):
    fill(results, "whole", 0.1)
    write_board(results, tmp_path / "open.md", [])
    monkeypatch.setattr("harness.leaderboard.FOLDED", 2)
    write_board(results, tmp_path / "folded.md", [])
    opened, folded = ((tmp_path / name).read_text() for name in ("open.md", "folded.md"))
    titles = [f"{task} · standard" for task in (COPY, REVERSE)]
    assert all(f"### {title}\n" in opened for title in titles)
    assert all(f"<details><summary>{title}</summary>\n\n" in folded for title in titles)
    assert folded.count("</details>") == len(titles)
    glances = [text.partition("## How to read it")[0] for text in (opened, folded)]
    assert [text.count(f"[{title}]") for text in glances for title in titles] == [1, 1, 0, 0]
    suites = [text.partition("## How to read it")[2] for text in (opened, folded)]
    tables = [[line for line in text.splitlines() if line.startswith("|")] for text in suites]
    assert tables[0] == tables[1]


def test_task_2_comes_before_task_10():
    names = ["babi/qa10", "babi/qa2", "babi/joint"]
    assert sorted(names, key=_numbers_apart) == ["babi/joint", "babi/qa2", "babi/qa10"]


def test_a_task_that_the_model_declines_is_missing(results):
    fill(results, "index-model", 0.02)
    stored, measured = bundles.predicted(REVERSE, 0.02, 0)
    kept = [score for score in measured if score.split != "test"]
    run = bundles.run_of(
        get_task(REVERSE), "index-model", 0, "standard", kept, unsupported={"test": "fixed vocabulary"}
    )
    write_bundle(results, run, {split: arrays for split, arrays in stored.items() if split != "test"})
    assert only_table(results).rows["index-model"].missing == {"fixed vocabulary": [REVERSE]}


def test_without_references_nothing_can_be_placed(tmp_path):
    fill(tmp_path, "lstm", 0.02)
    assert only_table(tmp_path).rows["lstm"].missing == {suites.NO_SCALE: [COPY, REVERSE]}


def test_a_failed_seed_is_counted_and_ranks_below(results):
    fill(results, "steady", 0.1, seeds=3)
    measured, floor = fill(results, "brittle", 0.002, seeds=2), floors(results)
    fill(results, "brittle-too", 0.002, seeds=1, tasks=(COPY,))
    bundles.write_diverged(results, REVERSE, "brittle-too", 0, "standard")
    bundles.write_diverged(results, COPY, "brittle", 2, "standard")
    bundles.write_trained(results, REVERSE, "brittle", 2, 0.002, "standard")
    found = only_table(results)
    assert [(place.row, place.rank) for place in found.ranked] == [
        ("steady", 1),
        ("brittle", 2),
        ("brittle-too", None),
    ]
    brittle = found.rows["brittle"]
    third = read_run(results / "runs" / REVERSE / "default/brittle/standard/seed-2").score("test", "exact_match")
    means = np.array([measured[0].mean(), np.mean([*measured[1], third])])
    assert (brittle.seeds, brittle.failed) == ((2, 3), 1)
    assert brittle.score == pytest.approx(((means - floor) / (1 - floor)).mean(), abs=1e-9)
    assert found.rows["brittle-too"].status == "failed"


def test_every_finished_seed_counts_whatever_the_other_tasks_have(results, tmp_path):
    """A row's bad seed on one task is not lost because the other task was run once."""
    (one,), (two,) = fill(results, "lstm", 0.02, seeds=3, tasks=(COPY,)), fill(results, "lstm", 0.1, 1, (REVERSE,))
    row, floor = only_table(results).rows["lstm"], floors(results)
    means = np.array([one.mean(), two.mean()])
    assert row.score == pytest.approx(((means - floor) / (1 - floor)).mean(), abs=1e-9)
    assert [row.at(scale) for scale in row.scores] == pytest.approx(((means - floor) / (1 - floor)).tolist())
    assert (row.seeds, row.failed) == ((1, 3), 0)
    assert math.isnan(row.interval[0])  # other seeds on other tasks
    write_board(results, tmp_path / "board.md", [])
    assert "| 2/2 | 1–3 |" in (tmp_path / "board.md").read_text()


def test_a_self_reported_row_has_a_score_and_no_rank(results):
    fill(results, "ours", 0.1)
    fill(results, "theirs", 0.002, kind="community")
    found = only_table(results)
    assert [(place.row, place.rank) for place in found.ranked] == [("ours", 1), ("theirs", None)]
    assert found.rows["theirs"].score > found.rows["ours"].score


def test_a_suite_of_one_task_has_no_table(results, monkeypatch):
    fill(results, "lstm", 0.02)
    monkeypatch.setattr(suites, "task_names", lambda: [COPY])
    assert suite_tables(load_board(results, [])) == []


def test_what_an_older_version_scored_is_superseded_with_the_reason(results, tmp_path, monkeypatch):
    fill(results, "lstm", 0.02)
    measured = fill(results, "gru", 0.1)
    monkeypatch.setattr(type(get_task(REVERSE)), "version", 3)
    monkeypatch.setattr(type(get_task(REVERSE)), "changes", {2: "a wrong length", 3: "more symbols"})
    board = load_board(results, [])
    reason = "version 1, installed is 3; version 2: a wrong length; version 3: more symbols"
    aside = board.scores[board.scores["status"] == "superseded"]
    assert set(aside["reason"]) == {reason}
    assert aside["mean"].isna().all()
    assert list(doubts(board)) == []
    line = next(line for line in superseded(board).splitlines() if "`gru`" in line)
    assert f"exact match {measured[1].mean():.3f}" in line
    assert reason in line
    (found,) = suite_tables(board)
    assert found.rows["gru"].missing == {reason: [REVERSE]}
    write_board(results, tmp_path / "board.md", [])
    text = (tmp_path / "board.md").read_text()
    shown, old = text.split("## Superseded")
    assert f"### {REVERSE}" not in shown
    assert reason in old
    assert "## Not shown" not in text


def test_what_was_tuned_is_told_by_row(results):
    fill(results, "lstm", 0.02)
    fill(results, "nobodys-row", 0.02)
    fill(results, "strangers-row", 0.02, tuning="the rate | 3 trials")
    lines = tuned(load_board(results, []), "seq2seq").splitlines()
    assert any("`lstm`" in line and "4 trials of one seed" in line for line in lines)
    assert any("`nobodys-row`" in line and "not said" in line for line in lines)
    assert any("`strangers-row`" in line and r"the rate \| 3 trials" in line for line in lines)
    assert tuned(load_board(results, []), "ntm") == ""
