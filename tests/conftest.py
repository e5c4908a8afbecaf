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


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector away from modules and tests, which live as long as the process.

    Afterwards it runs less often than by default.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


@pytest.hookimpl(trylast=True)  # when `-m` has chosen tests: only these have a middle
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests more time than the default of pyproject.toml, and put them in order."""
    items[:] = in_halves(items)
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW))


def in_halves(items: list[pytest.Item]) -> list[pytest.Item]:
    """Order tests so that each of two processes traces half of the menagerie.

    They start at the beginning and in the middle (pytest-xdist's `worksteal`), and every process keeps the
    graphs that it traced. So half of the architectures come first, the others right after the middle.
    """
    # the process that only distributes tests never comes here, and need not import the menagerie
    from support.traced import BY_NAME

    places = {name: place for place, name in enumerate(BY_NAME)}
    halves: list[list[pytest.Item]] = [[], []]
    others: list[pytest.Item] = []
    for item in items:
        spec = getattr(item, "callspec", None)
        place = places.get(spec.params.get("name")) if spec else None
        (others if place is None else halves[place % 2]).append(item)
    middle = len(items) // 2 - len(halves[0])
    return [*halves[0], *others[:middle], *halves[1], *others[middle:]]


@pytest.fixture(autouse=True)
def seed() -> Iterator[None]:
    """The same random numbers in every test, whatever ran before it."""
    torch.manual_seed(0)
    default = torch.get_default_dtype()
    yield
    assert torch.get_default_dtype() == default, "the test left another default dtype behind"
