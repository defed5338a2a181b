"""What `readhead compare` sets side by side, and what it refuses."""

import re
from pathlib import Path

import bundles
import pytest

from harness import listing
from harness.comparison import compare
from harness.errors import CorruptBundleError, UserError
from harness.families.base import Stored
from harness.progress import console
from harness.registry import get_task
from harness.results import write_bundle
from harness.task import combined_fingerprint

COPY = "seq2seq/copy"


def write(
    results: Path,
    row: str,
    damage: float,
    stored: dict[str, Stored] | None = None,
    status: str = "completed",
    seed: int = 0,
) -> Path:
    """Write the bundle of a run on the installed task's data; ``stored`` replaces its predictions."""
    predictions, measured = bundles.predicted(COPY, damage, seed)
    completed = status == "completed"
    reason = None if completed else "training loss became NaN at step 40"
    run = bundles.run_of(
        get_task(COPY), row, seed, "standard", measured if completed else [], status=status, reason=reason
    )
    fingerprint = combined_fingerprint(get_task(COPY), run.identity.regime)
    run = run.model_copy(update={"identity": run.identity.model_copy(update={"fingerprint": fingerprint})})
    return write_bundle(results, run, (stored or predictions) if completed else {})


def test_a_seed_that_diverged_is_told(tmp_path):
    write(tmp_path, "a", 0.02)
    write(tmp_path, "b", 0.1)
    assert "without" not in compare("a", "b", COPY, results=tmp_path)[0]
    write(tmp_path, "b", 0.1, status="diverged", seed=1)
    found = compare("a", "b", COPY, results=tmp_path)
    assert [record["without"] for record in found] == ["1 of 2 seeds of b"] * len(found)
    with console.capture() as captured:
        listing.comparisons("a", "b", found)
    assert "1 of 2 seeds of b" in " ".join(captured.get().split())


def test_a_row_whose_seeds_all_diverged_cannot_be_compared(tmp_path):
    write(tmp_path, "a", 0.02)
    for seed in (0, 1):
        write(tmp_path, "b", 0.1, status="diverged", seed=seed)
    with pytest.raises(UserError, match="no seed of b has finished: 2 of 2 diverged"):
        compare("a", "b", COPY, results=tmp_path)


def test_rows_of_another_version_are_refused(tmp_path, monkeypatch):
    for row in ("a", "b"):
        write(tmp_path, row, 0.02)
    monkeypatch.setattr(type(get_task(COPY)), "version", 9)
    with pytest.raises(UserError, match=r"a/standard/seed-0 was scored on other data of seq2seq/copy: version"):
        compare("a", "b", COPY, results=tmp_path)


def test_rows_of_other_data_of_the_same_version_are_refused(tmp_path):
    write(tmp_path, "a", 0.02)
    bundles.write_trained(tmp_path, COPY, "b", 0, 0.02, "standard")
    with pytest.raises(UserError, match=r"b/standard/seed-0 was scored on other data of seq2seq/copy: its fingerprint"):
        compare("a", "b", COPY, results=tmp_path)


def test_predictions_of_another_shape_are_one_clear_error(tmp_path):
    write(tmp_path, "a", 0.02)
    predictions, _ = bundles.predicted(COPY, 0.02, 0)
    split = get_task(COPY).regime("default").tests[0]
    shorter = {name: array[:-1] for name, array in predictions[split].items()}
    folder = write(tmp_path, "b", 0.02, {**predictions, split: shorter})
    with pytest.raises(CorruptBundleError, match=re.escape(f"{folder}: {split}: tokens are ")):
        compare("a", "b", COPY, results=tmp_path)
