"""The papers' numbers: ``published.csv``, read strictly."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from harness.errors import UserError, unknown
from harness.registry import published_files

KEY = ("suite", "task", "regime", "row", "split", "metric")
"""What joins a published number to a cell."""

COLUMNS = (*KEY, "value", "unit", "paper", "where", "setting", "protocol", "kind", "confidence")

ALSO = " | also "
"""What stands between the sources of one number, the first of which is the one that a cell shows."""

KINDS = {
    "exact": "same data law and metric",
    "direction": "other data or setting: compare the order of rows, not the numbers",
    "figure": "read off a plot",
    "out-of-reach": "needs more than the budgets here",
}


def read_published(files: Sequence[Path] | None = None) -> pd.DataFrame:
    """Return the published numbers of every installed package (or of ``files``), in file order; columns ``COLUMNS``.

    Raises ``UserError`` for a wrong header, an unknown kind or a value that is no number. All columns but ``value`` and
    ``confidence`` are text, so that a row called ``NA`` stays one.
    """
    tables = [_read(path) for path in (published_files() if files is None else files)]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(COLUMNS))


def _read(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    if tuple(table.columns) != COLUMNS:
        raise UserError(f"{path}: its columns are {', '.join(table.columns)}; expected {', '.join(COLUMNS)}")
    for line, kind in enumerate(table["kind"], start=2):
        if kind not in KINDS:
            raise unknown(f"kind in {path.name} line {line}", kind, KINDS)
    for column in ("value", "confidence"):
        numbers = pd.to_numeric(table[column], errors="coerce")
        if numbers.isna().any():
            line = int(numbers.isna().to_numpy().argmax())
            raise UserError(f"{path.name} line {line + 2}: {column} = {table[column][line]!r} is not a number")
        table[column] = numbers
    return table


def source(line: pd.Series) -> str:
    """Return where a published number comes from, in one line."""
    parts = [f"{line['paper']}, {line['where']}", line["kind"], line["setting"], line["protocol"]]
    return "; ".join(part for part in parts if part)
