"""What the tasks of the suite share: tapes as arrays, chance and oracle, a tape as text, the memory picture."""

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.random import RandomState

from harness.errors import UserError
from harness.families.base import Examples, Family, Stored
from harness.families.tape import LOGIT_RANGE, TAPE, dequantise, quantise
from harness.splits import Size
from harness.task import Reference, Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VISITED = 0.1
"""A location is in the memory picture if a head's weight on it reaches this at some step."""


class TapeTask(Task):
    """A task on bit tapes: even odds below, the right answer above, and a picture of a memory in use."""

    family: ClassVar[Family] = TAPE

    def heuristics(self) -> dict[str, Reference]:
        """Return the predictors between chance and the right answer."""
        return {}

    def references(self) -> dict[str, Reference]:
        """Return an even guess, the task's heuristics, and the answer itself."""
        return {
            "random": Reference("even odds for every bit", "expected", _even),
            **self.heuristics(),
            "oracle": Reference("the right answer, fully confident", "exact", _oracle),
        }

    def natural(self, size: Size, least: int = 1) -> int:
        """Return ``size`` as the integer that it must be; a ``UserError`` if it is below ``least``."""
        if not isinstance(size, int) or size < least:
            raise UserError(f"size {size!r} of {self.name} is not valid: a whole number of at least {least}")
        return size

    def render(self, examples: Examples, row: int, stored: Stored | None = None) -> str:
        """Show the tape with a column a step: input channels, target bits and answered bits; ``#`` is not 0."""
        length = int(examples.inputs["length"][row])
        answer = examples.targets["answer"][row, :length]
        panels = {
            "input": examples.inputs["inputs"][row, :length].T != 0,
            "target": examples.targets["bits"][row, :length].T != 0,
        }
        if stored is not None:
            written = np.zeros_like(panels["target"])
            written[:, answer] = stored_logits(stored, examples, row).T > 0
            panels["answer"] = written
        lines = []
        for title, panel in panels.items():
            for index, channel in enumerate(panel):
                lines.append(f"{title if index == 0 else '':8}" + "".join("#" if v else "." for v in channel))
        return "\n".join(lines)

    draws: ClassVar[tuple[str, ...]] = ("logits", "read", "write")

    def explained(self, regime: str) -> list[tuple[str, int]]:
        """Return the first tape of the largest size trained on, and the first of the last test."""
        first, *_, last = self.regime(regime).tests
        return [(first, int(self.load(first).sizes.argmax())), (last, 0)]

    def draw(self, axis: "Axes", examples: Examples, row: int, explanation: Stored) -> None:
        """Draw a memory in use (Graves et al. 2014, Figure 6): a column a step, one time axis for all five panels.

        ``logits (T,K)``, shown as probabilities at the answered steps, and in red how far off these are; ``write`` and
        ``read (T,H,N)``, where of several heads the largest weight is shown, at the locations that any head visits.
        """
        length = int(examples.inputs["length"][row])
        answer = examples.targets["answer"][row, :length]
        logits = np.clip(explanation["logits"][:length].astype(np.float64), -LOGIT_RANGE, LOGIT_RANGE)
        output = np.where(answer[:, None], 1 / (1 + np.exp(-logits)), np.nan)
        write, read = (explanation[head][:length].astype(np.float32).max(1) for head in ("write", "read"))  # (T,N)
        places = visited(np.maximum(write.max(0), read.max(0)))
        panels = {  # 0 is white; an input may be negative
            "input": (examples.inputs["inputs"][row, :length], 0.13, "RdBu"),
            "output": (output, 0.12, "Blues"),
            "error": (np.abs(output - examples.targets["bits"][row, :length]), 0.12, "Reds"),
            "write": (write[:, places], 0.27, "Blues"),
            "read": (read[:, places], 0.27, "Blues"),
        }
        axis.set_axis_off()
        top = 1.0
        for name, (panel, height, colours) in panels.items():
            inset = axis.inset_axes((0, top - height, 1, height))
            inset.set_facecolor("#ececec")  # shows where nothing is answered
            least = -1 if name == "input" else 0
            inset.imshow(panel.T, cmap=colours, vmin=least, vmax=1, aspect="auto", interpolation="none")
            inset.set_yticks([])
            inset.set_ylabel(name, fontsize=7, rotation=0, ha="right", va="center")
            inset.tick_params(labelbottom=name == "read", labelsize=7)
            top -= height + 0.02
        inset.set_xlabel("step", fontsize=7)


def tape(inputs: np.ndarray, bits: np.ndarray, answer: np.ndarray, size: int) -> Examples:
    """Return tapes of one length: ``inputs (n,T,C)``, ``bits (n,T,K)``, ``answer (T,)`` for each of them."""
    count, steps = inputs.shape[:2]
    return Examples(
        inputs={"inputs": inputs, "length": np.full(count, steps)},
        targets={"bits": bits, "answer": np.broadcast_to(answer, (count, steps)).copy()},
        sizes=np.full(count, size),
    )


def certain(bits: np.ndarray) -> np.ndarray:
    """Return the log-odds of full confidence in ``bits``."""
    return (2 * bits - 1) * LOGIT_RANGE


def store(logits: np.ndarray, examples: Examples) -> Stored:
    """Return log-odds ``(n,T,K)`` in stored form: the answer steps, flattened."""
    return {"logits": quantise(logits[examples.targets["answer"]]).reshape(-1)}


def stored_logits(stored: Stored, examples: Examples, row: int) -> np.ndarray:
    """Return the stored log-odds of one example, ``(answer steps, K)``."""
    answer, bits = examples.targets["answer"], examples.targets["bits"].shape[2]
    start, steps = int(answer[:row].sum()), int(answer[row].sum())
    return dequantise(stored["logits"][start * bits : (start + steps) * bits]).reshape(steps, bits)


def visited(peak: np.ndarray) -> np.ndarray:
    """Return the shortest run of neighbouring locations that holds all whose ``peak (N,)`` weight reaches ``VISITED``.

    The memory is a circle: the run may pass from the last location to the first. Where no weight is large, all.
    """
    used = np.flatnonzero(peak >= VISITED)
    if not len(used):
        return np.arange(len(peak))
    gaps = np.diff(used, append=used[0] + len(peak))  # from each to the next one round the circle
    last = len(used) - 1 - int(gaps[::-1].argmax())  # of the run: the widest gap follows it
    start, span = used[(last + 1) % len(used)], len(peak) - gaps[last] + 1
    return (start + np.arange(span)) % len(peak)


def _even(examples: Examples, rng: RandomState) -> Stored:
    return store(np.zeros(examples.targets["bits"].shape), examples)


def _oracle(examples: Examples, rng: RandomState) -> Stored:
    return store(certain(examples.targets["bits"]), examples)
