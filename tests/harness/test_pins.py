import json

import pytest

from harness import pins
from harness.errors import UserError
from harness.registry import get_task


def test_a_new_split_is_pinned_beside_the_others(tmp_path, monkeypatch):
    class Mine(type(get_task("babi/qa1"))):
        fingerprint_path = tmp_path / "mine.fingerprints.json"

    pinned = json.loads(json.dumps(get_task("babi/qa1").pinned))
    new = pinned["splits"].pop("test")
    pinned["splits"]["elsewhere"], pinned["overlap"]["elsewhere"] = "0" * 64, {"test": {}}  # of a regime not here
    Mine.fingerprint_path.write_text(json.dumps(pinned))
    monkeypatch.setattr(pins, "get_task", lambda name: Mine())
    written = json.loads(pins.fingerprint("mine").read_text())
    assert written["splits"] == pinned["splits"] | {"test": new}
    assert written["overlap"] == pinned["overlap"]
    with pytest.raises(UserError, match=r"in mine\.fingerprints\.json; they are fixed"):
        pins.fingerprint("mine")
