"""Family ``story``: ragged storage, batches, ranks, what is refused, and sentences that a model did not read."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from stories import SPEC, stories

from harness.errors import CorruptBundleError, PredictionError
from harness.families import STORY, Batch, get_family
from harness.families.ragged import Ragged
from harness.families.story import NO_SUPPORT, Inputs, Prediction, Targets, stored_scores
from harness.splits import fingerprint

lengths = st.lists(st.integers(1, 7), min_size=1, max_size=5)


def same(a: Batch, b: Batch) -> bool:
    return all(
        torch.equal(getattr(x, field.name), getattr(y, field.name))
        for x, y in ((a.inputs, b.inputs), (a.targets, b.targets))
        for field in dataclasses.fields(x)
    )


def rows(batch: Batch, chosen: slice, like: Batch) -> Batch:
    """Return some examples of a batch, cut to the shapes of ``like``."""

    def cut(record, shapes):
        parts = {f.name: getattr(record, f.name)[chosen] for f in dataclasses.fields(record)}
        return type(record)(
            **{n: t[tuple(slice(extent) for extent in getattr(shapes, n).shape)] for n, t in parts.items()}
        )

    return Batch(cut(batch.inputs, like.inputs), cut(batch.targets, like.targets))


# Rows of different lengths


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6)), min_size=1, max_size=6), st.data())
def test_a_ragged_array_is_the_padded_one(stretches, data):
    table = np.arange(1, 46).reshape(15, 3)
    ragged = Ragged.of(table, np.array([f for f, _ in stretches]), np.array([c for _, c in stretches]))
    padded = np.zeros((len(stretches), max(c for _, c in stretches), 3), int)
    for row, (first, count) in enumerate(stretches):
        padded[row, :count] = table[first : first + count]
    assert ragged.shape == padded.shape
    assert ragged.dtype == padded.dtype
    assert len(ragged) == len(padded)
    assert np.array_equal(np.asarray(ragged), padded)
    assert np.asarray(ragged, np.float32).dtype == np.float32
    row = data.draw(st.integers(0, len(stretches) - 1))
    assert np.array_equal(ragged[row], table[stretches[row][0] : sum(stretches[row])])
    chosen = data.draw(st.lists(st.integers(0, len(stretches) - 1), min_size=1))
    wide = np.asarray(ragged[np.array(chosen)])
    assert np.array_equal(wide, padded[chosen][:, : wide.shape[1]])
    assert not padded[chosen][:, wide.shape[1] :].any()


def test_joined_ragged_arrays_keep_their_rows_and_widen():
    table = np.arange(1, 13).reshape(6, 2)
    a = Ragged.of(table, np.array([0, 2]), np.array([2, 3]))
    b = Ragged.of(np.full((2, 3), 7), np.array([1]), np.array([1]))
    joined = Ragged.concatenate([a, b, a[np.array([1])]])
    assert len(joined.data) == 7 + 3  # a's rows once
    assert joined[0].tolist() == [[1, 2, 0], [3, 4, 0]]
    assert joined[2].tolist() == [[7, 7, 7]]
    assert np.array_equal(joined[3], joined[1])
    assert np.asarray(joined)[2].tolist() == [[7, 7, 7], [0, 0, 0], [0, 0, 0]]


# Batches


def test_the_family_is_known_by_name():
    assert get_family("story") is STORY


def test_a_batch_by_hand():
    story = Ragged.of(np.array([[5, 6, 0], [7, 0, 0], [8, 9, 4]], np.uint8), np.array([0, 0]), np.array([1, 2]))
    examples = stories([1, 2])
    examples.inputs.update(story=story, sentence_length=Ragged.of(np.array([2, 1, 3]), story.first, story.count))
    batch = STORY.batch(examples)
    assert batch.inputs.story.tolist() == [[[5, 6], [0, 0]], [[5, 6], [7, 0]]]  # as wide as the longest that is read
    assert batch.inputs.sentence_length.tolist() == [[2, 0], [2, 1]]
    assert batch.inputs.story_length.tolist() == [1, 2]
    tensors = [*vars(batch.inputs).values(), *vars(batch.targets).values()]
    assert {tensor.dtype for tensor in tensors} == {torch.int64}


@given(lengths, st.integers(0, 99))
def test_lengths_and_pads_agree(counts, seed):
    inputs = STORY.batch(stories(counts, seed)).inputs
    real = torch.arange(inputs.story.shape[1]) < inputs.story_length[:, None]
    assert torch.equal((inputs.story != 0).sum(2), inputs.sentence_length)
    assert torch.equal(inputs.sentence_mask, real)
    assert torch.equal((inputs.question != 0).sum(1), inputs.question_length)
    assert inputs.story.shape[1:] == (max(counts), int(inputs.sentence_length.max()))
    assert inputs.question.shape[1] == int(inputs.question_length.max())


@given(lengths, lengths, st.integers(0, 99))
def test_joining_examples_changes_none_of_them(first, second, seed):
    a, b = stories(first, seed), stories(second, seed + 1)
    joined = STORY.concatenate([a, b])
    assert joined.sizes.tolist() == first + second
    for part, chosen in ((a, slice(0, len(first))), (b, slice(len(first), None))):
        alone = STORY.batch(part)
        assert same(STORY.batch(joined.take(chosen)), alone)
        assert same(rows(STORY.tensors(joined), chosen, alone), alone)  # more padding, nothing else


@given(lengths, st.integers(0, 99))
def test_an_example_alone_is_the_one_in_a_batch(counts, seed):
    together = STORY.batch(stories(counts, seed))
    for row in range(len(counts)):
        alone = STORY.batch(stories(counts, seed).take(slice(row, row + 1)))
        assert same(rows(together, slice(row, row + 1), alone), alone)
        beyond = together.targets.support[row, alone.targets.support.shape[1] :]
        assert (beyond == NO_SUPPORT).all()


def test_a_model_that_writes_into_its_inputs_does_not_change_the_examples():
    examples = stories([3, 2])
    before = fingerprint(examples)
    batch = STORY.batch(examples)
    for record in (batch.inputs, batch.targets):
        for tensor in vars(record).values():
            tensor.zero_()
    assert fingerprint(examples) == before


def test_a_fingerprint_sees_every_word_and_every_length():
    prints = {fingerprint(stories([2, 3]))}
    for name, change in (("data", (0, 0)), ("first", 1), ("count", 0)):
        examples = stories([2, 3])
        array = getattr(examples.inputs["story"], name)
        array[change] += 1
        prints.add(fingerprint(examples))
    assert len(prints) == 4


# What is stored


@given(st.integers(1, 6), st.data())
def test_ranks_count_what_is_better_or_equal_and_earlier(candidates, data):
    scores = np.array(data.draw(st.lists(st.sampled_from([-1.0, 0.0, 2.5]), min_size=candidates, max_size=candidates)))
    target = data.draw(st.integers(0, candidates - 1))
    stored = stored_scores(scores[None], np.array([target]))
    order = sorted(range(candidates), key=lambda index: (-scores[index], index))
    assert stored["answer"].tolist() == [order[0]]
    assert stored["rank"].tolist() == [order.index(target)]
    assert stored["answer"].dtype == stored["rank"].dtype == np.uint8


def test_many_candidates_take_wider_integers():
    assert stored_scores(np.eye(1, 256), np.array([255]))["rank"].dtype == np.uint8
    assert stored_scores(np.eye(1, 257), np.array([256]))["rank"].dtype == np.uint16


def store(scores: torch.Tensor, unread: torch.Tensor | None = None):
    return STORY.store(Prediction(scores, unread), STORY.batch(stories([2, 4])), SPEC)


def test_a_prediction_is_stored_with_what_was_not_read():
    scores = torch.randn(2, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
    stored = store(scores * 1)
    assert {name: array.dtype.name for name, array in stored.items()} == {
        "answer": "uint8",
        "rank": "uint8",
        "unread": "uint16",
    }
    assert stored["unread"].tolist() == [0, 0]
    assert store(scores, torch.tensor([0, 3]))["unread"].tolist() == [0, 3]
    STORY.check_stored(stored, stories([2, 4]))
    joined = STORY.join([stored, store(scores, torch.tensor([2, 4]))])
    assert joined["unread"].tolist() == [0, 0, 2, 4]


@pytest.mark.parametrize(
    ("prediction", "message"),
    [
        (torch.zeros(2, 6), "returned a Tensor; return harness.families.story.Prediction"),
        (Prediction(None), "returned scores as a NoneType"),
        (Prediction(torch.zeros(2, 5)), r"shape \(2, 5\); expected \(B,A\) = \(2, 6\)"),
        (Prediction(torch.zeros(3, 6)), r"shape \(3, 6\)"),
        (Prediction(torch.zeros(2)), r"shape \(2,\)"),
        (Prediction(torch.zeros(2, 6, dtype=torch.int64)), "dtype torch.int64; expected torch.float32"),
        (Prediction(torch.full((2, 6), torch.nan)), "NaN or infinite"),
        (Prediction(torch.zeros(2, 6), torch.zeros(2)), r"unread of shape \(2,\) and dtype torch.float32"),
        (Prediction(torch.zeros(2, 6), torch.zeros(3, dtype=torch.int64)), r"unread of shape \(3,\)"),
        (Prediction(torch.zeros(2, 6), 3), "returned unread as a int"),
        (Prediction(torch.zeros(2, 6), torch.tensor([0, 5])), "5 sentences of a story of 4 are unread"),
        (Prediction(torch.zeros(2, 6), torch.tensor([-1, 0])), "-1 sentences of a story of 2 are unread"),
    ],
)
def test_a_broken_prediction_is_refused(prediction, message):
    with pytest.raises(PredictionError, match=message):
        STORY.store(prediction, STORY.batch(stories([2, 4])), SPEC)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": None}, "answer is None"),
        ({"rank": np.zeros(2, np.int64)}, "rank is"),
        ({"unread": np.zeros(2, np.uint8)}, "unread is"),
        ({"answer": np.zeros(3, np.uint8)}, "answer is"),
        ({"rank": np.array([1, 1], np.uint8)}, "disagree"),
        ({"unread": np.array([0, 5], np.uint16)}, "more sentences than a story has"),
    ],
)
def test_stored_answers_that_cannot_be_scored_are_corrupt(change, message):
    examples = stories([2, 4])
    right = examples.targets["answer"].astype(np.uint8)
    stored = {"answer": right, "rank": np.zeros(2, np.uint8), "unread": np.zeros(2, np.uint16)}
    STORY.check_stored(stored, examples)
    stored = {name: array for name, array in (stored | change).items() if array is not None}
    with pytest.raises(CorruptBundleError, match=message):
        STORY.check_stored(stored, examples)


# What a model says that it did not read


def reads_last(inputs: Inputs, count: int, says: int) -> Prediction:
    """Add up the words of the last ``count`` sentences; say that ``says`` were read."""
    place = torch.arange(inputs.story.shape[1])
    read = (place >= inputs.story_length[:, None] - count) & (place < inputs.story_length[:, None])
    total = (inputs.story.sum(2) * read).sum(1, keepdim=True).float()
    return Prediction(total * torch.arange(6), (inputs.story_length - says).clamp(min=0))


def test_a_model_may_leave_out_what_it_says():
    batch = STORY.batch(stories([7, 1, 4]))
    STORY.audit(lambda inputs: reads_last(inputs, 2, 2), batch)
    STORY.audit(lambda inputs: reads_last(inputs, 2, 4), batch)
    STORY.audit(lambda inputs: Prediction(reads_last(inputs, 2, 2).scores), batch)  # says nothing, leaves out something


def test_a_model_that_reads_more_than_it_says_fails_the_audit():
    batch = STORY.batch(stories([7, 1, 4]))
    before = batch.inputs.story.clone()
    with pytest.raises(PredictionError, match="did not read the oldest sentences of a story, but changing them moved"):
        STORY.audit(lambda inputs: reads_last(inputs, 3, 2), batch)
    assert torch.equal(batch.inputs.story, before)


def test_a_batch_moves_as_a_whole_and_a_prediction_without_unread_too():
    batch = STORY.batch(stories([2, 3])).to("meta")
    assert {t.device.type for record in (batch.inputs, batch.targets) for t in vars(record).values()} == {"meta"}
    assert Prediction(torch.zeros(2, 6)).to("meta").unread is None
    assert isinstance(batch.targets, Targets)
