"""Networks made to break the tracer, against every oracle and against symmetries derived by hand."""

import pytest
import torch
from torch import Tensor

import graph_metanetworks as gmn
from adversarial import CASES
from graph_metanetworks import testing


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


def test_values_that_pass_through_numpy_are_refused_or_pinned() -> None:
    """PyTorch does not see what numpy does; the channels that went there must not be permuted."""
    case = next(iter(CASES.values()))
    model = type(case)(through_numpy).network()
    try:
        graph = gmn.trace(model, case.example())
    except gmn.TraceError as error:
        assert "numpy" in str(error)
        return
    testing.assert_function_kept(graph, model, case.example())
