"""Which splits the tasks of the suite have: sets of mixed sizes or of one, and tests of single sizes beyond."""

from collections.abc import Iterable, Mapping

from harness.splits import Split, Stream
from harness.task import Regime


def splits(
    regimes: Mapping[str, tuple[int, ...]], validation: Mapping[str, int], mixed: int, ladder: Mapping[int, int]
) -> tuple[Split | Stream, ...]:
    """Return the splits of a task whose ``regimes`` train on sets of these sizes.

    ``validation`` and ``ladder`` are sets of each size, by regime and by size; ``mixed`` those of the test of the first
    regime that has several sizes. A regime of one size is tested on its rung of the ladder.
    """
    several = next(name for name, sizes in regimes.items() if len(sizes) > 1)
    return (
        *(Stream(f"train-{name}", sizes) for name, sizes in regimes.items()),
        *(Split(f"validation-{name}", "validation", sizes, validation[name]) for name, sizes in regimes.items()),
        Split(f"test-{several}", "test", regimes[several], mixed),
        *(Split(f"test-{n}", "test", (n,), count, ladder=n) for n, count in ladder.items()),
    )


def tested(regimes: Iterable[str], ladder: Iterable[int]) -> dict[str, Regime]:
    """Return the regimes: each is tested on its own sizes first, then on every other rung of the ladder."""
    return {
        name: Regime(
            f"train-{name}", f"validation-{name}", (f"test-{name}", *(f"test-{n}" for n in ladder if str(n) != name))
        )
        for name in regimes
    }
