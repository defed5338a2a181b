"""``ntm/associative-recall``: shown one item of a list again, write the one that came after it."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.random import RandomState

from harness.families.base import Examples, Stored
from harness.families.tape import Spec, quantise
from harness.metrics import Metric
from harness.metrics.tape import tape_metrics
from harness.splits import Role, Size, Split, Stream, draw_of_role
from harness.task import Reference, Regime
from tasks.ntm.suite import TapeTask, tape

VECTORS, BITS = 3, 6
"""An item is so many vectors of so many bits."""
ITEM, QUERY = BITS, BITS + 1
"""Input channels of the delimiters, after the bits."""
STRIDE = 1 + VECTORS
"""Steps an item takes with its delimiter."""
TRAIN_ITEMS = tuple(range(2, 7))
LADDER = (8, 10, 12, 15, 20)


class AssociativeRecall(TapeTask):
    """Read a list of items, then one of them again, not the last; write the item that followed it in the list.

    Example with items of one vector of 2 bits: the list 10, 01, 11 and the query 01 (``.`` is 0)::

        input    . 1 . . . 1 . . . .        target  . . . . . . . . . 1
                 . . . 1 . 1 . 1 . .                . . . . . . . . . 1
        item     1 . 1 . 1 . . . . .        answer  . . . . . . . . . x
        query    . . . . . . 1 . 1 .

    With two items the query can only be the first and the answer the second. An item is three vectors of six bits,
    independent and fair. An item delimiter stands before each, a query delimiter on both sides of the query, so that
    every item lies between two delimiters; then the answer takes three steps. No item occurs twice in a list, as it
    would have two successors. Training lists of 2–6 items evenly; tests 400 of each, and a ladder 8, 10, 12, 15, 20.
    Lists are partitioned by a hash between train, validation and test.

    Source: Graves et al. 2014, §4.3; 8 inputs and 6 outputs follow from the size of its networks. Guessing costs the
    answer's 18 bits.
    """

    name = "ntm/associative-recall"
    version = 1
    splits: ClassVar[tuple[Split | Stream, ...]] = (
        Stream("train", TRAIN_ITEMS),
        Split("validation", "validation", TRAIN_ITEMS, 100),
        Split("test", "test", TRAIN_ITEMS, 400),
        *(Split(f"test-{items}", "test", (items,), 400, ladder=items) for items in LADDER),
    )
    regimes: ClassVar[Mapping[str, Regime]] = {
        "default": Regime("train", "validation", ("test", *(f"test-{items}" for items in LADDER)))
    }
    metrics: ClassVar[tuple[Metric, ...]] = tape_metrics(solved=0.5)
    plotted: ClassVar[tuple[str, ...]] = ("bits", "wrong_bits")
    # standard: 24 steps a tape, in batches of 16 about ten minutes for a memory network on one core; as many updates as
    # the paper's networks took, one sequence each.
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 1_024, "demo": 65_536, "standard": 524_288, "paper": 1_048_576}
    size_name = "list length (items)"

    def spec(self, regime: str) -> Spec:
        """Six bits and two kinds of delimiter in, six bits out."""
        return Spec(max_train_size=TRAIN_ITEMS[-1], max_test_size=LADDER[-1], input_channels=BITS + 2, output_bits=BITS)

    def generate(self, rng: RandomState, size: Size, count: int, role: Role) -> Examples:
        """Draw ``count`` lists of ``size`` items; a tape has ``4·size + 8`` steps."""
        items = self.natural(size, least=2)
        width = VECTORS * BITS

        def draw(n: int) -> np.ndarray:
            codes = rng.randint(0, 2**width, size=(n, items))
            ordered = np.sort(codes, axis=1)
            return codes[(ordered[:, 1:] != ordered[:, :-1]).all(1)]

        codes = draw_of_role(draw, count, role)
        vectors = (codes[..., None] >> np.arange(width)[::-1] & 1).reshape(count, items, VECTORS, BITS)
        rows, query = np.arange(count), rng.randint(0, items - 1, size=count)
        listed = np.zeros((count, items, STRIDE, BITS + 2), np.float32)
        listed[:, :, 0, ITEM] = 1
        listed[:, :, 1:, :BITS] = vectors
        asked = np.zeros((count, VECTORS + 2, BITS + 2), np.float32)
        asked[:, [0, -1], QUERY] = 1
        asked[:, 1:-1, :BITS] = vectors[rows, query]
        silence = np.zeros((count, VECTORS, BITS + 2), np.float32)
        inputs = np.concatenate([listed.reshape(count, -1, BITS + 2), asked, silence], axis=1)
        bits = np.zeros((*inputs.shape[:2], BITS), np.float32)
        bits[:, -VECTORS:] = vectors[rows, query + 1]
        steps = inputs.shape[1]
        return tape(inputs, bits, np.arange(steps) >= steps - VECTORS, items)

    def heuristics(self) -> dict[str, Reference]:
        """Return what can be known without knowing which item follows which."""
        return {"no-order": Reference("even odds over the items that may follow", "none", _no_order)}


def _no_order(examples: Examples, rng: RandomState) -> Stored:
    """Give every bit its share among the list's items but the first, which follows none."""
    shares = np.empty((len(examples), VECTORS, BITS))
    for items in np.unique(examples.sizes):
        rows = examples.sizes == items
        listed = examples.inputs["inputs"][rows, : items * STRIDE].reshape(-1, items, STRIDE, BITS + 2)
        shares[rows] = listed[:, 1:, 1:, :BITS].mean(1)
    with np.errstate(divide="ignore"):
        return {"logits": quantise(np.log(shares) - np.log1p(-shares)).reshape(-1)}
