"""``seq2seq/copy``: repeat the source."""

import numpy as np

from tasks.seq2seq.suite import SymbolTask


class Copy(SymbolTask):
    """Repeat a sequence of symbols, then stop.

    Examples (symbols shown as numbers)::

        7 3 3 41      -> 7 3 3 41 EOS
        12            -> 12 EOS

    50 symbols, independent and even; training lengths 1–20, tested on them and on 21–40, 50 and 60.

    Source: the copying task of Grefenstette et al. 2015 ("Learning to Transduce with Unbounded Memory": 128 symbols,
    train 8–64, test 65–128), at a length where a laptop sees both success and failure.
    """

    name = "seq2seq/copy"
    version = 1

    def answer(self, source: np.ndarray) -> np.ndarray:
        """Return the source."""
        return source
