"""Ray: an instance of this machine's own for the time of a command, or a cluster that is joined."""

import ast
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.errors import UserError, first_line
from harness.execution import PlannedRun
from harness.mirror import SERVER

REACHABLE_SECONDS, JOIN_SECONDS = 10, 60
"""How long an address may take to answer at all, and to let somebody in."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_COLOR_PREFIX": "0",
    "RAY_worker_niceness": "0",  # the default, 15, starves runs on a machine with other work
}
AUTH_MODE, AUTH_TOKEN, AUTH_TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
OWN_TOKEN = secrets.token_hex(32)
"""One a process, for Ray reads it once."""
PROBE = """
import sys, ray
try:
    ray.init(address=sys.argv[1], logging_level="CRITICAL", log_to_driver=False)
except Exception as error:
    sys.exit((str(error).strip() or type(error).__name__).splitlines()[0])
ray.shutdown()
"""


def require_ray() -> None:
    """Raise a ``UserError`` where Ray, an extra of this package, is not installed."""
    if find_spec("ray") is None:
        raise UserError("runs side by side need Ray, which is not installed: pip install 'readhead[ray]'")


@contextmanager
def joined(workers: int, cluster: str | None, runs: Sequence[PlannedRun]) -> Iterator[Any]:
    """Start Ray on this machine with ``workers`` processes, or join a cluster and bring it the models' own files."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    with ExitStack() as stack:
        if cluster is None:
            stack.enter_context(_own_token())
        else:
            _require_reachable(cluster)
        import ray

        variables = {"OMP_NUM_THREADS": "1"} | {name: os.environ[name] for name in (SERVER,) if os.environ.get(name)}
        # Sockets lie below this folder; their paths may not be longer than 107 characters, so it cannot be the cache.
        temporary = tempfile.TemporaryDirectory(prefix="rh-", dir="/tmp" if os.path.isdir("/tmp") else None)
        folder = stack.enter_context(temporary)
        environment: dict[str, Any] = {"env_vars": variables}
        where: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False, "_temp_dir": folder}
        if cluster is not None:
            environment["working_dir"] = str(_brought(runs, Path(folder)))
            where = {"address": cluster}
        try:
            ray.init(**where, runtime_env=environment, logging_level="ERROR", log_to_driver=True)
        except (ConnectionError, ValueError, RuntimeError, TimeoutError, ray.exceptions.RayError) as error:
            if cluster is not None:
                raise _not_joined(cluster, first_line(error)) from error
            raise UserError(f"Ray cannot be started: {first_line(error)}") from error
        try:
            yield ray
        finally:
            ray.shutdown()


@contextmanager
def _own_token() -> Iterator[None]:
    """Give Ray a token for an instance of our own: without one it writes one to ``~/.ray`` for good."""
    before = {name: os.environ.get(name) for name in (AUTH_MODE, AUTH_TOKEN)}
    if not os.environ.get(AUTH_TOKEN) and not os.environ.get(AUTH_TOKEN_PATH):
        os.environ[AUTH_TOKEN] = OWN_TOKEN
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _not_joined(address: str, reason: str) -> UserError:
    """Return the error; Ray does not say that it is for want of a token, which it looks for at ``auto`` alone."""
    token = Path.home() / ".ray" / "auth_token"
    unused = not os.environ.get(AUTH_MODE) and (token.exists() or "AuthToken" in reason)
    hint = f". If the cluster asks for a token ({token}), set {AUTH_MODE}=token" if unused else ""
    return UserError(f"the Ray cluster {address!r} cannot be joined: {reason.rstrip('.')}{hint}")


def _require_reachable(address: str) -> None:
    """Refuse an address where no Ray answers, which Ray would try for minutes; ``auto`` and ``local`` have no port.

    Another process tries it, for Ray itself cannot be told to give up.
    """
    host, separator, port = address.removeprefix("ray://").rpartition(":")
    if not separator:
        return
    try:
        socket.create_connection((host, int(port)), timeout=REACHABLE_SECONDS).close()
    except (OSError, ValueError, OverflowError) as error:
        raise _not_joined(address, first_line(error)) from error
    command = [sys.executable, "-c", PROBE, address]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=JOIN_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _not_joined(address, f"no Ray answers there within {JOIN_SECONDS} s") from error
    if done.returncode:
        raise _not_joined(address, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])


def _brought(runs: Sequence[PlannedRun], folder: Path) -> Path:
    """Copy the files that runs name by a relative path into a folder, from which Ray brings them to every worker."""
    brought = folder / "brought"
    brought.mkdir()
    for name in sorted({name for planned in runs for name in (planned.recipe.model, planned.source)}):
        path = Path(name.rpartition(":")[0])
        if path.suffix == ".py" and not path.is_absolute() and ".." not in path.parts:
            for file in _with_neighbours(path):
                (brought / file).parent.mkdir(parents=True, exist_ok=True)
                (brought / file).write_bytes(file.read_bytes())
    return brought


def _with_neighbours(path: Path) -> set[Path]:
    """Return a Python file and those beside it that it imports, directly or not."""
    pending, found = [path], set[Path]()
    while pending:
        file = pending.pop()
        if file in found:
            continue
        found.add(file)
        for node in ast.walk(ast.parse(file.read_bytes())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            beside = (path.parent / f"{name.partition('.')[0]}.py" for name in names)
            pending += [other for other in beside if other.is_file()]
    return found
