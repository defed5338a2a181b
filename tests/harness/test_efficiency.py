"""Costs of a row: examples to a threshold, training FLOPs, and the fronts of score and cost."""

import math
from pathlib import Path

import bundles
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import provenance
from harness.efficiency import Efficiency, costs_table, efficiencies, front
from harness.leaderboard import write_board
from harness.plots.cost import spent
from harness.records import Cost
from harness.registry import get_task
from harness.results import write_bundle
from harness.standings import load_board

TAPE = "ntm/copy"


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(provenance, "stale_reason", lambda run: None)
    monkeypatch.setattr("harness.leaderboard.figures", lambda *_: {})


def write(results: Path, row: str, seed: int, validation: list[float], damage: float = 0.02, **cost: float) -> None:
    """Write a run on tapes whose validation bits were these, after 100, 200, ... examples."""
    stored, measured = bundles.predicted(TAPE, damage, seed)
    curve = bundles.curve(100 * len(validation), 0.0, points=len(validation))
    known = {"parameters": 1000, "examples": 100 * len(validation), "seconds": 1.0, "flops": 7.0}
    run = bundles.run_of(get_task(TAPE), row, seed, "standard", measured, cost=Cost.model_validate(known | cost))
    write_bundle(results, run, stored, curve.assign(validation=validation))


def measured(results: Path) -> dict[str, Efficiency]:
    board = load_board(results, [])
    (contest,) = board.contests
    return {found.row: found for found in efficiencies(board, contest)}


def test_examples_to_the_threshold_are_the_median_over_seeds(tmp_path):
    """Copy is solved at 0.1 bits: reached at 200, at 300 (and lost again), and never."""
    write(tmp_path, "often", 0, [5, 0.1, 0.05, 0.01])
    write(tmp_path, "often", 1, [5, 4, 0.02, 3])
    write(tmp_path, "often", 2, [5, 4, math.nan, 0.11])
    write(tmp_path, "rarely", 0, [5, 0.1, 0.05, 0.01])
    write(tmp_path, "rarely", 1, [5, 4, 3, 2])
    found = measured(tmp_path)
    assert (found["often"].examples_to, found["often"].reached, found["often"].seeds) == (300, 2, 3)
    assert (found["rarely"].examples_to, found["rarely"].reached, found["rarely"].seeds) == (math.inf, 1, 2)
    lines = costs_table(load_board(tmp_path, [])).set_index("row")
    assert lines.loc["often", "examples_to"] == 300
    assert math.isnan(lines.loc["rarely", "examples_to"])
    write_board(tmp_path, tmp_path / "board.md", [])
    text = (tmp_path / "board.md").read_text()
    assert "examples to ≤ 0.1 bits" in text
    assert "| 300 (2/3) |" in text
    assert "| – (1/2) |" in text


def test_a_diverged_seed_has_not_reached_the_threshold(tmp_path):
    write(tmp_path, "row", 0, [5, 0.1])
    run = bundles.run_of(get_task(TAPE), "row", 1, "standard", [], status="diverged", reason="NaN", selection=None)
    write_bundle(tmp_path, run, {}, bundles.curve(200, 0.0, points=2).assign(validation=[0.01, math.nan]))
    assert (measured(tmp_path)["row"].reached, measured(tmp_path)["row"].seeds) == (1, 2)


def test_training_costs_three_forward_passes_an_example(tmp_path):
    write(tmp_path, "row", 0, [5, 4], flops=7.0)
    assert measured(tmp_path)["row"].training_flops == 3 * 7 * 200


def test_a_row_is_on_a_front_unless_a_cheaper_one_is_as_good(tmp_path):
    """Good and dear, poor and cheap, poor and dear; and one whose FLOPs nobody counted."""
    write(tmp_path, "good", 0, [1], damage=0.02, parameters=300, flops=30)
    write(tmp_path, "cheap", 0, [1], damage=0.5, parameters=100, flops=10)
    write(tmp_path, "neither", 0, [1], damage=0.8, parameters=200, flops=40)
    write(tmp_path, "uncounted", 0, [1], damage=0.3, parameters=250, flops=None)
    found = measured(tmp_path)
    assert {row for row, one in found.items() if one.parameters_front} == {"good", "cheap", "uncounted"}
    assert {row for row, one in found.items() if one.flops_front} == {"good", "cheap"}
    write_board(tmp_path, tmp_path / "board.md", [])
    text = (tmp_path / "board.md").read_text()
    assert "* Best with at most so many parameters: 100 `cheap`" in text
    assert "* Best with at most so many training FLOPs: 3 k `cheap`" in text
    assert "| `neither` | 200 |" in text
    assert "| `cheap` | **100** |" in text


def test_the_form_a_phase_trains_is_what_counts(tmp_path):
    """A run that is older than this count says nothing about its row, once there is a newer one."""
    write(tmp_path, "row", 0, [1, 1], flops=100)
    assert measured(tmp_path)["row"].training_flops == 3 * 100 * 200
    write(tmp_path, "row", 1, [1, 1], flops=100, flops_in_training=7)
    found = measured(tmp_path)["row"]
    assert (found.flops, found.training_flops) == (100, 3 * 7 * 200)
    board = load_board(tmp_path, [])
    (contest,) = board.contests
    assert spent(board.row(contest, "row"), contest).flops.tolist() == [3 * 7 * 200] * 2


@given(st.dictionaries(st.text("abc", min_size=1), st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8))
def test_a_front_is_what_no_other_row_dominates(rows):
    keys, cost = {row: (float(key),) for row, (key, _) in rows.items()}, {row: float(c) for row, (_, c) in rows.items()}
    points = np.array(list(rows.values())).reshape(-1, 2)
    expected = {
        row for row, point in rows.items() if not ((points <= point).all(axis=1) & (points < point).any(axis=1)).any()
    }
    assert front(keys, cost) == (expected if len(rows) > 1 else set())


def test_a_row_alone_is_on_no_front(tmp_path):
    write(tmp_path, "row", 0, [1])
    assert not measured(tmp_path)["row"].parameters_front
