"""Time of the whole board (tables, Markdown, figures) from 1,000 synthetic bundles, imports included.

    python benchmarks/board_speed.py [bundles]

Bundles are made in a temporary folder first; the board is then made by a fresh interpreter on one core. One line.
"""

import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "harness")]

import bundles  # noqa: E402

ROWS = {
    "seq2seq/copy": ("lstm", "bahdanau", *(f"reader-{index}" for index in range(10))),
    "ntm/copy": ("tape-lstm", "tape-transformer", *(f"machine-{index}" for index in range(10))),
}
BUDGETS = ("smoke", "demo", "standard", "paper")
SEEDS = 11

COMMAND = """
import sys, time
started = time.perf_counter()
from pathlib import Path
from harness.leaderboard import write_board
write_board(Path(sys.argv[1]), Path(sys.argv[1]).parent / "leaderboard.md")
print(f"{time.perf_counter() - started:.2f}")
"""


def make_bundles(results: Path, count: int) -> None:
    """Write ``count`` bundles: references first, then tasks, budgets, rows and seeds in turn, every 50th diverged."""
    left = count - sum(len(bundles.write_references(results, task)) for task in ROWS)
    cells = itertools.product(BUDGETS, range(SEEDS), range(12), ROWS)
    for index, (budget, seed, row, task) in enumerate(itertools.islice(cells, left)):
        name = ROWS[task][row]
        if index % 50 == 49:
            bundles.write_diverged(results, task, name, seed, budget)
        else:
            damage = 0.002 * 1.6 ** ((row + 3 * BUDGETS.index(budget)) % 12)
            bundles.write_trained(results, task, name, seed, damage, budget)


def main() -> None:
    """Print one line: bundles, seconds, files."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        started = time.perf_counter()
        make_bundles(results, count)
        made = time.perf_counter() - started
        single = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        environment = {**os.environ, **single, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, str(results)], env=environment, check=True, capture_output=True, text=True
        )
        found = len(list((results / "runs").rglob("run.json")))
        figures = len(list((results / "plots").glob("*.svg")))
        print(f"board of {found} bundles, {figures} figures: {done.stdout.strip()} s (bundles made in {made:.0f} s)")


if __name__ == "__main__":
    main()
