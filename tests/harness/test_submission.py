"""A row beside the board: the rank it would have, the differences it is told, and the folder to send."""

import math
import shutil

import pytest
from bundles import predicted, write_diverged, write_references, write_trained

from harness import api, provenance, submission
from harness.errors import UserError
from harness.recipe import Recipe
from harness.registry import get_task, tasks_of
from harness.results import find_bundles

COPY = "seq2seq/copy"
RECIPE = Recipe(row="mine", model="mine.py:Mine", title="Mine | yours", tuning="the rate, 3 trials", community=True)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(provenance, "stale_reason", lambda run: None)


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "results"
    for seed in range(2):
        write_trained(folder, COPY, "best", seed, 0.001)
        write_trained(folder, COPY, "close", seed, 0.021)
        write_trained(folder, COPY, "far", seed, 0.3)
        write_trained(folder, COPY, "mine", seed, 0.02, kind="community")
    write_references(folder, COPY)
    return folder


def test_the_rank_it_would_have_and_whom_it_is_held_against(results):
    (one,) = submission.standings(results, "mine", "smoke")
    assert (one.rank, one.rows) == (2, 4)
    assert (one.best.row, one.nearest.row) == ("best", "close")
    assert one.best.difference.difference == pytest.approx(one.cell.mean - one.best.score)
    assert one.best.difference.high < 0  # paired over examples, and clear
    assert one.nearest.difference.low < one.nearest.difference.difference < one.nearest.difference.high


def test_a_line_a_table_in_the_units_of_the_board(results):
    (line,) = submission.lines(submission.standings(results, "mine", "smoke"))
    assert line["task"] == "seq2seq/copy:default"
    assert line["would rank"] == "2 of 4"
    assert line["seeds"] == "2/2"
    assert line["minus the best"].startswith("-0.")
    assert line["minus the best"].split(", ")[1].startswith("best 0.")


def test_without_a_score_there_is_no_rank_and_no_difference(results):
    write_diverged(results, COPY, "broken", 0)
    (one,) = submission.standings(results, "broken", "smoke")
    assert one.rank is None
    assert one.nearest is None
    assert math.isnan(one.best.difference.difference)
    (line,) = submission.lines([one])
    assert (line["would rank"], line["seeds"]) == ("–", "0/1")


def test_alone_on_the_board_there_is_nobody_to_be_held_against(tmp_path):
    write_trained(tmp_path, COPY, "mine", 0, 0.02, kind="community")
    (one,) = submission.standings(tmp_path, "mine", "smoke")
    assert (one.rank, one.rows, one.best, one.nearest) == (1, 1, None, None)
    (line,) = submission.lines([one])
    assert (line["would rank"], line["minus the best"]) == ("–", "–")
    (remark,) = submission.remarks([one])
    assert remark.startswith("No rank and no difference on seq2seq/copy:default: no other row's runs with this budget")


def test_beside_rows_of_the_installed_package_there_is_a_rank_without_an_interval(results, tmp_path, monkeypatch):
    from harness import tables
    from harness.leaderboard import write_board

    write_board(results, tmp_path / "board.md", [])
    monkeypatch.setattr(tables, "shipped_folder", lambda: results / "tables")
    write_trained(tmp_path / "own", COPY, "new", 0, 0.02, kind="community")
    (one,) = submission.standings(tmp_path / "own", "new", "smoke")
    (line,) = submission.lines([one])
    assert line["would rank"].endswith("of 5")
    assert "(" not in line["minus the best"]
    (remark,) = submission.remarks([one])
    assert remark.startswith("No interval of the difference on seq2seq/copy:default: the other row is from the tables")
    assert submission.remarks(submission.standings(results, "mine", "smoke")) == []


def test_the_folder_holds_what_a_maintainer_needs(results, tmp_path):
    source = tmp_path / "mine.py"
    source.write_text("# the model\n")
    out = tmp_path / "send"
    found = submission.standings(results, "mine", "smoke")
    files = submission.write_submission(results, RECIPE, "smoke", found, out, [source])
    assert {path.relative_to(out).parts[0] for path in files} == {
        "runs",
        "mine.py",
        "submission.md",
        "submission.sha256",
    }
    sent, stored = list(find_bundles(out)), results / "runs" / COPY / "default" / "mine"
    assert [(path / "run.json").read_bytes() for path in sent] == [
        (stored / "smoke" / path.name / "run.json").read_bytes() for path in sent
    ]
    text = (out / "submission.md").read_text()
    for part in (
        "Mine \\| yours: `mine`",
        "the rate, 3 trials",
        "2 of 4",
        "holds 2 bundles, beside it `mine.py`",
        "0" * 40,
    ):
        assert part in text


def test_a_submission_is_replaced(results, tmp_path):
    out = tmp_path / "send"
    found = submission.standings(results, "mine", "smoke")
    submission.write_submission(results, RECIPE, "smoke", found, out)
    shutil.rmtree(results / "runs" / COPY / "default" / "mine" / "smoke" / "seed-1")
    submission.write_submission(results, RECIPE, "smoke", submission.standings(results, "mine", "smoke"), out)
    assert len(list(find_bundles(out))) == 1


def test_what_was_never_run_cannot_be_submitted(tmp_path, models):
    with pytest.raises(UserError, match="sound has no runs with budget demo"):
        api.submit(f"{models}/tape_models.py:Sound", budget="demo", results=tmp_path, out=tmp_path / "send")


def test_a_row_of_a_package_is_not_somebodys_to_submit(tmp_path):
    with pytest.raises(UserError, match="row 'lstm' comes with an installed package"):
        api.submit("lstm", budget="demo", results=tmp_path, out=tmp_path / "send")


def test_suites_by_name():
    assert tasks_of("ntm") == "ntm/*"
    assert tasks_of(None) == "*"
    with pytest.raises(UserError, match=r"unknown suite 'nmt'. Did you mean 'ntm'\?"):
        tasks_of("nmt")


def test_tapes_are_held_against_each_other_by_the_median(tmp_path):
    for seed, damage in enumerate((0.0, 0.01, 0.9)):
        write_trained(tmp_path, "ntm/copy", "mine", seed, damage)
        write_trained(tmp_path, "ntm/copy", "other", seed, 0.05)
    (one,) = submission.standings(tmp_path, "mine", "smoke")
    middle = predicted("ntm/copy", 0.01, 1)[1][0].values[get_task("ntm/copy").headline.name]
    assert one.best.difference.difference == pytest.approx(middle - one.best.score)
