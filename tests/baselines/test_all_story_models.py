"""What must be true of every story model."""

import pytest
import torch
from story_batches import SPEC, story_batch

from baselines.memn2n import MemN2N
from baselines.memnn import MemNN
from baselines.ngram import NGram
from baselines.story_lstm import StoryLSTM
from baselines.story_relation_network import StoryRelationNetwork
from baselines.story_transformer import StoryTransformer
from harness.families.story import STORY

MODELS = {
    "memn2n": (MemN2N, {"width": 6, "memory": 5}),
    "memn2n-layer-wise": (MemN2N, {"width": 6, "memory": 5, "tying": "layer-wise", "encoding": "bow"}),
    "memnn": (MemNN, {"width": 6, "memory": 5}),
    "ngram": (NGram, {"buckets": 512}),
    "story-lstm": (StoryLSTM, {"hidden": 6, "embedding": 4, "memory": 5}),
    "story-relation-network": (StoryRelationNetwork, {"g": (8, 8), "f": (8,), "memory": 5}),
    "story-transformer": (StoryTransformer, {"width": 8, "heads": 2, "memory": 5}),
}


@pytest.fixture(params=MODELS)
def build(request):
    kind, sizes = MODELS[request.param]
    return lambda: kind(SPEC, **sizes)


@pytest.fixture
def model(build):
    """Further from even odds than fresh weights are."""
    model = build().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return model


def test_an_example_is_the_same_alone_with_mates_and_with_padding(model):
    together = model.predict_step(story_batch([9, 2, 3]).inputs)
    padded = model.predict_step(story_batch([9, 2, 3], extra=4).inputs)
    for prediction in (together, padded):
        assert prediction.scores.shape == (3, 5)
        for row, length in enumerate((9, 2, 3)):
            alone = model.predict_step(story_batch([length]).inputs)
            assert torch.allclose(prediction.scores[row], alone.scores[0], atol=1e-4, rtol=1e-4)


def test_loss_does_not_see_padding(model):
    plain, wide = (model.training_step(story_batch([4, 2], extra=extra), 0) for extra in (0, 3))
    assert torch.allclose(plain, wide, rtol=1e-5)


def test_what_is_said_not_to_be_read_is_not(model):
    batch = story_batch([9, 2])
    prediction = model.predict_step(batch.inputs)
    if prediction.unread is not None:
        assert prediction.unread.tolist() == [4, 0]
    STORY.audit(model.predict_step, batch)
    STORY.store(prediction, batch, SPEC)


def test_every_parameter_learns(build):
    model = build().train()
    loss = model.training_step(story_batch([9, 2, 3, 5, 7, 8, 6, 4]), 0)
    assert loss.dim() == 0
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(torch.isfinite(parameter.grad).all()), name
        assert float(parameter.grad.abs().max()) > 0, name


def test_state_dict_round_trip(model, build):
    other, inputs = build().eval(), story_batch([3, 6]).inputs
    assert not torch.equal(other.predict_step(inputs).scores, model.predict_step(inputs).scores)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.predict_step(inputs).scores, model.predict_step(inputs).scores)


def test_explanations_are_weights_of_sentences_that_were_read(model):
    if not hasattr(model, "explain"):
        pytest.skip("it explains nothing")
    attention = model.explain(story_batch([9, 2]).inputs)["attention"]
    assert attention.shape[0] == 2
    assert attention.shape[2] == 9
    assert bool((attention >= 0).all())
    assert bool((attention.sum(2) <= 1 + 1e-5).all())
    assert bool((attention[0, :, :4] == 0).all())
    assert bool((attention[1, :, 2:] == 0).all())
    assert bool((attention[:, 0].sum(1) > 0).all())


def test_few_questions_are_learned_by_heart(build):
    """Every model can tell four stories apart; the N-grams of a story that shares no word with its question, none."""
    model, batch = build().train(), story_batch([5, 2, 3, 4])
    model.noise = 0.0
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        optimiser.zero_grad()
        model.training_step(batch, 0).backward()
        optimiser.step()
    right = model.eval().predict_step(batch.inputs).scores.argmax(1) == batch.targets.answer
    if isinstance(model, NGram):
        right |= torch.bincount(model.features(batch.inputs)[1], minlength=4) == 0
    assert bool(right.all())
