"""What every test gets: one thread, a cache of its own, no tracking server, and the same drawn examples always."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, configuration, settings

configuration.set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "readhead-hypothesis")
settings.register_profile(
    "readhead",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("readhead")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what is marked as long: a worker that gets it last keeps the others waiting."""
    items.sort(key=lambda item: -max((mark.kwargs.get("seconds", 0) for mark in item.iter_markers("slow")), default=0))


@pytest.fixture(autouse=True)
def alone(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests off the user's cache and tracking store, and on one thread."""
    torch.set_num_threads(1)
    monkeypatch.setenv("READHEAD_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(scope="session", autouse=True)
def synthetic_rows_come_with_a_package() -> Iterator[None]:
    """Let the made-up rows of ``bundles`` pass for installed ones, so that a board ranks them."""
    from harness import groups

    real = groups.comes_with_a_package
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            groups, "comes_with_a_package", lambda row, model: model == f"synthetic:{row}" or real(row, model)
        )
        yield


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of model files that tests name."""
    return Path(__file__).parent / "models"
