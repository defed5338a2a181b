"""Questions about a scene: how they are coded, what their answers are, and which may be asked."""

import numpy as np
from numpy.random import RandomState

from harness.families.scene import BLANK
from tasks.sort_of_clevr.scenes import COLOURS, MIDDLE, Scenes

CODES = (len(COLOURS), 2, 3)
"""A question vector's one-hot codes: the colour of the object asked about, the kind, the subtype of the kind."""
NON_RELATIONAL, RELATIONAL = range(2)
SUBTYPES = (("shape", "left", "top"), ("closest", "furthest", "count"))
LEFT, TOP = 1, 2
CLOSEST = 0
TEXTS = (
    ("What shape is the {}?", "Is the {} on the left?", "Is the {} at the top?"),
    (
        "What shape is closest to the {}?",
        "What shape is furthest from the {}?",
        "How many others have the shape of the {}?",
    ),
)
ANSWERS = ("yes", "no", "square", "circle", "0", "1", "2", "3", "4", "5")
YES, NO, FIRST_SHAPE, FIRST_COUNT = 0, 1, 2, 4
PER_KIND = 10
"""Questions of each kind a scene; the non-relational ones come first."""

KIND_BIT = CODES[0]
SUBTYPE_BIT = CODES[0] + CODES[1]


def answers(scenes: Scenes) -> np.ndarray:
    """Return the answer to every question about every object, ``(n,N,2,3)`` by kind and subtype, BLANK if not asked.

    Not asked is what has no single answer: the side of an object in the middle row or column, the closest or furthest
    of several at one distance (exact, squared pixels), and a count above five, which is no class.
    """
    row, column = scenes.centre[..., 0], scenes.centre[..., 1]  # (n,N)
    shape = scenes.shape
    objects = shape.shape[1]
    itself = np.eye(objects, dtype=bool)

    def side(at: np.ndarray) -> np.ndarray:
        return np.where(at == MIDDLE, BLANK, np.where(at < MIDDLE, YES, NO))

    apart = scenes.centre[:, :, None] - scenes.centre[:, None]  # (n,N,N,2)
    distance = (apart**2).sum(3)

    def extreme(distance: np.ndarray, best: np.ndarray) -> np.ndarray:
        candidates = distance == best[..., None]  # (n,N,N)
        answer = FIRST_SHAPE + np.take_along_axis(shape, candidates.argmax(2), axis=1)
        return np.where(candidates.sum(2) == 1, answer, BLANK)

    near = np.where(itself, np.iinfo(np.int64).max, distance)  # never its own neighbour, however far the others are
    far = np.where(itself, -1, distance)
    others = (shape[:, :, None] == shape[:, None]).sum(2) - 1
    count = np.where(FIRST_COUNT + others < len(ANSWERS), FIRST_COUNT + others, BLANK)
    non_relational = [FIRST_SHAPE + shape, side(column), side(row)]
    relational = [extreme(near, near.min(2)), extreme(far, far.max(2)), count]
    return np.stack([np.stack(kind, axis=2) for kind in (non_relational, relational)], axis=2)


def ask(rng: RandomState, scenes: Scenes) -> tuple[np.ndarray, np.ndarray]:
    """Return ten questions of each kind about every scene and their answers: ``(n,20,E) float32``, ``(n,20) int64``.

    A colour that several objects have names none of them. Of each kind's 18 pairs of colour and subtype ten different
    ones are drawn, evenly, from those that can be asked; where there are fewer, the last are blank.
    """
    count = len(scenes)
    by_colour = np.full((count, len(COLOURS), 2, 3), BLANK)
    holders = (scenes.colour[:, :, None] == np.arange(len(COLOURS))).sum(1)  # (n,6)
    np.put_along_axis(by_colour, scenes.colour[:, :, None, None], answers(scenes), axis=1)
    by_colour[holders != 1] = BLANK
    question = np.zeros((count, 2 * PER_KIND, sum(CODES)), np.float32)
    answer = np.full((count, 2 * PER_KIND), BLANK)
    scene = np.arange(count)[:, None]
    for kind in (NON_RELATIONAL, RELATIONAL):
        table = by_colour[:, :, kind].reshape(count, -1)  # (n,18) colour-major
        lot = rng.random_sample(table.shape) + (table == BLANK)
        chosen = lot.argsort(1, kind="stable")[:, :PER_KIND]
        own = slice(kind * PER_KIND, (kind + 1) * PER_KIND)
        answer[:, own] = table[scene, chosen]
        question[:, own] = encode(chosen // 3, np.full_like(chosen, kind), chosen % 3)
    question[answer == BLANK] = 0
    return question, answer


def encode(colour: np.ndarray, kind: np.ndarray, subtype: np.ndarray) -> np.ndarray:
    """Return question vectors ``(...,11) float32``."""
    codes = [np.eye(size, dtype=np.float32)[code] for size, code in zip(CODES, (colour, kind, subtype), strict=True)]
    return np.concatenate(codes, axis=-1)


def decode(question: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return colour, kind and subtype ``(...)`` of question vectors ``(...,11)``."""
    colour, kind, subtype = np.split(question, [KIND_BIT, SUBTYPE_BIT], axis=-1)
    return colour.argmax(-1), kind.argmax(-1), subtype.argmax(-1)


def of_kind(question: np.ndarray, kind: int, subtype: int | None = None) -> np.ndarray:
    """Return ``(n,Q) bool``: which questions ``(n,Q,E)`` are of a kind, or of one of its subtypes."""
    chosen = question[..., KIND_BIT + kind] == 1
    return chosen if subtype is None else chosen & (question[..., SUBTYPE_BIT + subtype] == 1)


def text(question: np.ndarray) -> str:
    """Return one question vector ``(11,)`` as a sentence; empty for a blank."""
    if not question.any():
        return ""
    colour, kind, subtype = (int(code) for code in decode(question))
    return TEXTS[kind][subtype].format(COLOURS[colour])


def mirror(
    question: np.ndarray, answer: np.ndarray, transposed: np.ndarray, upside_down: np.ndarray, mirrored: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return questions ``(n,Q,E)`` and answers ``(n,Q)`` as they are after rows and columns were swapped or reversed.

    Swapping, which comes first, makes a question about the left one about the top, with its answer; reversing turns yes
    into no. Relations do not change.
    """
    question, answer = question.copy(), answer.copy()
    swapped = of_kind(question, NON_RELATIONAL) & transposed[:, None]  # (n,Q)
    left, top = SUBTYPE_BIT + LEFT, SUBTYPE_BIT + TOP
    question[..., [left, top]] = np.where(swapped[..., None], question[..., [top, left]], question[..., [left, top]])
    for subtype, reversed_ in ((LEFT, mirrored), (TOP, upside_down)):
        turned = of_kind(question, NON_RELATIONAL, subtype) & reversed_[:, None] & (answer != BLANK)
        answer[turned] = YES + NO - answer[turned]
    return question, answer
