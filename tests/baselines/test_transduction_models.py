"""What must be true of every transduction model."""

import pytest
import torch
from batches import TARGETS, gradients, token_batch

from baselines.bahdanau import Bahdanau
from baselines.lstm import LSTM
from harness.families.transduction import EOS, PAD

MODELS = {
    "lstm": (LSTM, {"embedding": 4, "hidden": 5, "layers": 2}),
    "lstm-forwards": (LSTM, {"embedding": 4, "hidden": 5, "reverse_source": False}),
    "bahdanau": (Bahdanau, {"embedding": 4, "hidden": 5, "attention": 6, "maxout": 3}),
}


@pytest.fixture(params=MODELS)
def kind(request):
    return MODELS[request.param]


@pytest.fixture
def model(kind, token_spec):
    return kind[0](token_spec, **kind[1]).eval()


def test_an_example_is_the_same_alone_with_mates_and_with_padding(model):
    together = model.predict_step(token_batch([0, 1, 2]).inputs).tokens
    padded = model.predict_step(token_batch([0, 1, 2], extra=20).inputs).tokens
    assert torch.equal(together, padded)
    for row in range(3):
        alone = model.predict_step(token_batch([row]).inputs).tokens[0]
        assert torch.equal(together[row, : len(alone)], alone)
        assert (together[row, len(alone) :] == PAD).all()


def test_loss_and_gradients_do_not_see_padding(model):
    bare, padded = (model.training_step(token_batch([0, 1, 2], extra), 0) for extra in (0, 5))
    assert torch.allclose(bare, padded, atol=1e-5)
    expected, got = gradients(model, bare), gradients(model, padded)
    for name in expected:
        assert torch.allclose(expected[name], got[name], atol=1e-5), name


def test_loss_weighs_every_token_alike(model):
    """Sum over valid tokens by their number: not a mean of rows, nor of positions."""
    lengths = [len(target) for target in TARGETS]
    alone = sum(model.training_step(token_batch([row]), 0) * length for row, length in enumerate(lengths))
    assert torch.allclose(model.training_step(token_batch([0, 1, 2]), 0), alone / sum(lengths), atol=1e-5)


def test_loss_and_gradients_are_finite_and_reach_every_parameter(model):
    loss = model.training_step(token_batch([0, 1, 2]), 0)
    assert loss.dim() == 0
    for name, gradient in gradients(model, loss).items():
        assert torch.isfinite(gradient).all(), name
        assert gradient.abs().max() > 0, name


def test_equal_and_mixed_lengths_agree(model):
    """A batch of one length takes the short path through the encoder, one of mixed lengths the long one."""
    equal, mixed = token_batch([0]), token_batch([0, 1])
    single = model.training_step(equal, 0) * len(TARGETS[0])
    other = model.training_step(token_batch([1]), 0) * len(TARGETS[1])
    total = len(TARGETS[0]) + len(TARGETS[1])
    assert torch.allclose(model.training_step(mixed, 0), (single + other) / total, atol=1e-5)


def test_an_answer_without_end_is_cut_at_its_own_limit(model):
    output = model.W_o if isinstance(model, Bahdanau) else model.output
    with torch.no_grad():
        output.bias[EOS] = -1e9
        output.bias[9] = 1e3
    tokens = model.predict_step(token_batch([0, 1, 2]).inputs).tokens
    assert tokens.shape == (3, 14)  # 1.5 · 6 + 5
    assert (tokens == 9).sum(1).tolist() == [14, 8, 9]


def test_decoding_stops_when_every_row_has_ended(model):
    output = model.W_o if isinstance(model, Bahdanau) else model.output
    with torch.no_grad():
        output.bias[EOS] = 1e9
    assert model.predict_step(token_batch([0, 1, 2]).inputs).tokens.tolist() == [[EOS]] * 3


def test_targets_are_not_needed_to_answer_and_state_dict_restores_answers(model, kind, token_spec):
    inputs = token_batch([0, 1, 2]).inputs
    torch.manual_seed(1)
    other = kind[0](token_spec, **kind[1]).eval()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.predict_step(inputs).tokens, model.predict_step(inputs).tokens)
    batch = token_batch([0, 1, 2])
    assert torch.equal(other.training_step(batch, 0), model.training_step(batch, 0))
    assert set(other.state_dict()) == set(dict(model.named_parameters()))


def test_unknown_hyperparameters_are_errors(kind, token_spec):
    with pytest.raises(TypeError, match="hiden"):
        kind[0](token_spec, hiden=4)
