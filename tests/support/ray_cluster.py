"""A Ray cluster of two nodes on this machine, which may be as slow as it likes."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PATIENCE = {  # by default, workers that start slowly and nodes that answer slowly are given up
    "worker_register_timeout_seconds": 600,
    "health_check_initial_delay_ms": 60_000,
    "health_check_timeout_ms": 60_000,
    "health_check_failure_threshold": 10,
}


@contextmanager
def two_nodes() -> Iterator[str]:
    """Start nodes with one core each, and yield the address; skip the test without Ray."""
    utilities = pytest.importorskip("ray.cluster_utils")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        machines = utilities.Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "_system_config": PATIENCE}
        )
        machines.add_node(num_cpus=1)
    try:
        yield machines.address
    finally:
        machines.shutdown()


@dataclass(frozen=True)
class DiesOnce:
    """Kills its process the first time that it meets the first part.

    It is in a module that the workers can import: tests are none.
    """

    folder: str

    def __call__(self, part: int) -> int:
        marker = Path(self.folder, "died")
        if part == 0 and not marker.exists():
            marker.touch()
            os._exit(1)
        return 10 * part
