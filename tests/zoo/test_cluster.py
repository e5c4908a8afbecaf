"""Ray builds the same zoo, even if a worker is lost."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from graph_metanetworks.errors import ZooError
from graph_metanetworks.extras import MissingExtra
from graph_metanetworks.zoo import build, progress
from support.ray_cluster import two_nodes
from support.zoo_folders import contents
from support.zoo_recipes import OnceKilled, Regressors


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with two_nodes() as address:
        yield address


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_worker_killed_in_the_middle_of_a_shard(cluster: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    recipe = OnceKilled(marker=str(marker))
    build(recipe, 60, tmp_path / "cluster", ray=cluster, quiet=True)
    assert marker.exists()  # some worker did die
    build(recipe, 60, tmp_path / "here", workers=1, quiet=True)
    assert contents(tmp_path / "cluster") == contents(tmp_path / "here")


class Failing(Regressors):
    def train(self, configs: Any, seeds: Any, progress: Any) -> Any:
        raise RuntimeError("the loss has no gradient")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_a_recipe_that_fails(cluster: str, tmp_path: Path) -> None:
    with pytest.raises(ZooError, match=r"(?s)training failed on the cluster.*the loss has no gradient"):
        build(Failing(), 20, tmp_path, ray=cluster, quiet=True)


def test_without_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install 'graph_metanetworks\[ray\]'"):
        build(Regressors(), 5, tmp_path / "zoo", ray="auto", quiet=True)
    assert not (tmp_path / "zoo").exists()


class Unreachable(ModuleType):
    """Ray without a cluster that answers."""

    def is_initialized(self) -> bool:
        return False

    def init(self, **options: Any) -> None:
        raise ConnectionError("nobody answers")


def test_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", Unreachable("ray"))
    with pytest.raises(ZooError, match="no Ray cluster at 'somewhere': nobody answers"):
        build(Regressors(), 5, tmp_path / "zoo", ray="somewhere", quiet=True)
    assert not (tmp_path / "zoo").exists()


class Task:
    """A task that runs as soon as it is submitted."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self.remote = work


class Here(ModuleType):
    """The part of Ray that builds use, in this process."""

    cloudpickle = SimpleNamespace(register_pickle_by_value=lambda module: None)
    exceptions = SimpleNamespace(RayTaskError=RuntimeError, RayError=OSError)
    is_initialized = staticmethod(lambda: True)
    cluster_resources = staticmethod(lambda: {"CPU": 1})
    remote = staticmethod(lambda **options: Task)
    put = get = staticmethod(lambda value: value)
    wait = staticmethod(lambda tasks: (tasks[:1], tasks[1:]))


def test_progress_moves_with_every_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", Here("ray"))
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    build(Regressors(), 24, tmp_path / "cluster", ray="auto", shard_size=8)
    done = [int(line.split()[0]) for line in capsys.readouterr().err.splitlines()]
    assert done[0] == 0 and done[-1] == 24 and len(set(done)) > 3
    build(Regressors(), 24, tmp_path / "here", workers=1, shard_size=8, quiet=True)
    assert contents(tmp_path / "cluster") == contents(tmp_path / "here")
