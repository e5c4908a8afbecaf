"""Networks made to break the tracer, against every oracle and against symmetries derived by hand."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import graph_metanetworks as gmn
from graph_metanetworks import testing
from support.adversarial import CASES, Case


@pytest.mark.parametrize("name", CASES)
def test_sound(name: str) -> None:
    case = CASES[name]
    graph = testing.assert_all(case.network(), case.example())
    if case.free is not None:
        expected = sorted(int(size) for size in case.free.split())
        assert sorted(v.size for v in graph.symmetry.variables) == expected


def through_numpy(h: Tensor) -> Tensor:
    weighted = h.detach().numpy() * range(8)
    return torch.cat([h, torch.from_numpy(weighted).to(h)], 1)


def through_a_list(h: Tensor) -> Tensor:
    return h * (torch.tensor(h.tolist()) * torch.arange(8)).to(h).sum()


@pytest.mark.parametrize("function", [through_numpy, through_a_list])
def test_values_that_leave_pytorch(function: Callable[[Tensor], Tensor]) -> None:
    """They are refused, naming the way out; if asked to trace on, no symmetry is claimed there."""
    model, x = Case(function).network(), Case.example()
    with pytest.raises(gmn.TraceError, match=r"(numpy|tolist).*test_adversarial\.py:\d+"):
        gmn.trace(model, x)
    graph = gmn.Tracer(unknown="pin").trace(model, x)
    assert graph.notes
    testing.assert_function_kept(graph, model, x)
