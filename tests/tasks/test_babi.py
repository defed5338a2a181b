"""The twenty generated tasks: an oracle answers every question from the text alone; words, roles, text, pictures."""

import re
from dataclasses import replace

import babi_oracle
import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.random import RandomState

from harness.families.story import FIRST_WORD, UNKNOWN
from harness.registry import get_task
from harness.splits import generator
from tasks.babi.draw import Draw
from tasks.babi.encoding import Encoder, size_of, tokens, words_of
from tasks.babi.joint import QA
from tasks.babi.qa20 import PEOPLE, STATES
from tasks.babi.text import Question, export, parse, questions, statements

NUMBERS = range(1, 21)
MOVE, GET, DROP = babi_oracle.MOVE, babi_oracle.GET, babi_oracle.DROP
PLACE = r"(bathroom|bedroom|garden|hallway|kitchen|office|cinema|park|school)"
THING = r"(apple|football|milk)"
SHAPE = r"(triangle|pink rectangle|blue square|red sphere|red square|yellow square)"
CONTAINER = r"(chocolate|box of chocolates|box|chest|suitcase|container)"
THEN = r"(Then|Afterwards|After that|Following that)"
TIME = r"(yesterday|this morning|this afternoon|this evening)"
GRAMMAR = {
    1: [rf"\w+ {MOVE} {PLACE}\."],
    2: [rf"\w+ {MOVE} {PLACE}\.", rf"\w+ {GET} the {THING} there\.", rf"\w+ {DROP} the {THING}( there)?\."],
    3: [rf"\w+ {MOVE} {PLACE}\.", rf"\w+ ({GET}|{DROP}) the {THING}( there)?\."],
    4: [rf"The {PLACE} is (north|south|east|west) of the {PLACE}\."],
    9: [rf"\w+ {MOVE} {PLACE}\.", rf"\w+ is (not |no longer )?in the {PLACE}\."],
    10: [rf"\w+ {MOVE} {PLACE}\.", rf"\w+ is in the {PLACE}\.", rf"\w+ is either in the {PLACE} or the {PLACE}\."],
    11: [rf"\w+ {MOVE} {PLACE}\.", rf"{THEN} (he|she) {MOVE} {PLACE}\."],
    12: [rf"\w+ and \w+ {MOVE} {PLACE}\."],
    13: [rf"\w+ and \w+ {MOVE} {PLACE}\.", rf"{THEN} they {MOVE} {PLACE}\."],
    14: [rf"\w+ {MOVE} {PLACE} {TIME}\.", rf"(Yesterday|This (morning|afternoon|evening)) \w+ {MOVE} {PLACE}\."],
    15: [r"(Mice|Wolves|Cats|Sheep) are afraid of (mice|wolves|cats|sheep)\.", r"\w+ is a (mouse|wolf|cat|sheep)\."],
    16: [r"\w+ is a (swan|lion|frog|rhino)\.", r"\w+ is (gray|white|yellow|green)\."],
    17: [rf"The {SHAPE} is (above|below|to the left of|to the right of) the {SHAPE}\."],
    18: [rf"The {CONTAINER} (fits inside|is bigger than) the {CONTAINER}\."],
    20: [r"\w+ is (hungry|thirsty|bored|tired)\.", rf"\w+ {MOVE} {PLACE}\.", rf"\w+ {GET} the \w+ there\."],
}
GRAMMAR[5] = GRAMMAR[7] = [*GRAMMAR[2], rf"\w+ {babi_oracle.GIVE} the {THING} to \w+\."]
GRAMMAR[6] = GRAMMAR[8] = GRAMMAR[2]
GRAMMAR[19] = GRAMMAR[4]


@pytest.fixture(scope="module", params=NUMBERS, ids=lambda number: f"qa{number}")
def number(request):
    return request.param


@pytest.fixture(scope="module")
def task(number):
    return get_task(f"babi/qa{number}")


@pytest.fixture(scope="module")
def told(task):
    """All stories of a task by split."""
    return {split.name: task.stories(split) for split in task.splits}


def test_an_oracle_answers_every_question_from_the_text_alone(number, told):
    for stories in told.values():
        for story in stories:
            text = statements(story)
            for question, before in questions(story):
                found, support = babi_oracle.answer(number, text[:before], question.text)
                assert found == question.answer, (text[:before], question)
                if number == 18:  # where several pairs of statements connect two things
                    assert babi_oracle.is_chain(text[:before], question.text, question.support)
                else:
                    assert support == question.support, (text[:before], question)


def test_the_oracle_is_not_right_by_chance(number, told):
    """Answers exchanged between questions are right no more often than their frequencies allow."""
    asked = [question.answer for story in told["test"] for question, _ in questions(story)]
    exchanged = RandomState(0).permutation(asked)
    assert np.mean(exchanged == np.array(asked)) < 0.6


def test_the_supporting_statements_are_enough(number, told):
    for story in told["train-1k"]:
        text = statements(story)
        for question, before in questions(story):
            assert max(question.support) < before
            kept = sorted(set(question.support))
            assert len(kept) == len(question.support)
            assert babi_oracle.answer(number, [text[fact] for fact in kept], question.text)[0] == question.answer


def test_statements_keep_to_the_grammar(number, told):
    for story in told["test"] + told["train-1k"]:
        for text in statements(story):
            assert any(re.fullmatch(pattern, text) for pattern in GRAMMAR[number]), text


def test_nobody_goes_where_they_are(number, told):
    if number in (4, 14, 15, 16, 17, 18, 19, 20):
        return
    for story in told["train-1k"]:
        at: dict[str, str] = {}
        for text in statements(story):
            moved = re.fullmatch(rf"(\w+)(?: and (\w+))? (?:{MOVE}|is in the) (\w+)\.", text)
            if moved:
                for who in filter(None, moved.groups()[:2]):
                    assert at.get(who) != moved[3], text
                    at[who] = moved[3]
            else:
                at = {} if re.match(rf"{THEN}|\w+ is ", text) else at  # told in other words


def test_no_story_and_question_is_shared_by_two_roles(told):
    seen: dict[int, str] = {}
    for split, stories in told.items():
        role = split.split("-")[0]
        for story in stories:
            key = 0
            for line in story:
                if isinstance(line, Question):
                    assert seen.setdefault(hash((key, line.text)), role) == role
                else:
                    key = hash((key, line))


def test_words_and_answers_are_those_that_occur(task, told):
    lines = [line for split in ("train-10k", "test") for story in told[split] for line in story]
    texts = [line.text if isinstance(line, Question) else line for line in lines]
    assert set(task.words) == {word for text in texts for word in tokens(text)}
    assert set(task.answers) == {line.answer for line in lines if isinstance(line, Question)}
    assert list(task.words) == sorted(task.words)
    assert len(set(task.answers)) == len(task.answers)


def test_the_spec_is_exact(task, told):
    longest = {
        name: max(before for story in stories for _, before in questions(story)) for name, stories in told.items()
    }
    for regime in ("1k", "10k"):
        spec = task.spec(regime)
        assert spec.max_train_story == max(longest[f"train-{regime}"], longest[f"validation-{regime}"])
        assert spec.max_test_story == longest["test"]
        assert spec.max_train_size == size_of(spec.max_train_story)
        assert spec.max_test_size == size_of(spec.max_test_story)
        assert spec.vocabulary == FIRST_WORD + len(task.words)
        assert spec.answers == len(task.answers)
        every = [story for stories in told.values() for story in stories]
        assert spec.max_sentence_length == max(len(tokens(text)) for story in every for text in statements(story))
        assert spec.max_question_length == max(len(tokens(q.text)) for story in every for q, _ in questions(story))


def test_splits_have_their_questions_and_sizes(task, told):
    counts = {name: sum(len(list(questions(story))) for story in stories) for name, stories in told.items()}
    assert counts == {
        "train-1k": 900,
        "validation-1k": 100,
        "train-10k": 9000,
        "validation-10k": 1000,
        "test": 1000,
    }
    for split in task.splits:
        assert len(split) == counts[split.name]
        examples = task.encoder.examples(told[split.name][:200])
        assert set(examples.sizes) <= set(split.sizes)
        assert (examples.sizes >= examples.inputs["story_length"]).all()
        assert len(np.unique(examples.sizes)) > 1 or len(split.sizes) == 1  # as the board takes it
    assert len(task.load("test")) == 1000


def test_a_story_depends_on_its_number_alone(task, told):
    """Not on how many are asked for, nor on the stories before it."""
    fewer = task.stories(replace(task.bounded("test"), count=30))
    assert fewer[:-1] == told["test"][: len(fewer) - 1]
    story = task.story(Draw(generator(task.name, task.version, "test", 1)), "test")
    assert story == told["test"][1]


def test_arrays_hold_the_text(task, told):
    examples = task.load("validation-1k")
    asked = [(story, *pair) for story in told["validation-1k"] for pair in questions(story)]
    for row in range(0, len(examples), 7):
        story, question, before = asked[row]
        sentences = [task.encoder.text(ids) for ids in examples.inputs["story"][row]]
        assert sentences == [" ".join(tokens(text)) for text in statements(story)[:before]]
        assert task.encoder.text(examples.inputs["question"][row]) == " ".join(tokens(question.text))
        assert task.answers[examples.targets["answer"][row]] == question.answer
        support = examples.targets["support"][row]
        assert tuple(support[support >= 0]) == question.support


def test_export_is_read_back(number, task, told):
    text = task.export("validation-1k")
    assert parse(text, "file") == told["validation-1k"]
    assert ("? \t" in text) == (number in (1, 2, 3, *range(5, 15)))  # as in the release's files


def test_the_docstrings_examples_are_right(number):
    checked = 0
    told: list[str] = []
    for line in (QA[number - 1].__doc__ or "").splitlines():
        found = re.fullmatch(r"\s+(\d+) (.*)", line)
        if not found:
            continue
        identifier, text = int(found[1]), found[2]
        if identifier == 1:
            told, places = [], {}
        asked = re.fullmatch(r"(.*\?) (\S+) \[([\d ]+)\]", text)
        if asked is None:
            places[identifier] = len(told)
            told.append(text)
            assert any(re.fullmatch(pattern, text) for pattern in GRAMMAR[number]), text
            continue
        answer, support = babi_oracle.answer(number, told, asked[1])
        stated = tuple(places[int(fact)] for fact in asked[3].split())
        assert answer == asked[2]
        assert babi_oracle.is_chain(told, asked[1], stated) if number == 18 else support == stated
        checked += 1
    assert checked >= (1 if number == 16 else 2)


def test_the_references_are_a_floor_and_a_ceiling(number, task):
    examples = task.load("test")
    scores = {
        row: task.score(reference.predict(examples, RandomState(0)), examples)
        for row, reference in task.references().items()
    }
    assert list(scores) == ["majority", "question-only", "last-5", "oracle"]
    assert {task.references()[row].bound for row in ("majority", "question-only", "last-5")} == {"none"}
    assert task.references()["oracle"].bound == "exact"
    assert scores["oracle"]["error"] == scores["oracle"]["unread"] == 0
    assert scores["oracle"]["reciprocal_rank"] == 1
    assert scores["majority"]["unread"] == scores["question-only"]["unread"] == 100
    assert scores["last-5"]["error"] <= scores["question-only"]["error"]
    counts = np.bincount(task.load("train-1k").targets["answer"])
    right = (examples.targets["answer"] == counts.argmax()).mean()
    assert scores["majority"]["error"] == pytest.approx(100 * (1 - right))
    if number in (1, 4, 5, 6, 9, 10, 12, 13, 17, 19):  # whose support is always in the last five statements
        assert scores["last-5"]["error"] == 0
        assert scores["last-5"]["unread_support"] == 0


def test_stories_are_shown_with_their_support(task):
    examples = task.load("test")
    row = int(examples.inputs["story_length"].argmax())
    stored = task.references()["oracle"].predict(examples, RandomState(0))
    lines = task.render(examples, row, stored).splitlines()
    marked = {int(line[:4]) - 1 for line in lines if line[4:5] == "*"}
    assert marked == {int(fact) for fact in examples.targets["support"][row] if fact >= 0}
    answer = task.answers[examples.targets["answer"][row]]
    assert f"?  {answer}  (supported by " in lines[-2]
    assert lines[-1].strip() == f"answered: {answer} (the right one has rank 1)"


def test_attention_over_a_story_is_drawn(task):
    examples = task.load("test")
    row = int(examples.inputs["story_length"].argmax())
    sentences = int(examples.inputs["story_length"][row])
    axis = Figure().subplots()
    attention = np.full((3, sentences), 1 / sentences, np.float16)
    wrong = (int(examples.targets["answer"][row]) + 1) % len(task.answers)
    task.draw(axis, examples, row, {"attention": attention, "scores": np.eye(len(task.answers))[wrong]})
    assert task.draws == ("attention", "scores")
    right = task.answers[examples.targets["answer"][row]]
    assert axis.get_xlabel().endswith(f"? {right}; the model: {task.answers[wrong]}")
    shown = [label.get_text() for label in axis.get_yticklabels()]
    support = {int(fact) for fact in examples.targets["support"][row] if fact >= 0}
    assert sum(label.startswith("* ") for label in shown) == len(support)
    assert shown[-1].removeprefix("* ") == task.encoder.text(examples.inputs["story"][row][-1])
    assert len(axis.get_xticklabels()) == 3


# Apart from any one task


def test_an_unknown_word_has_an_id_of_its_own():
    encoder = Encoder(words_of("Mary went home."), ("home",), 4, 4)
    examples = encoder.examples([["Mary flew home.", Question("Where is Mary?", "home", (0,))]])
    assert np.asarray(examples.inputs["story"]).tolist() == [[[FIRST_WORD + 1, UNKNOWN, FIRST_WORD, 0]]]
    assert encoder.text(examples.inputs["question"][0]) == "UNK UNK mary"


@pytest.mark.parametrize(
    ("sentences", "size"),
    [(1, 1), (2, 2), (3, 5), (5, 5), (6, 10), (11, 20), (21, 50), (51, 100), (101, 200), (320, 500), (501, 1000)],
)
def test_lengths_fall_into_bins(sentences, size):
    assert size_of(sentences) == size


def test_each_person_and_each_state_begins_the_stories_of_every_role():
    """Sixteen statements can begin a story of task 20: 8 belong to training, 4 to validation, 4 to the test."""
    task = get_task("babi/qa20")
    openings = {
        split: {tuple(statements(story)[0].rstrip(".").split()[::2]) for story in task.stories(task.bounded(split))}
        for split in ("train-10k", "validation-10k", "test")
    }
    assert {split: len(found) for split, found in openings.items()} == {
        "train-10k": 8,
        "validation-10k": 4,
        "test": 4,
    }
    assert all({who for who, _ in found} == set(PEOPLE) for found in openings.values())
    assert all({state for _, state in found} == set(STATES) for found in openings.values())
    assert not openings["train-10k"] & openings["test"]


def test_draws_are_even():
    draw = Draw(RandomState(0))
    assert np.bincount([draw.below(4) for _ in range(8000)], minlength=4) == pytest.approx(2000, abs=150)
    assert np.mean([draw.chance(0.2) for _ in range(8000)]) == pytest.approx(0.2, abs=0.015)
    chosen = [draw.weighted("abc", [1, 2, 6]) for _ in range(6000)]
    assert [chosen.count(letter) for letter in "abc"] == pytest.approx([1000, 1000, 4000], abs=110)
    orders = ["".join(draw.shuffled("abc")) for _ in range(6000)]
    assert {order: orders.count(order) for order in set(orders)} == pytest.approx(
        {order: 1000 for order in ("abc", "acb", "bac", "bca", "cab", "cba")}, abs=110
    )
    cycles = ["".join(draw.cycled("abc")) for _ in range(2000)]
    assert {order: cycles.count(order) for order in set(cycles)} == pytest.approx({"bca": 1000, "cab": 1000}, abs=90)
    assert {draw.other("ab", "a") for _ in range(20)} == {"b"}
    assert export([["A b.", Question("C?", "d", (0,))]], blank=True) == "1 A b.\n2 C? \td\t1\n"
