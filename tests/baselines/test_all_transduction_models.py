"""What must be true of every transduction model."""

from itertools import product

import pytest
import torch
from batches import TARGETS, gradients, padded, token_batch

from baselines.bahdanau import Bahdanau
from baselines.gru import GRU
from baselines.lstm import LSTM
from baselines.luong import Luong
from baselines.rnn import RNN
from baselines.transformer import Transformer
from harness.families import Batch
from harness.families.transduction import BOS, EOS, PAD, UNKNOWN, Inputs, Spec, Targets

RECURRENT = {"embedding": 4, "hidden": 5}
MODELS = {
    "rnn": (RNN, RECURRENT),
    "rnn-deep-reversed": (RNN, {**RECURRENT, "layers": 2, "reverse_source": True}),
    "lstm": (LSTM, RECURRENT),
    "lstm-deep-reversed": (LSTM, {**RECURRENT, "layers": 2, "reverse_source": True}),
    "gru": (GRU, {**RECURRENT, "maxout": 3}),
    "bahdanau": (Bahdanau, {**RECURRENT, "attention": 6, "maxout": 3}),
    "luong-dot": (Luong, {**RECURRENT, "score": "dot", "layers": 2}),
    "luong-general": (Luong, {**RECURRENT, "score": "general", "reverse_source": False}),
    "luong-concat": (Luong, {**RECURRENT, "score": "concat"}),
    "luong-location": (Luong, {**RECURRENT, "score": "location"}),
    "luong-local-m": (Luong, {**RECURRENT, "window": "local-m", "half_window": 1}),
    "luong-local-p": (Luong, {**RECURRENT, "window": "local-p", "half_window": 2}),
    "luong-unfed": (Luong, {**RECURRENT, "input_feeding": False, "score": "concat", "window": "local-p"}),
    "transformer": (Transformer, {"width": 8, "heads": 2}),
}
OUTPUT = {Bahdanau: "W_o", GRU: "G", Luong: "W_s"}
"""The layer that gives the logits, where it is not called ``output``."""


@pytest.fixture(params=MODELS)
def kind(request):
    return MODELS[request.param]


@pytest.fixture(params=[*MODELS, *(f"{name} with a beam" for name in MODELS)])
def model(request, token_spec):
    name, _, beam = request.param.partition(" with ")
    build, sizes = MODELS[name]
    return build(token_spec, **sizes, **({"beam_size": 3} if beam else {})).eval()


@pytest.fixture
def output(model):
    return getattr(model, OUTPUT.get(type(model), "output"))


def test_an_example_is_the_same_alone_with_mates_and_with_padding(model):
    together = model.predict_step(token_batch([0, 1, 2]).inputs).tokens
    with_pads = model.predict_step(token_batch([0, 1, 2], extra=20).inputs).tokens
    assert torch.equal(together, with_pads)
    for row in range(3):
        alone = model.predict_step(token_batch([row]).inputs).tokens[0]
        assert torch.equal(together[row, : len(alone)], alone)
        assert (together[row, len(alone) :] == PAD).all()


def test_what_is_written_in_the_padding_does_not_matter(model):
    clean = token_batch([0, 1, 2], extra=2)
    beyond = torch.arange(8) >= clean.inputs.source_length[:, None]
    dirty = Inputs(clean.inputs.source.masked_fill(beyond, 7), clean.inputs.source_length)
    assert torch.equal(model.predict_step(clean.inputs).tokens, model.predict_step(dirty).tokens)
    assert torch.allclose(model.training_step(clean, 0), model.training_step(Batch(dirty, clean.targets), 0))


def test_loss_and_gradients_do_not_see_padding(model):
    bare, with_pads = (model.training_step(token_batch([0, 1, 2], extra), 0) for extra in (0, 5))
    assert torch.allclose(bare, with_pads, atol=1e-5)
    expected, got = gradients(model, bare), gradients(model, with_pads)
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


def test_an_answer_without_end_is_cut_at_its_own_limit(model, output):
    with torch.no_grad():
        output.bias[EOS] = -1e9
        output.bias[9] = 1e3
    tokens = model.predict_step(token_batch([0, 1, 2]).inputs).tokens
    assert tokens.shape == (3, 14)  # 1.5 · 6 + 5
    assert (tokens == 9).sum(1).tolist() == [14, 8, 9]


def test_decoding_stops_when_every_row_has_ended(model, output):
    with torch.no_grad():
        output.bias[EOS] = 1e9
    assert model.predict_step(token_batch([0, 1, 2]).inputs).tokens.tolist() == [[EOS]] * 3


def test_a_source_of_one_symbol_and_an_answer_of_none(model):
    batch = Batch(Inputs(torch.tensor([[4]]), torch.tensor([1])), Targets(torch.tensor([[EOS]])))
    loss = model.training_step(batch, 0)
    assert all(torch.isfinite(gradient).all() for gradient in gradients(model, loss).values())
    assert 1 <= model.predict_step(batch.inputs).tokens.shape[1] <= 6  # 1.5 · 1 + 5


def test_far_longer_sources_than_in_training_are_answered(model, token_spec):
    """As long as any test of the task has: half as long again as in training."""
    rows = [list(range(4, 13)), [4]]
    tokens = model.predict_step(Inputs(padded(rows, 9), torch.tensor([9, 1]))).tokens
    assert 1 <= tokens.shape[1] <= token_spec.output_limit(9)


def test_targets_are_not_needed_to_answer_and_state_dict_restores_answers(kind, token_spec):
    model = kind[0](token_spec, **kind[1]).eval()
    inputs = token_batch([0, 1, 2]).inputs
    torch.manual_seed(1)
    other = kind[0](token_spec, **kind[1]).eval()
    assert not torch.equal(other.training_step(token_batch([0]), 0), model.training_step(token_batch([0]), 0))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.predict_step(inputs).tokens, model.predict_step(inputs).tokens)
    batch = token_batch([0, 1, 2])
    assert torch.allclose(other.training_step(batch, 0), model.training_step(batch, 0), atol=1e-6)
    assert set(other.state_dict()) == set(dict(model.named_parameters()))


def test_unknown_hyperparameters_are_errors(kind, token_spec):
    with pytest.raises(TypeError, match="hiden"):
        kind[0](token_spec, hiden=4)


@pytest.mark.parametrize("name", MODELS)
def test_a_beam_of_nothing_is_refused_when_the_model_is_built(name, token_spec):
    build, sizes = MODELS[name]
    with pytest.raises(ValueError, match=r"beam_size = 0 is not valid: a whole number, 1 \(greedy\) or more"):
        build(token_spec, **sizes, beam_size=0)


@pytest.mark.parametrize("name", MODELS)
def test_an_empty_source_is_refused_by_name(name, token_spec):
    build, sizes = MODELS[name]
    model = build(token_spec, **sizes)
    for rows, width in (([[4, 5], []], 2), ([[]], 0), ([[]], 3)):
        source = padded(rows, width).long()
        with pytest.raises(ValueError, match=rf"source_length is below 1 in rows \[{len(rows) - 1}\]"):
            model.predict_step(Inputs(source, torch.tensor([len(row) for row in rows])))


@pytest.mark.parametrize("name", MODELS)
def test_a_beam_that_holds_everything_finds_the_best_of_all_answers(name):
    """All 21 answers of up to three tokens, scored by teacher forcing: the loss is minus the mean log-probability."""
    build, sizes = MODELS[name]
    spec = Spec(6, 9, source_vocabulary=13, target_vocabulary=6, output_slope=0, output_offset=3)
    torch.manual_seed(4)
    model = build(spec, **sizes, beam_size=6**3).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # further from even odds than fresh weights are
            parameter.mul_(2)
        getattr(model, OUTPUT.get(build, "output")).bias[PAD] = -1e9
    words = (BOS, UNKNOWN, 4, 5)
    answers = [[*words_before, EOS] for length in range(3) for words_before in product(words, repeat=length)]
    found = model.predict_step(token_batch([0, 1, 2]).inputs).tokens
    for row in range(3):
        inputs = token_batch([row]).inputs
        losses = [float(model.training_step(Batch(inputs, Targets(torch.tensor([a]))), 0).detach()) for a in answers]
        assert found[row].tolist() == (answers[losses.index(min(losses))] + [PAD] * 3)[: found.shape[1]]
