"""Running torch's recurrent networks over padded sources."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def read(rnn: nn.RNNBase, embedded: Tensor, length: Tensor) -> tuple[Tensor, Any]:
    """Return the top layer's states ``(S,B,n)``, 0 on pads, and the state of every layer after each last symbol.

    ``embedded (S,B,m)``; ``length (B,)``. The second result is what ``rnn`` returns: ``(layers,B,n)``, or two of them.
    """
    require_symbols(length)
    width = len(embedded)
    if bool((length == width).all()):
        return rnn(embedded)
    packed, last = rnn(pack_padded_sequence(embedded, length.cpu(), enforce_sorted=False))
    return pad_packed_sequence(packed, total_length=width)[0], last


def require_symbols(length: Tensor) -> None:
    """Raise a ``ValueError`` where a source is empty: there is no state after its last symbol, nor a place to read."""
    empty = torch.nonzero(length < 1).flatten().tolist()
    if empty:
        raise ValueError(f"source_length is below 1 in rows {empty}; a source needs at least one symbol")
