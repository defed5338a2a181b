"""The CSV files of the board: written in one stable form, read back without loss, completed by the package's own."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

import harness
from harness.cells import DTYPES
from harness.groups import RUN_DTYPES, TEXT, installed_task
from harness.published import KEY

GROUP = ("task", "version", "regime", "budget", "row")
"""What names the runs of one row in one table."""


def csv_bytes(table: pd.DataFrame) -> bytes:
    """Return a table as CSV: six significant digits, empty where undefined, a line feed at each end."""
    return table.to_csv(index=False, float_format="%.6g", lineterminator="\n").encode()


def read_scores(path: Path) -> pd.DataFrame:
    """Read a ``scores.csv``; a row called ``None`` or ``NA`` keeps its name."""
    return _read(path, DTYPES)


def read_runs(path: Path) -> pd.DataFrame:
    """Read a ``runs.csv``, likewise."""
    return _read(path, RUN_DTYPES)


def _read(path: Path, dtypes: Mapping[str, str]) -> pd.DataFrame:
    """Read every field as text, so that only an empty number is undefined, and give each column its type."""
    text = pd.read_csv(path, dtype=str, keep_default_na=False)
    for name, dtype in dtypes.items():
        if dtype != TEXT:
            text[name] = pd.to_numeric(text[name].where(text[name] != "", None))
    return text.astype(dict(dtypes))


def shipped_folder() -> Path | None:
    """Return the tables inside an installed wheel; a checkout has none."""
    folder = Path(harness.__file__).parent / "board" / "tables"
    return folder if (folder / "scores.csv").exists() else None


def with_shipped(scores: pd.DataFrame, runs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Add the package's own cells and runs of rows that have no run here, in today's version of each task."""
    folder = shipped_folder()
    if folder is None:
        return scores, runs
    other, other_runs = read_scores(folder / "scores.csv"), read_runs(folder / "runs.csv")
    versions = {name: task.version for name in other["task"].unique() if (task := installed_task(name)) is not None}
    current = other["task"].map(versions).eq(other["version"].astype(float))
    here = _names(scores, GROUP).where(scores["runs"] != "", "")
    added = other[(other["runs"] != "") & current & ~_names(other, GROUP).isin(here)]
    # A dash, or a paper's number that stands alone, gives way to the row itself.
    replaced = (here == "") & _names(scores, (*GROUP, "split")).isin(_names(added, (*GROUP, "split")))
    replaced |= (scores["kind"] == "published") & _names(scores, KEY).isin(_names(added, KEY))
    merged = pd.concat([scores[~replaced], added], ignore_index=True)
    ordered = merged.sort_values(["suite", "task", "regime", "budget", "row"], kind="stable", ignore_index=True)
    other_runs = other_runs[_names(other_runs, GROUP).isin(_names(added, GROUP))]
    return ordered, pd.concat([runs, other_runs], ignore_index=True)


def _names(table: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """Return one text a line that names what ``columns`` hold."""
    name = table[columns[0]].astype(str)
    for column in columns[1:]:
        name = name + "\x1f" + table[column].astype(str)
    return name
