"""Random scales, signs and phases of stacks: functions are kept, and copies differ."""

import pytest
import torch
from torch import Tensor

import graph_metanetworks as gmn
from graph_metanetworks.symmetry.rescaled import rescaled_stack
from graph_metanetworks.testing.function import difference, in_double, outputs
from support.traced import traced

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
def test_functions_are_kept_and_copies_differ(name: str) -> None:
    case = traced(name)
    graph, generator = case.graph, torch.Generator().manual_seed(0)
    model, args, kwargs = in_double(case.model, case.args, case.kwargs)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    expected, stack = outputs(model, weights, args, kwargs), stack_of(graph, weights)
    moved = rescaled_stack(graph.scaling, stack, generator)
    copies = [member(graph, moved, number) for number in range(COPIES)]
    for copy in copies:
        assert difference(expected, outputs(model, weights | copy, args, kwargs)) < 1e-9
    if graph.scaling.num_signs > 5 or graph.scaling.num_scales > 5:
        assert any(not torch.equal(copies[0][key], copies[1][key]) for key in copies[0])
