"""The board in one table: who is named, with which numbers, and where the links lead."""

import re
from pathlib import Path
from types import SimpleNamespace

import bundles
import pytest
from test_leaderboard import COPY, TAPE

from harness import leaderboard, provenance
from harness.glance import anchor, at_a_glance
from harness.registry import get_task
from harness.results import write_bundle
from harness.standings import load_board

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(provenance, "stale_reason", lambda run: None)
    monkeypatch.setattr("harness.leaderboard.figures", lambda *_: {})


def write(results: Path, task: str, row: str, damage: float, seeds: int = 2, offset: int = 0) -> None:
    for seed in range(seeds):
        stored, measured = bundles.predicted(task, damage, seed + offset)
        write_bundle(results, bundles.run_of(get_task(task), row, seed, "standard", measured), stored)


def cells(results: Path, folded: tuple[str, ...] = ()) -> list[list[str]]:
    """Return the cells of the table below its header."""
    lines = at_a_glance(load_board(results, []), folded, []).splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_a_line_names_leaders_next_last_and_both_ends(tmp_path):
    bundles.write_references(tmp_path, COPY)
    for row, damage, offset in (("one", 0.002, 0), ("twin", 0.002, 10), ("third", 0.02, 0), ("worst", 0.1, 0)):
        write(tmp_path, COPY, row, damage, offset=offset)
    bundles.write_diverged(tmp_path, COPY, "broken", 0, "standard")
    ((table, headline, leader, score, behind, last, floor, ceiling),) = cells(tmp_path)
    board = load_board(tmp_path, [])
    mean = {cell.row: cell.mean for contest in board.contests for cell in board.headline_cells(contest)}
    assert table == "[seq2seq/copy · standard](#seq2seqcopy--standard)"
    assert headline == "exact match ↑"
    assert set(leader.split(" = ")) == {"`one`", "`twin`"}
    assert score.startswith(f"{max(mean['one'], mean['twin']):.3f}")
    assert behind == f"`third` {mean['third']:.3f}"
    assert last == f"`worst` {mean['worst']:.3f}"
    assert (floor, ceiling) == ("0.001", "1.000")  # one answer in a thousand is a lucky guess


def test_what_is_not_there_is_a_dash(tmp_path):
    write(tmp_path, COPY, "alone", 0.02)
    bundles.write_diverged(tmp_path, TAPE, "broken", 0, "standard")
    ((_, _, leader, _, *others),) = cells(tmp_path)
    assert (leader, others) == ("`alone`", ["–"] * 4)


def test_of_many_leaders_three_are_named(tmp_path):
    for row in "abcde":
        write(tmp_path, COPY, row, 0.0)
    ((_, _, leader, *_),) = cells(tmp_path)
    assert leader == "`a` = `b` = `c` and 2 more"


def test_tapes_show_the_median_and_how_many_seeds_solved_it(tmp_path):
    """One wreck makes the mean a number of no seed."""
    for seed, damage in enumerate((0.0, 0.0, 1.5)):
        bundles.write_trained(tmp_path, TAPE, "often", seed, damage, "standard")
    bundles.write_trained(tmp_path, TAPE, "never", 0, 1.5, "standard")
    ((*_, score, behind, _, _, _),) = cells(tmp_path)
    assert score == "median <0.001 (solved 2/3)"
    assert re.fullmatch(r"`never` [\d.]+ \(solved 0/1\)", behind)


def test_of_several_budgets_the_largest_counts(tmp_path):
    bundles.write_trained(tmp_path, COPY, "small", 0, 0.0, "smoke")
    bundles.write_trained(tmp_path, COPY, "large", 0, 0.1, "standard")
    ((table, _, leader, *_),) = cells(tmp_path)
    assert (table.split("]")[0], leader) == ("[seq2seq/copy · standard", "`large`")


def test_a_budget_that_ranks_nobody_hides_none_that_does(tmp_path):
    """A stranger's only row at a larger budget has no rank until it was run again here."""
    bundles.write_trained(tmp_path, COPY, "ours", 0, 0.02, "smoke")
    bundles.write_trained(tmp_path, COPY, "theirs", 0, 0.0, "standard", kind="community")
    assert [line[0].split("]")[0] for line in cells(tmp_path)] == ["[seq2seq/copy · smoke"]


def test_a_row_with_failed_seeds_says_so(tmp_path):
    write(tmp_path, COPY, "steady", 0.1)
    bundles.write_trained(tmp_path, COPY, "broken", 0, 0.0, "standard")
    bundles.write_diverged(tmp_path, COPY, "broken", 1, "standard")
    ((*_, behind, _, _, _),) = cells(tmp_path)
    assert behind == "`broken` 1.000 (1 of 2 seeds failed)"


def test_a_fragment_is_githubs():
    """Letters, digits, hyphens and underscores stay, each space becomes a hyphen, what is else goes."""
    assert anchor("geometry/tsp · 5-20 · standard") == "geometrytsp--5-20--standard"
    assert anchor("What was tuned") == "what-was-tuned"


def test_a_folded_suite_has_no_lines_but_those_of_its_studies(tmp_path):
    write(tmp_path, COPY, "lstm", 0.02)
    write(tmp_path, TAPE, "tape-lstm", 0.02)
    assert [line[0] for line in cells(tmp_path, folded=("seq2seq",))] == ["[ntm/copy · standard](#ntmcopy--standard)"]
    board = load_board(tmp_path, [])
    (about,) = [contest for contest in board.contests if contest.task.name == COPY]
    study = SimpleNamespace(study=SimpleNamespace(places=[SimpleNamespace(contest=about)]))
    assert "[seq2seq/copy · standard](#seq2seq)" in at_a_glance(board, ("seq2seq",), [study])


def test_links_lead_to_headings_of_the_same_page(tmp_path):
    write(tmp_path, COPY, "lstm", 0.02)
    leaderboard.write_board(tmp_path, tmp_path / "board.md", [])
    for page in (tmp_path / "board.md", ROOT / "leaderboard.md"):
        text = page.read_text()
        headings = {anchor(line) for line in re.findall(r"^#+ (.*)$", text, re.M)}
        links = re.findall(r"\]\(#([^)]+)\)", text)
        assert links
        assert set(links) <= headings, page


def test_an_empty_board_has_no_table(tmp_path):
    (tmp_path / "runs").mkdir(parents=True)
    assert at_a_glance(load_board(tmp_path, []), (), []) == ""
