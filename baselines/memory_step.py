"""One step of a Neural Turing Machine, forwards and backwards by hand, written into places cut out beforehand.

The equations are those of ``NTM.step``; ``memory_recurrence`` runs them over a tape. Memory is ``(B,M,N)`` here, so
that sums over the components of a slot run along rows of N. At these sizes a call costs more than its arithmetic: heads
are taken together, results go to given places, and no view is made that could be made once for a whole tape.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from baselines.addressing import COSINE_EPSILON, SHARPEN_EPSILON, Projection

_tanh_backward = torch.ops.aten.tanh_backward.grad_input
_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_softmax_backward = torch._softmax_backward_data


class Units(NamedTuple):
    """A controller's units ``(...,G)``: all of them; an LSTM's gates together, then i, f and o; the candidates."""

    every: Tensor
    gates: Tensor
    i: Tensor
    f: Tensor
    o: Tensor
    candidate: Tensor

    @classmethod
    def of(cls, units: Tensor, lstm: bool) -> "Units":
        """View ``units``; those of a feed-forward controller are all candidates."""
        n = units.shape[-1] // 4 if lstm else 0
        gates, candidate = units.split([3 * n, units.shape[-1] - 3 * n], dim=-1)
        i, f, o = gates.split([n, n, n], dim=-1)
        return cls(units, gates, i, f, o, candidate)


class Ring(NamedTuple):
    """Weights with their ends repeated on the other side, ``(...,N + 2r)``, and views of them."""

    inner: Tensor  # (...,N)
    left: Tensor
    right: Tensor
    first: Tensor
    last: Tensor
    windows: Tensor  # (...,2r+1,N): window j = r..-r holds w(i - j)

    @classmethod
    def of(cls, padded: Tensor, r: int) -> "Ring":
        """View ``padded``."""
        N = padded.shape[-1] - 2 * r
        ends = (padded[..., :r], padded[..., N + r :], padded[..., r : 2 * r], padded[..., N : N + r])
        return cls(padded[..., r : N + r], *ends, padded.unfold(-1, N, 1))

    def close(self) -> None:
        """Repeat the ends of ``inner`` on the other side."""
        self.left.copy_(self.last)
        self.right.copy_(self.first)


class Step(NamedTuple):
    """The places of one step: what enters it, what leaves it, and what the way back needs."""

    seen: Tensor  # what the controller sees of [r_{t-1} | h_{t-1}]
    units: Units
    c: Tensor  # cells of an LSTM, (B,n)
    c_next: Tensor
    c_tanh: Tensor  # tanh(c_next)
    h: Tensor  # (B,n)
    head: Projection
    w: Tensor  # (B,H,N)
    w_next: Tensor
    w_read: Tensor  # (B,R,N) of w_next
    w_write: Tensor  # (B,W,N) of w_next
    memory: Tensor  # (B,M,N)
    memory_next: Tensor
    inverse_norm: Tensor  # 1 / ‖M(i)‖, (B,1,N)
    similarity: Tensor  # β K[k, M(i)], (B,H,N)
    content: Tensor  # w^c, (B,H,N)
    gated: Ring  # w^g, (B,H,N)
    shifted: Tensor  # w~, (B,H,N)
    log: Tensor  # log w~, (B,H,N)
    r: Tensor  # r_t, (B,R,M)


def control(now: Step, W_controller: Tensor, lstm: bool) -> None:
    """Compute ``h`` from the step's input, the previous reads and, in an LSTM, the previous state."""
    units = now.units
    torch.addmm(units.every, now.seen, W_controller, out=units.every)
    if lstm:
        units.gates.sigmoid_()
        torch.mul(units.f, now.c, out=now.c_next).addcmul_(units.i, units.candidate.tanh_())
        torch.mul(units.o, torch.tanh(now.c_next, out=now.c_tanh), out=now.h)
    else:
        torch.tanh(units.every, out=now.h)


def control_backward(now: Step, d: Units, d_h: Tensor, d_c: Tensor, lstm: bool) -> None:
    """Fill ``d``, and turn ``d_c`` from the cells that leave the step into those that enter it."""
    if not lstm:
        _tanh_backward(d_h, now.h, grad_input=d.every)
        return
    units = now.units
    d_tanh = d_h * units.o
    d_c.add_(d_tanh).addcmul_(d_tanh.mul_(now.c_tanh), now.c_tanh, value=-1)
    torch.mul(d_c, units.candidate, out=d.i)
    torch.mul(d_c, now.c, out=d.f)
    torch.mul(d_h, now.c_tanh, out=d.o)
    _sigmoid_backward(d.gates, units.gates, grad_input=d.gates)
    _tanh_backward(d_c * units.i, units.candidate, grad_input=d.candidate)
    d_c *= units.f


def project(now: Step, W_heads: Tensor, b_heads: Tensor) -> None:
    """Compute the parameters of all heads."""
    head = now.head
    torch.addmm(b_heads, now.h, W_heads, out=head.p)
    head.k.tanh_()
    head.sigmoid.sigmoid_()
    F.softplus(head.softplus, out=head.softplus)  # type: ignore[call-arg]
    torch.softmax(head.s, 2, out=head.s)


def project_backward(now: Step, d: Projection, d_h: Tensor, W_heads_T: Tensor) -> None:
    """Turn ``d`` into the gradient before squashing, and add what it is of ``h`` to ``d_h (B,n)``."""
    head = now.head
    _tanh_backward(d.k, head.k, grad_input=d.k)
    _sigmoid_backward(d.sigmoid, head.sigmoid, grad_input=d.sigmoid)
    d.softplus.mul_(torch.expm1(-head.softplus).neg_())  # the slope of y = log(1 + e^x) is 1 - e^-y
    d.s.copy_(_softmax_backward(d.s, head.s, 2, head.s.dtype))
    d_h.addmm_(d.p, W_heads_T)


def address(now: Step, square: Tensor, windows: Tensor) -> None:
    """Compute the weights of all heads from the memory that enters the step (§3.3)."""
    head = now.head
    scale = (head.k.square().sum(2, keepdim=True) + COSINE_EPSILON).rsqrt_().mul_(head.beta)  # β / ‖k‖, (B,H,1)
    torch.sum(torch.mul(now.memory, now.memory, out=square), 1, keepdim=True, out=now.inverse_norm)
    now.inverse_norm.add_(COSINE_EPSILON).rsqrt_()
    torch.bmm(head.k * scale, now.memory, out=now.similarity).mul_(now.inverse_norm)
    torch.softmax(now.similarity, 2, out=now.content)
    torch.lerp(now.w, now.content, head.g, out=now.gated.inner)
    now.gated.close()
    torch.mul(now.gated.windows, head.s_column, out=windows)
    torch.sum(windows, 2, out=now.shifted).add_(SHARPEN_EPSILON)
    torch.log(now.shifted, out=now.log)
    torch.softmax(torch.addcmul(now.log, now.log, head.gamma), 2, out=now.w_next)


def address_backward(now: Step, d: Projection, d_w: Tensor, d_memory: Tensor, ring: Ring, windows: Tensor) -> None:
    """Fill ``d``, add to ``d_memory``, and turn ``d_w`` from the weights that leave into those that enter."""
    head = now.head
    # sharpening
    d_power = _softmax_backward(d_w, now.w_next, 2, d_w.dtype)
    torch.sum(d_power * now.log, 2, keepdim=True, out=d.gamma)
    d_shifted = torch.div(d_power.addcmul_(d_power, head.gamma), now.shifted, out=ring.inner)
    # shift: the gradient of w^g(i) is Σ_j s(j) d_shifted(i + j)
    torch.mul(now.gated.windows, d_shifted[:, :, None], out=windows)
    torch.sum(windows, 3, out=d.s)
    ring.close()
    torch.mul(ring.windows, head.s_column.flip(2), out=windows)
    torch.sum(windows, 2, out=d_w)
    # interpolation
    torch.sum((now.content - now.w).mul_(d_w), 2, keepdim=True, out=d.g)
    d_content = d_w * head.g
    d_w -= d_content
    # content: similarity = (k scale) · M(i) / ‖M(i)‖, scale = β / ‖k‖
    d_similarity = _softmax_backward(d_content, now.content, 2, d_w.dtype)
    d_product = d_similarity * now.inverse_norm
    inverse_k = (head.k.square().sum(2, keepdim=True) + COSINE_EPSILON).rsqrt_()
    scale = head.beta * inverse_k
    d_memory.baddbmm_((head.k * scale).mT, d_product)
    d_norm = torch.sum(d_similarity.mul_(now.similarity), 1, keepdim=True)
    d_memory.addcmul_(now.memory, d_norm.mul_(now.inverse_norm).mul_(now.inverse_norm), value=-1)
    d_scaled = torch.bmm(d_product, now.memory.mT)  # (B,H,M)
    d_scale = (d_scaled * head.k).sum(2, keepdim=True)
    torch.mul(d_scale, inverse_k, out=d.beta)
    torch.mul(d_scaled, scale, out=d.k).addcmul_(head.k, d_scale.mul_(scale).mul_(inverse_k.square()), value=-1)


def access(now: Step, erased: Tensor) -> None:
    """Read from the memory that enters the step, then erase and add (§3.1, §3.2)."""
    head, source = now.head, now.memory
    now.r.copy_(torch.bmm(now.w_read, source.mT))
    for e, w in zip(head.e_column.unbind(1), now.w_write.unsqueeze(2).unbind(1), strict=True):  # (B,M,1), (B,1,N)
        source = torch.addcmul(source, source, torch.mul(e, w, out=erased), value=-1, out=now.memory_next)
    torch.baddbmm(source, head.a.mT, now.w_write, out=now.memory_next)


def access_backward(
    now: Step, d: Projection, d_r: Tensor, d_read: Tensor, d_write: Tensor, d_memory: Tensor, scratch: Tensor
) -> None:
    """Fill ``d``, add to the gradients of the weights, and turn ``d_memory`` from what leaves into what enters."""
    head, w_write = now.head, now.w_write
    d.a.copy_(torch.bmm(w_write, d_memory.mT))
    d_write += torch.bmm(head.a, d_memory)
    columns, rows = head.e_column.unbind(1), w_write.unsqueeze(2).unbind(1)  # (B,M,1), (B,1,N) a head
    sources = [now.memory]  # what each head erases from
    for e, w in zip(columns[:-1], rows[:-1], strict=True):
        sources.append(torch.addcmul(sources[-1], sources[-1], e * w, value=-1))
    for index in reversed(range(len(sources))):
        e, w = columns[index], rows[index]
        torch.mul(d_memory, sources[index], out=scratch)
        d.e_column[:, index] = torch.bmm(scratch, w.mT).neg_()
        d_write[:, index, None] -= torch.bmm(e.mT, scratch)
        d_memory.addcmul_(d_memory, torch.mul(e, w, out=scratch), value=-1)
    d_read += torch.bmm(d_r, now.memory)
    d_memory.baddbmm_(d_r.mT, now.w_read)
