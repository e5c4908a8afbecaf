"""Any way a user may call a network, and anything it may return."""

from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

import graph_metanetworks as gmn


class Picks(nn.Module):
    """A perceptron whose input is found by `pick` and whose output is wrapped by `wrap`."""

    def __init__(self, pick: Any = lambda x: x, wrap: Any = lambda y: y) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
        self.pick, self.wrap = pick, wrap

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.wrap(self.layers(self.pick(*args, **kwargs)))


@dataclass
class Record:
    x: Tensor
    note: str = ""


Pair = namedtuple("Pair", ["x", "other"])
X = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
# features that are all alike must count as an input too, or their order would not matter
ONES = torch.ones(4, 5)

INPUTS: dict[str, tuple[Any, Any]] = {
    "positional": (lambda x: x, lambda x: ((x,), {})),
    "keyword": (lambda *, x: x, lambda x: ((), {"x": x})),
    "list": (lambda xs: xs[1], lambda x: (([None, x],), {})),
    "dict": (lambda d: d["a"]["b"], lambda x: (({"a": {"b": x}},), {})),
    "ordered dict": (lambda d: d["x"], lambda x: ((OrderedDict(x=x),), {})),
    "user dict": (lambda d: d["x"], lambda x: ((UserDict(x=x),), {})),
    "dataclass": (lambda r: r.x, lambda x: ((Record(x),), {})),
    "named tuple": (lambda p: p.x, lambda x: ((Pair(x, None),), {})),
    "object": (lambda o: o.x, lambda x: ((SimpleNamespace(x=x),), {})),
    "graph data": (lambda data: data.x, lambda x: ((Data(x=x),), {})),
}


PADDED = {
    "zeros": nn.ZeroPad2d((0, 1, 2, 1)),
    "reflected": nn.ReflectionPad2d(1),
    "repeated": nn.ReplicationPad2d((1, 0, 0, 1)),
    "cropped": nn.ZeroPad2d((-1, 2, 0, 0)),
}


@pytest.mark.parametrize("name", PADDED)
def test_padded_inputs_are_inputs_by_name(name: str) -> None:
    model = nn.Sequential(PADDED[name], nn.Conv2d(3, 4, 2), nn.ReLU(), nn.Conv2d(4, 2, 1))
    graph = gmn.testing.assert_all(model, torch.randn(2, 3, 5, 5))
    assert [(g.name, g.size) for g in graph.groups if g.kind == "input"] == [("input", 3)]


@pytest.mark.parametrize("values", ["random", "uniform"])
@pytest.mark.parametrize("kind", INPUTS)
def test_shapes_of_inputs(kind: str, values: str) -> None:
    pick, call = INPUTS[kind]
    args, kwargs = call(X if values == "random" else ONES)
    graph = gmn.trace(Picks(pick), *args, **kwargs)
    assert [v.size for v in graph.symmetry.variables] == [8]
    inputs = [group for group in graph.groups if group.kind == "input"]
    assert [group.size for group in inputs] == [5]
    assert all(group.indexed for group in inputs)


OUTPUTS: dict[str, Any] = {
    "tensor": lambda y: y,
    "tuple": lambda y: (y, None),
    "dict": lambda y: {"deep": [{"y": y}]},
    "dataclass": Record,
    "named tuple": lambda y: Pair(y, 3),
    "user dict": lambda y: UserDict(y=y),
    "graph data": lambda y: Data(x=y),
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_shapes_of_outputs(kind: str) -> None:
    graph = gmn.trace(Picks(wrap=OUTPUTS[kind]), X)
    assert [v.size for v in graph.symmetry.variables] == [8]
    assert [group.size for group in graph.groups if group.kind == "output"] == [3]


def test_arguments_with_the_names_of_ours() -> None:
    """`gmn.trace` passes every keyword on, whatever its name."""
    names = ("model", "args", "kwargs", "tracer", "samples", "tolerance")
    model = Picks(pick=lambda *, x, **others: x)
    graph = gmn.trace(model, x=X, **dict.fromkeys(names, 1))
    assert graph.num_parameters == 75


def test_the_same_tensor_as_two_inputs() -> None:
    model = Picks(pick=lambda a, b: a + b)
    graph = gmn.trace(model, X, X)
    assert [v.size for v in graph.symmetry.variables] == [8]


def test_an_input_that_is_returned() -> None:
    model = Picks(wrap=lambda y: (y, X))
    graph = gmn.trace(model, X)
    assert [v.size for v in graph.symmetry.variables] == [8]
