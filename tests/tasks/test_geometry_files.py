"""The text format of the paper's authors: read, written, scored; errors name file and line."""

import numpy as np
import pytest
from typer.testing import CliRunner

from harness import api
from harness.cli import app
from harness.errors import UserError
from harness.families.pointing import GRID, on_grid
from harness.registry import get_task

SQUARE = "0.1 0.1 0.9 0.8 0.9 0.1 0.1 0.8 output 1 3 2 4 1"


@pytest.fixture
def hull():
    return get_task("geometry/convex-hull")


@pytest.fixture
def tsp():
    return get_task("geometry/tsp")


def written(tmp_path, *lines, end="\n"):
    path = tmp_path / "points.txt"
    path.write_text("\n".join(lines) + end)
    return path


@pytest.mark.parametrize("end", ["\n", "", " \n\n", "\r\n"], ids=["newline", "no-newline", "blanks", "carriage-return"])
def test_a_file_is_read(tmp_path, hull, tsp, end):
    path = written(tmp_path, "0.5 0.5 0.0 0.0 1.0 0.0 output 1 2 3 1 ", SQUARE, end=end)
    for task, width in ((hull, 5), (tsp, 4)):
        examples = task.read(path)
        assert examples.sizes.tolist() == [3, 4]
        assert examples.targets["indices"].tolist() == [
            [0, 1, 2, -1, -1][:width],
            [0, 2, 1, 3, -1][:width],
        ]
        assert on_grid(examples.inputs["elements"])[0].tolist() == [
            [GRID // 2, GRID // 2],
            [0, 0],
            [GRID, 0],
            [0, 0],
        ]
        batch = task.family.batch(examples)
        stored = task.family.store(
            task.family.Prediction(batch.targets.indices), batch, task.spec("5-20" if task is tsp else "5-50")
        )
        assert task.score(stored, examples)[task.headline.name] == (0 if task is tsp else 1)


def test_coordinates_in_many_digits_and_in_exponents_are_numbers(tmp_path, hull):
    path = written(tmp_path, "1e-3 0.12345678901234567 .9 0.8 1 0 output 1 3 2 1")
    assert on_grid(hull.read(path).inputs["elements"])[0, 0].tolist() == [
        round(GRID * 1e-3),
        round(GRID * 0.12345678901234567),
    ]


@pytest.mark.parametrize(("name", "split"), [("geometry/convex-hull", "test-5-50"), ("geometry/tsp", "test-5-20")])
def test_what_is_written_is_read_again(tmp_path, name, split):
    task = get_task(name)
    path = tmp_path / "split.txt"
    api.export_text(name, split, path)
    again, own = task.read(path), task.load(split)
    assert np.array_equal(again.sizes, own.sizes)
    assert np.array_equal(again.inputs["elements"], own.inputs["elements"])
    assert np.array_equal(again.targets["indices"], own.targets["indices"])
    first = path.read_text().splitlines()[0].split()
    answer = first[first.index("output") + 1 :]
    assert answer[0] == answer[-1]
    assert min(map(int, answer)) == 1


BAD = [
    ("0.1 0.2 0.3 0.4 0.5 0.9", "the word 'output' is missing"),
    ("output 1 2 3 1", "the word 'output' is missing"),
    (" output 1 2 3 1", "0 coordinates; there must be two a point"),
    ("0.1 0.2 0.3 0.4 0.5 output 1 2 1", "5 coordinates; there must be two a point"),
    ("0.1 0.2 0.3 x 0.5 0.9 output 1 2 3 1", "coordinate 'x' is not a number"),
    ("0.1 0.2 0.3 nan 0.5 0.9 output 1 2 3 1", "coordinate nan is not in the unit square"),
    ("0.1 0.2 0.3 inf 0.5 0.9 output 1 2 3 1", "coordinate inf is not in the unit square"),
    ("0.1 0.2 0.3 -0.1 0.5 0.9 output 1 2 3 1", "coordinate -0.1 is not in the unit square"),
    ("0.1 0.2 0.3 1.01 0.5 0.9 output 1 2 3 1", "coordinate 1.01 is not in the unit square"),
    ("0.1 0.2 0.3 0.4 0.1 0.2 output 1 2 3 1", "two points are the same"),
    ("0.1 0.2 0.3 0.4 0.5 0.9 output", "the word 'output' is missing"),
    ("0.1 0.2 0.3 0.4 0.5 0.9 output 1 2 3", "must end with the position that it began with"),
    ("0.1 0.2 0.3 0.4 0.5 0.9 output 1", "must end with the position that it began with"),
    ("0.1 0.2 0.3 0.4 0.5 0.9 output 1 2 3.0 1", "answer '3.0' is not a position"),
    ("0.1 0.2 0.3 0.4 0.5 0.9 output 1 -2 3 1", "answer '-2' is not a position"),
    ("0.1 0.2 0.3 0.4 0.5 0.9 output 1 99999999999999999999 3 1", "answer '99999999999999999999' is not a position"),
    ("0.1 0.2 0.3 0.4 0.5 0.9 output 1 2 4 1", "answer 4 is out of range: there are 3 points"),
    ("0.1 0.2 0.3 0.4 0.5 0.9 output 0 2 1 0", "answer 0 is out of range: there are 3 points"),
]
BAD_HULLS = [
    ("0.1 0.2 0.3 0.4 output 1 2 1", "2 points have no hull; there must be at least 3"),
    ("0.25 0.25 0.5 0.5 0.75 0.75 output 1 2 3 1", "not a simple polygon"),
    ("0.25 0.25 0.5 0.5 0.75 0.5 output 1 2 1", "not a simple polygon"),
    (SQUARE.replace("1 3 2 4 1", "1 2 3 4 1"), "not a simple polygon"),
]
BAD_TOURS = [
    (SQUARE.replace("1 3 2 4 1", "1 3 2 1"), "city 4 is visited 0 times; a tour visits every city once"),
    (SQUARE.replace("1 3 2 4 1", "1 3 2 4 3 1"), "city 3 is visited 2 times"),
]


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [("geometry/convex-hull", *case) for case in BAD + BAD_HULLS]
    + [("geometry/tsp", *case) for case in BAD + BAD_TOURS],
)
def test_a_malformed_line_is_named(tmp_path, name, line, message):
    path = written(tmp_path, SQUARE, "", line, SQUARE)
    with pytest.raises(UserError) as caught:
        get_task(name).read(path)
    assert str(caught.value).startswith(f"{path}, line 3: ")
    assert message in str(caught.value)


def test_files_that_hold_nothing_or_are_none(tmp_path, hull):
    with pytest.raises(UserError, match="holds no instance"):
        hull.read(written(tmp_path, "", "  "))
    with pytest.raises(UserError, match=r"nowhere\.txt cannot be read"):
        hull.read(tmp_path / "nowhere.txt")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(UserError, match="binary cannot be read"):
        hull.read(tmp_path / "binary")
    with pytest.raises(UserError, match="cannot be written"):
        api.export_text(hull.name, "test-5", tmp_path / "no" / "file.txt")


def test_tours_of_one_and_two_cities_are_read(tmp_path, tsp):
    examples = tsp.read(written(tmp_path, "0.5 0.5 output 1 1", "0.0 0.0 0.0 0.5 output 1 2 1"))
    stored = {"indices": examples.targets["indices"].astype(np.int16)}
    assert tsp.score(stored, examples) == {"gap": 0, "length": 0.5, "valid": 1}


# With a trained model


def test_a_trained_model_is_scored_on_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    api.new("pointer", "pointing")
    settings = {"budget": "smoke", "seeds": [0], "settings": ["examples=256", "validations=1"], "mlflow": False}
    (done,) = api.run("pointer.py:Pointer", "geometry/tsp", regime="10", **settings)
    bundle = str(done.folder)
    run = CliRunner().invoke(app, ["data", "text", "geometry/tsp", "test-50", "tsp-50.txt"])
    assert run.exit_code == 0
    assert len((tmp_path / "tsp-50.txt").read_text().splitlines()) == 200
    scores = api.evaluate(bundle, "tsp-50.txt")
    stored = next(s for s in done.run.scores if s.split == "test-50")
    assert [(s.split, s.size, s.n, s.values) for s in scores] == [("tsp-50.txt", 50, 200, stored.values)]
    capsys.readouterr()
    assert CliRunner().invoke(app, ["evaluate", bundle, "tsp-50.txt"]).exit_code == 0
    (tmp_path / "bad.txt").write_text("0.1 0.2\n")
    with pytest.raises(UserError, match=r"bad\.txt, line 1: the word 'output' is missing"):
        api.evaluate(bundle, "bad.txt")


def test_a_training_stream_is_not_exported(tmp_path):
    with pytest.raises(UserError, match="training stream"):
        api.export_text("geometry/tsp", "train-10", tmp_path / "x")
