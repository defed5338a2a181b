"""``sort-of-clevr/pixels-pairs``: pictures with colour–shape pairs that training never showed."""

from typing import ClassVar

from tasks.sort_of_clevr.forms import PixelForm
from tasks.sort_of_clevr.pairs import UnseenPairs


class PixelsPairs(UnseenPairs, PixelForm):
    """Answer the questions of ``sort-of-clevr/pixels`` where some colours come in a shape they never had in training.

    In training and validation red and blue objects are always circles, green and orange ones always squares; gray and
    yellow are either. The ladder has scenes with 2 and 4 objects the other way round::

        What shape is the red?   -> in training always circle; in test-4 always square

    Whoever learned that red means circle falls below chance. An example is a scene with its questions. In the manner of
    CLEVR-CoGenT (Johnson et al. 2017).
    """

    name = "sort-of-clevr/pixels-pairs"
    version = 1
    sampled: ClassVar[tuple[str, ...] | None] = ()  # to a model it is ``pixels``
