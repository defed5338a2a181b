"""How long work shows itself: a moving bar on a terminal, a plain line a validation in a pipe."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

PIPE_WIDTH = 500
"""Columns where nobody's terminal limits them, so that a line stays a line."""

console = Console(highlight=False, emoji=False, soft_wrap=True, width=None if sys.stdout.isatty() else PIPE_WIDTH)


class RunProgress:
    """Progress of one run, counted in batches; a ``quiet`` one shows nothing."""

    def __init__(self, label: str, total: int, done: int = 0, quiet: bool = False):
        self.label, self.total, self.done, self.quiet = label, total, done, quiet
        self._note, self._shown, self._started, self._first = "", 0.0, time.monotonic(), done
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        if console.is_terminal and not self.quiet:
            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"))
            self._bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
            self._bar.start()
            self._bar.add_task(self.label, total=self.total, completed=self.done, note="")
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self) -> None:
        """One more batch is done; the bar moves at most five times a second."""
        self.done += 1
        if self._bar is not None and time.monotonic() - self._shown > 0.2:
            self._shown = time.monotonic()
            self._bar.update(self._bar.task_ids[0], completed=self.done, note=self._note)

    def note(self, text: str) -> None:
        """Say how the run stands, e.g. after a validation."""
        self._note = text
        if self._bar is None and not self.quiet:
            elapsed = time.monotonic() - self._started
            left = elapsed / max(self.done - self._first, 1) * (self.total - self.done)
            console.print(f"{self.label}  {self.done / self.total:4.0%}  {text}  {left:.0f} s left")


class SweepProgress:
    """Progress of many runs side by side, of which ``slots`` fit at once."""

    def __init__(self, total: int, slots: int):
        self.total, self.slots = total, slots
        self.done = self.failed = 0
        self._started = time.monotonic()
        self._bar = Progress(BarColumn(), TextColumn("{task.description}"), console=console, transient=True)

    def __enter__(self) -> Self:
        if console.is_terminal:
            self._bar.start()
            self._bar.add_task(self.text(), total=self.total)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def ended(self, *, failed: bool) -> None:
        """One more run ended."""
        self.done += not failed
        self.failed += failed
        if console.is_terminal:
            self._bar.update(self._bar.task_ids[0], advance=1, description=self.text())
        else:
            console.print(self.text())

    def text(self) -> str:
        """Return how the runs stand, in a line."""
        ended = self.done + self.failed
        running = min(self.slots, self.total - ended)
        left = self.total - ended - running
        rate = (time.monotonic() - self._started) / ended if ended else 0
        when = f", about {rate * (self.total - ended) / 60:.1f} minutes left" if ended else ""
        return f"{self.done} done, {running} running, {self.failed} failed, {left} waiting{when}"
