"""The package in an environment with the core dependencies only: what works, and which extra errors name."""

import re
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from graph_metanetworks.extras import EXTRAS
from support.processes import run

ROOT = Path(__file__).resolve().parents[1]
CORE = ("torch", "numpy", "scipy", "safetensors", "rich")
HIDDEN = ("pyarrow", "sklearn", "PIL", "lightning", "torchmetrics", "matplotlib", "torch_geometric", "typer")


def needed(names: tuple[str, ...]) -> set[str]:
    """The distributions that these need, themselves among them: what pip would install for them."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        try:
            required = metadata.distribution(name).requires or []
        except metadata.PackageNotFoundError:  # for another system
            continue
        found.add(name)
        todo += [re.split(r"[^\w.-]", line)[0].lower() for line in required if "extra ==" not in line]
    return found


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[int, str]]:
    """Run Python in an environment with nothing but the core; return its exit code and what it prints."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    for name in needed(CORE):
        for file in metadata.distribution(name).files or ():
            top = file.parts[0]
            if top != ".." and not (site / top).exists():
                (site / top).symlink_to(metadata.distribution(name).locate_file(top))
    (site / "graph_metanetworks.pth").write_text(str(ROOT / "src"))

    def call(*arguments: str) -> tuple[int, str]:
        done = run([python, *arguments], env={"PYTHONPATH": "", "PYTHONNOUSERSITE": "1"})
        return done.returncode, done.stdout + done.stderr

    return call


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links the core's packages")

WORKS = """
import torch
import graph_metanetworks as gmn
from torch import nn
from graph_metanetworks.nn.baselines import DMC, StatNN
from graph_metanetworks.nn.baselines.boosting import BoostedStatNN

models = [nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)) for _ in range(3)]
states = [model.state_dict() for model in models]
graph = gmn.trace(models[0], torch.zeros(1, 2))
print(graph.summary())
moved = graph.symmetry.sample(torch.Generator().manual_seed(0)).apply(states[0])
gmn.align(graph, states[0], moved)
gmn.canonicalize(graph, states[0])
batch = gmn.collate([(graph, state) for state in states])
for options in ({}, {"engine": "stream"}, {"engine": "edge_list"}, {"blocks": gmn.nn.Grit(heads=2, steps=2)}):
    network = gmn.GraphMetanetwork(8, 2, readout="tensors", **options)
    network.fit([batch])
    assert network(batch).shape == (3, 1)
for network in (DMC((4, 6), 8), StatNN(8), BoostedStatNN()):
    network.fit([batch])
gmn.testing.assert_round_trip(graph, models[0])
"""
USES = {
    "gmn.Zoo": "zoo",
    "gmn.train": "zoo",
    "graph.plot('graph.svg')": "plot",
    "graph.to_pyg(models[0].state_dict())": "pyg",
    "network.grow(network.statistics(batch), torch.rand(3))": "zoo",
}
MISSING = f"""
for use in {list(USES)}:
    try:
        eval(use)
    except gmn.MissingExtra as error:
        print(use, "->", error)
"""
COMMAND = """
import runpy
try:
    runpy.run_module("graph_metanetworks", run_name="__main__")
except SystemExit as error:
    print("gmn exits:", error)
"""


@pytest.fixture(scope="module")
def printed(bare: Callable[..., tuple[int, str]]) -> str:
    """What the core prints when everything is used that it has, then what it lacks, and last the command."""
    code, printed = bare("-c", WORKS + MISSING + COMMAND)
    assert code == 0, printed
    return printed


def requirements() -> dict[str, list[str]]:
    """The packages of every extra, and of the core as the extra of no name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: [re.split(r"[^\w-]", line)[0] for line in found] for extra, found in lines.items()}


def test_every_package_is_pinned() -> None:
    pins = {line.split("==")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    direct = {name.replace("_", "-") for names in requirements().values() for name in names}
    # nothing of ours is tested with wandb, which needs an account
    assert direct - pins <= {"graph-metanetworks", "wandb"}


def test_every_extra_is_named_by_a_package() -> None:
    tools = {"", "all", "test", "compare", "docs", "dev"}
    assert set(EXTRAS.values()) == set(requirements()) - tools


def test_the_extras_are_hidden(bare: Callable[..., tuple[int, str]]) -> None:
    find = f"from importlib.util import find_spec; print([n for n in {HIDDEN} if find_spec(n)])"
    assert bare("-c", find) == (0, "[]\n")


def test_the_core_is_enough(printed: str) -> None:
    assert "13 parameters" in printed


@pytest.mark.parametrize(("use", "extra"), USES.items())
def test_a_missing_extra_is_named(use: str, extra: str, printed: str) -> None:
    (message,) = [line for line in printed.splitlines() if line.startswith(f"{use} -> ")]
    assert f"pip install 'graph_metanetworks[{extra}]'" in message


def test_the_command_names_its_extra(printed: str) -> None:
    assert "gmn exits: error: " in printed
    assert "pip install 'graph_metanetworks[cli]'" in printed.partition("gmn exits: ")[2]
