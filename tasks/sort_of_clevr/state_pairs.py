"""``sort-of-clevr/state-pairs``: object states with colour–shape pairs that training never showed."""

from tasks.sort_of_clevr.forms import StateForm
from tasks.sort_of_clevr.pairs import UnseenPairs


class StatePairs(UnseenPairs, StateForm):
    """Answer the questions of ``sort-of-clevr/pixels-pairs`` about the same scenes, given as lists of object states.

    Red and blue objects are always circles in training, green and orange ones always squares; the ladder has scenes
    with 2 and 4 objects the other way round. Colour and shape are apart in a state::

        red square (unseen)   colour 1 0 0 0 0 0   shape 1 0   row, column

    so that nothing but the habits of training stands in the way. An example is a scene with its questions.
    """

    name = "sort-of-clevr/state-pairs"
    version = 1
