"""Places: who shares the leader's rank, and who does not."""

from harness.metrics.tape import tape_metrics
from harness.ranking import placed, ranks_by_solved_rate
from harness.registry import get_task
from harness.statistics import Comparison

NEAR, FAR, WIDE = Comparison(-0.01, -0.02, 0.01), Comparison(-0.02, -0.03, -0.01), Comparison(-0.1, -0.4, 0.1)


def places(keys: dict[str, tuple[float, ...]], **compared: Comparison) -> dict[str, str]:
    return {place.row: f"{place.rank}{'=' if place.tied else ''}" for place in placed(keys, compared)}


def test_rows_that_nothing_tells_from_the_leader_share_its_rank():
    keys = {"a": (0.0, -0.99), "b": (0.0, -0.98), "c": (0.0, -0.97), "d": (0.0, -0.97)}
    assert places(keys, b=NEAR, c=FAR, d=FAR) == {"a": "1", "b": "1=", "c": "3", "d": "3"}


def test_a_row_whose_seeds_scatter_does_not_overtake_one_that_is_told_apart():
    keys = {"a": (0.0, -0.99), "b": (0.0, -0.98), "scattered": (0.0, -0.9)}
    assert places(keys, b=FAR, scattered=WIDE) == {"a": "1", "b": "2", "scattered": "3"}
    assert places(keys, b=NEAR, scattered=WIDE) == {"a": "1", "b": "1=", "scattered": "1="}


def test_failed_seeds_and_solved_rates_tell_rows_apart_whatever_the_difference():
    keys = {"a": (0.0, -1.0, 0.1), "unsolved": (0.0, -0.5, 0.1), "failed": (1.0, -1.0, 0.0)}
    assert places(keys, unsolved=NEAR, failed=NEAR) == {"a": "1", "unsolved": "2", "failed": "3"}


def test_a_row_without_predictions_shares_no_rank_but_its_equals():
    assert places({"a": (0.0, 1.0), "b": (0.0, 2.0), "c": (0.0, 2.0)}) == {"a": "1", "b": "2", "c": "2"}


def test_tapes_without_a_threshold_rank_by_their_score(monkeypatch):
    task = get_task("ntm/copy")
    assert ranks_by_solved_rate(task)
    monkeypatch.setattr(type(task), "metrics", tape_metrics(solved=None))
    assert not ranks_by_solved_rate(task)
