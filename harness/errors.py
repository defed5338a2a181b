"""Errors a user can act on: each names the thing, the value and the valid choices, and carries its exit code."""

import difflib
from collections.abc import Iterable


class ReadheadError(Exception):
    """Base of every error that is shown as one line instead of a traceback."""

    exit_code = 2


class UserError(ReadheadError):
    """The request cannot be carried out as given: a name, a value, a file or a model is wrong (exit code 2)."""


class UnavailableError(UserError):
    """A run cannot be done here or now: another process has it, or the machine lacks what it needs (exit code 2)."""


class PredictionError(UserError):
    """A model's ``predict_step`` returned something that its family's contract does not allow (exit code 2)."""


class CorruptBundleError(UserError):
    """A stored run is truncated, edited or of another schema or task version (exit code 2)."""


class RunFailedError(ReadheadError):
    """A run was started and did not finish, or diverged (exit code 1)."""

    exit_code = 1


def first_line(error: BaseException) -> str:
    """Return what a foreign error says, in one line."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def unknown(kind: str, value: object, choices: Iterable[object]) -> UserError:
    """Return the error for a ``value`` that is no ``kind``, with the nearest valid choice first, then all of them."""
    names = sorted(str(choice) for choice in choices)
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(names) if names else "none"
    return UserError(f"unknown {kind} {str(value)!r}.{hint} Valid: {listed}")
