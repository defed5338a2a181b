"""Taking in what somebody sent: all of it or nothing, their own rows alone."""

import json
import os
import shutil
from pathlib import Path

import pytest
from test_strangers import sealed
from test_verify import trained

from harness import api, reception
from harness.errors import UserError
from harness.groups import read_groups
from harness.results import find_bundles, read_run

VALIDATION = [0.1, 0.3, 0.2, 0.4]


@pytest.fixture
def sent(tmp_path) -> Path:
    """A submission of one bundle, with a file that is no bundle beside it."""
    trained("ntm/copy", tmp_path / "sent", VALIDATION)
    (tmp_path / "sent" / "submission.md").write_text("From a stranger.")
    return tmp_path / "sent"


def seed_of(sent: Path, seed: int, **identity: object) -> Path:
    """Add a seed to a submission: the first one's bundle, with another identity."""
    (first, *_) = find_bundles(sent)
    files = {path.name: path.read_bytes() for path in first.iterdir()}
    folder = first.with_name(f"seed-{seed}")
    folder.mkdir()
    changed = sealed(files, lambda run: run["identity"].update({"seed": seed, **identity}))
    for name, data in changed.items():
        (folder / name).write_bytes(data)
    return folder


def test_bundles_are_copied_byte_by_byte_and_stand_there_as_self_reported(sent, tmp_path):
    seed_of(sent, 1)
    results = tmp_path / "results"
    folders = api.receive(sent, results=results)
    assert [read_run(folder).identity.seed for folder in folders] == [0, 1]
    assert all(folder.is_relative_to(results / "runs") for folder in folders)
    for folder, own in zip(folders, find_bundles(sent), strict=True):
        assert {p.name: p.read_bytes() for p in folder.iterdir()} == {p.name: p.read_bytes() for p in own.iterdir()}
    (group,) = read_groups(results)
    assert group.self_reported


def test_what_is_there_is_not_replaced_and_further_seeds_join_it(sent, tmp_path):
    results = tmp_path / "results"
    api.receive(sent, results=results)
    with pytest.raises(UserError, match="is there already"):
        api.receive(sent, results=results)
    second = seed_of(sent, 1)
    shutil.rmtree(second.with_name("seed-0"))
    assert [folder.name for folder in api.receive(sent, results=results)] == ["seed-1"]


def test_seeds_of_another_experiment_are_refused_before_anything_is_copied(sent, tmp_path):
    results = tmp_path / "results"
    api.receive(sent, results=results)
    second = seed_of(sent, 1, hyperparameters={"width": 16})
    shutil.rmtree(second.with_name("seed-0"))
    third = seed_of(sent, 2, hyperparameters={"width": 16})
    with pytest.raises(UserError, match=r"is no seed of one experiment with .*: hyperparameters"):
        api.receive(sent, results=results)
    assert third.exists()
    assert len(list(find_bundles(results))) == 1


@pytest.mark.parametrize("kind", ["trained", "reference"])
def test_rows_that_are_made_here_cannot_be_sent(sent, tmp_path, kind):
    (folder,) = find_bundles(sent)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name, data in sealed(files, lambda run: run.update(kind=kind)).items():
        (folder / name).write_bytes(data)
    with pytest.raises(UserError, match=r"not received: .*(none has here|no run of kind reference)"):
        api.receive(sent, results=tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_one_bad_bundle_keeps_all_of_them_out(sent, tmp_path):
    folder = seed_of(sent, 1)
    run = json.loads((folder / "run.json").read_text())
    run["scores"][0]["values"]["bits"] = 0.0
    (folder / "run.json").write_text(json.dumps(run, indent=1) + "\n")
    with pytest.raises(UserError, match=r"not received: .*seed-1.*checksum"):
        api.receive(sent, results=tmp_path / "results")
    assert not list(find_bundles(tmp_path / "results"))


def test_a_row_whose_name_looks_temporary_is_checked_as_any_other(sent, tmp_path):
    """What one reader takes for half-written and another for a bundle would come in unseen."""
    (folder,) = find_bundles(sent)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    run = json.loads(files["run.json"])
    run["identity"]["row"] = "x.tmp-y"
    run["scores"][0]["values"]["bits"] = 0.0
    place = folder.parents[2] / "x.tmp-y" / "smoke" / "seed-0"
    place.mkdir(parents=True)
    for name, data in sealed(files, lambda old: old.update(run)).items():
        (place / name).write_bytes(data)
    with pytest.raises(UserError, match=r"not received: .*x\.tmp-y.*recomputed"):
        api.receive(sent, results=tmp_path / "results")


def test_what_cannot_be_verified_here_is_refused(sent, tmp_path):
    (folder,) = find_bundles(sent)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    place = sent / "runs" / "foo" / "bar" / "default" / "copy-cat" / "smoke" / "seed-0"
    place.mkdir(parents=True)
    for name, data in sealed(files, lambda run: run["identity"].update(task="foo/bar")).items():
        (place / name).write_bytes(data)
    with pytest.raises(UserError, match="not received: task foo/bar is not installed here"):
        api.receive(sent, results=tmp_path / "results")


def test_nothing_beside_the_bundles_is_read(sent, tmp_path):
    os.mkfifo(sent / "reruns.csv")
    (sent / "secret").symlink_to("/etc/hostname")
    (folder,) = api.receive(sent, results=tmp_path / "results")
    assert not (tmp_path / "results" / "reruns.csv").exists()
    assert read_groups(tmp_path / "results")[0].self_reported
    assert {path.name for path in folder.iterdir()} == {"run.json", *read_run(folder).files}


def test_a_full_disk_leaves_none_of_them(sent, tmp_path, monkeypatch):
    seed_of(sent, 1)
    place, placed = reception.place_bundle, []

    def full(results, identity, files):
        if placed:
            raise UserError("no space left on device")
        placed.append(identity)
        return place(results, identity, files)

    monkeypatch.setattr(reception, "place_bundle", full)
    with pytest.raises(UserError, match="no space left"):
        api.receive(sent, results=tmp_path / "results")
    assert not list(find_bundles(tmp_path / "results"))
    monkeypatch.setattr(reception, "place_bundle", place)
    assert len(api.receive(sent, results=tmp_path / "results")) == 2


def test_a_folder_without_bundles_says_so(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no bundle"):
        api.receive(tmp_path / "empty", results=tmp_path / "results")
