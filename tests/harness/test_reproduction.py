"""Rows trained again: what is expected of a new seed, what is recorded, what is said of failures."""

import math
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from bundles import curve, predicted, run_of, scores, write_diverged, write_references, write_trained
from scipy.stats import norm, t

from harness import api, reproduction
from harness import expectation as expectation_module
from harness.errors import RunFailedError, UserError
from harness.expectation import AT_MOST, WITHIN, Against, Expectation, against_published, expectation, places
from harness.groups import read_groups
from harness.published import COLUMNS
from harness.recipe import get_recipe
from harness.records import Run
from harness.registry import get_task
from harness.reproduction import rows_to_reproduce
from harness.reruns import read_reruns
from harness.results import find_bundles, read_arrays, read_curve, read_run, write_bundle
from harness.statistics import prediction_interval
from harness.sweep import Done
from harness.verify import verify

COPY = "seq2seq/copy"


def test_prediction_interval_of_a_new_seed():
    values = np.array([1.0, 2.0, 4.0])
    low, high = prediction_interval(values, 1, 0.0)
    half = t.ppf(0.975, 2) * values.std(ddof=1) * math.sqrt(1 + 1 / 3)
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half))
    assert prediction_interval(values, 2, 0.0)[1] < high
    assert prediction_interval(values, 1, 0.0, bounds=(0, 5)) == (0, 5)


def test_a_single_seed_leaves_what_the_examples_leave_open():
    low, high = prediction_interval(np.array([0.5]), 1, 0.01, confidence=0.99)
    assert high - 0.5 == pytest.approx(0.01 * norm.ppf(0.995)) == 0.5 - low


def test_covers_new_seeds_as_often_as_it_says():
    rng = np.random.RandomState(np.random.PCG64(1))
    drawn = rng.standard_normal((4_000, 4))
    inside = [low <= new <= high for *old, new in drawn for low, high in [prediction_interval(np.array(old), 1, 0.0)]]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.01)


@pytest.fixture
def results(tmp_path):
    for seed, damage in enumerate((0.02, 0.025, 0.03)):
        write_trained(tmp_path, COPY, "mine", seed, damage)
    write_references(tmp_path, COPY)
    return tmp_path


def again(monkeypatch, *damages: float | None, kind: str = "trained") -> None:
    """Let the new runs give the answers of a model with this damage; None: the run fails."""
    monkeypatch.setattr(reproduction, "plan_again", lambda group, identity: identity)

    def run_again(identities, scratch, **_):
        for identity, damage in zip(identities, damages, strict=True):
            if damage is None:
                yield Done(identity, failure=RunFailedError("out of memory"))
            else:
                folder = write_trained(scratch, COPY, "mine", identity.seed, damage, kind=kind)
                yield Done(identity, folder, read_run(folder))

    monkeypatch.setattr(reproduction, "run_all", run_again)


def outcome_of(results: Path, seeds: int = 1) -> reproduction.Outcome:
    (outcome,) = api.reproduce("mine", COPY, budget="smoke", seeds=seeds, results=results)
    return outcome


def test_equal_predictions_are_reproduced_and_recorded(results, monkeypatch):
    again(monkeypatch, 0.02)
    outcome = outcome_of(results)
    assert (outcome.verdict, outcome.reason) == ("reproduced", "predictions are identical")
    for folder in (results / "runs" / COPY / "default" / "mine").rglob("seed-*"):
        (record,) = read_run(folder).reproductions
        assert (record.seed, record.exact) == (0, True)


def test_a_new_value_among_the_seeds_is_reproduced_though_not_exact(results, monkeypatch):
    again(monkeypatch, 0.0251, 0.0249)
    outcome = outcome_of(results, seeds=2)
    assert outcome.verdict == "reproduced"
    headline = outcome.cells[0]
    assert headline.low < min(headline.values) <= max(headline.values) < headline.high
    records = read_run(next(iter((results / "runs" / COPY / "default" / "mine").rglob("seed-1")))).reproductions
    assert [(record.seed, record.exact) for record in records] == [(0, False), (1, False)]


def test_a_strangers_row_is_ranked_by_the_runs_that_were_made_here(tmp_path, monkeypatch):
    """Claims that lie far apart make any new run probable, so none of them may be left beside it."""
    claims = (0.0, 0.6, 0.3)
    folders = [write_trained(tmp_path, COPY, "mine", seed, at, kind="community") for seed, at in enumerate(claims)]
    again(monkeypatch, 0.4, 0.41, kind="community")
    assert outcome_of(tmp_path, seeds=2).verdict == "reproduced"
    for seed, damage in enumerate((0.4, 0.41, 0.3)):
        assert read_run(folders[seed]).scores == predicted(COPY, damage, seed)[1]
    assert list(read_reruns(tmp_path)) == [f"{COPY}/default/mine/smoke/seed-{seed}" for seed in (0, 1)]
    (group,) = read_groups(tmp_path)
    assert [member.origin for member in group.members] == ["re-run", "re-run", "self-reported"]
    assert group.self_reported
    again(monkeypatch, 0.4, 0.41, 0.42, kind="community")
    assert outcome_of(tmp_path, seeds=3).verdict == "reproduced"
    assert not read_groups(tmp_path)[0].self_reported
    assert not any(read_run(folder).reproductions for folder in folders)


def test_a_damaged_list_of_reruns_is_named(tmp_path):
    write_trained(tmp_path, COPY, "mine", 0, 0.1, kind="community")
    (tmp_path / "reruns.csv").write_text("bundle,sha\n")
    with pytest.raises(UserError, match=r"reruns.csv: its columns are not bundle, run_sha256, recorded"):
        read_groups(tmp_path)


def test_drift_and_failure_are_told_apart_and_not_recorded(results, monkeypatch):
    (group,) = rows_to_reproduce(results, "mine", COPY, None, "smoke")
    task = get_task(COPY)
    narrow, wide = (expectation(group, task, "test", task.headline).interval(1, share) for share in (WITHIN, AT_MOST))

    def value(damage: float) -> float:
        score = predicted(COPY, damage, 0)[1][0]
        return score.values[task.headline.name]

    damages = np.linspace(0.03, 0.2, 40)
    drifting = next(d for d in damages if wide[0] <= value(d) < narrow[0])
    for damage, verdict in ((drifting, "drift"), (0.5, "failed")):
        again(monkeypatch, damage)
        assert outcome_of(results).verdict == verdict
    assert not any(read_run(folder).reproductions for folder in find_bundles(results))


def again_but_for(monkeypatch, damage: float, **elsewhere: float) -> None:
    """Let a new run give the answers of a model with this damage, and with others on some splits, ``_`` for ``-``."""
    monkeypatch.setattr(reproduction, "plan_again", lambda group, identity: identity)

    def run_again(identities, scratch, **_):
        for identity in identities:
            stored = dict(predicted(COPY, damage, identity.seed)[0])
            for split, other in elsewhere.items():
                name = split.replace("_", "-")
                stored[name] = predicted(COPY, other, identity.seed)[0][name]
            task = get_task(COPY)
            run = run_of(task, "mine", identity.seed, "smoke", scores(task, stored))
            folder = write_bundle(scratch, run, stored, curve(1_000, 0.1))
            yield Done(identity, folder, read_run(folder))

    monkeypatch.setattr(reproduction, "run_all", run_again)


def test_each_test_has_a_verdict_and_one_that_failed_fails_the_row(tmp_path, monkeypatch):
    for seed in range(3):
        write_trained(tmp_path, COPY, "mine", seed, 0.02)
    again_but_for(monkeypatch, 0.0199, test_21=0.8)
    outcome = outcome_of(tmp_path)
    assert [cell.split for cell in outcome.cells] == list(get_task(COPY).regime("default").tests)
    verdicts = {cell.split: cell.verdict for cell in outcome.cells}
    assert (verdicts["test"], verdicts["test-21"], verdicts["test-25"]) == ("reproduced", "failed", "reproduced")
    assert (outcome.verdict, outcome.reason) == ("failed", f"failed in 1 of {len(verdicts)}: exact match on test-21")
    assert not any(read_run(folder).reproductions for folder in find_bundles(tmp_path))


def test_a_single_seed_does_not_say_how_far_seeds_differ_beyond_the_first_test(tmp_path, monkeypatch):
    write_trained(tmp_path, COPY, "mine", 0, 0.02)
    again_but_for(monkeypatch, 0.0199, test_21=0.8)
    outcome = outcome_of(tmp_path)
    assert {cell.split: cell.verdict for cell in outcome.cells}["test-21"] == "drift"
    assert outcome.verdict == "reproduced"
    assert outcome.reason == f"drift in 1 of {len(outcome.cells)}: exact match on test-21"
    again_but_for(monkeypatch, 0.8)
    assert outcome_of(tmp_path).verdict == "failed"


def test_of_a_hundred_cells_hardly_one_fails_by_chance():
    """A hundred independent cells of a row, four stored seeds each, and the new one of the same law: 300 such rows."""
    rng = np.random.RandomState(np.random.PCG64(2))
    metric = replace(get_task(COPY).headline, bounds=(-math.inf, math.inf))
    drawn = rng.standard_normal((300, 100, 5))
    verdicts = [
        [Expectation(metric, np.array(old), 0, 0.0).verdict([new], others=100) for *old, new in map(list, row)]
        for row in drawn
    ]
    assert np.mean(["failed" in row for row in verdicts]) < 0.03
    assert np.mean([[v != "reproduced" for v in row] for row in verdicts]) == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize(
    ("old", "without", "others", "verdict"),
    [
        ([0.0, 0.0], 0, 0, "failed"),  # the first test: what counts
        ([0.0, 0.0], 0, 20, "drift"),  # all wrong, far beyond what was trained on
        ([0.0, 0.001, 0.002], 0, 20, "failed"),
        ([0.0, 0.001, 0.002], 1, 20, "drift"),
        ([0.0], 0, 20, "drift"),
        ([], 2, 0, "failed"),
    ],
)
def test_what_stored_seeds_cannot_tell_makes_no_failure_but_of_the_first(old, without, others, verdict):
    expected = Expectation(get_task(COPY).headline, np.array(old), without, 0.0001)
    assert expected.verdict([0.9], others) == verdict


def test_an_unbounded_metric_leaves_one_unit_of_one_example_open(tmp_path):
    for seed in range(3):
        write_trained(tmp_path, "ntm/copy", "mine", seed, 0.0)
    (group,) = read_groups(tmp_path)
    task = get_task("ntm/copy")
    expected = expectation(group, task, "test-10", task.metric("wrong_bits"))
    assert expected.sampling == 1 / len(task.load("test-10"))
    assert expected.verdict([expected.sampling], others=0) == "reproduced"
    assert expected.verdict([50 * expected.sampling], others=0) == "failed"


def test_a_resample_without_a_value_leaves_the_others_their_spread(tmp_path, monkeypatch):
    """The area of hulls by the paper's rule has none where too many are no polygons."""
    write_trained(tmp_path, COPY, "mine", 0, 0.05)
    (group,) = read_groups(tmp_path)
    task = get_task(COPY)
    least = 1 / len(task.load("test"))
    for resamples, sampling in (([0.4, 0.6, np.nan, 0.4, 0.6], 0.1), ([np.nan, np.nan], least)):
        found = SimpleNamespace(resamples=np.array(resamples))
        monkeypatch.setattr(expectation_module, "resample", lambda *_, found=found: found)
        assert expectation(group, task, "test", task.headline).sampling == pytest.approx(sampling)


@pytest.mark.parametrize("others", [0, 1])
def test_a_row_that_diverged_is_not_reproduced_by_a_run_that_solves_the_task(tmp_path, monkeypatch, others):
    """Be all stored seeds diverged or not."""
    write_diverged(tmp_path, "ntm/copy", "mine", 0)
    for seed in range(1, 1 + others):
        write_trained(tmp_path, "ntm/copy", "mine", seed, 0.4)

    def run_again(identities, scratch, **_):
        folder = write_trained(scratch, "ntm/copy", "mine", 0, 0.0)
        yield Done(identities[0], folder, read_run(folder))

    monkeypatch.setattr(reproduction, "plan_again", lambda group, identity: identity)
    monkeypatch.setattr(reproduction, "run_all", run_again)
    (outcome,) = api.reproduce("mine", "ntm/copy", budget="smoke", results=tmp_path)
    assert outcome.verdict == "failed"
    assert not any(read_run(folder).reproductions for folder in find_bundles(tmp_path))


def test_a_seed_that_diverges_again_is_no_failure_of_the_others(tmp_path, monkeypatch):
    for seed, damage in enumerate((0.02, 0.025)):
        write_trained(tmp_path, COPY, "mine", seed, damage)
    write_diverged(tmp_path, COPY, "mine", 2)

    def run_again(identities, scratch, **_):
        for identity in identities:
            damages = {0: 0.0225, 1: 0.025}
            write = write_trained if identity.seed in damages else write_diverged
            folder = write(scratch, COPY, "mine", identity.seed, *filter(None, [damages.get(identity.seed)]))
            yield Done(identity, folder, read_run(folder))

    monkeypatch.setattr(reproduction, "plan_again", lambda group, identity: identity)
    monkeypatch.setattr(reproduction, "run_all", run_again)
    outcome = outcome_of(tmp_path, seeds=3)
    assert (outcome.verdict, len(outcome.cells[0].values)) == ("reproduced", 2)
    assert outcome.reason.startswith("training loss became NaN at step 40")


def test_a_wrong_published_line_is_told_before_any_training(results, monkeypatch):
    monkeypatch.setattr(reproduction, "read_published", lambda: published(metric="perplexity"))
    monkeypatch.setattr(reproduction, "plan_again", lambda group, identity: identity)
    monkeypatch.setattr(reproduction, "run_all", lambda *_, **__: pytest.fail("it trains"))
    with pytest.raises(UserError, match=r"unknown metric .*'perplexity'"):
        outcome_of(results)


def test_a_cell_with_a_published_number_is_judged_too(tmp_path):
    write_trained(tmp_path, COPY, "mine", 0, 0.05)
    (group,) = read_groups(tmp_path)
    tests = list(get_task(COPY).regime("default").tests)
    found = places(group, get_task(COPY), published(metric="token_accuracy", split="test-21"))
    assert [(split, metric.name) for split, metric in found[:-1]] == [(split, "exact_match") for split in tests]
    assert (found[-1][0], found[-1][1].name) == ("test-21", "token_accuracy")
    assert len(places(group, get_task(COPY), published())) == len(tests)


def test_another_number_of_parameters_is_a_failure_though_the_predictions_are_equal(results, monkeypatch):
    again(monkeypatch, 0.02)
    (folder,) = (results / "runs" / COPY / "default" / "mine").rglob("seed-0")
    claimed = read_run(folder)
    assert claimed.cost is not None
    small = claimed.model_copy(update={"cost": claimed.cost.model_copy(update={"parameters": 7})})
    predictions, line = read_arrays(folder, claimed), read_curve(folder, claimed)
    shutil.rmtree(folder)
    write_bundle(results, small, predictions, line)
    outcome = outcome_of(results)
    assert (outcome.verdict, "the bundle says 7" in outcome.reason) == ("failed", True)
    assert outcome.cells[0].verdict == "failed"
    assert not read_run(folder).reproductions


def test_a_run_that_breaks_off_is_a_failure_with_its_reason(results, monkeypatch):
    again(monkeypatch, 0.02, None)
    outcome = outcome_of(results, seeds=2)
    assert (outcome.verdict, outcome.reason) == ("failed", "out of memory")


def test_equal_seeds_do_not_make_the_expectation_a_point(tmp_path):
    for seed in range(3):
        write_trained(tmp_path, COPY, "mine", seed, 0.0)  # every answer is right
    (group,) = rows_to_reproduce(tmp_path, "*", "*", None, "smoke")
    task = get_task(COPY)
    low, high = expectation(group, task, "test", task.headline).interval()
    assert high == 1
    assert 1 - low == pytest.approx(norm.ppf(0.975) / len(task.load("test")))


def test_without_the_data_seeds_alone_say_what_to_expect(tmp_path, monkeypatch):
    """As of the rows of the official bAbI tasks, where nobody has put the release."""
    for seed, damage in enumerate((0.02, 0.03)):
        write_trained(tmp_path, COPY, "mine", seed, damage)
    (group,) = read_groups(tmp_path)
    task = get_task(COPY)
    with_data = expectation(group, task, "test", task.headline)
    monkeypatch.setattr(type(task), "missing", lambda self, regime: "get it there")
    monkeypatch.setattr(type(task), "load", lambda self, split: pytest.fail("the data are not here"))
    without = expectation(group, task, "test", task.headline)
    assert (without.sampling, list(without.values)) == (0, list(with_data.values))
    assert against_published(group, published())[0].verdict


def test_solved_is_as_good_as_solved(tmp_path, monkeypatch):
    task = "ntm/copy"
    for seed in range(2):
        write_trained(tmp_path, task, "mine", seed, 0.0)

    def run_again(identities, scratch, **_):
        folder = write_trained(scratch, task, "mine", 0, 0.01)
        run = read_run(folder)
        assert run.files != read_run(next(find_bundles(tmp_path))).files
        assert run.score("test", "bits") <= 0.1
        yield Done(identities[0], folder, run)

    monkeypatch.setattr(reproduction, "plan_again", lambda group, identity: identity)
    monkeypatch.setattr(reproduction, "run_all", run_again)
    (outcome,) = api.reproduce("mine", task, budget="smoke", results=tmp_path)
    assert outcome.verdict == "reproduced"


def test_a_stored_run_that_diverged_is_reproduced_by_one_that_diverges(tmp_path, monkeypatch):
    write_diverged(tmp_path, COPY, "mine", 0)

    def run_again(identities, scratch, **_):
        folder = write_diverged(scratch, COPY, "mine", 0)
        yield Done(identities[0], folder, read_run(folder))

    monkeypatch.setattr(reproduction, "plan_again", lambda group, identity: identity)
    monkeypatch.setattr(reproduction, "run_all", run_again)
    outcome = outcome_of(tmp_path)
    assert outcome.verdict == "reproduced"
    assert outcome.reason == "training loss became NaN at step 40; predictions are identical"


def test_what_todays_code_cannot_train_is_not_run(results):
    """The synthetic row's model is nobody's, and its data fingerprint that of no data."""
    outcome = outcome_of(results)
    assert outcome.verdict == "not run"
    assert "its data are not those of seq2seq/copy version 1" in outcome.reason


def test_rows_are_chosen_by_globs_and_a_miss_lists_what_there_is(results):
    chosen = rows_to_reproduce(results, "m*", "seq2seq/*", "default", "smoke")
    assert [group.key[3] for group in chosen] == ["mine"]  # no references
    with pytest.raises(UserError, match=r"unknown stored row on \* with budget standard 'mine'.*mine on seq2seq/copy"):
        rows_to_reproduce(results, "mine", "*", None, "standard")


def published(**changes: object) -> pd.DataFrame:
    line = dict.fromkeys(COLUMNS, "") | {
        "suite": "seq2seq",
        "task": COPY,
        "regime": "default",
        "row": "mine",
        "split": "test",
        "metric": "exact_match",
        "value": 0.9,
        "kind": "exact",
        "paper": "Somebody 2015",
    }
    return pd.DataFrame([line | changes])


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"value": 0.0}, "reached"),
        ({"value": 1.0}, "short by "),
        ({"kind": "direction"}, None),
        ({"metric": "length_ratio"}, None),  # neither way is better
        ({"row": "other"}, None),
    ],
)
def test_published_numbers_have_a_verdict_of_their_own(tmp_path, changes, verdict):
    for seed in range(3):
        write_trained(tmp_path, COPY, "mine", seed, 0.05 + seed / 1_000)
    (group,) = read_groups(tmp_path)
    found = against_published(group, published(**changes))
    if verdict is None:
        assert found == []
    else:
        assert found[0].verdict.startswith(verdict)
        assert found[0].ours == pytest.approx(np.mean([run.score("test", "exact_match") for run in runs(group)]))


def runs(group) -> list[Run]:
    return [member.run for member in group.members]


@pytest.mark.parametrize(
    ("ours", "low", "high", "verdict"),
    [
        (0.95, 0.94, 0.96, "reached"),
        (0.9, 0.9, 0.9, "reached"),
        (0.85, 0.79, 0.91, "near"),
        (0.85, 0.84, 0.86, "short by 0.05"),
        (math.nan, math.nan, math.nan, "no value here"),
    ],
)
def test_verdict_against_a_published_number(ours, low, high, verdict):
    metric = get_task(COPY).headline
    assert Against("test", metric, 0.9, "Somebody 2015", ours, low, high).verdict == verdict


def test_a_real_run_is_reproduced_by_its_stored_recipe(tmp_path, monkeypatch):
    """The row's recipe may have changed since: what is stored counts."""
    (done,) = api.run("lstm", COPY, budget="smoke", seeds=[3], settings=["hidden=16"], results=tmp_path, mlflow=False)
    get_recipe.cache_clear()
    (outcome,) = api.reproduce("lstm*", COPY, budget="smoke", results=tmp_path)
    assert (outcome.verdict, outcome.reason) == ("reproduced", "predictions are identical")
    assert outcome.group.first.identity.seed == 3
    assert outcome.cells[0].values == [done.run.score("test", "exact_match")]
    assert [member.origin for group in read_groups(tmp_path) for member in group.members] == ["re-run"]
    assert all(finding.status == "verified" for finding in verify(tmp_path))


def test_a_score_over_a_split_of_one_size_is_found(tmp_path):
    """It is kept under that size, as on the tests of geometry/tsp:10."""
    (folder,) = [write_trained(tmp_path, COPY, "mine", 0, 0.02)]
    run = read_run(folder)
    assert run.score("test-21", "exact_match") is None
    assert run.whole("test-21", "exact_match") == run.score("test-21", "exact_match", 21)
    assert run.whole("test", "exact_match") == run.score("test", "exact_match")
    assert math.isnan(run.whole("test-99", "exact_match"))
