"""The papers' numbers: each line names what there is, is a value of its metric, and agrees with the lines beside it."""

import pandas as pd
import pytest

from harness.model import get_model
from harness.published import KEY, read_published
from harness.recipe import get_recipe, recipe_paths
from harness.registry import get_task, task_names

PUBLISHED = read_published()

PUBLISHED_ALONE = {
    "seq2seq": {"stack-lstm", "queue-lstm", "deque-lstm"},
    "geometry": {
        *("a1", "a2", "a3-christofides", "pointer-network-glimpse"),
        *(f"read-process-write-{steps}" for steps in ("0", "1", "10")),
        *(f"read-process-write-{steps}-no-glimpse" for steps in ("0", "1", "5", "10")),
    },
    "babi-official": {
        *("structured-svm", "memnn-2014", "memnn-ng", "memnn-nl", "memnn-ng-nl", "memnn-weak"),
        *("memn2n-pe", "memn2n-wide", "ntm", "dnc-1", "dnc-2", "sparse-dnc", "entnet"),
    },
}
"""Rows that have no recipe here, by suite; the board shows them with their numbers alone."""

ELSEWHERE = {"wmt14/en-fr", "wmt14/en-de"}
"""Data without a task here: the papers' own evidence for an effect that a study looks for."""

JOINT = "babi-official/joint"


def names(lines: pd.DataFrame) -> list[str]:
    """Return what a failed assertion should show of lines."""
    return ["/".join(map(str, line)) for line in lines[[*KEY, "value", "paper"]].itertuples(index=False)]


def of_task(task: str) -> pd.DataFrame:
    """Return the lines of one task."""
    return PUBLISHED[PUBLISHED["task"] == task]


INSTALLED = [name for name in task_names() if len(of_task(name))]


def test_tasks_are_installed_or_known_to_be_elsewhere():
    assert set(PUBLISHED["task"]) - set(task_names()) == ELSEWHERE
    elsewhere = PUBLISHED[PUBLISHED["task"].isin(ELSEWHERE)]
    assert set(elsewhere["kind"]) == {"direction"}
    assert set(elsewhere["row"]) <= set(recipe_paths())


@pytest.mark.parametrize("name", INSTALLED)
def test_lines_name_a_test_and_a_value_of_its_metric(name):
    task = get_task(name)
    for line in of_task(name).itertuples(index=False):
        metric = task.metric(line.metric)
        assert line.suite == task.suite
        assert line.split in task.regime(line.regime).tests, line
        assert line.unit == metric.unit, line
        assert metric.bounds[0] <= line.value <= metric.bounds[1], line


@pytest.mark.parametrize("name", INSTALLED)
def test_rows_are_ours_or_known_to_be_published_alone(name):
    task = get_task(name)
    alone = PUBLISHED_ALONE.get(task.suite, set())
    for row in set(of_task(name)["row"]):
        if row in recipe_paths():
            assert row not in alone
            assert task.family.name in get_model(get_recipe(row).model).families, row
        else:
            assert row in alone or row in task.references()


def test_rows_published_alone_are_in_the_file():
    for suite, rows in PUBLISHED_ALONE.items():
        assert rows <= set(PUBLISHED[PUBLISHED["suite"] == suite]["row"])


def test_a_paper_has_one_number_for_a_key():
    assert not names(PUBLISHED[PUBLISHED.duplicated([*KEY, "paper"], keep=False)])


def test_every_line_has_a_source():
    for column in ("paper", "where", "setting"):
        assert not names(PUBLISHED[PUBLISHED[column].str.strip() == ""])
    assert PUBLISHED["confidence"].between(0, 1, inclusive="right").all()


def test_figures_are_what_was_read_off_one():
    figures = PUBLISHED[PUBLISHED["kind"] == "figure"]
    assert not names(figures[~figures["where"].str.match(r"Figure \d+$")])
    assert not names(PUBLISHED[(PUBLISHED["kind"] == "exact") & PUBLISHED["where"].str.contains("Figure")])


def test_another_implementation_stands_behind_a_paper():
    """The first line of a key is the one that a cell shows."""
    peer = PUBLISHED["paper"].str.contains("(peer)", regex=False)
    papers, peers = PUBLISHED[~peer], PUBLISHED[peer]
    assert len(peers) > 200
    first = peers.groupby(list(KEY)).apply(lambda lines: lines.index[0])
    last = papers.groupby(list(KEY)).apply(lambda lines: lines.index[-1])
    both = first.index.intersection(last.index)
    assert len(both) > 100
    assert (last[both] < first[both]).all()


def of_joint(regime: str, row: str, metric: str) -> dict[str, float]:
    """Return the paper's values of a row on the joint task by split."""
    lines = of_task(JOINT)
    lines = lines[~lines["paper"].str.contains("(peer)", regex=False)]
    lines = lines[(lines["regime"] == regime) & (lines["row"] == row) & (lines["metric"] == metric)]
    return dict(zip(lines["split"], lines["value"], strict=True))


@pytest.mark.parametrize(
    ("regime", "row", "digit"),
    [
        *(
            (regime, row, 0.1)
            for regime in ("en", "en-10k")
            for row in ("memn2n", "memn2n-1hop", "memn2n-2hops", "memn2n-3hops", "memn2n-layer-wise")
        ),
        *(("en-10k", row, 0.1) for row in ("story-lstm", "ntm", "dnc-1", "dnc-2")),
        ("en", "memnn-ng-nl", 1.0),
    ],
)
def test_published_means_and_failures_are_those_of_the_twenty_tasks(regime, row, digit):
    errors = of_joint(regime, row, "error")
    mean = errors.pop("test")
    assert set(errors) == {f"test-qa{task}" for task in range(1, 21)}
    assert sum(errors.values()) / 20 == pytest.approx(mean, abs=digit / 2 + 1e-9)
    for failed in of_joint(regime, row, "failed").values():  # the paper counts a 5.0 that was rounded down
        assert sum(error > 5 for error in errors.values()) <= failed <= sum(error >= 5 for error in errors.values())


@pytest.mark.parametrize(
    ("regime", "row"),
    [
        *(("en", row) for row in ("ngram", "story-lstm", "structured-svm", "memnn-2014", "memnn", "memnn-ng")),
        *(("en", row) for row in ("memnn-nl", "memnn-ng-nl", "memnn-weak")),
        *(("en", row) for row in ("memn2n", "memn2n-bow", "memn2n-pe", "memn2n-3hops")),
        *(("en-10k", row) for row in ("story-lstm", "memnn-ng-nl", "memnn-weak")),
        *(("en-10k", row) for row in ("memn2n", "memn2n-bow", "memn2n-pe", "memn2n-3hops", "memn2n-wide")),
    ],
)
def test_columns_of_single_tasks_are_whole(regime, row):
    lines = PUBLISHED[PUBLISHED["task"].str.match(r"babi-official/qa\d+$")]
    lines = lines[(lines["regime"] == regime) & (lines["row"] == row)].drop_duplicates("task")
    assert sorted(lines["task"]) == sorted(f"babi-official/qa{task}" for task in range(1, 21))
