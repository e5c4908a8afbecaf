"""Oracle: a graph runs itself like its network."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.testing.automorphism import sample
from graph_metanetworks.testing.function import KeepDouble, default_double, difference, in_double
from graph_metanetworks.trace.record.operation import tensors
from graph_metanetworks.trace.record.outputs import output_tensors
from graph_metanetworks.trace.record.tape import plain_kernels
from graph_metanetworks.trace.tracer import Tracer

TOLERANCE = 1e-6  # relative, in float64; constants that were traced in float32 are only that exact


def assert_runs(
    graph: ParameterGraph,
    model: nn.Module,
    /,
    *args: Any,
    tracer: Tracer | None = None,
    tolerance: float = TOLERANCE,
    **kwargs: Any,
) -> None:
    """Check that `graph.run` gives the network's output, and that `graph.activity` is equivariant."""
    double, args, kwargs = in_double(model, args, kwargs)
    weights = double.state_dict()
    expected = _outputs(double, args, kwargs, tracer or Tracer())
    automorphism = sample(graph, 0)
    permuted = automorphism.apply(weights)
    with torch.no_grad():
        for own, what in ((weights, "its weights"), (permuted, "permuted weights")):
            found = graph.run(own, *args, **kwargs)
            error = difference(expected, [found] if isinstance(found, Tensor) else list(found))
            assert error <= tolerance, (
                f"the graph of {graph.name} does not compute what its network computes: with {what} the "
                f"output differs by {error:.1e} (relative)"
            )
        before, after = (graph.activity(own, *args, **kwargs) for own in (weights, permuted))
    assert bool(before.isfinite().all()), "activations of nodes are not finite"
    error = difference([automorphism.apply_nodes(before)], [after])
    assert error <= tolerance, (
        f"a permutation of the neurons of {graph.name} does not permute their activations (relative error "
        f"{error:.1e})"
    )


def _outputs(model: nn.Module, args: tuple, kwargs: dict[str, Any], tracer: Tracer) -> list[Tensor]:
    with torch.no_grad(), plain_kernels(), default_double(), KeepDouble():
        result = model(*args, **kwargs)
    return output_tensors(result) if tracer.outputs is None else tensors(tracer.outputs(result))
