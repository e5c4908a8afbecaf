"""What every test shares: one thread, fixed seeds, and hypothesis profiles."""

import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)
SLOW = 900  # seconds for a slow test

settings.register_profile(
    "default",
    max_examples=60,
    deadline=None,  # the first trace in a process is slow
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("default")


def pytest_configure(config: pytest.Config) -> None:
    # torch_geometric scripts a function when it is imported
    config.addinivalue_line("filterwarnings", "ignore:`torch.jit.script` is deprecated:DeprecationWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests more time than the default of pyproject.toml."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW))


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    """The same random numbers in every test, whatever ran before it."""
    torch.manual_seed(0)
    default = torch.get_default_dtype()
    yield
    assert torch.get_default_dtype() == default, "the test left another default dtype behind"
