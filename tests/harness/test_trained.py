"""The trained model of a bundle, or what trains it again."""

import bundles
import pytest

from harness import api
from harness.errors import UserError
from harness.registry import get_task
from harness.results import write_bundle

TAPE = "ntm/copy"


@pytest.mark.parametrize(
    ("row", "model", "what"),
    [
        ("tape-lstm", "tape-lstm", "tape-lstm"),
        ("tape-lstm+clip_norm=1,hidden=8", "tape-lstm", "tape-lstm --set clip_norm=1 --set hidden=8"),
        ("mine", "mine.py:Mine", "mine.py:Mine"),
    ],
)
def test_without_weights_the_command_that_makes_them_is_told(tmp_path, row, model, what):
    stored, measured = bundles.predicted(TAPE, 0.02, 2)
    run = bundles.run_of(get_task(TAPE), row, 2, "smoke", measured)
    run = run.model_copy(update={"identity": run.identity.model_copy(update={"model": model})})
    folder = write_bundle(tmp_path, run, stored, bundles.curve(run.identity.examples, 0.1))
    command = f"readhead run {what} --task {TAPE} --regime default --budget smoke --seeds 2 --force"
    with pytest.raises(UserError) as refused:
        api.load(folder)
    assert f"train it again with `{command}`" in str(refused.value)
