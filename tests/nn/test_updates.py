"""The three updates as blocks: with the functions of `MessagePassing` they are `MessagePassing`."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graph_metanetworks as gmn
from support.permuted import NAMES, assert_equivariant, many
from support.traced import traced

HIDDEN = 8


def spelled_out(block: gmn.nn.MessagePassing) -> list[nn.Module]:
    """The block as an update of nodes, of the global feature and of edges."""

    def message(to, fro, edges, along, context):
        parts = [block.node_norm(to), block.node_norm(fro), block.edge_norm(edges)]
        if block.two_way:
            parts.append(F.one_hot(torch.tensor(0 if along else 1), 2).to(edges).expand(len(edges), 2))
        return block.message(torch.cat([*parts, *given(context)], dim=1))

    def update_nodes(nodes, messages, context):
        return nodes + block.node_update(
            torch.cat([block.node_norm(nodes), messages, *given(context)], dim=1)
        )

    def update_edges(sources, targets, edges, context):
        ends = [block.edge_node_norm(end) for end in (sources, targets)]
        return edges + block.edge_update(torch.cat([*ends, block.edge_norm(edges), *given(context)], dim=1))

    nodes = gmn.nn.NodeUpdate(message, update_nodes, aggregation=block.aggregation, two_way=block.two_way)
    edges = gmn.nn.EdgeUpdate(update_edges)
    if block.global_update is None:
        return [nodes, edges]
    normed = {"of_edges": lambda edges, context: block.edge_norm(edges), "aggregation": "mean"}
    return [nodes, gmn.nn.GlobalUpdate(block.updated_globals, **normed), edges]


def given(context):
    return [] if context is None else [context]


@pytest.mark.parametrize(
    "options", [{}, {"global_feature": True}, {"aggregation": "sum", "two_way": False}], ids=str
)
def test_they_are_message_passing(options):
    net = gmn.GraphMetanetwork(HIDDEN, 2, level="edge", **options).double()
    parts = [part for block in net.blocks for part in spelled_out(block)]
    same = gmn.GraphMetanetwork(HIDDEN, level="edge", blocks=parts, **options).double()
    same.load_state_dict(net.state_dict(), strict=False)
    same.node_encoder, same.edge_encoder, same.readout = net.node_encoder, net.edge_encoder, net.readout
    batch = many(NAMES)
    torch.testing.assert_close(same(batch), net(batch))


def test_functions_of_your_own_are_equivariant():
    """Largest weights in and out of each node, the sum of squares of all, and both on edges."""
    blocks = [
        gmn.nn.NodeUpdate(
            lambda to, fro, edges, along, u: edges, lambda nodes, m, u: nodes + m, aggregation="max"
        ),
        gmn.nn.GlobalUpdate(lambda u, nodes, edges: edges.sqrt(), of_edges=lambda edges, u: edges.square()),
        gmn.nn.EdgeUpdate(lambda sources, targets, edges, u: edges * u + sources - targets),
    ]
    net = gmn.GraphMetanetwork(HIDDEN, level="edge", blocks=blocks, global_feature=True).double()
    for name in NAMES:
        assert_equivariant(net, name)


def test_modules_in_the_slots_are_trained():
    update = nn.Linear(HIDDEN, HIDDEN)
    block = gmn.nn.NodeUpdate(lambda to, fro, edges, along, u: update(edges), lambda nodes, m, u: m)
    assert not list(block.parameters())  # a function hides what it uses
    block = gmn.nn.GlobalUpdate(nn.Bilinear(2, 2, 2), of_edges=nn.Identity())
    assert len(list(block.parameters())) == 2


def test_a_global_feature_must_be_there():
    case = traced("mlp-relu")
    net = gmn.GraphMetanetwork(HIDDEN, blocks=[gmn.nn.GlobalUpdate(lambda u, nodes, edges: u)])
    with pytest.raises(ValueError, match="global_feature=True"):
        net(gmn.collate([(case.graph, case.model.state_dict())]))
