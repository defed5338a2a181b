"""What runs are expected to take."""

from types import SimpleNamespace

import pytest

from baselines.relation_network import RelationNetwork
from harness.forecast import forecast
from harness.plan import make_plan


def test_every_phase_counts_by_its_share(monkeypatch, tmp_path):
    """A step on pairs takes ten seconds here, on single objects one: the recipe has a tenth of its scenes there."""
    clock = [0.0]

    def step(model, batch, batch_idx):
        clock[0] += 1.0 if model.one_object else 10.0
        return model.f[-1].bias.sum()

    monkeypatch.setattr(RelationNetwork, "training_step", step)
    monkeypatch.setattr("harness.forecast.time", SimpleNamespace(perf_counter=lambda: clock[0]))
    planned = make_plan("relation-network", "sort-of-clevr/state", budget="demo", seeds=[0])
    (run,) = planned.runs
    assert [(phase.name, phase.examples) for phase in run.recipe.training.phases] == [
        ("one-object", 0.1),
        ("all-pairs", 0.9),
    ]
    found = forecast(planned.runs, tmp_path)
    assert found.measured
    assert found.seconds == pytest.approx(1.1 * (0.1 * 1 + 0.9 * 10) / 8 * 9_800)
