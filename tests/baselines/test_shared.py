"""Losses, decoding, sequences and the schedule: small exact numbers."""

import math

import pytest
import pytorch_lightning as pl
import torch
from batches import token_batch
from torch.utils.data import DataLoader

from baselines.decoding import greedy
from baselines.losses import sequence_cost, token_loss
from baselines.lstm import LSTM
from baselines.optimisation import Schedule
from baselines.sequences import reverse_by_length, shifted_right, valid_positions
from harness.families.transduction import BOS, EOS, PAD


def test_reverse_by_length_leaves_pads_behind():
    tokens = torch.tensor([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8], [9, 0, 0, 0, 0]])
    expected = [[3, 2, 1, 0, 0], [8, 7, 6, 5, 4], [9, 0, 0, 0, 0]]
    assert reverse_by_length(tokens, torch.tensor([3, 5, 1])).tolist() == expected


def test_valid_positions_and_shift():
    assert valid_positions(torch.tensor([1, 3]), 4).tolist() == [[True, False, False, False], [True, True, True, False]]
    assert shifted_right(torch.tensor([[7, 8, EOS]]), BOS).tolist() == [[BOS, 7, 8]]


def test_token_loss_of_even_odds_is_log_of_the_vocabulary():
    target = torch.tensor([[4, 5, EOS], [EOS, PAD, PAD]])
    assert float(token_loss(torch.zeros(2, 3, 6), target)) == pytest.approx(math.log(6))
    sure = torch.full((2, 3, 6), -100.0).scatter(2, target[..., None], 100.0)
    sure[1, 1:] = torch.randn(2, 6)  # what is said about pads costs nothing
    assert float(token_loss(sure, target)) < 1e-6


def test_sequence_cost_of_even_odds_is_log_two_a_bit():
    answer = torch.tensor([[False, True, True], [False, False, True]])
    cost = sequence_cost(torch.zeros(2, 3, 4), torch.ones(2, 3, 4), answer)
    assert float(cost) == pytest.approx((2 + 1) * 4 * math.log(2) / 2)


def test_greedy_feeds_back_its_own_tokens_and_pads_after_the_end():
    """Each row counts down from its state; token 4 leads to EOS."""
    seen = []

    def step(token: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append(token.tolist())
        following = torch.where(state < 4, EOS, state)
        return torch.nn.functional.one_hot(following, 9).float(), state - 1

    tokens = greedy(step, torch.tensor([6, 4, 8]), torch.tensor([10, 10, 3]))
    assert tokens.tolist() == [[6, 5, 4, EOS], [4, EOS, PAD, PAD], [8, 7, 6, PAD]]
    assert seen == [[BOS] * 3, [6, 4, 8], [5, EOS, 7], [4, PAD, 6]]


def test_schedule_rises_stays_and_falls():
    schedule = Schedule(steps=100, warm_up=0.1, decay_from=0.5, decay="linear", final=0.02)
    assert [schedule(step) for step in (0, 4, 9, 49)] == pytest.approx([0.1, 0.5, 1, 1])
    assert schedule(75) == pytest.approx(0.51)
    assert schedule(100) == pytest.approx(0.02)
    cosine = Schedule(steps=100, warm_up=0, decay_from=0, decay="cosine", final=0)
    assert [cosine(step) for step in (0, 50, 100)] == pytest.approx([1, 0.5, 0])


def test_adam_follows_the_schedule_of_the_run(token_spec):
    """Twenty steps of training: a tenth to rise, half the run at the peak, then down."""
    model = LSTM(token_spec, embedding=4, hidden=5, learning_rate=0.1, warm_up=0.1, decay_from=0.5)
    before = model.output.weight.detach().clone()
    rates = []

    class Watch(pl.Callback):
        def on_train_batch_start(self, trainer, *_):
            rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    trainer = pl.Trainer(
        max_steps=20,
        accelerator="cpu",
        callbacks=[Watch()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader([token_batch([0, 1, 2])] * 20, batch_size=None))
    assert rates[:3] + rates[10:11] + rates[15:16] == pytest.approx([0.05, 0.1, 0.1, 0.1, 0.051])
    assert not torch.equal(model.output.weight, before)
