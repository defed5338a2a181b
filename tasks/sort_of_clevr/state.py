"""``sort-of-clevr/state``: the questions of ``pixels`` about lists of objects."""

from tasks.sort_of_clevr.forms import StateForm


class State(StateForm):
    """Answer the questions of ``sort-of-clevr/pixels`` about the same scenes, given as a list of object states.

    Example of an object, a blue circle at (row 15, column 40)::

        colour 0 0 1 0 0 0   shape 0 1   row -22/32   column 3/32

    Colour (red, green, blue, orange, gray, yellow) and shape (square, circle) are one-hot; 0 is the image's middle, row
    37 and column 37. Objects are in random order. Scenes, questions, splits and scores are those of the other task;
    what is left of it is reasoning without seeing.

    An example is a scene with its questions. Source: Santoro et al. 2017, §5.2 (state descriptions, there of CLEVR).
    """

    name = "sort-of-clevr/state"
    version = 1
