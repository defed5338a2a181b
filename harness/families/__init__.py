"""The typed interfaces between tasks and models: any model of a family runs on any task of it."""

from harness.errors import unknown
from harness.families.base import Batch, Examples, Family, Spec, Stored, TensorStruct
from harness.families.pointing import POINTING
from harness.families.scene import SCENE
from harness.families.story import STORY
from harness.families.tape import TAPE
from harness.families.transduction import TRANSDUCTION

FAMILIES: dict[str, Family] = {family.name: family for family in (TRANSDUCTION, POINTING, TAPE, STORY, SCENE)}


def get_family(name: str) -> Family:
    """Return the family called ``name``; a ``UserError`` lists the valid names."""
    if name not in FAMILIES:
        raise unknown("family", name, FAMILIES)
    return FAMILIES[name]


__all__ = ["FAMILIES", "STORY", "Batch", "Examples", "Family", "Spec", "Stored", "TensorStruct", "get_family"]
