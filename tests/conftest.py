"""What every test shares: one thread, fixed seeds, and hypothesis profiles."""

import gc
import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)
SLOW = 900  # seconds for a slow test

# torch.manual_seed formats the whole stack once for each accelerator that may be initialized later, which
# takes milliseconds in every test. There is nothing to seed on a machine without that accelerator.
for device in (torch.cuda, torch.xpu, torch.mtia):
    if not device.is_available():
        device.manual_seed_all = lambda seed: None

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


def pytest_collection_finish() -> None:
    """Keep the garbage collector away from the modules and the tests, which live as long as the process."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    """The same random numbers in every test, whatever ran before it."""
    torch.manual_seed(0)
    default = torch.get_default_dtype()
    yield
    assert torch.get_default_dtype() == default, "the test left another default dtype behind"
