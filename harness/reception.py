"""Taking in what somebody sent: verified bundles of their own rows, and nothing that only this side may say."""

import shutil
from pathlib import Path

from harness.errors import UserError
from harness.groups import differing, read_groups
from harness.records import Run
from harness.results import bundle_files, find_bundles, place_bundle, read_run, runs_folder
from harness.verify import verify

SENT = ("community", "external")
"""Kinds of bundles that a stranger can send; references and rows of installed packages are made here."""


def receive(folder: Path, results: Path) -> list[Path]:
    """Copy the bundles of a submission into ``results``, and return their new folders. All of them, or none.

    Nothing else in the folder is read. Raises ``UserError`` with the reason where a bundle cannot be verified here, is
    of another kind than ``SENT``, would take the place of another, or is of another experiment than the seeds of its
    row that were sent with it or are there.
    """
    for finding in verify(folder):
        if finding.status != "verified":
            raise UserError(f"not received: {finding.message}")
    sent = {path: read_run(path) for path in find_bundles(folder)}
    if not sent:
        raise UserError(f"not received: no bundle lies below {runs_folder(folder)}")
    rows = {group.key: group.first for group in read_groups(results)}
    for path, run in sent.items():
        _require_place(path, run, runs_folder(results) / run.identity.folder)
        identity = run.identity
        first = rows.setdefault((identity.task, identity.regime, identity.budget, identity.row), run)
        reason = differing(first, run)
        if reason is not None:
            raise UserError(f"not received: {path} is no seed of one experiment with {first.identity.label}: {reason}")
    placed: list[Path] = []
    try:
        for path, run in sent.items():
            placed.append(place_bundle(results, run.identity, bundle_files(path, run)))
    except BaseException:
        for made in placed:
            shutil.rmtree(made, ignore_errors=True)
        raise
    return placed


def _require_place(path: Path, run: Run, place: Path) -> None:
    if run.kind not in SENT:
        raise UserError(f"not received: {path} is of kind {run.kind}; what can be sent is {' or '.join(SENT)}")
    if place.exists():
        raise UserError(f"not received: {place} is there already; delete it if {path} is to take its place")
