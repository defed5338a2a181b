"""Many runs: in this process, in workers or on a cluster, with the same numbers."""

import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from harness import api
from harness import cluster as cluster_module
from harness.cluster import _with_neighbours
from harness.errors import UserError
from harness.recipe import Training, get_recipe
from harness.results import find_bundles, place_bundle, read_arrays, read_run
from harness.sweep import _slots

MODEL = Path(__file__).parent / "test_training.py"
ARGUMENTS = {"budget": "smoke", "settings": ["batch_size=32"], "mlflow": False}


@pytest.fixture(autouse=True)
def fresh_recipes():
    get_recipe.cache_clear()


def predictions(results: Path) -> dict[str, bytes]:
    return {
        f"{folder.name}/{split}": arrays["logits"].tobytes()
        for folder in find_bundles(results)
        for split, arrays in read_arrays(folder, read_run(folder)).items()
    }


def test_workers_give_the_numbers_of_one_process(tmp_path, monkeypatch):
    name = f"{MODEL}:Tiny"
    done = list(api.run(name, "ntm/copy", seeds=[0, 1, 2], results=tmp_path / "one", **ARGUMENTS))
    assert [one.identity.seed for one in done] == [0, 1, 2]
    monkeypatch.setenv("READHEAD_CACHE", str(tmp_path / "cache of the workers"))
    done = list(api.run(name, "ntm/copy", seeds=[0, 1, 2], workers=2, results=tmp_path / "two", **ARGUMENTS))
    assert sorted(one.identity.seed for one in done) == [0, 1, 2]
    assert predictions(tmp_path / "one") == predictions(tmp_path / "two")


def test_a_failed_run_does_not_stop_the_others(tmp_path):
    done = list(api.run(f"{MODEL}:Broken", "ntm/copy", seeds=[0, 1], results=tmp_path, **ARGUMENTS))
    assert [one.run for one in done] == [None, None]
    assert all("KeyError" in str(one.failure) for one in done)


def test_a_bundle_that_finds_no_room_does_not_stop_the_others(tmp_path, monkeypatch):
    def place(results, identity, files):
        if identity.seed == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return place_bundle(results, identity, files)

    monkeypatch.setattr("harness.sweep.place_bundle", place)
    done = list(api.run(f"{MODEL}:Tiny", "ntm/copy", seeds=[0, 1, 2], workers=2, results=tmp_path, **ARGUMENTS))
    lost = {one.identity.seed: str(one.failure) for one in done if one.run is None}
    assert list(lost) == [0]
    assert "its bundle cannot be kept: [Errno 28] No space left on device" in lost[0]
    assert sorted(one.identity.seed for one in done) == [0, 1, 2]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a graphics processor")
def test_workers_without_a_graphics_processor_do_not_wait_for_one(tmp_path):
    arguments = ARGUMENTS | {"settings": ["batch_size=32", "accelerator=gpu"]}
    runs = api.run(f"{MODEL}:Tiny", "ntm/copy", seeds=[0, 1], workers=2, results=tmp_path, **arguments)
    with pytest.raises(UserError, match="this machine has no graphics processor"):
        list(runs)


@pytest.mark.parametrize(
    ("resources", "accelerators", "slots"),
    [
        ({"CPU": 2.0}, ["cpu"] * 3, 2),
        ({"CPU": 16.0, "GPU": 1.0}, ["gpu"] * 3, 1),
        ({"CPU": 16.0, "GPU": 1.0}, ["gpu", "gpu", "cpu", "cpu"], 3),
        ({"CPU": 16.0}, ["gpu", "cpu"], 1),
    ],
)
def test_as_many_run_at_once_as_find_their_processors(resources, accelerators, slots):
    recipes = [SimpleNamespace(training=Training(accelerator=each)) for each in accelerators]
    assert _slots(resources, [SimpleNamespace(recipe=recipe) for recipe in recipes]) == slots


def test_what_every_run_refuses_is_a_user_error(tmp_path):
    for workers in (1, 2):
        with pytest.raises(UserError, match="return the loss"):
            list(
                api.run(f"{MODEL}:Forgetful", "ntm/copy", seeds=[0, 1], workers=workers, results=tmp_path, **ARGUMENTS)
            )


@pytest.mark.parametrize("arguments", [{"workers": 2}, {"cluster": "auto"}])
def test_without_ray_runs_go_one_after_the_other_or_not_at_all(tmp_path, monkeypatch, arguments):
    monkeypatch.setattr(cluster_module, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"need Ray, which is not installed: pip install 'readhead\[ray\]'"):
        list(api.run(f"{MODEL}:Tiny", "ntm/copy", seeds=[0, 1], results=tmp_path, **ARGUMENTS, **arguments))
    assert not list(tmp_path.iterdir())
    one = {"workers": 2} if "workers" in arguments else {}
    assert len(list(api.run(f"{MODEL}:Tiny", "ntm/copy", seeds=[0], results=tmp_path, **ARGUMENTS, **one))) == 1


@pytest.fixture(scope="module")
def cluster():
    """A real Ray cluster of one node with two processors, apart from this process."""
    os.environ.setdefault("RAY_worker_niceness", "0")
    from ray.cluster_utils import Cluster

    running = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield running.address
    running.shutdown()


def test_a_cluster_whose_worker_is_killed_brings_every_run_once(tmp_path, monkeypatch, cluster, capsys):
    """The model's file is named by a relative path, so Ray has to bring it to the workers, and what it imports."""
    monkeypatch.chdir(tmp_path)
    source, killed = MODEL.read_text(), tmp_path / "killed"
    step = "    def training_step(self, batch, batch_idx):\n"
    death = (
        f"        if self.global_step == 20 and not os.path.exists({str(killed)!r}):\n"
        f"            open({str(killed)!r}, 'w').close()\n"
        "            os.kill(os.getpid(), 9)\n"
    )
    Path("mine").mkdir()
    frail = source.replace(step, step + death, 1)
    Path("mine/frail.py").write_text("import os\nimport neighbour\nassert neighbour.there\n" + frail)
    Path("mine/neighbour.py").write_text("from its_own import there\n")
    Path("mine/its_own.py").write_text("there = True\n")
    Path("mine/not_asked_for.py").write_text("")
    assert {path.stem for path in _with_neighbours(Path("mine/frail.py"))} == {"frail", "neighbour", "its_own"}
    name = "mine/frail.py:Tiny"
    done = list(api.run(name, "ntm/copy", seeds=[0, 1, 2], cluster=cluster, results=Path("results"), **ARGUMENTS))
    assert killed.exists()
    assert sorted(one.identity.seed for one in done) == [0, 1, 2]
    assert [one.failure for one in done] == [None, None, None]
    assert len(list(find_bundles(Path("results")))) == 3
    assert "3 done, 0 running, 0 failed, 0 waiting" in capsys.readouterr().out
    again = list(api.run(name, "ntm/copy", seeds=[0, 1, 2], cluster=cluster, results=Path("results"), **ARGUMENTS))
    assert [one.run for one in again] == [one.run for one in sorted(done, key=lambda one: one.identity.seed)]
    monkeypatch.setenv("READHEAD_CACHE", str(tmp_path / "another cache"))
    assert len(list(api.run(name, "ntm/copy", seeds=[0, 1, 2], results=Path("alone"), **ARGUMENTS))) == 3
    assert predictions(Path("alone")) == predictions(Path("results"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cluster": "127.0.0.1:1", "workers": 2}, "workers 2 and a Ray cluster exclude each other"),
        ({"cluster": "127.0.0.1:1", "mlflow": True}, "set MLFLOW_TRACKING_URI to the address of a server"),
        ({"cluster": "127.0.0.1:1"}, "the Ray cluster '127.0.0.1:1' cannot be joined: .*refused"),
        ({"cluster": "ray://127.0.0.1:x"}, "the Ray cluster 'ray://127.0.0.1:x' cannot be joined: invalid literal"),
    ],
)
def test_a_cluster_that_cannot_be_used(tmp_path, arguments, message):
    with pytest.raises(UserError, match=message):
        list(api.run(f"{MODEL}:Tiny", "ntm/copy", seeds=[0, 1], results=tmp_path, **{**ARGUMENTS, **arguments}))


@pytest.mark.parametrize(("mode", "told"), [(None, True), ("token", False)])
def test_a_token_that_is_not_used_is_told_of(tmp_path, monkeypatch, mode, told):
    """Ray itself only says that it failed to connect."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    assert "RAY_AUTH_MODE" not in str(cluster_module._not_joined("head:6379", "refused"))
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("0" * 64)
    if mode is not None:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    assert ("set RAY_AUTH_MODE=token" in str(cluster_module._not_joined("head:6379", "refused"))) == told


def test_a_port_where_no_ray_answers_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "JOIN_SECONDS", 8)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(UserError, match=rf"'{address}' cannot be joined: no Ray answers there within 8 s"):
            list(api.run(f"{MODEL}:Tiny", "ntm/copy", seeds=[0, 1], cluster=address, results=tmp_path, **ARGUMENTS))


def test_workers_leave_no_token_in_the_home_folder(tmp_path):
    """Ray would write one, which its own `ray start` would take up later."""
    (tmp_path / "home").mkdir()
    names = {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment |= {"HOME": str(tmp_path / "home"), "READHEAD_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "harness.cli", "run", f"{MODEL}:Tiny", "--task", "ntm/copy", "--budget", "smoke"]
    command += ["--seeds", "0", "1", "--workers", "2", "--no-mlflow", "--set", "batch_size=32"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "home" / ".ray").exists()


@pytest.mark.slow
def test_ctrl_c_stops_the_workers_and_the_same_command_goes_on(tmp_path):
    """A terminal sends SIGINT to the whole process group."""
    environment = {**os.environ, "READHEAD_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "harness.cli", "run", f"{MODEL}:Tiny", "--task", "ntm/copy", "--budget", "smoke"]
    command += ["--seeds", "0", "1", "2", "3", "--workers", "2", "--no-mlflow", "--set", "batch_size=32"]

    def start() -> "subprocess.Popen[str]":
        return subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    process = start()
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("finished"):
            break
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert not list((tmp_path / "results").rglob(".tmp-*"))
    process = start()
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "4 of 4 runs" in out
