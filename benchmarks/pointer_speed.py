"""Measure how many examples a second the Pointer Network trains on, on one thread.

A training step is forward, backward, clipping and Adam on batches of 128 sets of n points, hidden 256, answers of 12
positions and the stop (of 10 at n = 10). Seconds are of the processor, not of the clock: a busy machine counts little.
The fastest of several steps is taken, and set beside the time that its matrix products alone would take.

On a Xeon with AVX-512 and no AMX (fp32 products at 160 GFLOP/s, bf16 at 82), with another program on the second core:
n = 10, 20, 50 at 1,768, 1,094 and 551 examples a second in fp32, at 1,161, 731 and 383 in bf16. The aim, 1,500 at
n = 20 in fp32, is missed there: the products alone would run at 2,438.

Run: ``python benchmarks/pointer_speed.py``
"""

import time

import torch

from baselines.pointer_network import PointerNetwork
from harness.cost import forward_flops
from harness.execution import isolated
from harness.families import Batch
from harness.families.pointing import STOP, Inputs, Spec, Targets

BATCH, HIDDEN, ANSWER = 128, 256, 12
SIZES = (10, 20, 50)
REPEATS = 15


def batch_of(size: int) -> Batch:
    """Return sets of ``size`` points with answers that name their first points."""
    elements = torch.rand(BATCH, size, 2, generator=torch.Generator().manual_seed(size))
    answer = torch.arange(min(size, ANSWER)).expand(BATCH, -1)
    indices = torch.cat([answer, torch.full((BATCH, 1), STOP)], dim=1)
    return Batch(Inputs(elements, torch.full((BATCH,), size)), Targets(indices))


def fastest(function: object) -> float:
    """Return the seconds of the processor that ``function`` takes at best."""
    seconds = []
    for _ in range(REPEATS):
        start = time.thread_time()
        function()  # type: ignore[operator]
        seconds.append(time.thread_time() - start)
    return min(seconds)


def products_a_second(dtype: torch.dtype) -> float:
    """Return the FLOPs a second of the recurrence's matrix product."""
    a, b = torch.rand(BATCH, HIDDEN).to(dtype), torch.rand(HIDDEN, 4 * HIDDEN).to(dtype)
    return 2 * BATCH * HIDDEN * 4 * HIDDEN / fastest(lambda: [a @ b for _ in range(20)]) * 20


def main() -> None:
    """Print a line a precision and size."""
    spec = Spec(50, 500, dimensions=2, permutation=False, has_stop=True, output_slope=1, output_offset=2)
    with isolated():
        for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
            rate = products_a_second(dtype)
            for size in SIZES:
                torch.manual_seed(0)
                model = PointerNetwork(spec, hidden=HIDDEN, precision=precision)
                optimiser = torch.optim.Adam(model.parameters(), fused=True)
                batch = batch_of(size)

                def step(model=model, optimiser=optimiser, batch=batch) -> None:  # type: ignore[no-untyped-def]
                    optimiser.zero_grad()
                    model.training_step(batch, 0).backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
                    optimiser.step()

                seconds = fastest(step)
                bound = 3 * forward_flops(model, batch) * BATCH / rate
                print(
                    f"{precision} n = {size:2}: {BATCH / seconds:6,.0f} examples/s; matrix products alone, at "
                    f"{rate / 1e9:.0f} GFLOP/s: {BATCH / bound:6,.0f}"
                )


if __name__ == "__main__":
    main()
