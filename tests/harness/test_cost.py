"""Parameters and floating-point operations against hand counts."""

import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from baselines.relation_network import RelationNetwork
from harness.cost import flops_in_training, forward_flops, largest_training_batch, parameters
from harness.families.base import Batch
from harness.families.tape import Inputs, Targets
from harness.recipe import Phase, Training, get_recipe
from harness.registry import get_task
from harness.schedule import Schedule
from harness.splits import Split

B, T, C, H, K = 4, 7, 5, 6, 3


def batch() -> Batch:
    tape = torch.randn(B, T, C, generator=torch.Generator().manual_seed(0))
    return Batch(Inputs(tape, torch.full((B,), T)), Targets(torch.zeros(B, T, K), torch.ones(B, T, dtype=torch.bool)))


class Model(pl.LightningModule):
    """The mean of what ``layers`` make of the tape."""

    def __init__(self, *layers: nn.Module):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            x = x[0] if isinstance(x, tuple) else x
        return x

    def training_step(self, batch, batch_idx):
        return self(batch.inputs.inputs).mean()


def lstm_flops(inputs: int, hidden: int, steps: int = T) -> int:
    """Four gates, each a product with the input and one with the state; a multiply-add is two operations."""
    return 2 * 4 * hidden * (inputs + hidden) * steps


CASES = {
    "linear": (lambda: [nn.Linear(C, H)], 2 * C * H * T),
    "two linear": (lambda: [nn.Linear(C, H), nn.ReLU(), nn.Linear(H, K, bias=False)], 2 * (C * H + H * K) * T),
    "lstm": (lambda: [nn.LSTM(C, H, batch_first=True)], lstm_flops(C, H)),
    "two layers": (lambda: [nn.LSTM(C, H, 2, batch_first=True)], lstm_flops(C, H) + lstm_flops(H, H)),
    "both ways": (lambda: [nn.LSTM(C, H, batch_first=True, bidirectional=True)], 2 * lstm_flops(C, H)),
    "gru": (lambda: [nn.GRU(C, H, batch_first=True)], 2 * 3 * H * (C + H) * T),
    "rnn": (lambda: [nn.RNN(C, H, batch_first=True)], 2 * H * (C + H) * T),
    "lstm, linear": (lambda: [nn.LSTM(C, H, batch_first=True), nn.Linear(H, K)], lstm_flops(C, H) + 2 * H * K * T),
}


@pytest.mark.parametrize("case", CASES)
def test_flops_by_hand(case):
    layers, expected = CASES[case]
    assert forward_flops(Model(*layers()), batch()) == expected


def test_flops_of_attention_by_hand():
    class Attention(Model):
        def training_step(self, batch, batch_idx):
            x = batch.inputs.inputs
            weights = (x @ x.transpose(1, 2)).softmax(-1)  # (B,T,T)
            return (weights @ x).mean()

    assert forward_flops(Attention(), batch()) == 2 * (2 * T * T * C)


def test_flops_of_a_packed_lstm_count_real_steps():
    lengths = torch.tensor([7, 5, 2, 1])

    class Packed(Model):
        def training_step(self, batch, batch_idx):
            packed = pack_padded_sequence(batch.inputs.inputs, lengths, batch_first=True)
            return self.layers[0](packed)[0].data.mean()

    model = Packed(nn.LSTM(C, H, batch_first=True))
    assert forward_flops(model, batch()) == lstm_flops(C, H, steps=1) * int(lengths.sum()) / B


def test_flops_do_not_depend_on_the_examples_in_the_batch():
    model = Model(nn.LSTM(C, H, batch_first=True))
    one = batch()
    first = Batch(Inputs(one.inputs.inputs[:1], one.inputs.length[:1]), one.targets)
    assert forward_flops(model, one) == forward_flops(model, first)


def test_parameters_count_what_is_trained():
    model = Model(nn.Linear(C, H), nn.LSTM(H, H))
    assert parameters(model) == (C * H + H) + (4 * H * (H + H) + 2 * 4 * H)
    model.layers[0].weight.requires_grad_(False)
    assert parameters(model) == H + (4 * H * (H + H) + 2 * 4 * H)
    model.register_buffer("table", torch.zeros(100))
    model.layers.append(model.layers[0])  # a shared layer is trained once
    assert parameters(model) == H + (4 * H * (H + H) + 2 * 4 * H)


def test_counting_leaves_model_and_generator_as_they_were():
    class Busy(Model):
        def training_step(self, batch, batch_idx):
            torch.rand(3)
            return self.layers[0](batch.inputs.inputs.transpose(1, 2)).mean()

    model = Busy(nn.BatchNorm1d(C))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    forward_flops(model, batch())
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert all(p.grad is None for p in model.parameters())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_the_batch_that_is_counted_has_the_largest_training_size():
    task = get_task("ntm/copy")
    largest = largest_training_batch(task, task.split("train"))
    assert largest.inputs.inputs.shape == (4, 2 * 20 + 1, 9)
    task = get_task("seq2seq/copy")
    assert largest_training_batch(task, task.split("train")).inputs.source.shape == (4, 20)
    bounded = largest_training_batch(task, Split("validation", "validation", (), 0))
    assert bounded.inputs.source_length.tolist() == [20] * 4


def test_fused_attention_is_counted():
    """Two products of T·T·d multiply-adds each, whatever kernel the processor would choose."""

    class Attention(torch.nn.Module):
        def training_step(self, batch, batch_idx):
            q = torch.ones(len(batch), 2, 10, 8)  # (B,heads,T,d)
            return torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum()

    task = get_task("ntm/copy")
    batch = largest_training_batch(task, task.split("train"))
    assert forward_flops(Attention(), batch) == 2 * 2 * (2 * 10 * 10 * 8)


class Queries(nn.Module):
    """Learned queries instead of what was read."""

    def __init__(self):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(T, C))
        self.inner = nn.Linear(C, H)

    def forward(self, x):
        return self.inner(self.queries.expand(len(x), -1, -1))


def test_learned_queries_expanded_over_the_batch_can_be_counted():
    model = Model(Queries())
    assert forward_flops(model, batch()) == 2 * T * C * H
    assert all(parameter.requires_grad for parameter in model.parameters())


class Growing(nn.Module):
    """A product of C × H a step, and another of the same size in the phase ``whole`` alone."""

    def __init__(self):
        super().__init__()
        self.W = nn.Parameter(torch.randn(9, H))
        self.phase = ""

    def on_phase(self, name):
        self.phase = name

    def training_step(self, batch, batch_idx):
        tape = batch.inputs.inputs
        return sum((tape @ self.W).mean() for _ in range(2 if self.phase == "whole" else 1))


def test_flops_in_training_are_the_mean_over_the_phases():
    task, model = get_task("ntm/copy"), Growing()
    phases = [Phase(name="part", examples=0.75), Phase(name="whole", examples=0.25)]
    schedule = Schedule(task, "default", Training(phases=phases), 1024, 0)
    once = 2 * 41 * 9 * H
    assert flops_in_training(model, task, schedule, 1024) == once * (0.75 * 1 + 0.25 * 2)
    assert model.phase == ""


def test_the_relation_networks_first_phases_are_counted_without_pairs():
    task = get_task("sort-of-clevr/state")
    recipe = get_recipe("relation-network").resolve(task)
    model = RelationNetwork(task.spec("default"), **recipe.hyperparameters)
    whole = Schedule(task, "default", Training(), 9_800, 0)
    own = Schedule(task, "default", recipe.training, 9_800, 0)
    pairs, mean = (flops_in_training(model, task, schedule, 9_800) for schedule in (whole, own))
    assert 0.9 * pairs < mean < 0.95 * pairs  # a tenth of the run has 6 terms instead of 36
