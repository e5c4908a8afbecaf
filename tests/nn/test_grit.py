"""GRIT blocks: symmetry, gradients, and the formulas by hand."""

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.nn.grit import signed_root
from support.permuted import (
    NAMES,
    assert_all_learn,
    assert_batch_independent,
    assert_equivariant,
    assert_gradients_correct,
    assert_sensitive,
    one,
)

READOUTS = [("graph", "edges"), ("graph", "nodes"), ("node", "each"), ("edge", "each")]


def grit(level="graph", readout=None, steps=0) -> gmn.GraphMetanetwork:
    torch.manual_seed(0)
    blocks = gmn.nn.Grit(heads=4, steps=steps)
    return gmn.GraphMetanetwork(16, 2, 3, level=level, readout=readout, blocks=blocks).double()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_equivariant(level, name):
    assert_equivariant(grit(level, steps=4), name)


def test_sensitive_to_wrong_permutations():
    assert_sensitive(grit())


@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_batch_mates_do_not_matter(level):
    assert_batch_independent(grit(level))


@pytest.mark.parametrize(("level", "readout"), READOUTS)
def test_every_parameter_learns(level, readout):
    assert_all_learn(grit(level, readout, steps=3))


@pytest.mark.parametrize("updates", [{}, {"updates_nodes": False}, {"updates_edges": False}])
def test_gradients(updates):
    torch.manual_seed(0)
    assert_gradients_correct(gmn.nn.GritBlock(4, heads=2, **updates), 4)


def test_the_signed_root():
    torch.testing.assert_close(signed_root(torch.tensor([4.0, -9.0, 0.0])), torch.tensor([2.0, -3.0, 0.0]))
    x = torch.zeros(1, requires_grad=True)
    signed_root(x).backward()
    assert x.grad is not None and x.grad.isfinite().all()


@torch.no_grad()
def test_one_node_by_hand():
    """The formulas of the docstring, written out for one node, neighbour by neighbour and head by head."""
    torch.manual_seed(0)
    block = gmn.nn.GritBlock(6, heads=2).double()
    for parameter in block.parameters():
        parameter.normal_()
    links = gmn.nn.Links(one("lstm"))
    sizes = (links.batch.num_nodes, links.batch.num_edges)
    state = gmn.nn.State(*(torch.randn(size, 6, dtype=torch.float64) for size in sizes))
    nodes, edges = block.node_norm(state.nodes), block.edge_norm(state.edges)
    attention, i = block.attention, 7

    def pair(receiver, sender, edge, direction):
        own = block.scale_and_shift(edges[edge]) + block.directions[direction]
        both = block.query(nodes[receiver]) + block.key(nodes[sender])
        return (signed_root(both * own[:6]) + own[6:]).relu()

    ends = list(enumerate(links.edge_index.T.tolist()))
    found = [(s, pair(i, s, edge, 0)) for edge, (s, t) in ends if t == i]
    found += [(t, pair(i, t, edge, 1)) for edge, (s, t) in ends if s == i]
    mixed = []
    for head, part in enumerate((slice(0, 3), slice(3, 6))):
        weight = torch.stack([attention.score[head] @ own[part] for _, own in found]).softmax(0)
        from_pairs = [own[part] @ attention.pair_value[head] for _, own in found]
        values = [attention.value(nodes[j])[part] for j, _ in found]
        mixed.append(weight @ (torch.stack(values) + torch.stack(from_pairs)))
    scale = attention.by_degree[0] + attention.by_degree[1] * torch.tensor(1.0 + len(found)).double().log()
    expected = state.nodes[i] + attention.out(torch.cat(mixed)) * scale
    expected = expected + block.feed_forward(expected)
    after = block(state, links)
    torch.testing.assert_close(after.nodes[i], expected)

    edge, (s, t) = ends[20]
    mean = (pair(t, s, edge, 0) + pair(s, t, edge, 1)) / 2
    torch.testing.assert_close(after.edges[edge], state.edges[edge] + block.edge_update(mean))


def test_the_preset_has_the_size_we_state():
    net = gmn.GraphMetanetwork.preset("grit")
    assert net.num_parameters == 2_966_135
    assert len(net.blocks) == 4 and net.blocks[0].attention.heads == 16


def test_heads_must_divide_hidden():
    with pytest.raises(ValueError, match="hidden=10 is not a multiple of heads=4"):
        gmn.nn.GritBlock(10, heads=4)


def test_saved_and_loaded(tmp_path):
    net = grit(steps=3)
    net.float().save_pretrained(tmp_path)
    again = gmn.GraphMetanetwork.from_pretrained(tmp_path)
    assert [type(block) for block in again.blocks] == [type(block) for block in net.blocks]
    batch = one("mlp-relu").to(torch.float32)
    assert torch.equal(again(batch), net(batch))


def test_it_trains():
    torch.manual_seed(0)
    graph = gmn.trace(nn.Linear(3, 2), torch.randn(1, 3))
    networks = [nn.Linear(3, 2).state_dict() for _ in range(16)]
    batch = gmn.collate([(graph, weights) for weights in networks])
    sums = torch.stack([weights["weight"].sum() for weights in networks])[:, None]
    net = gmn.GraphMetanetwork(16, 2, blocks=gmn.nn.Grit(heads=4))
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    losses = []
    for _ in range(150):
        loss = (net(batch) - sums).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10
