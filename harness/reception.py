"""Taking in what somebody sent: verified bundles of their own rows, and nothing that only this side may say."""

from pathlib import Path

from harness.errors import UserError
from harness.groups import Member, read_groups, require_alike
from harness.results import place_bundle, runs_folder
from harness.verify import verify

SENT = ("community", "external")
"""Kinds of bundles that a stranger can send; references and rows of installed packages are made here."""


def receive(folder: Path, results: Path) -> list[Path]:
    """Copy the bundles of a submission into ``results``, and return their new folders. All of them, or none.

    Raises ``UserError`` with the reason where one cannot be verified, is of another kind than ``SENT``, would take the
    place of another bundle, or is of another experiment than the seeds of its row that are there.
    """
    for finding in verify(folder):
        if finding.status == "failed":
            raise UserError(f"not received: {finding.message}")
    here = {group.key: group.members for group in read_groups(results)}
    sent = [member for group in read_groups(folder) for member in group.members]
    if not sent:
        raise UserError(f"not received: no bundle lies below {runs_folder(folder)}")
    for member in sent:
        identity = member.run.identity
        _require_place(member, runs_folder(results) / identity.folder)
        require_alike([*here.get((identity.task, identity.regime, identity.budget, identity.row), ()), member])
    return [
        place_bundle(results, member.run.identity, {file.name: file.read_bytes() for file in member.folder.iterdir()})
        for member in sent
    ]


def _require_place(member: Member, place: Path) -> None:
    if member.run.kind not in SENT:
        kinds = " or ".join(SENT)
        raise UserError(f"not received: {member.folder} is of kind {member.run.kind}; what can be sent is {kinds}")
    if place.exists():
        raise UserError(f"not received: {place} is there already; delete it if {member.folder} is to take its place")
