"""The language pair: an independent translator agrees with every sentence; splits and sizes are as declared."""

import numpy as np
import pytest
from numpy.random import PCG64, RandomState
from translator import translate

from harness.families.transduction import EOS, FIRST_SYMBOL
from harness.splits import Stream, TrainingBatches, partition, stream_sample
from tasks.seq2seq import grammar
from tasks.seq2seq.lexicon import FIRST, SOURCE_WORDS, TARGET_WORDS
from tasks.seq2seq.translate import Translate

TASK = Translate()


def sentences(examples):
    for source, length, target in zip(
        examples.inputs["source"], examples.inputs["source_length"], examples.targets["target"], strict=True
    ):
        words = " ".join(SOURCE_WORDS[token - FIRST_SYMBOL] for token in source[:length])
        answer = target[target > 0]
        assert answer[-1] == EOS
        yield words, " ".join(TARGET_WORDS[token - FIRST_SYMBOL] for token in answer[:-1])


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("the dog sleep", "dogo sleepir hao"),
        ("some stones fall", "stoneas fallir haas"),
        ("some dogs fall", "dogos fall2ir haos"),
        ("the old dog not see a house", "dogo old2o uno houseo note seear pas hao"),
        ("every king will see the queen", "cada kingo queena om see2ar vado"),
        ("a cat and the dogs rest", "una cata ande dogos restir haas"),
        ("the dog that see a cat run", "dogo quo una cata om see2ar hao fin runir hao"),
        ("the dog that a cat see run", "dogo quo una cata see2ar haa fin runir hao"),
        ("the dog run because this map burn", "dogo runir hao esta mapa burnir haa becausee"),
        ("all dogs run but a map burn", "tode dogos runir haos bute una mapa burnir haa"),
        ("the dog soon run behind the man", "dogo mana behind2de soonmente runir hao"),
    ],
)
def test_the_independent_translator_knows_the_language(source, target):
    assert translate(source) == target


@pytest.mark.parametrize("name", ["test-to-15", "test-to-30", "validation-15", "validation-30", "test-45", "test-60"])
def test_the_independent_translator_agrees_with_every_sentence(name):
    for source, target in sentences(TASK.load(name)):
        assert translate(source) == target


def test_the_independent_translator_agrees_with_the_training_stream():
    for name in ("train-15", "train-30"):
        for source, target in sentences(stream_sample(TASK, TASK.split(name), 2048)):
            assert translate(source) == target


def test_no_sentence_of_a_test_can_occur_in_training():
    for name, role in (("test-30", "test"), ("validation-30", "validation")):
        examples = TASK.load(name)
        for source, length in zip(examples.inputs["source"], examples.inputs["source_length"], strict=True):
            assert partition(source[None, :length]) == [role]
    batch = next(iter(TrainingBatches(TASK, TASK.split("train-30"), 0, 64).iterate(0, 1)))
    assert (partition(batch.inputs.source.numpy()) == "train").all()


def test_sizes_are_bins_of_five_and_every_length_is_there():
    for name in ("test-5", "test-20", "test-60"):
        examples = TASK.load(name)
        assert set(examples.sizes) == {TASK.split(name).ladder}
        lengths, counts = np.unique(examples.inputs["source_length"], return_counts=True)
        assert lengths.max() == TASK.split(name).ladder
        assert set(counts) == {20}
    for name, longest in (("15", 15), ("30", 30)):
        assert set(TASK.load(f"test-to-{name}").inputs["source_length"]) == set(range(3, longest + 1))


def test_answers_stay_below_the_limit():
    spec = TASK.spec("30")
    for name in ("test-5", "test-to-30", "test-60"):
        examples = TASK.load(name)
        lengths = (examples.targets["target"] > 0).sum(1)
        assert (lengths <= spec.output_limit(examples.inputs["source_length"])).all()


def test_structures_are_exactly_as_long_as_asked_and_varied():
    rng = RandomState(PCG64(1))
    for length in (3, 4, 7, 15, 31, 60):
        drawn = [grammar.Structure(rng, length) for _ in range(40)]
        assert {len(s.classes) for s in drawn} == {length}
        if length >= 15:
            assert len({tuple(s.classes) for s in drawn}) >= 39


def test_every_word_of_both_languages_is_used():
    examples = stream_sample(TASK, TASK.split("train-30"), 16_384)
    used = set(np.unique(examples.inputs["source"])) - {0}
    assert used == set(range(FIRST_SYMBOL, FIRST_SYMBOL + len(SOURCE_WORDS)))
    written = set(np.unique(examples.targets["target"])) - {0, EOS}
    assert written == set(range(FIRST_SYMBOL, FIRST_SYMBOL + len(TARGET_WORDS)))


def test_a_batch_holds_many_structures():
    task, stream = TASK, TASK.split("train-30")
    assert isinstance(stream, Stream)
    for batch in TrainingBatches(task, stream, 0, 64).iterate(0, 4):
        classes = np.digitize(batch.inputs.source.numpy(), sorted(FIRST.values()))
        if batch.inputs.source.shape[1] >= 12:
            assert len(np.unique(classes, axis=0)) >= 28
