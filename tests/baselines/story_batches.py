"""Small stories for tests of story models: each depends on its length in sentences alone."""

import torch

from harness.families import Batch
from harness.families.story import NO_SUPPORT, Inputs, Spec, Targets

SPEC = Spec(
    max_train_size=5,
    max_test_size=9,
    vocabulary=12,
    answers=5,
    max_sentence_length=4,
    max_question_length=3,
    max_train_story=5,
    max_test_story=9,
    answer_words=(7, 0, 5, 0, 11),
)


def told(length: int) -> tuple[list[list[int]], list[int], int, list[int]]:
    """Sentences of 1 to 4 words, oldest first, a question of 2 or 3, the answer, and two supports out of order."""
    rng = torch.Generator().manual_seed(length)

    def words(most: int, least: int = 1) -> list[int]:
        count = int(torch.randint(least, most + 1, (1,), generator=rng))
        return torch.randint(4, 12, (count,), generator=rng).tolist()

    story = [words(4) for _ in range(length)]
    support = torch.randperm(length, generator=rng)[:2].tolist()
    return story, words(3, 2), int(torch.randint(0, 5, (1,), generator=rng)), support


def story_batch(lengths: list[int], extra: int = 0, stories: list[list[list[int]]] | None = None) -> Batch:
    """Stories of the given lengths (or ``stories``, asked as those); ``extra``: more padding in every direction."""
    rows = [told(length) for length in lengths]
    texts = [row[0] for row in rows] if stories is None else stories
    count, sentences, words = len(rows), max(map(len, texts)) + extra, 4 + extra
    story = torch.zeros(count, sentences, words, dtype=torch.int64)
    length = torch.zeros(count, sentences, dtype=torch.int64)
    question = torch.zeros(count, 3 + extra, dtype=torch.int64)
    support = torch.full((count, 2 + extra), NO_SUPPORT)
    for row, (text, (_, asked, _, facts)) in enumerate(zip(texts, rows, strict=True)):
        for place, sentence in enumerate(text):
            story[row, place, : len(sentence)] = torch.tensor(sentence)
            length[row, place] = len(sentence)
        question[row, : len(asked)] = torch.tensor(asked)
        support[row, : len(facts)] = torch.tensor(facts, dtype=torch.int64)
    inputs = Inputs(
        story,
        torch.tensor([len(text) for text in texts]),
        length,
        question,
        torch.tensor([len(row[1]) for row in rows]),
    )
    return Batch(inputs, Targets(torch.tensor([row[2] for row in rows]), support))
