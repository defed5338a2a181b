"""References become bundles that verify, and nothing beats an exact bound."""

import numpy as np
import pytest

from harness.errors import CorruptBundleError, UserError
from harness.references import run_reference, run_references
from harness.registry import get_task, task_names
from harness.results import REFERENCE_BUDGET, find_bundles, read_arrays, read_run
from harness.task import Reference
from harness.verify import verify

TASKS = ["ntm/copy", "seq2seq/copy"]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    run_references([get_task(name) for name in TASKS], folder)
    return folder


def test_every_reference_of_every_regime_has_a_bundle_that_verifies(results):
    expected = {
        (name, regime, row)
        for name in TASKS
        for regime in get_task(name).regimes
        for row in get_task(name).references()
    }
    runs = [read_run(folder) for folder in find_bundles(results)]
    assert {(run.identity.task, run.identity.regime, run.identity.row) for run in runs} == expected
    assert len(runs) == len(expected)
    assert {finding.status for finding in verify(results)} == {"verified"}


def test_a_reference_says_what_it_is(results):
    for folder in find_bundles(results):
        run = read_run(folder)
        task = get_task(run.identity.task)
        reference = task.references()[run.identity.row]
        assert (run.kind, run.status, run.identity.budget) == ("reference", "completed", REFERENCE_BUDGET)
        assert (run.title, run.bound) == (reference.title, reference.bound)
        assert run.cost is None
        assert run.selection is None
        assert run.identity.examples == 0
        assert set(run.files) == {"predictions.npz"}
        assert (folder / "predictions.npz").stat().st_size < 200_000  # bundles are for git
        assert {score.split for score in run.scores} == set(task.regime(run.identity.regime).tests)


def test_signatures_are_stored_with_the_scores(results):
    runs = {read_run(folder).identity.task: read_run(folder) for folder in find_bundles(results)}
    assert "tok:none" in runs["seq2seq/copy"].signatures["bleu"]
    assert runs["ntm/copy"].signatures == {}


@pytest.mark.parametrize("name", TASKS)
def test_a_reference_is_the_same_every_time_and_on_its_own(name, results, tmp_path):
    task = get_task(name)
    reference = task.references()["random"]
    again = run_reference(task, "default", "random", reference, tmp_path)
    first = results / again.relative_to(tmp_path)
    assert (first / "predictions.npz").read_bytes() == (again / "predictions.npz").read_bytes()
    assert read_run(first).scores == read_run(again).scores


def test_random_answers_differ_between_splits(results):
    task = get_task("seq2seq/copy")
    folder = next(f for f in find_bundles(results) if "seq2seq/copy/default/random" in str(f))
    arrays = read_arrays(folder, read_run(folder))
    first = [arrays[split]["tokens"][0, :20].tobytes() for split in task.regime("default").tests if split != "test"]
    assert len(set(first)) == len(first)


@pytest.mark.parametrize("name", task_names())
def test_nothing_beats_an_exact_bound(name):
    task = get_task(name)
    rng = np.random.RandomState(0)
    tested = {split for regime in task.regimes if not task.missing(regime) for split in task.regime(regime).tests}
    if not tested:
        pytest.skip(str(task.missing(next(iter(task.regimes)))))
    references = task.references()
    for split in sorted(tested):
        examples = task.load(split)
        scores = {
            row: task.score(reference.predict(examples, rng), examples)[task.headline.name]
            for row, reference in references.items()
        }
        for row, reference in references.items():
            if reference.bound == "exact":
                assert not any(task.headline.better(score, scores[row]) for score in scores.values())


def test_a_reference_that_answers_nonsense_is_refused(tmp_path):
    task = get_task("ntm/copy")
    short = Reference("too few", "none", lambda examples, rng: {"logits": np.zeros(3, np.uint8)})
    with pytest.raises(CorruptBundleError, match="logits are"):
        run_reference(task, "default", "short", short, tmp_path)
    assert list(find_bundles(tmp_path)) == []


def test_a_folder_that_cannot_be_written_is_refused_first(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="choose another with --results"):
        run_references([get_task("ntm/copy")], tmp_path / "file")
