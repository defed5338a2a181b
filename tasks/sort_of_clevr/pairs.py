"""What the tasks of unseen pairs share: training without some colour–shape pairs, tests with them."""

from collections.abc import Mapping
from typing import ClassVar

from numpy.random import RandomState

from harness.splits import AnySplit, Split, Variant
from harness.task import Regime
from tasks.sort_of_clevr.scenes import Scenes, one_a_colour_with_unseen
from tasks.sort_of_clevr.suite import TRAINING, VALIDATION, VARIANTS, SortOfClevr

TEST, RUNG_TEST = 500, 250
RUNGS = (2, 4)
"""Objects of an unseen pair in each scene of the ladder."""


class UnseenPairs(SortOfClevr):
    """Scenes of six objects in which training never shows a red or blue square, nor a green or orange circle."""

    splits: ClassVar[tuple[AnySplit, ...]] = (
        Split("train", "train", (0,), TRAINING),
        *(Variant(name, "train") for name in VARIANTS),
        Split("validation", "validation", (0,), VALIDATION),
        Split("test", "test", (0,), TEST),
        *(Split(f"test-{unseen}", "test", (unseen,), RUNG_TEST, ladder=unseen) for unseen in RUNGS),
    )
    regimes: ClassVar[Mapping[str, Regime]] = {
        "default": Regime(
            "train",
            "validation",
            ("test", *(f"test-{unseen}" for unseen in RUNGS)),
            also=VARIANTS,
        )
    }
    size_name: ClassVar[str] = "objects of an unseen colour–shape pair"

    @property
    def data_name(self) -> str:
        """One for both forms, and another than that of the tasks without unseen pairs."""
        return f"{self.suite}/pairs"

    def scenes(self, rng: RandomState, size: int, count: int) -> Scenes:
        """Draw ``count`` scenes with ``size`` objects of an unseen pair."""
        return one_a_colour_with_unseen(rng, count, size)
