"""The recurrence of a Neural Turing Machine over a whole tape, with a backward pass by hand.

This loop is where training spends its time. Gradients of weights are one matrix product each after it.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from baselines.addressing import Heads
from baselines.memory_step import (
    Ring,
    Step,
    Units,
    access,
    access_backward,
    address,
    address_backward,
    control,
    control_backward,
    project,
    project_backward,
)


def memory_recurrence(
    inputs: Tensor,
    state_0: Tensor,
    c_0: Tensor | None,
    w_0: Tensor,
    memory_0: Tensor,
    W_controller: Tensor,
    W_heads: Tensor,
    b_heads: Tensor,
    heads: Heads,
) -> Tensor:
    """Return the reads and controller outputs ``[r_t | h_t] (T,B,R·M + n)`` for t = 1..T.

    ``inputs (T,B,G)``: what each step's input adds to the controller's units; ``state_0 (B,R·M + n)``: r_0 and h_0;
    ``c_0 (B,n)``: an LSTM's cells, None for a feed-forward controller; ``w_0 (B,H,N)`` and ``memory_0 (B,N,M)`` get no
    gradient; ``W_controller`` meets ``[r | h]`` in an LSTM (G = 4n, gates i, f, o, g), ``r`` in a feed-forward
    controller (G = n); ``W_heads (n,P)`` and ``b_heads (P)``.
    """
    keep = torch.is_grad_enabled()
    return _MemoryRecurrence.apply(
        inputs, state_0, c_0, w_0, memory_0.mT.contiguous(), W_controller, W_heads, b_heads, heads, keep
    )


def by_step(buffers: Any) -> list[Any]:
    """Cut a (nested) record of tensors ``(T,...)`` into T records."""
    each = (by_step(item) if isinstance(item, tuple) else item.unbind() for item in buffers)
    return [type(buffers)(*places) for places in zip(*each, strict=True)]


class _MemoryRecurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        state_0: Tensor,
        c_0: Tensor | None,
        w_0: Tensor,
        memory_0: Tensor,
        W_controller: Tensor,
        W_heads: Tensor,
        b_heads: Tensor,
        heads: Heads,
        keep: bool,
    ) -> Tensor:
        steps, batch = inputs.shape[:2]
        R, W, N, M, r = heads
        read, lstm, weights = R * M, c_0 is not None, (batch, heads.H, N)
        cells = state_0[:, :0] if c_0 is None else c_0

        def room(*shape: int) -> Tensor:
            """Make a buffer with a place for every step or, where there is no way back, one place for all."""
            return inputs.new_empty(steps, *shape) if keep else inputs.new_empty(1, *shape).expand(steps, *shape)

        def chain(first: Tensor) -> tuple[Tensor, Tensor]:
            """Make a buffer that starts with ``first``: what enters each step, and what leaves it."""
            if not keep:
                return (first.clone().expand(steps, *first.shape),) * 2
            buffer = inputs.new_empty(steps + 1, *first.shape)
            buffer[0] = first
            return buffer[:-1], buffer[1:]

        states = inputs.new_empty(steps + 1, *state_0.shape)
        states[0] = state_0
        units = inputs.clone()
        c, c_next = chain(cells)
        w, w_next = chain(w_0)
        memory, memory_next = chain(memory_0)
        w_read, w_write = w_next.split([R, W], dim=2)
        places = Step(
            seen=states[:-1, :, : len(W_controller)],
            units=Units.of(units, lstm),
            c=c,
            c_next=c_next,
            c_tanh=room(*cells.shape),
            h=states[1:, :, read:],
            head=heads.split(room(batch, heads.P)),
            w=w,
            w_next=w_next,
            w_read=w_read,
            w_write=w_write,
            memory=memory,
            memory_next=memory_next,
            inverse_norm=room(batch, 1, N),
            similarity=room(*weights),
            content=room(*weights),
            gated=Ring.of(room(batch, heads.H, N + 2 * r), r),
            shifted=room(*weights),
            log=room(*weights),
            r=states[1:, :, :read].unflatten(2, (R, M)),
        )
        trace: list[Step] = by_step(places)
        scratch, windows = torch.empty_like(memory_0), inputs.new_empty(batch, heads.H, 2 * r + 1, N)
        for now in trace:
            control(now, W_controller, lstm)
            project(now, W_heads, b_heads)
            address(now, scratch, windows)
            access(now, scratch)
        if keep:
            ctx.save_for_backward(states, units, W_controller, W_heads)
            ctx.trace, ctx.heads, ctx.lstm = trace, heads, lstm
        return states[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        states, units, W_controller, W_heads = ctx.saved_tensors
        heads: Heads = ctx.heads
        R, W, N, M, r = heads
        read, seen = R * M, len(W_controller)
        W_controller_T, W_heads_T = W_controller.T.contiguous(), W_heads.T.contiguous()
        d_units, d_heads = torch.empty_like(units), units.new_empty(*units.shape[:2], heads.P)
        # Gradients of what one step hands to the next, turned in place from what leaves it into what enters it.
        d_state = torch.zeros_like(states[0])
        d_r, d_h = d_state[:, :read].unflatten(1, (R, M)), d_state[:, read:]
        d_c, d_w, d_memory = (torch.zeros_like(x) for x in (ctx.trace[0].c, ctx.trace[0].w, ctx.trace[0].memory))
        d_read, d_write = d_w.split([R, W], dim=1)
        scratch, windows = torch.empty_like(d_memory), d_w.new_empty(*d_w.shape[:2], 2 * r + 1, N)
        ring = Ring.of(d_w.new_empty(*d_w.shape[:2], N + 2 * r), r)
        every = (ctx.trace, by_step(Units.of(d_units, ctx.lstm)), by_step(heads.split(d_heads)), grad_states.unbind())
        for now, d_unit, d_head, grad in zip(*(reversed(each) for each in every), strict=True):
            d_state += grad
            access_backward(now, d_head, d_r, d_read, d_write, d_memory, scratch)
            address_backward(now, d_head, d_w, d_memory, ring, windows)
            project_backward(now, d_head, d_h, W_heads_T)
            control_backward(now, d_unit, d_h, d_c, ctx.lstm)
            d_h.zero_()
            torch.mm(d_unit.every, W_controller_T, out=d_state[:, :seen])
        entering, leaving, d_unit, d_head = (x.flatten(0, 1) for x in (states[:-1], states[1:], d_units, d_heads))
        return (
            d_units,
            d_state,
            d_c if ctx.lstm else None,
            None,
            None,
            entering[:, :seen].T @ d_unit,
            leaving[:, read:].T @ d_head,
            d_head.sum(0),
            None,
            None,
        )
