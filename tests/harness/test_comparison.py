"""What `readhead compare` sets side by side, and what it refuses."""

import bundles
import pytest

from harness.comparison import compare
from harness.errors import CorruptBundleError, UserError
from harness.registry import get_task
from harness.results import write_bundle

COPY = "seq2seq/copy"


def test_a_seed_that_diverged_is_told(tmp_path):
    bundles.write_trained(tmp_path, COPY, "a", 0, 0.02, "standard")
    bundles.write_trained(tmp_path, COPY, "b", 0, 0.1, "standard")
    assert "without" not in compare("a", "b", COPY, results=tmp_path)[0]
    bundles.write_diverged(tmp_path, COPY, "b", 1, "standard")
    assert compare("a", "b", COPY, results=tmp_path)[0]["without"] == "1 of 2 seeds of b"


def test_rows_of_another_version_are_refused(tmp_path, monkeypatch):
    for row in ("a", "b"):
        bundles.write_trained(tmp_path, COPY, row, 0, 0.02, "standard")
    monkeypatch.setattr(type(get_task(COPY)), "version", 9)
    with pytest.raises(UserError, match=r"a/standard/seed-0 was scored on other data of seq2seq/copy: version"):
        compare("a", "b", COPY, results=tmp_path)


def test_predictions_of_another_shape_are_one_clear_error(tmp_path):
    bundles.write_trained(tmp_path, COPY, "a", 0, 0.02, "standard")
    stored, measured = bundles.predicted(COPY, 0.02, 0)
    stored["test"] = {name: array[:-1] for name, array in stored["test"].items()}
    write_bundle(tmp_path, bundles.run_of(get_task(COPY), "b", 0, "standard", measured), stored)
    with pytest.raises(CorruptBundleError):
        compare("a", "b", COPY, results=tmp_path)
