"""Measure how many sequences a second the Bahdanau baseline trains on, on one thread.

A training step is forward, backward, clipping and Adam, on batches of 64 sequences of 10 symbols to be reversed;
lengths 1–30, one a batch; GRU 128, embedding 64, attention 128. joeynmt 2.3 trains the same model at about 540
sequences a second on such a machine; the aim is 1,600 or more.

Run: ``python benchmarks/bahdanau_speed.py``
"""

import time
from collections.abc import Iterator

import torch

from baselines.bahdanau import Bahdanau
from harness.execution import isolated
from harness.families import Batch
from harness.families.transduction import EOS, FIRST_SYMBOL, Inputs, Spec, Targets

SYMBOLS, LONGEST, BATCH = 10, 30, 64
WARM_UP, MEASURED = 30, 300


def batches(count: int) -> Iterator[Batch]:
    """Yield ``count`` batches whose lengths go round 1..30, so that any 30 in a row weigh every length alike."""
    generator = torch.Generator().manual_seed(0)
    for index in range(count):
        length = 1 + (index * 7) % LONGEST
        source = torch.randint(FIRST_SYMBOL, FIRST_SYMBOL + SYMBOLS, (BATCH, length), generator=generator)
        target = torch.cat([source.flip(1), torch.full((BATCH, 1), EOS)], dim=1)
        yield Batch(Inputs(source, torch.full((BATCH,), length)), Targets(target))


def main() -> None:
    """Train for a while, then print one line."""
    with isolated():
        torch.manual_seed(0)
        vocabulary = FIRST_SYMBOL + SYMBOLS
        model = Bahdanau(
            Spec(LONGEST, LONGEST, vocabulary, vocabulary, 1.5, 5), embedding=64, hidden=128, attention=128
        )
        optimiser = torch.optim.Adam(model.parameters(), lr=model.learning_rate, fused=True)
        for index, batch in enumerate(batches(WARM_UP + MEASURED)):
            if index == WARM_UP:
                start = time.perf_counter()
            optimiser.zero_grad()
            loss = model.training_step(batch, index)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
        elapsed = time.perf_counter() - start
    rate = MEASURED * BATCH / elapsed
    print(f"bahdanau: {rate:,.0f} sequences/s on one thread (loss {loss.item():.3f}; joeynmt 2.3: about 540)")


if __name__ == "__main__":
    main()
