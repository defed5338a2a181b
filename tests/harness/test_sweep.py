"""Many runs: in this process or in workers, with the same numbers."""

from pathlib import Path

import pytest

from harness import api
from harness.errors import UserError
from harness.recipe import get_recipe
from harness.results import find_bundles, read_arrays, read_run

MODEL = Path(__file__).parent / "test_training.py"
ARGUMENTS = {"budget": "smoke", "settings": ["batch_size=32"], "mlflow": False}


@pytest.fixture(autouse=True)
def fresh_recipes():
    get_recipe.cache_clear()


def predictions(results: Path) -> dict[str, bytes]:
    return {
        f"{folder.name}/{split}": arrays["logits"].tobytes()
        for folder in find_bundles(results)
        for split, arrays in read_arrays(folder, read_run(folder)).items()
    }


def test_workers_give_the_numbers_of_one_process(tmp_path, monkeypatch):
    name = f"{MODEL}:Tiny"
    done = list(api.run(name, "ntm/copy", seeds=[0, 1, 2], results=tmp_path / "one", **ARGUMENTS))
    assert [one.identity.seed for one in done] == [0, 1, 2]
    monkeypatch.setenv("READHEAD_CACHE", str(tmp_path / "cache of the workers"))
    done = list(api.run(name, "ntm/copy", seeds=[0, 1, 2], workers=2, results=tmp_path / "two", **ARGUMENTS))
    assert sorted(one.identity.seed for one in done) == [0, 1, 2]
    assert predictions(tmp_path / "one") == predictions(tmp_path / "two")


def test_a_failed_run_does_not_stop_the_others(tmp_path):
    done = list(api.run(f"{MODEL}:Broken", "ntm/copy", seeds=[0, 1], results=tmp_path, **ARGUMENTS))
    assert [one.run for one in done] == [None, None]
    assert all("KeyError" in str(one.failure) for one in done)


def test_bad_input_in_a_worker_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match="return the loss"):
        list(api.run(f"{MODEL}:Forgetful", "ntm/copy", seeds=[0, 1], workers=2, results=tmp_path, **ARGUMENTS))
