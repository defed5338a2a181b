"""``sort-of-clevr/pixels``: questions about a picture of six objects."""

from tasks.sort_of_clevr.forms import PixelForm


class Pixels(PixelForm):
    """Answer twenty questions about a picture of six objects, one a colour, each a square or a circle.

    Examples, for a scene with a red square at (row 12, column 20), a blue circle at (15, 40) and four more far away::

        What shape is the red?                       -> square
        Is the blue on the left?                     -> no       (column 40 of 0..74; 37 is the middle)
        What shape is closest to the red?            -> circle
        How many others have the shape of the red?   -> the squares among the other five, 0 to 5

    Pictures are 75 x 75, RGB, white behind. Ten questions are about one object, ten about its relations; all twenty
    differ, and none is asked that has no single answer (ties, an object exactly in the middle). 9,800 training scenes,
    200 for validation, 2,000 to test (and 200, as published); a ladder of crowded scenes with 8, 10 and 12 objects, in
    which two colours share all objects beyond four and the questions are about the other four. A recipe's phases may
    train on ``train-nonrelational`` (ten questions a scene), ``train-augmented`` (scenes turned to any of 8 sides) and
    ``train-relational`` (turned, and without seven of the ten non-relational questions).

    An example is a scene with its questions. Source: Santoro et al. 2017, §5.3; its generator is not public. Unlike the
    popular public one: no overlaps, no question twice, no ties, and no object is its own neighbour.
    """

    name = "sort-of-clevr/pixels"
    version = 1
