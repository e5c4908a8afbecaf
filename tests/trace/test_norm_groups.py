"""The graph shows which channels a norm joins, however the norm is written."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import graph_metanetworks as gmn
from support import exact
from support.composed import Composed
from support.graph_hash import hash_of

X = torch.linspace(-1, 1, 6).view(3, 2).sin()


def grouped(h: Tensor) -> Tensor:  # [B, 4] -> [B, 2, 2]
    return h.view(len(h), 2, 2)


def at_places(h: Tensor) -> Tensor:  # [B, 4] -> [B, 4, 5]
    return (h[..., None] * torch.arange(5)).sin()


def batch_norm(h: Tensor) -> Tensor:
    return F.batch_norm(h, None, None, training=True)


def by_hand(h: Tensor) -> Tensor:
    h = grouped(h)
    deviation = (h.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
    return ((h - h.mean(-1, keepdim=True)) / deviation).flatten(1)


# Functions of four neurons that join the first two, and the last two: 2 * 2**2 permutations keep them.
NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "group norm": lambda h: F.group_norm(h, 2),
    "torch.group_norm": lambda h: torch.group_norm(h, 2),
    "group norm of places": lambda h: F.group_norm(grouped(h), 2).flatten(1),
    "layer norm of a view": lambda h: F.layer_norm(grouped(h), (2,)).flatten(1),
    "layer norm of rows": lambda h: F.layer_norm(h.view(-1, 2), (2,)).view(-1, 4),
    "RMS norm of a view": lambda h: F.rms_norm(grouped(h), (2,)).flatten(1),
    "instance norm of a view": lambda h: F.instance_norm(grouped(h)).flatten(1),
    "batch norm of groups": lambda h: batch_norm(h.reshape(1, -1, 2)).reshape(-1, 4),
    "softmax of a view": lambda h: grouped(h).softmax(-1).flatten(1),
    "log softmax of a view": lambda h: grouped(h).log_softmax(-1).flatten(1),
    "unit vectors": lambda h: F.normalize(grouped(h), dim=-1).flatten(1),
    "mean and variance": by_hand,
}
NO_GROUPS: dict[str, Callable[[Tensor], Tensor]] = {
    "one group": lambda h: F.group_norm(h, 1),
    "groups of one channel": lambda h: F.group_norm(at_places(h), 4).amax(-1),
    "layer norm": lambda h: F.layer_norm(h, (4,)),
    "instance norm": lambda h: F.instance_norm(at_places(h)).amax(-1),
    "batch norm": lambda h: F.batch_norm(h, torch.zeros(4), torch.ones(4)),
    "softmax": lambda h: h.softmax(-1),
}


def around(norm: Callable[[Tensor], Tensor]) -> nn.Module:
    torch.manual_seed(0)
    return Composed(lambda x, a, b: b(norm(a(x)).tanh()), nn.Linear(2, 4), nn.Linear(4, 1))


def first(graph: gmn.ParameterGraph, kind: str) -> gmn.NodeGroup:
    return next(group for group in graph.groups if group.kind == kind)


def norm_edges(graph: gmn.ParameterGraph) -> gmn.EdgeBlock:
    (block,) = (block for block in graph.blocks if block.kind == "norm group")
    return block


def swapped(graph: gmn.ParameterGraph, *pairs: tuple[int, int]) -> Tensor:
    nodes = torch.arange(graph.num_nodes)
    for a, b in pairs:
        nodes[a], nodes[b] = b, a
    return nodes


@pytest.mark.parametrize("name", NORMS)
def test_automorphisms_keep_the_groups(name: str) -> None:
    graph = gmn.testing.assert_all(around(NORMS[name]), X)
    assert graph.symmetry.order() == exact.order(graph) == 2 * 2**2


@pytest.mark.parametrize("name", NO_GROUPS)
def test_no_group_nodes_where_they_would_tell_nothing(name: str) -> None:
    graph = gmn.testing.assert_all(around(NO_GROUPS[name]), X)
    assert "norm group" not in graph.node_kinds


def test_is_automorphism() -> None:
    """Swaps within a group and of whole groups are automorphisms; swaps across groups are not."""
    graph = gmn.trace(around(NORMS["group norm"]), X)
    c, g = (first(graph, kind).start for kind in ("neuron", "norm group"))
    h = g + 1
    ok = graph.symmetry.is_automorphism
    assert ok(swapped(graph, (c, c + 1)))
    assert not ok(swapped(graph, (c + 1, c + 2)))
    assert ok(swapped(graph, (c, c + 2), (c + 1, c + 3), (g, h)))
    assert not ok(swapped(graph, (c, c + 2), (c + 1, c + 3)))  # without their nodes
    assert not ok(swapped(graph, (g, h)))


def test_group_nodes_are_sources_without_a_parameter() -> None:
    model = nn.Sequential(nn.Conv2d(2, 6, 3), nn.GroupNorm(3, 6), nn.ReLU(), nn.Conv2d(6, 2, 1))
    graph = gmn.trace(model, torch.randn(1, 2, 5, 5))
    groups, channels, block = first(graph, "norm group"), first(graph, "channel"), norm_edges(graph)
    assert (groups.size, groups.name, groups.indexed) == (3, "1", False)
    assert groups.depth == channels.depth - 1
    assert block.parameter is None
    assert (block.source - groups.start).tolist() == [0, 0, 1, 1, 2, 2]
    assert (block.target - channels.start).tolist() == [0, 1, 2, 3, 4, 5]


def test_groups_of_concatenated_channels() -> None:
    """A group that spans two layers joins nodes of both."""
    model = Composed(
        lambda x, a, b, c: c(F.group_norm(torch.cat([a(x), b(x)], 1), 2)),
        *(nn.Linear(2, 3), nn.Linear(2, 5), nn.Linear(8, 1)),
    )
    graph = gmn.testing.assert_all(model, X)
    assert norm_edges(graph).num_edges == 8
    assert len(graph.block_ends.targets(norm_edges(graph))) == 2


def test_groups_of_padded_channels() -> None:
    model = Composed(
        lambda x, a, b: b(F.group_norm(F.pad(a(x), (0, 2)), 3)), nn.Linear(2, 4), nn.Linear(6, 1)
    )
    graph = gmn.testing.assert_all(model, X)
    assert norm_edges(graph).num_edges == 6


def test_groups_of_the_input() -> None:
    graph = gmn.testing.assert_all(
        Composed(lambda x, a: a(F.group_norm(x, 2)), nn.Linear(4, 1)), torch.randn(3, 4)
    )
    assert [g.size for g in graph.groups if g.kind == "norm group"] == [2]


def test_functional_and_module_are_alike() -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(2, 6), nn.GroupNorm(3, 6), nn.Linear(6, 1)]
    module = Composed(lambda x, a, norm, b: b(norm(a(x))), *layers)
    functional = Composed(lambda x, a, norm, b: b(F.group_norm(a(x), 3, norm.weight, norm.bias)), *layers)
    assert hash_of(module, X) == hash_of(functional, X)


@pytest.mark.parametrize(("few", "many"), [(2, 4), (1, 2), (4, 8)])
def test_the_number_of_groups_is_seen(few: int, many: int) -> None:
    """By the graph alone: the weights are the same."""

    def network(groups: int) -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 8), nn.GroupNorm(groups, 8), nn.Linear(8, 1))

    assert hash_of(network(few), X) != hash_of(network(many), X)


def across(h: Tensor) -> Tensor:
    """Normalise the first with the third channel, and the second with the fourth."""
    return grouped(F.group_norm(grouped(h).mT.reshape(-1, 4), 2)).mT.flatten(1)


def test_which_channels_are_joined_is_seen() -> None:
    """The same two groups of weights, in two ways: neighbours, or every other channel."""
    torch.manual_seed(0)
    layers = nn.Linear(2, 4), nn.Linear(4, 1)
    near = Composed(lambda x, a, b: b(F.group_norm(a(x), 2)), *layers)
    far = Composed(lambda x, a, b: b(across(a(x))), *layers)
    assert hash_of(near, X) != hash_of(far, X)
