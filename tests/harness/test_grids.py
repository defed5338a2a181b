"""Grids of rows by tests, and rows against a number: what they hold follows from runs and the papers' numbers."""

import numpy as np
import pytest
import yaml
from bundles import write_trained

from harness import provenance
from harness.errors import UserError
from harness.findings import find
from harness.grids import BEST, OF_SEEDS, PUBLISHED, columns, lines
from harness.leaderboard import check_board, write_board
from harness.plots import study_figure
from harness.published import COLUMNS
from harness.standings import Board, load_board
from harness.studies import Study, read_studies

COPY, REVERSE = "seq2seq/copy", "seq2seq/reverse"
GRID = {"title": "All", "text": "Which?", "tasks": [COPY], "grid": ["bahdanau", "lstm", "rnn"]}
AGAINST = {
    "title": "Depth",
    "text": "More?",
    "tasks": [COPY, REVERSE],
    "against": {"title": "layers", "rows": {"lstm": 1, "bahdanau": 2}},
}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    path = tmp_path_factory.mktemp("published") / "published.csv"
    numbers = [("lstm", "test", 0.5), ("lstm", "test-21", 0.25), ("rnn", "test", 0.1)]
    rows = [
        f"seq2seq,{COPY},default,{row},{split},exact_match,{value},share,A paper,Table 1,,,exact,1"
        for row, split, value in numbers
    ]
    path.write_text("\n".join([",".join(COLUMNS), *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def board(tmp_path_factory, published) -> Board:
    results = tmp_path_factory.mktemp("grids") / "results"
    for seed in range(2):
        write_trained(results, COPY, "lstm", seed, 0.1 + 0.2 * seed, "standard")
    write_trained(results, COPY, "bahdanau", 0, 0.02, "standard")
    write_trained(results, REVERSE, "lstm", 0, 0.3, "standard")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provenance, "stale_reason", lambda run: None)
        return load_board(results, [published])


@pytest.fixture
def read(tmp_path):
    def reading(content: object) -> Study:
        path = tmp_path / "asked.yaml"
        path.write_text(yaml.safe_dump(content))
        return read_studies([path])[0]

    return reading


def test_one_task_has_a_column_a_test_and_several_a_column_each(read):
    tests = [column.split for column in columns(read(GRID))]
    assert columns(read(GRID))[0].label == "all"
    assert tests[:2] == ["test", "test-21"]
    assert [(c.label, c.split) for c in columns(read({**GRID, "tasks": [COPY, REVERSE]}))] == [
        ("copy", "test"),
        ("reverse", "test"),
    ]


def test_lines_are_the_mean_the_best_seed_and_the_papers_numbers(read, board):
    study = read(GRID)
    found = {(line.row, line.kind): line.values for line in lines(study, board, study.grid)}
    assert list(found) == [
        ("bahdanau", OF_SEEDS),
        ("lstm", OF_SEEDS),
        ("lstm", BEST),
        ("lstm", PUBLISHED),
        ("rnn", PUBLISHED),
    ]
    runs = [member.run for member in board.groups[COPY, "default", "standard", "lstm"].members]
    scores = [run.score("test", "exact_match") for run in runs]
    assert found["lstm", OF_SEEDS][0] == pytest.approx(np.mean(scores))
    best = min(runs, key=lambda run: run.selection.training_loss)
    assert best is runs[1]
    assert found["lstm", BEST][0] == pytest.approx(best.score("test", "exact_match"))
    assert found["lstm", PUBLISHED][:2].tolist() == [0.5, 0.25]
    assert np.isnan(found["lstm", PUBLISHED][2:]).all()
    assert found["rnn", PUBLISHED][0] == 0.1


def test_the_table_has_a_line_each_and_none_without_runs(read, board):
    found = find(read(GRID), board)
    assert found is not None
    header, _, *body = found.table.splitlines()
    assert header.startswith("| row | exact match | all | 21 |")
    assert body[3].startswith("| `lstm` | published | 0.500 | 0.250 | – |")
    assert find(read({**GRID, "grid": ["rnn"]}), board) is None


def test_a_grid_of_several_tasks_has_their_mean_where_all_are_there(read, board):
    found = find(read({**GRID, "tasks": [COPY, REVERSE]}), board)
    assert found is not None
    header, _, *body = found.table.splitlines()
    assert header.startswith("| row | exact match | mean | copy | reverse |")
    cells = {
        line.split(" | ")[0].strip("| `"): line.strip("| ").split(" | ")[2:] for line in body if "over seeds" in line
    }
    assert cells["bahdanau"][0] == cells["bahdanau"][2] == "–"  # it was not run on reverse
    mean, copy, reverse = map(float, cells["lstm"])
    assert mean == pytest.approx((copy + reverse) / 2, abs=0.001)


def test_figures_are_drawn_the_same_twice(read, board):
    for content in (GRID, AGAINST):
        (name, drawn), (other, again) = (file for _ in range(2) for file in study_figure(board, read(content)).items())
        assert (name, drawn) == (other, again)
        assert b"<svg" in drawn


def test_a_heat_map_says_every_number_and_whose_it_is(read, board):
    from harness.plots import grid

    axis = grid.draw(board, read(GRID)).axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == [
        "bahdanau",
        "lstm",
        f"lstm, {BEST}",
        "lstm, published",
        "rnn, published",
    ]
    shown = [text.get_text() for text in axis.texts]
    assert "0.500" in shown
    assert len(shown) == 5 * len(axis.get_xticklabels())


def test_rows_against_a_number_are_points_in_its_order(read, board):
    from harness.plots import against

    figure = against.draw(board, read(AGAINST))
    first, second = figure.axes
    drawn = {line.get_label(): line for line in first.get_lines()}
    assert list(drawn["mean over seeds"].get_xdata()) == [1, 2]
    assert list(drawn["published"].get_ydata()) == [0.5]
    assert [list(line.get_xdata()) for line in second.get_lines()] == [[1]]  # bahdanau was not run on reverse
    assert first.get_xlabel() == "layers"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"grid": ["lstn"]}, ["row in study asked", "'lstn'", "'lstm'"]),
        ({"curves": ["lstm"]}, ["one of differences, curves, grid and against"]),
        ({"grid": [], "against": {"title": "hops", "rows": {"lstm": 1}}}, ["against.rows"]),
        ({"grid": [], "against": {"titel": "hops", "rows": {"lstm": 1, "rnn": 2}}}, ["titel"]),
    ],
)
def test_what_they_may_not_say(read, change, words):
    with pytest.raises(UserError) as error:
        read({**GRID, **change})
    for word in words:
        assert word in str(error.value)


def test_the_board_shows_them(tmp_path, monkeypatch):
    """The installed grid of bAbI, from a stand-in for its runs."""
    monkeypatch.setattr(provenance, "stale_reason", lambda run: None)
    results, page = tmp_path / "results", tmp_path / "leaderboard.md"
    write_trained(results, "babi/joint", "memn2n", 0, 0.1, "standard")
    written = write_board(results, page)
    names = [path.name for path in written]
    assert "babi-generated-errors-study.svg" in names
    assert "babi-generated-hops-study.svg" not in names
    text = page.read_text()
    assert "### Generated stories, twenty tasks at once" in text
    assert "| `memn2n` | mean over seeds |" in text
    assert check_board(results, page) == []
