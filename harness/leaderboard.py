"""``leaderboard.md``, ``results/tables`` and ``results/plots``: pure functions of stored runs and published numbers."""

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from harness.cells import collect, records
from harness.efficiency import PASSES, costs_table
from harness.errors import UserError
from harness.files import write_whole
from harness.findings import Finding, find
from harness.glance import at_a_glance
from harness.groups import installed_task
from harness.overview import suite_score, superseded, tuned
from harness.plots import FIGURES, STUDY, figures, kinds, plotting_versions, study_figure
from harness.published import KINDS
from harness.ranking import MEAN_RULE, TAPE_RULE, ranks_table
from harness.sections import SectionWriter, elsewhere
from harness.standings import Board, doubts, load_board, suite_order
from harness.studies import read_studies
from harness.suites import SuiteTable, suite_tables, suites_table
from harness.tables import csv_bytes

FOLDED = 10
"""From so many tables on, a suite shows its studies first, and its tables folded."""
TABLES, PLOTS, VERSIONS = "tables", "plots", "versions.json"


def write_board(results: Path, board: Path, published: Sequence[Path] | None = None) -> list[Path]:
    """Write tables and plots below ``results`` and the Markdown file ``board``; return every file written.

    ``published`` replaces the installed packages' ``published.csv``. Figures that no table has any more are removed.
    Raises ``UserError`` for a damaged bundle, for bundles that contradict each other, and for a run that beats an exact
    bound, and for a place that cannot be written.
    """
    if not results.is_dir():
        raise UserError(f"no runs lie in {str(results)!r}: there is no such folder")
    files = _files(load_board(results, published), results, board)
    try:
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, data)
        for path in _figures(results):
            if path not in files:
                path.unlink()
    except OSError as error:
        raise UserError(f"the board cannot be written: {error.filename}: {error.strerror}") from error
    return list(files)


def check_board(results: Path, board: Path, published: Sequence[Path] | None = None) -> list[str]:
    """Return the files that ``write_board`` would change, add or remove; empty if the board is up to date.

    Plots are not compared where ``results/plots/versions.json`` says that other plotting versions drew them.
    """
    files: dict[Path, bytes | None] = dict(_files(load_board(results, published), results, board))
    if _bytes(results / PLOTS / VERSIONS) in (None, files[results / PLOTS / VERSIONS]):
        files = dict.fromkeys(_figures(results)) | files
    else:
        files = {path: data for path, data in files.items() if path.parent != results / PLOTS}
    return sorted(str(path) for path, data in files.items() if _bytes(path) != data)


def _figures(results: Path) -> list[Path]:
    """Return the figures that some board drew."""
    return [path for kind in (*FIGURES, STUDY) for path in sorted((results / PLOTS).glob(f"*-{kind}.svg"))]


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _files(content: Board, results: Path, board: Path) -> dict[Path, bytes]:
    """Return what lies in every file of a board: tables, the Markdown, plots."""
    ranks = ranks_table({contest.key: (contest.task, rows) for contest, rows in content.contests.items()})
    findings = [finding for study in read_studies() if (finding := find(study, content)) is not None]
    suites = suite_tables(content)
    drawn = [figures(content, contest) for contest in content.contests]
    drawn += [study_figure(content, found.study) for found in findings if found.study.drawn]
    return {
        results / TABLES / "scores.csv": csv_bytes(content.scores),
        results / TABLES / "runs.csv": csv_bytes(content.runs),
        results / TABLES / "ranks.csv": csv_bytes(ranks),
        results / TABLES / "suites.csv": csv_bytes(suites_table(suites)),
        results / TABLES / "costs.csv": csv_bytes(costs_table(content)),
        results / PLOTS / VERSIONS: (json.dumps(plotting_versions(), indent=1) + "\n").encode(),
        board: render(content, suites, findings, results, board).encode(),
        **{results / PLOTS / name: data for files in drawn for name, data in files.items()},
    }


def render(
    content: Board, scored: Sequence[SuiteTable], findings: Sequence[Finding], results: Path, board: Path
) -> str:
    """Return the Markdown of a board that lies at ``board``; its links lead to files below ``results``."""
    environment = Environment(
        loader=PackageLoader("harness"), undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )

    def link(*parts: str) -> str:
        return Path(os.path.relpath(results.joinpath(*parts), board.parent)).as_posix()

    suites = [
        shown
        for suite in sorted(set(content.scores["suite"]), key=suite_order)
        if (shown := _suite(content, scored, findings, suite, link))
    ]
    return environment.get_template("leaderboard.md.j2").render(
        glance=at_a_glance(content, [suite["name"] for suite in suites if suite["folded"]], findings),
        mean_rule=MEAN_RULE,
        passes=PASSES,
        tape_rule=TAPE_RULE,
        kinds=KINDS,
        tables=link(TABLES),
        suites=suites,
        superseded=superseded(content),
        unshown=list(doubts(content)),
    )


def _suite(
    content: Board, scored: Sequence[SuiteTable], findings: Sequence[Finding], suite: str, link: Callable[..., str]
) -> dict[str, Any]:
    """Return what the template shows of one suite, empty if it has nothing to show."""
    tables = []
    for contest in sorted(content.contests, key=lambda contest: _numbers_apart(contest.task.name)):
        if contest.task.suite == suite:
            section = SectionWriter(content, contest).section()
            pictures = [
                {
                    "text": f"{contest.task.name}, {contest.budget}: {FIGURES[kind][0]}",
                    "path": link(PLOTS, f"{contest.slug}-{kind}.svg"),
                }
                for kind in kinds(content, contest)
            ]
            tables.append({**vars(section), "figures": pictures})
    studies = [
        {
            **vars(found),
            "figure": link(PLOTS, f"{found.study.slug}-{STUDY}.svg") if found.study.drawn else "",
        }
        for found in findings
        if found.study.suite == suite
    ]
    other = content.scores[(content.scores["suite"] == suite) & (content.scores["kind"] == "published")]
    foreign = [cell for cell in records(other) if installed_task(cell.task) is None]
    if not tables and not foreign:
        return {}
    return {
        "name": suite,
        "scores": [suite_score(content, found) for found in scored if found.suite == suite and found.rows],
        "tables": tables,
        "folded": len(tables) >= FOLDED,
        "studies": studies,
        "tuned": tuned(content, suite),
        "elsewhere": elsewhere(foreign) if foreign else "",
    }


def _numbers_apart(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts task 2 before task 10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)]


__all__ = ["check_board", "collect", "render", "write_board"]
