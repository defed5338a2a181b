"""Studies: what they refuse, and that what they report follows from the predictions alone."""

import bundles
import matplotlib as mpl
import numpy as np
import pytest
import yaml
from bundles import write_trained

from harness import provenance
from harness.errors import UserError
from harness.findings import find, lines_of
from harness.leaderboard import check_board, write_board
from harness.plots import study as study_plot
from harness.plots.style import style_of, themed
from harness.registry import get_task
from harness.standings import Board, load_board
from harness.studies import Study, compared, read_studies

COPY, TRANSLATE = "seq2seq/copy", "seq2seq/translate"
ASKED = {"title": "Reversal", "text": "Does it help?", "tasks": [COPY], "differences": [["lstm-reversed", "lstm"]]}
FALL = {**ASKED, "tasks": [TRANSLATE], "metric": "bleu", "fall": ["test-5", "test-30"]}
CURVES = {
    "title": "Length",
    "text": "Who falls?",
    "tasks": [TRANSLATE],
    "metric": "bleu",
    "curves": ["gru", "bahdanau"],
}


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(provenance, "stale_reason", lambda run: None)


@pytest.fixture
def read(tmp_path):
    """Return a function that writes a study and reads it back."""

    def reading(content: object, name: str = "asked") -> Study:
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content))
        return read_studies([path])[0]

    return reading


@pytest.fixture(scope="module")
def board(tmp_path_factory) -> Board:
    results = tmp_path_factory.mktemp("studies") / "results"
    damage = {"lstm": 0.2, "lstm-reversed": 0.1, "bahdanau": 0.02, "gru": 0.2}
    for seed in range(2):
        for row, amount in damage.items():
            write_trained(results, COPY, row, seed, amount, "standard")
            write_trained(results, TRANSLATE, row, seed, amount, "standard")
    bundles.write_diverged(results, COPY, "rnn", 0, "standard")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provenance, "stale_reason", lambda run: None)
        return load_board(results, [])


def test_every_installed_study_is_valid():
    suites = {"seq2seq", "ntm", "geometry", "babi", "babi-official", "sort-of-clevr"}
    assert {study.suite for study in read_studies()} <= suites
    assert all(study.places for study in read_studies())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"titel": "?"}, ["'titel'", "'title'"]),
        ({"tasks": ["seq2seq/cpoy"]}, ["task in study asked", "'seq2seq/cpoy'", COPY]),
        ({"tasks": [f"{COPY}:30"]}, ["regime of seq2seq/copy", "'30'", "default"]),
        ({"tasks": []}, ["at least one task"]),
        ({"budget": "huge"}, ["budget of seq2seq/copy", "'huge'"]),
        ({"metric": "blue"}, ["metric of seq2seq/copy", "'blue'", "bleu"]),
        ({"differences": [["lstm", "lstn"]]}, ["row in study asked", "'lstn'", "'lstm'"]),
        ({"differences": [["lstm"]]}, ["differences"]),
        ({"differences": []}, ["one of differences, curves, grid and against"]),
        ({"curves": ["lstm"]}, ["one of differences, curves, grid and against"]),
        ({"fall": ["test", "test-99"]}, ["test in study asked", "'test-99'", "test-21"]),
        ({"differences": [], "curves": ["lstm"], "fall": ["test", "test-21"]}, ["fall"]),
    ],
)
def test_what_a_study_may_not_say(read, change, words):
    with pytest.raises(UserError) as error:
        read({**ASKED, **change})
    for word in words:
        assert word in str(error.value)


def test_a_study_that_is_no_mapping_names_its_file(read):
    with pytest.raises(UserError, match=r"study .*asked.yaml must be a mapping"):
        read(["title"])


def scores(board: Board, row: str, split: str, metric: str = "exact_match") -> np.ndarray:
    runs = [member.run for member in board.groups[COPY, "default", "standard", row].members]
    return np.array([run.score(split, metric) for run in runs])


def test_a_difference_is_of_the_means_of_the_stored_scores(read, board):
    study = read(ASKED)
    (found,) = compared(study, board, study.places[0]).values()
    expected = scores(board, "lstm-reversed", "test").mean() - scores(board, "lstm", "test").mean()
    assert found.difference == pytest.approx(expected, abs=1e-8)
    assert 0 < found.low < found.difference < found.high


def test_a_fall_is_the_first_test_minus_the_second(read, board):
    study = read({**FALL, "differences": [["lstm", "bahdanau"], ["bahdanau", "lstm"]]})
    found = compared(study, board, study.places[0])
    tests = [("test-5", 5), ("test-30", 30)]

    def fall(row: str) -> float:
        runs = [member.run for member in board.groups[TRANSLATE, "15", "standard", row].members]
        first, second = ([run.score(split, "bleu", size) for run in runs] for split, size in tests)
        return float(np.mean(first) - np.mean(second))

    forwards, backwards = found["lstm", "bahdanau"], found["bahdanau", "lstm"]
    assert forwards.difference == pytest.approx(fall("lstm") - fall("bahdanau"), abs=1e-6)
    assert forwards.low > 0
    assert (backwards.difference, backwards.low, backwards.high) == (
        -forwards.difference,
        -forwards.high,
        -forwards.low,
    )


def test_the_table_says_which_differences_are_real_and_why_one_is_missing(read, board):
    pairs = [["lstm-reversed", "lstm"], ["lstm", "lstm"], ["lstm", "transformer"], ["lstm", "rnn"]]
    found = find(read({**ASKED, "differences": pairs}), board)
    _, _, real, none, missing, failed = found.table.splitlines()
    assert "`lstm-reversed` − `lstm` | **+0." in real
    assert "0.000 (0.000 to 0.000)" in none
    assert "**" not in none
    assert missing.endswith("–<sup>a</sup> |")
    assert failed.endswith("–<sup>b</sup> |")
    assert "no run of transformer here" in found.notes[0]
    assert "without a finished seed" in found.notes[1]


def test_a_negative_difference_has_a_minus_sign(read, board):
    found = find(read({**ASKED, "differences": [["lstm", "lstm-reversed"]]}), board)
    assert "| **−0." in found.table.splitlines()[2]
    assert " to −0." in found.table.splitlines()[2]


def test_a_study_of_rows_that_were_not_run_is_left_out(read, board):
    assert find(read({**ASKED, "differences": [["transformer", "luong-location"]]}), board) is None
    assert find(read({**CURVES, "curves": ["transformer"]}), board) is None


def test_curves_are_listed_best_first_with_their_mean(read, board):
    found = find(read(CURVES), board)
    header, _, first, second = found.table.splitlines()
    assert header.startswith("| row | trained on | BLEU: mean over sizes | at 5 |")
    assert header.endswith("at 60 |")
    assert first.startswith("| `bahdanau` | seq2seq/translate:15 |")
    assert second.startswith("| `gru` |")
    ((row, _, curve), _) = sorted(lines_of(read(CURVES), board), key=lambda line: line[0])
    assert row == "bahdanau"
    assert f"{curve.centre.mean():.1f}" in first


def test_a_figure_draws_a_line_a_row_and_regime_and_shades_each_range(read, board):
    study = read({**CURVES, "tasks": [f"{TRANSLATE}:15", f"{TRANSLATE}:30"]})
    with themed():
        figure = study_plot.draw(board, study)
    (axis,) = figure.axes
    drawn = {line.get_label(): line for line in axis.get_lines() if line.get_label()[0] != "_"}
    assert set(drawn) == {f"{row}, {TRANSLATE}:15" for row in ("gru", "bahdanau")}  # regime 30 has no run here
    colour = drawn[f"gru, {TRANSLATE}:15"].get_color()
    assert mpl.colors.to_hex(colour) == mpl.colors.to_hex(style_of("gru").colour)
    spans = sorted(patch.get_x() + patch.get_width() for patch in axis.patches)
    assert spans == [15, 30]
    assert axis.get_xlabel() == get_task(TRANSLATE).size_name


def test_the_board_shows_studies_and_notices_when_their_figure_is_gone(tmp_path, monkeypatch):
    results, board = tmp_path / "results", tmp_path / "leaderboard.md"
    for row in ("lstm", "lstm-reversed"):
        write_trained(results, COPY, row, 0, 0.1, "standard")
    for row in ("gru", "bahdanau"):
        write_trained(results, TRANSLATE, row, 0, 0.1, "standard")
    written = write_board(results, board, [])
    figure = results / "plots" / "seq2seq-length-study.svg"
    text = board.read_text()
    assert "### What reading the source backwards is worth" in text
    assert "`lstm-reversed` − `lstm`" in text
    assert "(results/plots/seq2seq-length-study.svg)" in text
    assert "### What a score is worth" not in text
    assert figure in written
    assert check_board(results, board, []) == []
    figure.unlink()
    assert check_board(results, board, []) == [str(figure)]
