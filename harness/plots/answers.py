"""One test example and what every row answered, from stored predictions."""

from matplotlib.figure import Figure

from harness.plots.style import WIDTH
from harness.results import read_arrays
from harness.standings import Board, Contest

HEIGHT = 3.9
"""Inches."""
EXAMPLE = 0
"""The example of the first test that is shown: always the same, whatever the rows make of it."""


def draw(board: Board, contest: Contest) -> Figure:
    """Return the figure; the first seed speaks for a row, and rows without predictions are left out."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    answers = {}
    for ranked in board.contests[contest]:
        group = board.row(contest, ranked.row)
        finished = [m for m in group.members if m.run.status == "completed"] if group is not None else []
        arrays = read_arrays(finished[0].folder, finished[0].run) if finished else {}
        if contest.test in arrays:
            answers[ranked.row] = arrays[contest.test]
    contest.task.draw_answers(figure.subplots(), contest.task.load(contest.test), EXAMPLE, answers)
    return figure
