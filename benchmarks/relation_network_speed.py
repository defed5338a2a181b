"""Measure how many questions a second the Relation Network trains on, on one thread, against its naive form.

A training step is forward, backward, clipping and Adam on 8 scenes of ``sort-of-clevr/pixels`` with 20 questions each;
conv 4 x 24, g 4 x 256, f 256, 256. The naive form is equation 1 to the letter, as the popular public code has it:
batches of 64 questions, the picture seen anew for each, all pairs concatenated, float32. Beside the rates stands the
share of the processor's own matrix-multiply rate (12,500 x 256 by 256 x 256) at which a form's multiply-adds are done.

CPU seconds of this process are counted, the best of several repeats, so that other programs matter less. They do
matter: with two trainings beside it on two cores, matrix products reached 85 (fp32) and 200 GFLOP/s (bf16), the naive
form 64 questions a second, and this one 103 in fp32 (1.6 times, 89 % of the multiply rate) and 204 in bf16 (3.2 times,
75 %). A quiet core has been seen to multiply at 480 GFLOP/s in bf16, where the naive form stays at 57.

Run: ``python benchmarks/relation_network_speed.py``
"""

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from baselines.attention_pool import AttentionPool
from baselines.relation_network import RelationNetwork
from harness.cost import forward_flops
from harness.execution import isolated
from harness.families import Batch
from harness.families.scene import Inputs, Targets
from harness.registry import get_task

SCENES, QUESTIONS, NAIVE_BATCH, REPEATS = 8, 20, 64, 5


def seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the CPU seconds of ``work``, the least of several; one more goes before."""
    work()
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def multiply_rate(dtype: torch.dtype) -> float:
    """Return the operations a second of the matrix product that g mostly consists of."""
    x, weight = torch.randn(12_500, 256).to(dtype), torch.randn(256, 256).to(dtype)
    return 2 * x.numel() * 256 / seconds(lambda: x @ weight, 20)


def naive_loss(model: RelationNetwork, batch: Batch) -> Tensor:
    """Return the loss of questions ``(B,1)`` by equation 1 to the letter."""
    objects = model.objects(batch.inputs)  # (B,N,C)
    N = objects.shape[1]
    o_i, o_j = objects[:, :, None].expand(-1, -1, N, -1), objects[:, None].expand(-1, N, -1, -1)
    q = batch.inputs.question[:, :, None].expand(-1, N, N, -1)
    x = torch.cat([o_i, o_j, q], dim=3).flatten(0, 2)  # (B·N²,2C+E)
    first = torch.cat([model.g.W_i.weight, model.g.W_j.weight, model.g.W_q.weight], dim=1)
    x = F.linear(x, first, model.g.W_q.bias).relu()
    for layer in model.g.layers:
        x = layer(x).relu()
    pooled = x.unflatten(0, (-1, N * N)).sum(1) / N**2
    return F.cross_entropy(model.f(pooled), batch.targets.answer[:, 0])


def step(model: RelationNetwork, loss: Callable[[], Tensor]) -> Callable[[], None]:
    """Return a training step: ``loss``, backward, clipping, Adam."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

    def once() -> None:
        optimiser.zero_grad()
        loss().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return once


def main() -> None:
    """Print a line a form."""
    task = get_task("sort-of-clevr/pixels")
    spec = task.spec("default")
    examples = task.load("validation").take(slice(0, SCENES))
    batch = task.family.batch(examples)
    alone = Batch(  # every question with a picture of its own
        Inputs(
            batch.inputs.scene.repeat_interleave(QUESTIONS, 0)[:NAIVE_BATCH],
            batch.inputs.question.flatten(0, 1)[:NAIVE_BATCH, None],
        ),
        Targets(batch.targets.answer.flatten()[:NAIVE_BATCH, None]),
    )
    with isolated():
        torch.manual_seed(0)
        peaks = {"fp32": multiply_rate(torch.float32), "bf16": multiply_rate(torch.bfloat16)}
        print(", ".join(f"matrix products in {name}: {rate / 1e9:,.0f} GFLOP/s" for name, rate in peaks.items()))
        model = RelationNetwork(spec)
        naive = NAIVE_BATCH / seconds(step(model, lambda: naive_loss(model, alone)))
        print(f"naive form, fp32         {naive:7.1f} questions/s")
        for kind in (RelationNetwork, AttentionPool):
            for precision, peak in peaks.items():
                model = kind(spec, precision=precision)
                operations = 3 * forward_flops(model, batch) / QUESTIONS  # a question's, forward and backward
                run = step(model, lambda model=model: model.training_step(batch, 0))  # type: ignore[misc]
                rate = SCENES * QUESTIONS / seconds(run)
                share = rate * operations / peak
                gain = f"{rate / naive:.2f} times the naive form, {share:.0%} of the multiply rate"
                print(f"{kind.__name__:16} in {precision}  {rate:7.1f} questions/s: {gain}")


if __name__ == "__main__":
    main()
