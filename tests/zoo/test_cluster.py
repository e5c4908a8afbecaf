"""Ray: the same zoo, also when a worker is lost."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo import build
from zoo_folders import contents
from zoo_recipes import OnceKilled, Regressors


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two workers on this machine, which find the package where we do."""
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_worker_killed_in_the_middle_of_a_shard(cluster: Any, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    recipe = OnceKilled(marker=str(marker))
    build(recipe, 60, tmp_path / "cluster", ray="local", quiet=True)
    assert marker.exists()  # some worker did die
    build(recipe, 60, tmp_path / "here", workers=1, quiet=True)
    assert contents(tmp_path / "cluster") == contents(tmp_path / "here")


class Failing(Regressors):
    def train(self, configs: Any, seeds: Any, progress: Any) -> Any:
        raise RuntimeError("the loss has no gradient")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_recipe_that_fails(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(ZooError, match=r"(?s)training failed on the cluster.*the loss has no gradient"):
        build(Failing(), 20, tmp_path, ray="local", quiet=True)


def test_without_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ZooError, match=r"pip install 'graph_metanetworks\[ray\]'"):
        build(Regressors(), 5, tmp_path, ray="auto", quiet=True)
