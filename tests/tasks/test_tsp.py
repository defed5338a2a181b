"""``geometry/tsp``: proven labels against Held and Karp, training labels, references, splits."""

from itertools import permutations

import numpy as np
import pytest
from numpy.random import RandomState
from typer.testing import CliRunner

from harness import listing
from harness.cli import app
from harness.errors import UserError
from harness.families.pointing import GRID, STOP, on_grid
from harness.metrics.pointing import is_permutation
from harness.metrics.tours import tour_lengths
from harness.registry import get_task
from harness.splits import Split, generator, load_block
from harness.verify import Proof, prove
from tasks.geometry import optima
from tasks.geometry.heuristics import greedy_edge, nearest_neighbour
from tasks.geometry.local_search import improve, local_search, whole_distances
from tasks.geometry.optimum import ProofFailedError, shortest_tour


@pytest.fixture
def task():
    return get_task("geometry/tsp")


def draw(seed, count, size):
    return RandomState(seed).randint(0, GRID, (count, size, 2))


def lengths(points, tours):
    return tour_lengths(points, np.asarray(tours), np.full(len(points), points.shape[1]))


def held_karp(points):
    """The length of a shortest tour by dynamic programming over subsets (Held and Karp 1962), literally."""
    n = len(points)
    d = np.sqrt(((points[:, None] - points) ** 2).sum(2).astype(np.float64))
    cost = {(1 << j, j): d[0, j] for j in range(1, n)}
    for subset in range(2, 1 << n):
        if subset & 1 or subset.bit_count() < 2:
            continue
        members = [j for j in range(1, n) if subset >> j & 1]
        for j in members:
            rest = subset ^ (1 << j)
            cost[subset, j] = min(cost[rest, k] + d[k, j] for k in members if k != j)
    everything = (1 << n) - 2
    return min(cost[everything, j] + d[j, 0] for j in range(1, n))


# Proven labels


@pytest.mark.parametrize(("size", "count"), [(4, 20), (5, 20), (7, 20), (9, 10), (10, 8)])
def test_the_solver_agrees_with_held_and_karp(size, count):
    points = draw(size, count, size)
    tours = np.stack([shortest_tour(one) for one in points])
    assert [sorted(tour) for tour in tours.tolist()] == [list(range(size))] * count
    assert lengths(points, tours) == pytest.approx([held_karp(one) for one in points], rel=1e-12)


def test_held_and_karp_agrees_with_all_permutations():
    points = draw(0, 5, 6)
    for one in points:
        tours = np.array([(0, *rest) for rest in permutations(range(1, 6))])
        assert held_karp(one) == pytest.approx(lengths(np.stack([one] * len(tours)), tours).min(), rel=1e-12)


def test_the_committed_optima_of_up_to_ten_cities_agree_with_held_and_karp(task):
    for split in ("test-5", "test-10", "validation-5-20"):
        examples = task.load(split).take(slice(0, 12))
        assert examples.sizes.max() <= 10
        for row in range(len(examples)):
            n = int(examples.sizes[row])
            points = on_grid(examples.inputs["elements"][row : row + 1, :n])
            claimed = lengths(points, examples.targets["indices"][row : row + 1, :n])[0]
            assert claimed == pytest.approx(held_karp(points[0]), rel=1e-12)


@pytest.mark.parametrize("split", ["test-5", "test-10", "test-20", "test-25", "test-30", "test-40", "test-50"])
def test_twenty_committed_optima_a_size_are_proven_again(task, split):
    rows = range(20)
    assert list(task.prove(task.split(split), rows)) == []


def test_a_wrong_label_is_found_and_named(task, monkeypatch):
    examples = task.load("test-10").take(slice(0, 3))
    wrong = examples.targets["indices"].copy()
    wrong[1, [3, 6]] = wrong[1, [6, 3]]
    monkeypatch.setattr(task, "load", lambda name: type(examples)(examples.inputs, {"indices": wrong}, examples.sizes))
    messages = list(task.prove(task.split("test-10"), [0, 1, 2]))
    assert len(messages) == 1
    assert messages[0].startswith("geometry/tsp test-10, example 1: its target has length ")


def test_proofs_are_counted_split_by_split(task):
    found = list(prove([get_task("seq2seq/copy"), task], per_size=1))
    assert {proof.split: proof.count for proof in found} == {
        split.name: len(split.sizes) for split in task.splits if isinstance(split, Split)
    }
    assert all(proof.task == task.name and proof.wrong == () for proof in found)


def test_committed_tours_must_be_those_of_the_split(task, monkeypatch):
    examples = task.load("test-10")
    points, length = on_grid(examples.inputs["elements"]), examples.inputs["length"]
    assert np.array_equal(optima.committed("test-10", points, length), examples.targets["indices"])
    moved = points.copy()
    moved[7, 2, 0] ^= 1
    with pytest.raises(UserError, match="its tours are not those of test-10"):
        optima.committed("test-10", moved, length)
    with pytest.raises(UserError, match="has no tours for test-11"):
        optima.committed("test-11", points, length)
    monkeypatch.setattr(optima, "PATH", optima.PATH.with_name("nowhere.npz"))
    optima._file.cache_clear()
    try:
        with pytest.raises(UserError, match="cannot be read"):
            optima.committed("test-10", points, length)
    finally:
        optima._file.cache_clear()


def test_a_solver_that_gives_up_is_an_error(monkeypatch):
    class Nothing:
        status, message = 1, "time limit"

    monkeypatch.setattr("scipy.optimize.milp", lambda *args, **kwargs: Nothing)
    with pytest.raises(ProofFailedError, match="time limit"):
        shortest_tour(draw(0, 1, 6)[0])


# Training labels


@pytest.mark.parametrize("size", [1, 2, 3])
def test_one_two_and_three_cities_have_one_tour(task, size):
    examples = task.generate(RandomState(0), size, 5, "train")
    tours, points = examples.targets["indices"], on_grid(examples.inputs["elements"])
    assert np.sort(tours, axis=1).tolist() == [list(range(size))] * 5
    assert task.score({"indices": tours.astype(np.int16)}, examples)["gap"] == 0
    sides = np.sqrt(((points - np.roll(points, 1, axis=1)) ** 2).sum(2)).sum(1)
    assert lengths(points, tours) == pytest.approx(sides)


@pytest.mark.parametrize("size", [0, -2, (5, 6)])
def test_no_city_is_refused(task, size):
    with pytest.raises(UserError, match="at least 1"):
        task.generate(RandomState(0), size, 1, "train")


@pytest.mark.parametrize(("size", "ratio"), [(5, 1.000001), (10, 1.0002), (20, 1.001)])
def test_training_labels_are_within_a_thousandth_of_the_optimum(task, size, ratio):
    examples = task.load(f"test-{size}")
    points = on_grid(examples.inputs["elements"])
    found = lengths(points, local_search(points)) / lengths(points, examples.targets["indices"])
    assert found.min() >= 1 - 1e-9
    assert 1 <= found.mean() + 1e-12 <= ratio


def test_labels_are_permutations_in_canonical_form(task):
    for size in (4, 6, 13, 30):
        examples = task.generate(RandomState(size), size, 40, "train")
        tours, points = examples.targets["indices"], on_grid(examples.inputs["elements"])
        assert is_permutation(tours, examples.inputs["length"]).all()
        assert (tours[:, 0] == 0).all()
        corners = np.take_along_axis(points, tours[:, :, None], 1).astype(object)
        x, y = corners[..., 0], corners[..., 1]
        area = (x * np.roll(y, -1, 1) - y * np.roll(x, -1, 1)).sum(1)
        assert all(a > 0 for a in area)  # counter-clockwise


def test_a_label_depends_on_its_own_cities_alone():
    points = draw(3, 12, 11)
    together = local_search(points)
    alone = np.concatenate([local_search(points[row : row + 1]) for row in range(12)])
    assert np.array_equal(together, alone)


def literal_moves(tour):
    """Every tour that one 2-opt move, or one or-opt move of up to three cities, makes of ``tour``."""
    n = len(tour)
    for i in range(n):
        for j in range(i + 1, n):
            yield tour[:i] + tour[i : j + 1][::-1] + tour[j + 1 :]
    for shift in range(n):
        ring = tour[shift:] + tour[:shift]
        for count in (1, 2, 3):
            part, rest = ring[:count], ring[count:]
            for place in range(1, len(rest)):
                yield rest[:place] + part + rest[place:]
                yield rest[:place] + part[::-1] + rest[place:]


@pytest.mark.parametrize("size", [4, 5, 6, 9])
def test_no_two_opt_or_or_opt_move_makes_an_improved_tour_shorter(size):
    points = draw(size, 15, size)
    distance = whole_distances(points)
    start = np.stack([RandomState(row).permutation(size) for row in range(15)])
    improved = improve(distance, start.T.copy(), np.arange(15)).T
    for row in range(15):

        def whole(tour, d=distance[:, :, row]):
            return sum(int(d[tour[i], tour[i - 1]]) for i in range(size))

        own = improved[row].tolist()
        assert sorted(own) == list(range(size))
        assert whole(own) <= whole(start[row].tolist())
        assert all(whole(moved) >= whole(own) for moved in literal_moves(own))


def test_improving_stops_at_a_fixed_point_and_works_in_parts(monkeypatch):
    points = draw(1, 6, 12)
    distance = whole_distances(points)
    start = np.tile(np.arange(12)[:, None], (1, 6))
    once = improve(distance, start, np.arange(6))
    assert np.array_equal(improve(distance, once, np.arange(6)), once)
    monkeypatch.setattr("tasks.geometry.local_search.CACHED", 1)
    assert np.array_equal(improve(distance, start, np.arange(6)), once)


def test_a_hundred_cities_do_not_overflow():
    """Whole distances leave room for the number of a place; a corner-to-corner row of cities is the extreme case."""
    points = draw(2, 2, 100)
    points[0, ::2], points[0, 1::2] = points[0, ::2] // 1000, GRID - 1 - points[0, 1::2] // 1000
    tours = local_search(points, starts=2, improved=1)
    assert is_permutation(tours, np.full(2, 100)).all()
    assert (lengths(points, tours) <= lengths(points, nearest_neighbour(points)) * 1.1).all()


# References and splits


def literal_nearest(points):
    tour = [0]
    while len(tour) < len(points):
        left = [c for c in range(len(points)) if c not in tour]
        tour.append(min(left, key=lambda c: ((points[c] - points[tour[-1]]) ** 2).sum()))
    return tour


def literal_greedy(points):
    n = len(points)
    edges = sorted((((points[a] - points[b]) ** 2).sum(), a, b) for a in range(n) for b in range(a))
    links = {c: [] for c in range(n)}

    def reach(a):
        seen, todo = {a}, [a]
        while todo:
            for c in links[todo.pop()]:
                if c not in seen:
                    seen.add(c)
                    todo.append(c)
        return seen

    for _, a, b in edges:
        closing = sum(map(len, links.values())) == 2 * (n - 1)
        if len(links[a]) < 2 and len(links[b]) < 2 and (b not in reach(a) or closing):
            links[a].append(b)
            links[b].append(a)
    return {frozenset((a, b)) for a in range(n) for b in links[a]}


@pytest.mark.parametrize("size", [4, 5, 12])
def test_heuristics_are_what_their_names_say(size):
    points = draw(size + 7, 10, size)
    assert nearest_neighbour(points).tolist() == [literal_nearest(one) for one in points]
    for tour, one in zip(greedy_edge(points).tolist(), points, strict=True):
        assert sorted(tour) == list(range(size))
        assert {frozenset((tour[i], tour[i - 1])) for i in range(size)} == literal_greedy(one)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_heuristics_on_one_two_and_three_cities(size):
    points = draw(0, 4, size)
    for tours in (nearest_neighbour(points), greedy_edge(points)):
        assert np.sort(tours, axis=1).tolist() == [list(range(size))] * 4


def scores(task, row, split):
    examples = task.load(split)
    stored = task.references()[row].predict(examples, generator("t", 1, row, split))
    task.family.check_stored(stored, examples)
    return task.score(stored, examples)


def test_references_stand_in_the_order_of_their_kind(task):
    assert scores(task, "exact", "test-20") == pytest.approx({"gap": 0, "valid": 1, "length": 3.836}, abs=1e-3)
    gaps = [
        scores(task, row, "test-20")["gap"]
        for row in ("exact", "training-labels", "2-opt", "greedy-edge", "nearest-neighbour", "random")
    ]
    assert gaps == sorted(gaps)
    assert gaps[0] == 0
    assert gaps[1] < 0.1 < gaps[2] < 6 < gaps[3] < gaps[4] < 30 < gaps[5]
    bounds = {name: r.bound for name, r in task.references().items()}
    assert bounds.pop("random") == "expected"
    assert bounds.pop("exact") == "exact"
    assert set(bounds.values()) == {"none"}


def test_mean_optima_are_the_published_ones(task):
    """Paper: 2.12, 2.87, 3.83 at 5, 10, 20 cities; another implementation 2.133 and 2.877."""
    for split, length, spread in (("test-5", 2.127, 0.05), ("test-10", 2.884, 0.05), ("test-20", 3.83, 0.03)):
        assert scores(task, "exact", split)["length"] == pytest.approx(length, abs=spread)


def test_references_on_mixed_sizes_answer_every_size(task):
    for row in ("random", "nearest-neighbour", "greedy-edge", "2-opt", "training-labels"):
        assert scores(task, row, "test-5-20")["valid"] == 1


def test_no_gap_is_negative(task):
    for split in ("test-5-20", "test-50"):
        examples = task.load(split)
        stored = task.references()["training-labels"].predict(examples, RandomState(0))
        assert (task.headline.statistics(stored, examples)[:, 0] >= 0).all()


def test_splits_hold_what_they_say(task):
    for split in task.splits:
        if isinstance(split, Split):
            examples = task.load(split.name)
            sizes, counts = np.unique(examples.sizes, return_counts=True)
            assert sizes.tolist() == list(split.sizes)
            assert set(counts) == {split.per_size}
            assert is_permutation(examples.targets["indices"], examples.sizes).all()
    assert [split.ladder for split in task.splits if getattr(split, "ladder", None)] == [5, 10, 20, 25, 30, 40, 50]
    stream = task.split("train-5-20")
    assert {int(load_block(task, stream, block).sizes[0]) for block in range(150)} == set(range(5, 21))
    assert [task.regime(name).tests[0] for name in task.regimes] == ["test-5-20", "test-10", "test-5"]


def test_the_spec_asks_for_every_city_once(task):
    for regime, largest in (("5-20", 20), ("10", 10), ("5", 5)):
        spec = task.spec(regime)
        assert (spec.max_train_size, spec.max_test_size, spec.dimensions) == (largest, 50, 2)
        assert (spec.permutation, spec.has_stop, spec.output_limit(7)) == (True, False, 7)


def test_an_example_as_text(task):
    examples = task.load("test-5")
    shown = task.render(examples, 0, {"indices": np.array([[0, 1, STOP]], np.int16)}).splitlines()
    assert shown[0].startswith("input   0 (0.")
    assert shown[-2] == "target  " + " ".join(map(str, examples.targets["indices"][0]))
    assert shown[-1] == "answer  0 1"


def test_prove_on_the_command_line(monkeypatch, capsys):
    """Exit code 0 if all is proven, 2 and the example's name if not; bundles are verified all the same."""
    found = [Proof("geometry/tsp", "test-5", 500, ()), Proof("geometry/tsp", "test-10", 500, ("example 3: too long",))]
    monkeypatch.setattr("harness.api.verify", lambda path, workers, references: iter(()))
    monkeypatch.setattr("harness.api.prove", lambda: iter(found[:1]))
    assert CliRunner().invoke(app, ["verify", "results", "--prove"]).exit_code == 0
    monkeypatch.setattr("harness.api.prove", lambda: iter(found))
    assert CliRunner().invoke(app, ["verify", "results", "--prove"]).exit_code == 2
    assert CliRunner().invoke(app, ["verify", "results"]).exit_code == 0
    capsys.readouterr()
    assert not listing.proofs(found)
    said = capsys.readouterr().out + capsys.readouterr().err
    assert "test-5: 500 of 500 targets proven" in said
    assert "test-10: 499 of 500 targets proven" in said
    assert "failed: example 3: too long" in said
