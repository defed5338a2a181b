"""Where a task's data are not on the machine, the harness says so, checks the rest, and writes the same board."""

import json
import shutil

import numpy as np
import pytest
from babi_release import make_release

from harness import api, groups, listing, registry
from harness.errors import UserError
from harness.leaderboard import check_board
from harness.results import find_bundles, read_curve, read_run, write_bundle
from harness.verify import verify, verify_bundle
from tasks.babi import official, release

TASK = "babi-official/qa4"


def forget() -> None:
    """Drop tasks that have loaded their data."""
    registry.get_task.cache_clear()
    groups.installed_task.cache_clear()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A stand-in for the release, pinned, with runs of a toy model and references on one of its tasks."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("READHEAD_CACHE", str(folder / "cache"))
        for path, data in make_release(patch).items():
            (folder / "babi" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "babi" / path).write_bytes(data)
        patch.setattr(official.Released, "fingerprint_path", folder / "pinned.json")
        patch.setenv(release.VARIABLE, str(folder / "babi"))
        forget()
        api.fingerprint(TASK)
        model = f"{official.__file__.rsplit('/tasks/', 1)[0]}/tests/models/story_models.py:Sound"
        options = {"regime": "en", "budget": "smoke", "seeds": [0, 1], "mlflow": False}
        for settings in ([], ["width=4"]):
            for done in api.run(model, TASK, settings=settings, results=folder / "results", **options):
                assert done.run is not None, done.failure
        api.references(TASK, results=folder / "results")
        table = dict(release.FILES)
    forget()
    return folder, table


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A copy of it all, of which only the data are missing."""
    source, table = made
    shutil.copytree(source, tmp_path / "made", ignore=shutil.ignore_patterns("cache"))
    monkeypatch.setattr(release, "FILES", table)
    monkeypatch.setattr(official.Released, "fingerprint_path", tmp_path / "made" / "pinned.json")
    monkeypatch.delenv(release.VARIABLE, raising=False)
    forget()
    yield tmp_path / "made"
    forget()


@pytest.fixture
def data(folder, monkeypatch):
    """Bring the data back."""

    def bring() -> None:
        monkeypatch.setenv(release.VARIABLE, str(folder / "babi"))
        forget()

    return bring


def test_verify_says_what_it_could_not_verify_and_why(folder):
    findings = list(verify(folder / "results"))
    assert len(findings) == 4 + 8  # four runs, and four references in each of two regimes
    assert {finding.status for finding in findings} == {"unverified"}
    for finding in findings:
        assert "the data to verify it are not here: get release 1.2 of the bAbI tasks" in finding.message
        assert TASK in finding.message
    assert listing.findings(findings)  # not a failure


def test_with_the_data_everything_is_verified(folder, data):
    data()
    assert {finding.status for finding in verify(folder / "results")} == {"verified"}


def bundle(folder, row="sound"):
    return next(path for path in find_bundles(folder / "results") if row in str(path).lower())


def changed(folder, path, **changes) -> str:
    """Write a bundle anew with changes to its run, sealed; return what verify says."""
    run = read_run(path)
    with np.load(path / "predictions.npz") as archive:
        stored: dict = {}
        for key in archive.files:
            split, _, name = key.rpartition("/")
            stored.setdefault(split, {})[name] = archive[key]
    curve = read_curve(path, run) if "curve.csv" in run.files else None
    if "rank" in changes:
        stored["test"]["rank"] = changes.pop("rank")
    write_bundle(folder / "results", run.model_copy(update=changes), stored, curve)
    finding = verify_bundle(path)
    return f"{finding.status}: {finding.message}"


def test_what_needs_no_data_is_still_checked(folder):
    path = bundle(folder)
    count = read_run(path).scores[0].n
    assert "failed: " in changed(folder, path, rank=np.zeros(count, np.uint8))
    assert "recomputed 0.0" in changed(folder, path, rank=np.zeros(count, np.uint8))


def test_a_run_on_other_data_fails_even_without_them(folder):
    path = bundle(folder)
    identity = read_run(path).identity.model_copy(update={"fingerprint": "0" * 32})
    assert "its data fingerprint is not that of" in changed(folder, path, identity=identity)


def test_an_edited_run_fails_even_without_the_data(folder):
    path = bundle(folder)
    content = json.loads((path / "run.json").read_text())
    content["scores"][0]["values"]["error"] = 0.0
    (path / "run.json").write_text(json.dumps(content, indent=1) + "\n")
    assert verify_bundle(path).status == "failed"


def test_the_board_is_the_same_with_and_without_the_data(folder, data):
    written = api.leaderboard(results=folder / "results")
    assert any(path.name == "leaderboard.md" for path in written)
    board = (folder / "results" / "leaderboard.md").read_text()
    assert "babi-official/qa4" in board
    data()
    assert check_board(folder / "results", folder / "results" / "leaderboard.md") == []


def test_nothing_is_run_and_nothing_referred_to(folder):
    with pytest.raises(UserError, match=r"nothing to run: .*babi-official/qa4:en: get release 1\.2"):
        list(api.run(_toy(folder), TASK, results=folder / "new"))
    with pytest.raises(UserError, match=r"nothing to refer to: get release 1\.2"):
        api.references(TASK, results=folder / "new")
    assert list(find_bundles(folder / "new")) == []


def _toy(folder) -> str:
    (folder / "toy.py").write_text(
        "import pytorch_lightning as pl\n"
        "class Toy(pl.LightningModule):\n"
        "    families, version = ('story',), 1\n"
        "    def __init__(self, spec): super().__init__()\n"
        "    def training_step(self, batch, batch_idx): ...\n"
        "    def predict_step(self, inputs, batch_idx=0): ...\n"
        "    def configure_optimizers(self): ...\n"
    )
    return f"{folder / 'toy.py'}:Toy"


def test_show_says_what_is_missing_and_tells_the_rest(folder, capsys):
    listing.show(TASK, 1)
    shown = " ".join(capsys.readouterr().out.split())
    assert "regime en: its data are not here: get release 1.2 of the bAbI tasks" in shown
    assert "majority" in shown
    pinned = json.loads((folder / "pinned.json").read_text())["splits"]
    assert pinned["train-en"][:16] in shown
    assert "CC BY 3.0" in shown


def test_a_task_that_is_not_here_cannot_be_pinned(folder):
    (folder / "pinned.json").unlink()
    with pytest.raises(UserError, match="cannot be pinned: get release"):
        api.fingerprint(TASK)


def test_the_release_has_no_text_to_export(folder):
    with pytest.raises(UserError, match="babi-official/qa4 has no text format"):
        api.export_text(TASK, "test")
