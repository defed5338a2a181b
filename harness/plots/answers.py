"""One test example and what the best rows answered, from stored predictions."""

from matplotlib.figure import Figure

from harness.families.base import Stored
from harness.plots.style import GREY, WIDTH
from harness.results import read_arrays
from harness.standings import Board, Contest

HEIGHT = 3.9
"""Inches."""
EXAMPLE = 0
"""The example of the first test that is shown: always the same, whatever the rows make of it."""
ROWS = 7
"""Rows that have room."""


def draw(board: Board, contest: Contest) -> Figure:
    """Return the figure; a row's first seed speaks for it, and rows without predictions are left out."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    heading = f"{' · '.join(contest.key)}   ({contest.test}, example {EXAMPLE}; first seeds; bold red: wrong)"
    figure.suptitle(heading, x=0.1 / WIDTH, ha="left", fontsize=7.5, color=GREY)
    answers: dict[str, Stored] = {}
    for ranked in board.contests[contest]:
        group = board.row(contest, ranked.row)
        finished = [m for m in group.members if m.run.status == "completed"] if group is not None else []
        arrays = read_arrays(finished[0].folder, finished[0].run) if finished else {}
        if contest.test in arrays and len(answers) < ROWS:
            answers[ranked.row] = arrays[contest.test]
    contest.task.draw_answers(figure.subplots(), contest.task.load(contest.test), EXAMPLE, answers)
    return figure
