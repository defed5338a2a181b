"""What a row's score cost, and which rows nothing cheaper equals: views at equal parameters and at equal FLOPs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from harness.groups import Group
from harness.ranking import centre_of, order
from harness.standings import Board, Contest

PASSES = 3
"""Forward passes that a training step costs: its own, and a backward pass of about twice its FLOPs."""

COST_COLUMNS = (
    *("task", "regime", "budget", "row", "score", "parameters", "flops", "training_flops", "examples", "seconds"),
    *("threshold", "examples_to", "reached", "seeds", "parameters_front", "flops_front"),
)
"""Columns of ``results/tables/costs.csv``; ``flops`` are of one example, forward; ``*_front``: see ``Efficiency``."""


@dataclass(frozen=True)
class Efficiency:
    """Means over a row's seeds; NaN where not known. ``score`` is what ranks: a mean, or a median on tapes.

    ``examples_to`` is the median over seeds of the training examples at the first validation that reached the task's
    threshold; infinite where as many did not, NaN without curves or threshold. ``reached`` of ``seeds`` did. A row is
    on a front if no ranked row of its table is as good at a lower cost, or better at the same; a row alone is on none.
    """

    row: str
    score: float
    parameters: float
    flops: float
    training_flops: float
    examples: float
    seconds: float
    examples_to: float
    reached: int
    seeds: int
    parameters_front: bool = False
    flops_front: bool = False


def efficiencies(board: Board, contest: Contest) -> list[Efficiency]:
    """Return the costs of every competing row of a table that has runs, in order of rank."""
    cells = {cell.row: cell for cell in board.headline_cells(contest)}
    centre = centre_of(contest.task)
    found = []
    for ranked in board.contests[contest]:
        runs = board.runs_of(*contest.key, ranked.row)
        if not len(runs):
            continue
        costs = {name: runs[name].astype(float) for name in ("parameters", "flops", "examples", "seconds")}
        phased = runs["flops_in_training"].astype(float)  # a row's older runs may lack it, and say nothing then
        counted = phased if phased.notna().any() else costs["flops"]
        needed = examples_to(board.row(contest, ranked.row), contest)
        found.append(
            Efficiency(
                row=ranked.row,
                score=float(getattr(cells[ranked.row], centre)),
                parameters=float(costs["parameters"].mean()),
                flops=float(costs["flops"].mean()),
                training_flops=float((PASSES * counted * costs["examples"]).mean()),
                examples=float(costs["examples"].mean()),
                seconds=float(costs["seconds"].mean()),
                examples_to=float(np.median(needed)) if len(needed) else math.nan,
                reached=int(np.isfinite(needed).sum()),
                seeds=len(needed),
            )
        )
    keys = {ranked.row: order(cells[ranked.row], contest.task) for ranked in board.contests[contest] if ranked.rank}
    lean = front(keys, {one.row: one.parameters for one in found})
    quick = front(keys, {one.row: one.training_flops for one in found})
    return [replace(one, parameters_front=one.row in lean, flops_front=one.row in quick) for one in found]


def examples_to(group: Group | None, contest: Contest) -> np.ndarray:
    """Return the examples that each seed needed to reach the threshold ``(seeds,)``, infinite for one that did not.

    Empty where a row has no curves here or the task no threshold. A seed that diverged has not reached it.
    """
    threshold, metric = contest.task.threshold, contest.task.headline
    if group is None or threshold is None or not group.curves:
        return np.empty(0)
    needed = []
    for member in group.members:
        curve = group.curves.get(member.run.identity.seed)
        if curve is None or member.run.status != "completed":
            needed.append(math.inf)
            continue
        scores = curve["validation"].to_numpy(float)
        reached = scores >= threshold if metric.direction == "max" else scores <= threshold
        needed.append(float(curve["examples"].to_numpy()[reached.argmax()]) if reached.any() else math.inf)
    return np.array(needed)


def front(keys: dict[str, tuple[float, ...]], cost: dict[str, float]) -> set[str]:
    """Return the rows that none beats in sort key or cost without losing in the other; smaller is better in both."""
    rows = [row for row in keys if not math.isnan(cost.get(row, math.nan))]
    if len(keys) < 2:
        return set()

    def beaten(row: str) -> bool:
        return any(
            keys[other] <= keys[row]
            and cost[other] <= cost[row]
            and (keys[other], cost[other]) != (keys[row], cost[row])
            for other in rows
        )

    return {row for row in rows if not beaten(row)}


def costs_table(board: Board) -> pd.DataFrame:
    """Return ``costs.csv``; ``examples_to`` is empty where half of the seeds or more did not get there."""
    lines = []
    for contest in board.contests:
        place = dict(zip(("task", "regime", "budget"), contest.key, strict=True))
        for found in efficiencies(board, contest):
            own = vars(found) | {"threshold": contest.task.threshold}
            own["examples_to"] = math.nan if math.isinf(found.examples_to) else found.examples_to
            own |= {name: "yes" if own[name] else "" for name in ("parameters_front", "flops_front")}
            lines.append(place | own)
    return pd.DataFrame(lines, columns=list(COST_COLUMNS))


def at_most(found: Sequence[Efficiency], cost: str) -> list[tuple[float, Efficiency]]:
    """Return the rows on the front of ``cost`` (``parameters`` or ``flops``) with what they cost, cheapest first."""
    name = {"parameters": "parameters", "flops": "training_flops"}[cost]
    rows = [(getattr(one, name), one) for one in found if getattr(one, f"{cost}_front")]
    return sorted(rows, key=lambda pair: (pair[0], pair[1].row))
