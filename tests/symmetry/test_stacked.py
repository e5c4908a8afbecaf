"""Random copies of stacked networks: each computes the same function, each is moved in its own way."""

import pytest
import torch
from torch import Tensor

import graph_metanetworks as gmn
from graph_metanetworks.symmetry.stacked import permuted_stack, rescaled_stack
from graph_metanetworks.testing.function import difference, in_double, outputs
from support.traced import sample, traced

COPIES = 3
NAMES = (
    "mlp-relu",
    "mlp-tanh",
    "siren",
    "siren-cosine",
    "pixel-shuffle",
    "vision-transformer",
    "cnn-2d-layer-norm",
)


def stack_of(graph: gmn.ParameterGraph, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return dict(gmn.collate([(graph, weights)] * COPIES).stacks[0].weights)


def member(graph: gmn.ParameterGraph, stack: dict[str, Tensor], number: int) -> dict[str, Tensor]:
    shapes = {parameter.name: parameter.shape for parameter in graph.parameters}
    return {name: value[:, number, 0].view(shapes[name]) for name, value in stack.items()}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["permuted", "rescaled"])
def test_functions_are_kept_and_copies_differ(kind: str, name: str) -> None:
    case = traced(name)
    graph, generator = case.graph, torch.Generator().manual_seed(0)
    model, args, kwargs = in_double(case.model, case.args, case.kwargs)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    expected, stack = outputs(model, weights, args, kwargs), stack_of(graph, weights)
    if kind == "permuted":
        moved, many = permuted_stack(graph.symmetry, stack, generator), graph.symmetry.log_order > 5
    else:
        moved, many = rescaled_stack(graph.scaling, stack, generator), graph.scaling.num_signs > 5
    copies = [member(graph, moved, number) for number in range(COPIES)]
    for copy in copies:
        assert difference(expected, outputs(model, weights | copy, args, kwargs)) < 1e-9
    if many:
        assert any(not torch.equal(copies[0][key], copies[1][key]) for key in copies[0])


def test_permutations_are_those_of_the_group() -> None:
    """With one neuron order per network, undone by sorting, all copies are the network again."""
    graph, weights = traced("mlp-relu").graph, traced("mlp-relu").model.state_dict()
    moved = permuted_stack(graph.symmetry, stack_of(graph, weights), torch.Generator().manual_seed(1))
    first = [gmn.canonicalize(graph, member(graph, moved, number)) for number in range(COPIES)]
    other = gmn.canonicalize(graph, sample(graph).apply(weights))
    for copy in first:
        assert all(torch.equal(copy[name], other[name]) for name in copy)
