"""``seq2seq/reverse``: write the source backwards."""

import numpy as np

from tasks.seq2seq.suite import SymbolTask


class Reverse(SymbolTask):
    """Write a sequence of symbols from its last to its first, then stop.

    Examples (symbols shown as numbers)::

        7 3 3 41      -> 41 3 3 7 EOS
        12            -> 12 EOS

    50 symbols, independent and even; training lengths 1–20, tested on them and on 21–40, 50 and 60.

    Source: the reversal task of Grefenstette et al. 2015; the toy task of several sequence-to-sequence libraries
    (digits, lengths 1–10; 50 symbols, lengths 1–25).
    """

    name = "seq2seq/reverse"
    version = 1

    def answer(self, source: np.ndarray) -> np.ndarray:
        """Return the source, last symbol first."""
        return source[:, ::-1]
