"""Oracle: every element lies on one edge, and weights survive the way to edges and back."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.parameter_graph import ParameterGraph


def assert_covers(graph: ParameterGraph, model: nn.Module) -> None:
    """Check that each element of each parameter, and of each buffer in the graph, has one owner."""
    known = {name: p for p in graph.parameters for name in (p.name, *p.tied)}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        assert name in known, f"the parameter '{name}' is not in the graph"
        assert known[name].shape == tuple(parameter.shape), f"'{name}' has another shape"
    count = {p.name: torch.zeros(p.numel, dtype=torch.int64) for p in graph.parameters}
    for block in graph.blocks:
        if block.parameter is not None and block.is_owner:
            assert block.elements is not None
            index = block.elements.index().reshape(-1)
            count[block.parameter] += torch.bincount(index, minlength=count[block.parameter].numel())
    for name, owners in count.items():
        wrong = int((owners != 1).sum())
        assert not wrong, f"{wrong} of {owners.numel()} elements of '{name}' do not have one owner"
    owned = sum(p.numel for p in graph.parameters)
    assert graph.num_parameters == owned, f"{graph.num_parameters} edges for {owned} elements"


def assert_round_trip(graph: ParameterGraph, model: nn.Module) -> None:
    """Check that weights survive the way to edges and back bit for bit: values, dtypes, ties, channels."""
    before = {n: t for n, t in model.state_dict().items() if n not in graph.ignored}
    after = graph.state_dict(graph.edge_values(before))
    assert set(before) == set(after), f"names differ: {sorted(set(before) ^ set(after))}"
    for name, value in before.items():
        assert after[name].dtype == value.dtype, f"'{name}' came back as {after[name].dtype}"
        assert _same_bits(after[name], value), f"'{name}' came back changed"
    channels = {name: torch.stack([value, value + 1, 2 * value], -1) for name, value in before.items()}
    several = graph.state_dict(graph.edge_values(channels))
    for name, value in channels.items():
        assert _same_bits(several[name], value), f"'{name}' came back changed with three channels"


def _same_bits(first: Tensor, second: Tensor) -> bool:
    return torch.equal(torch.nan_to_num(first), torch.nan_to_num(second)) and torch.equal(
        first.isnan(), second.isnan()
    )
