"""--ray gives the same results as one process, even if workers are lost."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from safetensors.torch import save_file
from typer.testing import CliRunner

import graph_metanetworks as gmn
from graph_metanetworks.cli import app
from graph_metanetworks.errors import TaskError
from graph_metanetworks.tasks.share_out import share_out
from support.ray_cluster import DiesOnce, two_nodes
from support.scaled_networks import scaled_zoo

NETWORK = """
from torch import nn

def build(hidden=4):
    return nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, 3))
"""
NOISY = ("ignore::ResourceWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with two_nodes() as address:
        yield address


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ray")
    zoo = scaled_zoo(place / "zoo", 40, broken=9)
    quick = {"setting": "50", "steps": 4, "rounds": 2, "batch_size": 8, "quiet": True}
    gmn.train("accuracy", zoo, out=place / "run", **quick)
    (place / "network.py").write_text(NETWORK)
    (place / "weights").mkdir()
    for network in [n for n in zoo if n.config.family == "shallow" and n.config.hidden == 4][:6]:
        save_file(network.state_dict, place / "weights" / f"{network.index}.safetensors")
    return place


def passes(*args: object) -> str:
    result = CliRunner().invoke(app, [*map(str, args)])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)  # workers import PyTorch, which takes minutes on a loaded machine
@pytest.mark.filterwarnings(*NOISY)
def test_embed_and_predict_on_two_machines(
    cluster: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    networks = ("zoo", "weights", "--network", "network.py:build", "--quiet")
    for name, ray in (("here", ()), ("there", ("--ray", cluster))):
        passes("embed", "run", *networks, "--out", tmp_path / f"{name}.parquet", *ray)
        predicted = json.loads(passes("predict", "run", *networks, "--json", "-", *ray))
        (tmp_path / f"{name}.json").write_text(json.dumps(predicted))
    here, there = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("here", "there"))
    assert here.equals(there) and len(here) > 40
    assert (tmp_path / "here.json").read_text() == (tmp_path / "there.json").read_text()
    assert pq.ParquetFile(tmp_path / "there.parquet").num_row_groups > 2  # it was shared out


@pytest.mark.slow
@pytest.mark.timeout(900)  # workers import PyTorch, which takes minutes on a loaded machine
@pytest.mark.filterwarnings(*NOISY)
def test_a_lost_worker_is_replaced(cluster: str, tmp_path: Path) -> None:
    found = list(share_out(DiesOnce(str(tmp_path)), lambda workers: range(5), ray=cluster))
    assert found == [10 * part for part in range(5)]
    assert (tmp_path / "died").exists()  # a worker did die


# ------------------------------------------------------------------ without Ray


class Lost(OSError):
    pass


class Failed(RuntimeError):
    def __init__(self, cause: Exception) -> None:
        super().__init__(f"a traceback that ends with {cause}")
        self.cause = cause


class Here(ModuleType):
    """The part of Ray that is used, in this process."""

    exceptions = SimpleNamespace(RayTaskError=Failed, RayError=Lost)
    is_initialized = staticmethod(lambda: True)
    cluster_resources = staticmethod(lambda: {"CPU": 2})
    remote = staticmethod(lambda **options: lambda work: SimpleNamespace(remote=lambda *a: (work, a)))
    put = staticmethod(lambda value: value)

    @staticmethod
    def get(task: Any) -> Any:
        work, arguments = task
        try:
            return work(*arguments)
        except Lost:
            raise
        except Exception as error:
            raise Failed(error) from error


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", Here("ray"))


@pytest.mark.usefixtures("ray")
def test_results_are_in_order_and_parts_are_made_when_needed() -> None:
    made: list[int] = []

    def cut(workers: int) -> Iterator[int]:
        assert workers == 2
        for part in range(50):
            made.append(part)
            yield part

    found = share_out(lambda part: -part, cut, ray="auto")
    assert next(found) == 0 and len(made) < 10  # memory does not grow with the number of parts
    assert list(found) == [-part for part in range(1, 50)]


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (TaskError("choose another method."), r"^choose another method.$"),
        (KeyError("weights"), "(?s)a worker of the cluster failed.*weights"),
        (Lost("no heartbeat."), "the cluster lost the same part 6 times: no heartbeat"),
    ],
)
def test_failures(error: Exception, message: str) -> None:
    def fail(part: int) -> None:
        raise error

    with pytest.raises(TaskError, match=message):
        list(share_out(fail, lambda workers: [0], ray="auto"))
