"""Slots, masks, loss and search, without a model."""

from itertools import product

import pytest
import torch
from batches import point_batch

from baselines.pointing import (
    TAKEN,
    allowed_slots,
    point,
    previous_elements,
    slot_loss,
    taken_slots,
    target_slots,
)
from harness.families.pointing import STOP


def test_own_elements_and_a_stop_that_there_is_are_allowed(hull_spec, tour_spec):
    inputs = point_batch([3, 1], extra=1).inputs
    off = -torch.inf
    assert allowed_slots(inputs, hull_spec).tolist() == [[0, 0, 0, off, 0], [0, off, off, off, 0]]
    assert allowed_slots(inputs, tour_spec).tolist() == [[0, 0, 0, off, off], [0, off, off, off, off]]


def test_an_empty_set_is_refused(hull_spec):
    batch = point_batch([3, 1])
    empty = type(batch.inputs)(batch.inputs.elements, torch.tensor([3, 0]))
    with pytest.raises(ValueError, match=r"length is below 1 in rows \[1\]"):
        allowed_slots(empty, hull_spec)


def test_the_stop_is_a_step_where_there_is_one(hull_spec, tour_spec):
    indices = torch.tensor([[2, 0, STOP, STOP], [1, STOP, STOP, STOP]])
    target, there = target_slots(indices, 4, hull_spec)
    assert target.tolist() == [[2, 0, 3, 3], [1, 3, 3, 3]]
    assert there.tolist() == [[True, True, True, False], [True, True, False, False]]
    _, there = target_slots(indices, 4, tour_spec)
    assert there.tolist() == [[True, True, False, False], [True, False, False, False]]


def test_what_the_right_answer_has_named_is_taken_from_the_next_step_on(tour_spec):
    target, there = target_slots(torch.tensor([[2, 0, 1]]), 4, tour_spec)
    taken = taken_slots(target, there, 4)
    assert taken.tolist() == [[[0, 0, 0, 0], [0, 0, TAKEN, 0], [TAKEN, 0, TAKEN, 0]]]


def test_a_visited_element_has_no_probability_at_all():
    """B01 of the public bug reports: multiplying the scores by a mask would give it .996."""
    scores = torch.tensor([-5.0, -6, -7, -8]) + torch.tensor([TAKEN, 0, 0, 0])
    p = torch.softmax(scores, 0)
    assert p[0] == 0
    assert p.sum() == pytest.approx(1)


def test_the_loss_is_a_mean_over_the_steps_of_all_answers():
    """B06: right and confident scores cost nothing; one softmax, not two."""
    target, there = torch.tensor([[0, 1], [2, 0]]), torch.tensor([[True, True], [True, False]])
    scores = torch.nn.functional.one_hot(target, 3) * 100.0
    assert slot_loss(scores, target, there) < 1e-6
    even = slot_loss(torch.zeros(2, 2, 3), target, there)
    assert float(even) == pytest.approx(torch.tensor(3.0).log())
    scores[1, 1] = torch.tensor([-50.0, 50, 0])  # a step that there is not
    assert slot_loss(scores, target, there) < 1e-6


def test_the_decoder_is_fed_what_was_pointed_at():
    vectors = torch.arange(6.0).view(1, 3, 2)
    fed = previous_elements(torch.tensor([9.0, 9.0]), vectors, torch.tensor([[2, 0, 3, 3]]))
    assert fed[0, :3].tolist() == [[9, 9], [4, 5], [0, 1]]


# Search, with scores that depend on the hypothesis so far


class Table:
    """Scores of the next slot by what was pointed at before, random but fixed."""

    def __init__(self, slots, seed):
        self.slots = slots
        self.generator = torch.Generator().manual_seed(seed)
        self.table = {}

    def row(self, path):
        if path not in self.table:
            self.table[path] = torch.randn(self.slots, generator=self.generator) * 2
        return self.table[path]

    def step(self, slot, state):
        """The state holds the path, in base ``slots + 1`` so that it is a tensor."""
        paths = state if slot is None else state * (self.slots + 1) + slot[:, None] + 1
        scores = torch.stack([self.row(int(p)) for p in paths[:, 0]])
        return scores, paths


def log_probability(table, answer, mask, permutation):
    total, path = 0.0, 0
    mask = mask.clone()
    for slot in answer:
        total += float(torch.log_softmax(table.row(path) + mask, 0)[slot])
        path = path * (table.slots + 1) + slot + 1
        if permutation:
            mask[slot] += TAKEN
    return total


def search(table, spec, inputs, beam_size):
    allowed = allowed_slots(inputs, spec)
    return point(table.step, torch.zeros(len(inputs), 1, dtype=torch.int64), allowed, inputs, spec, beam_size)


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_the_most_probable_permutation(tour_spec, seed):
    inputs, table = point_batch([4]).inputs, Table(5, seed)
    allowed = allowed_slots(inputs, tour_spec)[0]
    every = [a for a in product(range(4), repeat=4) if len(set(a)) == 4]
    best = max(every, key=lambda answer: log_probability(table, answer, allowed, True))
    assert search(table, tour_spec, inputs, 24).tolist() == [list(best)]


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_the_most_probable_answer_with_its_stop(hull_spec, seed):
    """Of all answers that end in time; those that do not are hypotheses, too, and lose if a complete one is better."""
    inputs, table = point_batch([2]).inputs, Table(3, seed)
    allowed = allowed_slots(inputs, hull_spec)[0]
    limit = hull_spec.output_limit(2)
    complete = [(*a, 2) for n in range(limit) for a in product(range(2), repeat=n)]
    cut = list(product(range(2), repeat=limit))
    best = max(complete + cut, key=lambda answer: log_probability(table, answer, allowed, False))
    found = search(table, hull_spec, inputs, 81)[0].tolist()
    assert [slot for slot in found if slot != STOP] == [slot for slot in best if slot != 2]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_every_answer_is_a_permutation_whatever_the_scores(tour_spec, beam_size):
    """B02: weights that prefer one element always must still name all."""

    def step(slot, state):
        return torch.tensor([[0.0, 50, 0, 0, 0, 0, 60]]).expand(len(state), -1), state

    inputs = point_batch([6, 3]).inputs
    found = point(step, torch.zeros(2, 1), allowed_slots(inputs, tour_spec), inputs, tour_spec, beam_size)
    assert sorted(found[0].tolist()) == [0, 1, 2, 3, 4, 5]
    assert sorted(found[1, :3].tolist()) == [0, 1, 2]
    assert found[1, 3:].tolist() == [STOP] * 3
    assert found[:, 0].tolist() == [1, 1]


@pytest.mark.parametrize("beam_size", [1, 2])
def test_a_search_that_never_stops_ends_at_each_limit(hull_spec, beam_size):
    def step(slot, state):
        return torch.tensor([[9.0, 0, 0, 0, -50]]).expand(len(state), -1), state

    inputs = point_batch([4, 2]).inputs
    found = point(step, torch.zeros(2, 1), allowed_slots(inputs, hull_spec), inputs, hull_spec, beam_size)
    assert found.tolist() == [[0] * 6, [0] * 4 + [STOP] * 2]


def test_greedy_takes_the_best_slot_of_every_step(hull_spec):
    table = Table(5, 0)
    inputs = point_batch([4, 3]).inputs
    found = search(table, hull_spec, inputs, 1)
    for row in range(2):
        path, answer = 0, []
        mask = allowed_slots(inputs, hull_spec)[row]
        for _ in range(found.shape[1]):
            slot = int((table.row(path) + mask).argmax())
            answer.append(slot)
            path = path * 6 + slot + 1
            if slot == 4 or len(answer) == hull_spec.output_limit(int(inputs.length[row])):
                break
        named = [slot for slot in answer if slot != 4]
        assert found[row].tolist() == named + [STOP] * (found.shape[1] - len(named))
