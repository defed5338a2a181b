"""Figures: the numbers they draw, what they must mark, and that nothing overlaps or changes between runs."""

import math
import re
from pathlib import Path

import bundles
import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from harness import provenance
from harness.curves import Curve, curves
from harness.efficiency import PASSES
from harness.errors import CorruptBundleError
from harness.plots import FIGURES, by_size, cost, figures, kinds, learning, plotting_versions
from harness.plots.style import style_of, svg, themed
from harness.recipe import Recipe, get_recipe, recipe_paths
from harness.registry import get_task
from harness.results import write_bundle
from harness.standings import Board, Contest, load_board

TAPE, COPY = "ntm/copy", "seq2seq/copy"


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(provenance, "stale_reason", lambda run: None)


@pytest.fixture(scope="module")
def board(tmp_path_factory) -> Board:
    """Rows that succeed, fail in part, fail wholly, lack a size and are undefined at one."""
    results = tmp_path_factory.mktemp("figures") / "results"
    bundles.write_references(results, TAPE)
    for seed in range(2):
        bundles.write_trained(results, TAPE, "tape-lstm", seed, 0.3, "standard")
        bundles.write_trained(results, TAPE, "a-model-with-quite-a-long-name-indeed", seed, 0.02, "standard")
    bundles.write_diverged(results, TAPE, "tape-lstm", 2, "standard")
    bundles.write_diverged(results, TAPE, "lost", 0, "standard")
    stored, measured = bundles.predicted(TAPE, 0.02, 5)
    changed = [
        score.model_copy(update={"values": {**score.values, "bits": None}} if score.size == 7 else {})
        for score in measured
        if score.split != "test-120"
    ]
    run = bundles.run_of(get_task(TAPE), "holes", 0, "standard", changed, unsupported={"test-120": "memory of 50"})
    write_bundle(results, run, stored, bundles.curve(131_072, 0.1))
    bundles.write_trained(results, TAPE, "tape-lstm", 0, 0.3, "smoke")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provenance, "stale_reason", lambda run: None)
        return load_board(results, [])


@pytest.fixture(scope="module")
def contest(board) -> Contest:
    return next(contest for contest in board.contests if contest.budget == "standard")


@pytest.fixture(scope="module")
def drawn(board, contest) -> dict[str, Figure]:
    with themed():
        return {kind: FIGURES[kind][1](board, contest) for kind in kinds(board, contest)}


def lines(figure: Figure, panel: int = 0) -> dict[str, object]:
    return {line.get_label(): line for line in figure.axes[panel].get_lines() if line.get_label()[0] != "_"}


def crosses(figure: Figure, row: str, panel: int = 0) -> list[float]:
    colour = mpl.colors.to_hex(style_of(row).colour)
    found = [line for line in figure.axes[panel].get_lines() if line.get_marker() == "x"]
    return sorted(x for line in found if mpl.colors.to_hex(line.get_color()) == colour for x in line.get_xdata())


def test_a_curve_is_the_cells_of_its_row(board, contest):
    curve = curves(board, contest)["standard", "a-model-with-quite-a-long-name-indeed", "bits"]
    assert curve.size.tolist() == [*range(1, 21), 30, 50, 120]
    scores = board.scores[(board.scores["row"] == "a-model-with-quite-a-long-name-indeed")]
    for split, size, median, n in zip(curve.split, curve.size, curve.centre, curve.n, strict=True):
        cell = scores[(scores["split"] == split) & (scores["size"] == size) & (scores["metric"] == "bits")].iloc[0]
        assert (cell["median"], cell["n_examples"]) == (median, n)


def test_the_ladder_stands_where_it_repeats_a_size(board, contest):
    curve = curves(board, contest)["standard", "tape-lstm", "bits"]
    at = dict(zip(curve.size, curve.split, strict=True))
    assert (at[9], at[10], at[20], at[30]) == ("test", "test-10", "test-20", "test-30")
    assert curve.n[curve.size == 10] == 50


def test_an_undefined_or_unsupported_size_is_marked(drawn):
    assert crosses(drawn["size"], "holes") == [7, 120]
    line = lines(drawn["size"])["holes"]
    assert np.isnan(line.get_ydata()[6])
    assert crosses(drawn["size"], "holes", panel=1) == [120]


def test_failures_are_in_the_legend_and_on_the_axis(drawn):
    assert "tape-lstm (1/3 failed)" in lines(drawn["size"])
    for figure in drawn.values():
        assert "lost (1/1 failed)" in lines(figure)
        assert crosses(figure, "lost")


def test_every_row_and_reference_is_drawn(drawn):
    rows = {"holes", "lost (1/1 failed)", "tape-lstm (1/3 failed)", "a-model-with-quite-a-long-name-indeed"}
    references = set(get_task(TAPE).references())
    assert set(lines(drawn["size"])) == rows | references
    assert set(lines(drawn["learning"])) == rows
    assert set(lines(drawn["cost"])) == rows


def test_a_row_that_was_not_run_is_not_drawn(board):
    smoke = next(contest for contest in board.contests if contest.budget == "smoke")
    with themed():
        figure = by_size.draw(board, smoke)
    assert set(lines(figure)) == {"tape-lstm", *get_task(TAPE).references()}


def test_one_colour_a_row_in_every_figure(drawn):
    for label in ("holes", "tape-lstm (1/3 failed)"):
        colours = {mpl.colors.to_hex(lines(figure)[label].get_color()) for figure in drawn.values()}
        assert colours == {mpl.colors.to_hex(style_of(label.split()[0]).colour)}


def test_an_installed_recipe_has_its_own_colour(monkeypatch):
    recipe = Recipe(row="lstm", model="lstm", title="LSTM", colour="#123456")
    monkeypatch.setattr("harness.plots.style.recipe_paths", lambda: {"bahdanau": Path("b"), "lstm": Path("a")})
    monkeypatch.setattr("harness.plots.style.get_recipe", lambda name: recipe)
    assert style_of("lstm").colour == "#123456"
    assert style_of("lstm").dashes == "solid"
    assert style_of("stranger") == style_of("stranger")
    assert style_of("stranger").dashes != "solid"


def test_an_added_recipe_leaves_every_look_as_it_was(monkeypatch):
    before = {row: style_of(row) for row in recipe_paths()}
    assert all(get_recipe(row).marker == style.marker for row, style in before.items())
    added = Recipe(row="a-new-row", model="lstm", title="New", colour="#123456")
    paths = {added.row: Path("a"), **recipe_paths()}
    monkeypatch.setattr("harness.plots.style.recipe_paths", lambda: paths)
    monkeypatch.setattr("harness.plots.style.get_recipe", lambda row: added if row == added.row else get_recipe(row))
    assert {row: style_of(row) for row in before} == before
    assert style_of(added.row).colour == added.colour


def test_strangers_look_different():
    styles = {(str(s.colour), s.marker, str(s.dashes)) for s in (style_of(f"row-{i}") for i in range(200))}
    assert len(styles) == 200


def test_bits_that_span_decades_are_drawn_on_a_log_axis(drawn):
    assert drawn["size"].axes[0].get_yscale() == "symlog"
    low, high = drawn["size"].axes[0].get_ylim()
    assert low < 0 < 960 < high  # even odds for 120 vectors of 8 bits


def test_axes_say_what_they_show(drawn):
    axis = drawn["size"].axes[0]
    assert axis.get_xlabel() == "sequence length (vectors)"
    assert axis.get_ylabel() == "bits per sequence, less is better"
    assert drawn["learning"].axes[0].get_ylabel() == "bits per sequence, less is better"
    assert "on validation" in drawn["learning"].texts[0].get_text()
    assert "20–50 examples a point" in drawn["size"].texts[0].get_text()


def test_the_bold_curve_is_of_the_seeds_that_finished():
    seeds = [np.array([[10, 20], [1.0, 2.0]]), np.array([[10, 15, 20], [3.0, 9.0, 4.0]])]
    failed = np.array([[10, 20], [9.0, math.nan]])
    assert learning.middle([*seeds, failed], "mean").tolist() == [[10, 20], [2, 3]]
    assert learning.middle([*seeds, seeds[0]], "median").tolist() == [[10, 20], [1, 2]]
    assert learning.middle([failed], "mean").shape == (2, 0)


def test_cost_is_the_flops_of_training(board, contest):
    group = board.row(contest, "tape-lstm")
    found = cost.spent(group, contest)
    assert found.flops[0] == PASSES * group.first.cost.flops * group.first.cost.examples
    assert found.score[0] == group.first.score("test", "bits")
    assert math.isnan(found.score[2])


def test_nothing_overlaps(drawn):
    """Every text and axis lies inside the figure; legend, caption and panels keep clear of each other."""
    for kind, figure in drawn.items():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        renderer = canvas.get_renderer()
        boxes = [axis.get_tightbbox(renderer) for axis in figure.axes]
        boxes += [figure.legends[0].get_window_extent(renderer), figure.texts[0].get_window_extent(renderer)]
        for index, box in enumerate(boxes):
            assert box.x0 >= 0, kind
            assert box.y0 >= 0, kind
            assert box.x1 <= figure.bbox.x1 + 1, kind
            assert box.y1 <= figure.bbox.y1 + 1, kind
            assert not any(box.overlaps(other) for other in boxes[index + 1 :]), kind


def test_svg_is_the_same_on_every_run_and_under_any_settings(board, contest):
    first = figures(board, contest)
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "axes.grid": True}):
        second = figures(board, contest)
    assert list(first) == [f"ntm-copy-default-standard-{kind}.svg" for kind in ("size", "learning", "cost")]
    assert first == second
    text = next(iter(first.values())).decode()
    assert "<dc:date>" not in text
    assert not re.search(r"[ML] \d+\.\d{3}", text)


def test_svg_text_keeps_its_scale():
    """Cutting digits must not touch the scale of a glyph."""
    figure = Figure()
    figure.text(0.5, 0.5, "x", fontsize=8.5)
    assert b"scale(0.085 -0.085)" in svg(figure)
    assert b"scale(0.015625)" in svg(figure)


def test_versions_name_what_decides_the_bytes():
    assert set(plotting_versions()) == {"matplotlib", "seaborn"}


def test_drawing_leaves_the_users_settings_alone(board, contest):
    with mpl.rc_context({"font.size": 30}):
        figures(board, contest)
        assert mpl.rcParams["font.size"] == 30


@pytest.fixture(scope="module")
def scenes(tmp_path_factory) -> Board:
    """Two rows of a task with kinds of questions."""
    task = get_task("sort-of-clevr/state")
    results = tmp_path_factory.mktemp("breakdown") / "results"
    bundles.write_references(results, task.name)
    for seed, damage in ((0, 0.1), (1, 0.2)):
        bundles.write_trained(results, task.name, "cnn-mlp", seed, damage, "standard")
    bundles.write_trained(results, task.name, "relation-network", 0, 0.02, "standard")
    bundles.write_diverged(results, task.name, "lost", 0, "standard")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(provenance, "stale_reason", lambda run: None)
        return load_board(results, [])


def test_the_score_by_kind_is_drawn_with_what_chance_gives(scenes):
    (contest,) = scenes.contests
    assert {"breakdown", "answers"} <= set(kinds(scenes, contest))
    with themed():
        figure = FIGURES["breakdown"][1](scenes, contest)
    (axis,) = figure.axes
    assert [t.get_text() for t in axis.get_xticklabels()] == ["closest", "furthest", "count", "shape", "left", "top"]
    drawn = lines(figure)
    assert set(drawn) == {"cnn-mlp", "relation-network", "lost (1/1 failed)", "majority", "oracle"}
    own = scenes.scores[(scenes.scores["row"] == "cnn-mlp") & (scenes.scores["split"] == "test")]
    expected = own.set_index("metric")["mean"].loc[list(contest.task.breakdown)]
    assert drawn["cnn-mlp"].get_ydata() == pytest.approx(expected.to_numpy())
    assert drawn["majority"].get_ydata()[6:8] == pytest.approx([0.31, 0.31], abs=0.02)  # counts
    assert crosses(figure, "lost") == pytest.approx(drawn["lost (1/1 failed)"].get_xdata())


def test_one_example_is_shown_with_every_rows_answers(scenes):
    (contest,) = scenes.contests
    with themed():
        figure = FIGURES["answers"][1](scenes, contest)
    texts = [t.get_text() for t in figure.axes[0].texts]
    assert {"answer", "cnn-mlp", "relation-network"} <= set(texts)
    assert "lost" not in texts
    assert "bold red: wrong" in figure.get_suptitle()


def test_as_many_rows_answer_as_there_is_room_for_the_best_first(scenes, monkeypatch):
    (contest,) = scenes.contests
    monkeypatch.setattr("harness.plots.answers.ROWS", 1)
    with themed():
        texts = {t.get_text() for t in FIGURES["answers"][1](scenes, contest).axes[0].texts}
    assert "relation-network" in texts
    assert "cnn-mlp" not in texts


def test_a_task_without_kinds_has_no_such_figures(board, contest):
    assert not {"breakdown", "answers"} & set(kinds(board, contest))


def test_an_explanation_of_another_shape_is_named(tmp_path):
    task = get_task(COPY)
    split, row = task.explained("default")[0]
    stored, measured = bundles.predicted(COPY, 0.02, 0)
    run = bundles.run_of(task, "odd", 0, "standard", measured)
    shown = {f"{split}/{row}/tokens": np.zeros(3, np.float16), f"{split}/{row}/attention": np.zeros((2, 2, 7))}
    folder = write_bundle(tmp_path, run, stored, bundles.curve(run.identity.examples, 0.5), shown)
    found = load_board(tmp_path, [])
    message = re.escape(f"{folder}: {split}/{row} in examples.npz cannot be drawn: ")
    with pytest.raises(CorruptBundleError, match=message):
        figures(found, next(iter(found.contests)))


def test_a_ladder_that_has_both_ends_of_the_first_test_stands_alone(board, contest, monkeypatch):
    inside = next(iter(curves(board, contest).values()))
    assert "test" in inside.split
    monkeypatch.setattr("harness.curves.size_range", lambda *_: (10.0, 20.0))  # rungs of the ladder
    alone = next(iter(curves(board, contest).values()))
    assert "test" not in alone.split
    assert alone.size.tolist() == sorted(get_task(TAPE).bounded(split).ladder for split in set(alone.split))


def test_a_reference_that_is_far_worse_leaves_the_frame():
    gap, bits = get_task("geometry/tsp").headline, get_task(TAPE).headline
    row, near, far = (Curve(*[np.array([1.0, high])] * 5, ["test", "test-20"]) for high in (5.0, 20.0, 300.0))
    assert by_size._in_frame([row], [near, far], gap).max() == 20
    assert by_size._in_frame([row], [near, far], bits).max() == 300
    assert by_size._in_frame([], [far], gap).max() == 300


def test_sizes_far_beyond_those_trained_on_are_in_logarithms(contest):
    def axis(largest: float):
        figure = Figure()
        ax = figure.subplots()
        by_size._sizes(ax, contest, [Curve(*[np.array([1.0, largest])] * 5, ["test", "test-120"])])
        return ax

    assert axis(120.0).get_xscale() == "linear"  # six times 20
    assert axis(500.0).get_xscale() == "log"
    assert [tick.get_text() for tick in axis(500.0).get_xticklabels()] == ["1", "500"]
