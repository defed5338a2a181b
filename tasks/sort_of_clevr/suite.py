"""What the suite's tasks share: questions, splits, metrics, references, augmentation, pictures."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.random import RandomState

from harness.families.base import Examples, Family, Stored
from harness.families.scene import BLANK, SCENE, Spec
from harness.metrics import Metric
from harness.metrics.scene import accuracy
from harness.splits import AnySplit, Role, Size, Split, Variant
from harness.task import Reference, Regime, Task
from tasks.sort_of_clevr.pictures import draw_answers, draw_pairs, letters
from tasks.sort_of_clevr.questions import (
    ANSWERS,
    CLOSEST,
    CODES,
    NON_RELATIONAL,
    PER_KIND,
    RELATIONAL,
    SUBTYPES,
    answers,
    ask,
    decode,
    mirror,
    of_kind,
    text,
)
from tasks.sort_of_clevr.scenes import COLOURS, SHAPES, Scenes, crowded, one_a_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRAINING, VALIDATION, TEST, PUBLISHED_TEST = 9_800, 200, 2_000, 200
"""Scenes a split. The paper has 9,800 for training and 200 for testing."""
CROWDS, CROWD_TEST = (8, 10, 12), 200
"""Objects of the ladder's scenes, and scenes a rung."""

NON_RELATIONAL_ONLY, AUGMENTED, RELATIONAL_MOSTLY = "train-nonrelational", "train-augmented", "train-relational"
VARIANTS = (NON_RELATIONAL_ONLY, AUGMENTED, RELATIONAL_MOSTLY)
REMINDERS = 3
"""Non-relational questions that ``train-relational`` keeps of each scene, lest what they ask for be forgotten."""


def _metrics() -> tuple[Metric, ...]:
    """Return the accuracy on each kind of question, the headline first, then on each subtype."""
    kinds = {"relational": RELATIONAL, "non_relational": NON_RELATIONAL}
    wholes = [accuracy(name, name.replace("_", "-"), partial(of_kind, kind=kind)) for name, kind in kinds.items()]
    parts = [
        accuracy(name, name, partial(of_kind, kind=kind, subtype=subtype))
        for kind in kinds.values()
        for subtype, name in enumerate(SUBTYPES[kind])
    ]
    return (*wholes, *parts)


class SortOfClevr(Task):
    """Six objects, one a colour, each a square or a circle at even odds, none overlapping, and twenty questions.

    Ten are about one object (its shape; is it on the left, at the top?), ten about its relations (the shape of the
    closest and of the furthest other object; how many *others* have its shape, so 0 to 5). All twenty are different,
    and none is asked that has no single answer: a tie, or the side of an object in the middle. Rows count from the top.

    A subclass says what a model is shown of a scene; all randomness is here, so scenes are the same in every form.
    """

    family: ClassVar[Family] = SCENE
    splits: ClassVar[tuple[AnySplit, ...]] = (
        Split("train", "train", (len(COLOURS),), TRAINING),
        *(Variant(name, "train") for name in VARIANTS),
        Split("validation", "validation", (len(COLOURS),), VALIDATION),
        Split("test", "test", (len(COLOURS),), TEST),
        Split("test-200", "test", (len(COLOURS),), PUBLISHED_TEST),
        *(Split(f"test-{objects}", "test", (objects,), CROWD_TEST, ladder=objects) for objects in CROWDS),
    )
    regimes: ClassVar[Mapping[str, Regime]] = {
        "default": Regime(
            "train",
            "validation",
            ("test", "test-200", *(f"test-{objects}" for objects in CROWDS)),
            also=VARIANTS,
        )
    }
    metrics: ClassVar[tuple[Metric, ...]] = _metrics()
    plotted: ClassVar[tuple[str, ...]] = ("relational", "non_relational")
    breakdown: ClassVar[tuple[str, ...]] = (*SUBTYPES[RELATIONAL], *SUBTYPES[NON_RELATIONAL])
    budgets: ClassVar[Mapping[str, int]] = {"smoke": 64, "demo": 9_800, "standard": 294_000, "paper": 588_000}
    size_name: ClassVar[str] = "objects in the scene"
    floor: ClassVar[str] = "majority"
    learnt: ClassVar[float | None] = 0.9
    image: ClassVar[tuple[int, int] | None]
    channels: ClassVar[int]

    @abstractmethod
    def show(self, scenes: Scenes) -> np.ndarray:
        """Return what a model sees of the scenes, scene axis first."""

    @abstractmethod
    def recognise(self, shown: np.ndarray) -> Scenes:
        """Return the scenes that ``show`` would show so, all of equally many objects, in any order of objects."""

    @abstractmethod
    def turn(
        self, shown: np.ndarray, transposed: np.ndarray, upside_down: np.ndarray, mirrored: np.ndarray
    ) -> np.ndarray:
        """Return scenes with rows and columns swapped, then rows, then columns reversed, where ``(n,)`` bools say."""

    @property
    def data_name(self) -> str:
        """One for all forms."""
        return self.suite

    def scenes(self, rng: RandomState, size: int, count: int) -> Scenes:
        """Draw ``count`` scenes of ``size`` objects."""
        return one_a_colour(rng, count) if size == len(COLOURS) else crowded(rng, count, size)

    def spec(self, regime: str) -> Spec:
        """Question vectors of 11 bits, 10 answers."""
        chosen = self.regime(regime)
        train, *tests = (int(np.max(self.bounded(name).sizes)) for name in (chosen.train, *chosen.tests))
        return Spec(train, max(tests), self.image, self.channels, len(COLOURS), CODES, len(ANSWERS))

    def generate(self, rng: RandomState, size: Size, count: int, role: Role) -> Examples:
        """Draw ``count`` scenes, then their questions."""
        assert isinstance(size, int)
        scenes = self.scenes(rng, size, count)
        question, answer = ask(rng, scenes)
        return Examples(
            inputs={"scene": self.show(scenes), "question": question},
            targets={"answer": answer},
            sizes=np.full(count, size),
        )

    def vary(self, split: str, examples: Examples, rng: RandomState) -> Examples:
        """Keep the non-relational questions alone, or turn every scene and its questions to one of eight sides.

        ``train-relational`` leaves out most non-relational questions, too; they lie in random order, so any will do.
        """
        scene, question, answer = examples.inputs["scene"], examples.inputs["question"], examples.targets["answer"]
        if split == NON_RELATIONAL_ONLY:
            question, answer = question[:, :PER_KIND], answer[:, :PER_KIND]
        else:
            turns = rng.randint(0, 2, size=(3, len(examples))).astype(bool)
            scene = self.turn(scene, *turns)
            question, answer = mirror(question, answer, *turns)
        if split == RELATIONAL_MOSTLY:
            question, answer = question[:, PER_KIND - REMINDERS :], answer[:, PER_KIND - REMINDERS :]
        return replace(examples, inputs={"scene": scene, "question": question}, targets={"answer": answer})

    def references(self) -> dict[str, Reference]:
        """The best constant answer to each subtype, and the right answer read off the scene."""
        return {
            "majority": Reference("the most frequent answer to each subtype", "expected", _majority),
            "oracle": Reference("the answer worked out from the objects' states", "exact", self._oracle),
        }

    def _oracle(self, examples: Examples, rng: RandomState) -> Stored:
        scenes = self.recognise(examples.inputs["scene"])
        colour, kind, subtype = decode(examples.inputs["question"])  # (n,Q) each
        asked = (scenes.colour[:, None] == colour[..., None]).argmax(2)
        answer = answers(scenes)[np.arange(len(scenes))[:, None], asked, kind, subtype]
        return _stored(answer, examples)

    def render(self, examples: Examples, row: int, stored: Stored | None = None) -> str:
        """Show the scene in letters (capitals are squares), its objects, and question, answer and prediction a line."""
        scene = self.recognise(examples.inputs["scene"][row : row + 1])
        objects = [
            f"{COLOURS[colour]} {SHAPES[shape]} at {tuple(centre.tolist())}"
            for centre, colour, shape in zip(scene.centre[0], scene.colour[0], scene.shape[0], strict=True)
        ]
        lines = [letters(scene), "objects at (row, column): " + ", ".join(objects)]
        for index, (question, answer) in enumerate(
            zip(examples.inputs["question"][row], examples.targets["answer"][row], strict=True)
        ):
            if answer != BLANK:
                answered = "" if stored is None else f"  answered {ANSWERS[stored['answers'][row, index]]}"
                lines.append(f"{text(question):46}{ANSWERS[answer]:8}{answered}".rstrip())
        return "\n".join(lines)

    draws_answers: ClassVar[bool] = True

    def draw_answers(self, axis: "Axes", examples: Examples, row: int, answers: Mapping[str, Stored]) -> None:
        """Draw the scene and, beside it, every question with its answer and what each row answered, in red if wrong."""
        scene = self.recognise(examples.inputs["scene"][row : row + 1])
        question, answer = examples.inputs["question"][row], examples.targets["answer"][row]
        asked = np.flatnonzero(answer != BLANK)
        right = [ANSWERS[answer[q]] for q in asked]
        given = {name: [ANSWERS[stored["answers"][row, q]] for q in asked] for name, stored in answers.items()}
        draw_answers(axis, scene, [text(question[q]) for q in asked], right, given)

    draws: ClassVar[tuple[str, ...]] = ("answers", "pairs")

    def places(self, scene: Scenes, explanation: Stored) -> np.ndarray:
        """Return where the model's objects lie in the picture, ``(N,2)`` pixels as (row, column)."""
        return scene.centre[0]

    def draw(self, axis: "Axes", examples: Examples, row: int, explanation: Stored) -> None:
        """Draw the scene, its first question about the closest with its answers, and the pairs that mattered for it."""
        scene = self.recognise(examples.inputs["scene"][row : row + 1])
        question, answer = examples.inputs["question"][row], examples.targets["answer"][row]
        chosen = int(np.argmax(of_kind(question, RELATIONAL) + of_kind(question, RELATIONAL, CLOSEST).astype(int)))
        said = ANSWERS[int(explanation["answers"][chosen])]
        draw_pairs(axis, scene, self.places(scene, explanation), explanation["pairs"][chosen].astype(np.float64))
        axis.set_xlabel(f"{text(question[chosen])}\n{ANSWERS[answer[chosen]]}; the model: {said}", fontsize=7.5)


def _majority(examples: Examples, rng: RandomState) -> Stored:
    question, target = examples.inputs["question"], examples.targets["answer"]
    best = np.zeros_like(target)
    for kind, subtypes in enumerate(SUBTYPES):
        for subtype in range(len(subtypes)):
            chosen = of_kind(question, kind, subtype)
            best[chosen] = np.bincount(target[chosen], minlength=len(ANSWERS)).argmax()
    return _stored(best, examples)


def _stored(answer: np.ndarray, examples: Examples) -> Stored:
    return {"answers": np.where(examples.targets["answer"] == BLANK, 0, answer).astype(np.uint8)}
