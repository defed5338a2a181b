"""What ``run.json`` holds: strict records, checked when written and when read."""

import hashlib
import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

SCHEMA_VERSION = 1

Kind = Literal["trained", "reference", "community", "external"]
"""``external``: predictions made elsewhere, which nobody here can make again."""
Name = Annotated[str, StringConstraints(pattern=r"^\w[\w=.,+~ -]*$", max_length=200)]
"""What names a folder below ``results/runs``: no separator, no hidden file, nothing that a table has to escape."""
TaskName = Annotated[str, StringConstraints(pattern=r"^\w[\w.-]*(/\w[\w.-]*)+$", max_length=200)]
"""``suite/task``."""
FileName = Literal["predictions.npz", "curve.csv", "examples.npz"]
"""Files that a bundle may have beside its ``run.json``."""
LONGEST_TUNING = 4_000
"""Characters in which a recipe tells what was tuned."""
LARGEST_SEED = 2**32 - 1
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
Count = Annotated[int, Field(ge=0, le=10**15)]
Small = Annotated[int, Field(ge=0, le=10**9)]
"""Whole numbers that every table can hold."""
SELF_REPORTED, RE_RUN = "self-reported", "re-run"
Status = Literal["completed", "diverged"]


def canonical_json(value: Any) -> bytes:
    """Return the one spelling of ``value`` that checksums cover."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


class Record(BaseModel):
    """Strict base: a key that the schema does not know is an error."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Identity(Record):
    """What makes two runs the same run. Anything that may change the numbers on one machine is here."""

    task: TaskName
    task_version: Small
    regime: Name
    fingerprint: str
    row: Name
    model: str
    model_version: Small
    hyperparameters: dict[str, Any]
    training: dict[str, Any]
    budget: Name
    examples: Count
    seed: Seed

    @property
    def digest(self) -> str:
        """Sixteen hex digits that name the identity, for checkpoints."""
        return hashlib.sha256(canonical_json(self.model_dump())).hexdigest()[:16]

    @property
    def folder(self) -> Path:
        """Where the bundle lies below ``results/runs``."""
        return Path(self.task, self.regime, self.row, self.budget, f"seed-{self.seed}")

    @property
    def label(self) -> str:
        """One line that names the run for a person."""
        return f"{self.row} on {self.task}:{self.regime}, {self.budget}, seed {self.seed}"


class Score(Record):
    """Every metric over ``n`` examples of a split: all (``size`` None) or those of one size; null is undefined."""

    split: str
    size: float | None
    n: int
    values: dict[str, float | None]


class Selection(Record):
    """Which weights were scored, and how training went."""

    checkpoint: Literal["best", "last"]
    step: Count
    examples: Count
    validation: float | None
    training_loss: float | None


class Cost(Record):
    """``flops`` are of one example, forward, at the largest training size; ``seconds`` of training and validation.

    ``flops_in_training`` are the same, but the mean over a run's phases, in which a model may have a cheaper form. A
    run without phases has none, nor has one that is older than this number.
    """

    parameters: Count
    examples: Count
    seconds: float
    flops: float | None
    flops_in_training: float | None = Field(None, exclude_if=lambda flops: flops is None)


class Provenance(Record):
    """Where the numbers come from; not part of the identity."""

    commit: str | None
    dirty: bool | None
    source_hash: str
    harness_version: str
    libraries: dict[str, str]
    python: str
    cpu: str
    threads: Small
    finished: str


class Reproduction(Record):
    """A later run of ``seed`` by other code that gave the same numbers: to the byte, or within the seeds' interval."""

    seed: Seed
    source_hash: str
    commit: str | None
    exact: bool
    finished: str


class Run(Record):
    """The whole of ``run.json``."""

    schema_version: int = SCHEMA_VERSION
    kind: Kind
    status: Status
    reason: str | None = None
    identity: Identity
    title: str
    bound: Literal["exact", "expected", "none"] | None = None
    departs_from_budget: bool = False
    tuning: str = Field("", max_length=LONGEST_TUNING, exclude_if=lambda text: not text)
    """What the recipe said was tuned when the run was made; not written where it said nothing."""
    signatures: dict[str, str] = {}
    scores: list[Score]
    unsupported: dict[str, str] = {}
    """Splits the model cannot be run on, with its reason."""
    selection: Selection | None = None
    cost: Cost | None = None
    provenance: Provenance
    reproductions: list[Reproduction] = []
    files: dict[FileName, str] = {}
    """sha256 of each other file of the bundle."""
    checksum: str = ""

    @property
    def source_hashes(self) -> tuple[str, ...]:
        """The sources that gave these numbers: those of the run, and those that reproduced it."""
        return (self.provenance.source_hash, *(again.source_hash for again in self.reproductions))

    def whole(self, split: str, metric: str) -> float:
        """Return a score over a whole split, which is kept under its size where it has one; NaN where undefined."""
        value = next((score.values.get(metric) for score in self.scores if score.split == split), None)
        return math.nan if value is None else value

    def score(self, split: str, metric: str, size: float | None = None) -> float | None:
        """Return one number of the run, None where it is undefined or missing."""
        for score in self.scores:
            if score.split == split and score.size == size:
                return score.values.get(metric)
        return None
