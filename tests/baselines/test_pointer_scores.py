"""Additive attention in pieces against the plain formula, and its derivatives."""

import pytest
import torch

from baselines import pointer_scores as module
from baselines.pointer_scores import pointer_scores


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture(params=[1, 40, 130, 10_000], ids=["one-step", "some-steps", "some-examples", "all"])
def cached(request, monkeypatch):
    monkeypatch.setattr(module, "CACHED", request.param)


@pytest.mark.usefixtures("cached")
def test_it_is_the_papers_score_however_it_is_cut():
    queries, keys, v = draw(3, 4, 5), draw(3, 6, 5), draw(5)
    plain = torch.tanh(keys[:, None] + queries[:, :, None]) @ v
    assert torch.allclose(pointer_scores(queries, keys, v), plain, atol=1e-13)


@pytest.mark.usefixtures("cached")
def test_the_hand_written_backward_pass_is_the_derivative():
    assert torch.autograd.gradcheck(pointer_scores, (draw(3, 4, 5), draw(3, 6, 5), draw(5)))


def test_queries_that_are_a_transposed_view_are_taken():
    queries, keys, v = draw(4, 3, 5), draw(3, 6, 5), draw(5)
    view = queries.transpose(0, 1)
    assert torch.allclose(pointer_scores(view, keys, v), pointer_scores(view.contiguous(), keys, v), atol=1e-13)
    assert torch.autograd.gradcheck(lambda q: pointer_scores(q.transpose(0, 1), keys, v), (queries,))


def test_permuting_the_elements_permutes_the_scores():
    queries, keys, v = draw(2, 3, 5), draw(2, 6, 5), draw(5)
    order = torch.randperm(6)
    assert torch.allclose(pointer_scores(queries, keys[:, order], v), pointer_scores(queries, keys, v)[:, :, order])
