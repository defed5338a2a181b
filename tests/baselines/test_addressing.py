"""Equations 2 to 9 of the NTM paper: small exact numbers, laws that hold for all values, and the awkward ends."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from baselines.addressing import content_weights, interpolate, read, sharpen, shift, write


def distributions(seed: int, *shape: int) -> torch.Tensor:
    return torch.softmax(3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


def one_hot(slot: int, slots: int) -> torch.Tensor:
    return torch.eye(slots)[slot].view(1, 1, slots)


def test_content_is_a_softmax_of_cosines():
    k, memory, beta = torch.randn(2, 3, 4), torch.randn(2, 6, 4), torch.rand(2, 3, 1) * 5
    got = content_weights(k, beta, memory)
    for row in range(2):
        for head in range(3):
            key = k[row, head].numpy()
            cosines = [key @ m / np.linalg.norm(key) / np.linalg.norm(m) for m in memory[row].numpy()]
            powers = np.exp(float(beta[row, head, 0]) * np.array(cosines))
            np.testing.assert_allclose(got[row, head], powers / powers.sum(), atol=1e-6)


def test_content_normalises_over_the_slots_of_each_example():
    """Three copies of one example beside another: rows sum to 1, and are those of a single run."""
    k, memory, beta = torch.randn(2, 1, 4), torch.randn(2, 6, 4), torch.full((2, 1, 1), 4.0)
    rows = torch.tensor([0, 0, 0, 1])
    together = content_weights(k[rows], beta[rows], memory[rows])
    assert torch.allclose(together.sum(2), torch.ones(4, 1))
    assert torch.allclose(together[:3], content_weights(k[:1], beta[:1], memory[:1]).expand(3, -1, -1), atol=1e-6)


def test_permuting_the_slots_permutes_the_content_weights():
    k, memory, beta = torch.randn(1, 2, 4), torch.randn(1, 6, 4), torch.ones(1, 2, 1)
    order = torch.randperm(6)
    expected = content_weights(k, beta, memory)[:, :, order]
    assert torch.allclose(content_weights(k, beta, memory[:, order]), expected, atol=1e-6)


@pytest.mark.parametrize(("key", "slots"), [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1e-6, 1e-6), (1e15, 1e15)])
def test_content_of_empty_and_huge_vectors_is_finite(key, slots):
    k = torch.full((1, 1, 4), key, requires_grad=True)
    memory = torch.full((1, 6, 4), slots, requires_grad=True)
    beta = torch.full((1, 1, 1), 7.0, requires_grad=True)
    w = content_weights(k, beta, memory)
    assert torch.allclose(w, torch.full((1, 1, 6), 1 / 6))
    w[0, 0, 0].backward()
    assert all(torch.isfinite(x.grad).all() for x in (k, memory, beta))


def test_interpolation_at_its_ends_and_between():
    content, previous = torch.tensor([[[0.0, 1.0]]]), torch.tensor([[[1.0, 0.0]]])
    for g, expected in ((0.0, [1, 0]), (1.0, [0, 1]), (0.25, [0.75, 0.25])):
        assert interpolate(content, previous, torch.tensor([[[g]]])).flatten().tolist() == expected


@pytest.mark.parametrize(("slot", "offset", "expected"), [(4, 1, 0), (0, -1, 4), (2, 1, 3), (2, -1, 1), (2, 0, 2)])
def test_a_positive_shift_moves_on_and_the_last_slot_is_before_the_first(slot, offset, expected):
    s = torch.zeros(1, 1, 3)
    s[0, 0, 1 - offset] = 1.0  # in the order +1, 0, -1
    assert torch.equal(shift(one_hot(slot, 5), s), one_hot(expected, 5))


@given(seed=st.integers(0, 10**6), shift_range=st.integers(0, 3), spare=st.integers(0, 6))
def test_shift_is_the_papers_sum_and_moves_all_the_weight(seed, shift_range, spare):
    """Equation 8 written out, down to as many slots as shifts."""
    N = 2 * shift_range + 1 + spare
    w, s = distributions(seed, 2, 2, N), distributions(seed + 1, 2, 2, 2 * shift_range + 1)
    expected = np.zeros((2, 2, N))
    for row, head, i in np.ndindex(2, 2, N):
        for j in range(-shift_range, shift_range + 1):
            expected[row, head, i] += float(w[row, head, (i - j) % N] * s[row, head, shift_range - j])
    got = shift(w, s)
    np.testing.assert_allclose(got, expected, atol=1e-6)
    assert torch.allclose(got.sum(2), torch.ones(2, 2), atol=1e-6)


def test_sharpening_by_hand():
    w = torch.tensor([[[0.1, 0.2, 0.7]]])
    for gamma in (1.0, 2.0, 3.5):
        powers = np.array([0.1, 0.2, 0.7]) ** gamma
        got = sharpen(w, torch.tensor([[[gamma]]])).flatten()
        np.testing.assert_allclose(got, powers / powers.sum(), atol=1e-6)


@given(seed=st.integers(0, 10**6), exponent=st.floats(0, 36))
def test_sharpening_is_finite_and_normalised_for_any_gamma(seed, exponent):
    """From 1 to 1e36, with empty slots, an even distribution and a single slot among the rows; gradients too."""
    w = distributions(seed, 4, 1, 8)
    w[1] = torch.where(w[1] < w[1].median(), 0.0, w[1])
    w[1] /= w[1].sum()
    w[2], w[3] = 1 / 8, one_hot(3, 8)
    w.requires_grad_()
    gamma = torch.full((4, 1, 1), 10.0**exponent, requires_grad=True)
    got = sharpen(w, gamma)
    assert torch.allclose(got.sum(2), torch.ones(4, 1), atol=1e-5)
    assert torch.allclose(got[2], torch.full((1, 8), 1 / 8))
    assert torch.allclose(got[3:], one_hot(3, 8))
    if exponent < 30:
        (got * torch.arange(8)).sum().backward()
        assert torch.isfinite(w.grad).all()
        assert torch.isfinite(gamma.grad).all()


def test_a_weight_a_little_below_zero_is_no_trap():
    """-1e-9 to the power 1.5 would be NaN."""
    w = torch.tensor([[[0.0, 1.0, -1e-20]]])
    assert torch.allclose(sharpen(w, torch.tensor([[[1.5]]])), one_hot(1, 3))


def test_reading_and_writing_one_slot():
    memory = torch.randn(1, 5, 3)
    e, a = torch.tensor([[[1.0, 0.0, 0.5]]]), torch.tensor([[[7.0, -2.0, 1.0]]])
    written = write(memory, one_hot(2, 5), e, a)
    expected = memory.clone()
    expected[0, 2] = memory[0, 2] * torch.tensor([0.0, 1.0, 0.5]) + a[0, 0]
    assert torch.equal(written, expected)
    assert torch.equal(read(one_hot(2, 5), written), expected[:, 2:3])


def test_several_heads_erase_before_any_adds_and_their_order_does_not_matter():
    """Both heads on one slot: 8 · ½ · ½ + 3 + 4, and not (8 · ½ + 3) · ½ + 4."""
    memory = torch.full((1, 2, 1), 8.0)
    w, e, a = one_hot(1, 2).repeat(1, 2, 1), torch.full((1, 2, 1), 0.5), torch.tensor([[[3.0], [4.0]]])
    assert write(memory, w, e, a).flatten().tolist() == [8.0, 9.0]
    memory, w = torch.randn(2, 6, 3), distributions(0, 2, 4, 6)
    e, a, order = torch.rand(2, 4, 3), torch.randn(2, 4, 3), torch.tensor([2, 0, 3, 1])
    assert torch.allclose(write(memory, w, e, a), write(memory, w[:, order], e[:, order], a[:, order]), atol=1e-6)
