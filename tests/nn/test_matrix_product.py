"""Matrix products: layouts of blocks, scales, unary parameters, readout by node group."""

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.nn.engine.matrices import arrange_matrices, block_layouts
from graph_metanetworks.nn.unary import unary_blocks
from support.permuted import assert_all_learn, assert_batch_independent, assert_sensitive, many
from support.traced import every_architecture, traced


def metanetwork(**options) -> gmn.GraphMetanetwork:
    return gmn.GraphMetanetwork(16, 3, 2, blocks="matrix-product", **options).double()


def batch_of(model: nn.Module, example: torch.Tensor, count: int = 1) -> gmn.Batch:
    return gmn.collate([(gmn.trace(model, example), model.state_dict())] * count).to(torch.float64)


@every_architecture
def test_every_edge_is_in_one_matrix_or_unary(name):
    graph = traced(name).graph
    layouts = block_layouts(graph)
    assert sorted([*layouts.matrices, *layouts.unary]) == list(range(len(graph.blocks)))
    for number, layout in layouts.matrices.items():
        count, rows, columns, taps = layout.shape
        assert count * rows * columns * taps == graph.blocks[number].num_edges
    edges = sum(graph.blocks[number].num_edges for number in layouts.unary)
    assert len(unary_blocks(graph, gmn.nn.Vocabulary()).node) == edges


def test_grouped_convolutions():
    graph = gmn.trace(nn.Conv2d(6, 4, 3, groups=2, bias=False), torch.zeros(1, 6, 5, 5))
    (layout,) = block_layouts(graph).matrices.values()
    assert layout.shape == (4, 1, 3, 9)  # each output channel reads its own three inputs
    depthwise = gmn.trace(nn.Conv2d(4, 4, 3, groups=4, bias=False), torch.zeros(1, 4, 5, 5))
    (layout,) = block_layouts(depthwise).matrices.values()
    assert layout.shape == (4, 1, 1, 9)


def test_the_ratio_of_widths_knows_groups():
    """Each input of a grouped convolution feeds all channels of its group, though each is its own matrix."""
    for groups, expected in ((1, 6 / 4), (2, 3 / 2)):
        model = nn.Conv2d(6, 4, 3, groups=groups, bias=False)
        (layout,) = block_layouts(gmn.trace(model, torch.zeros(1, 6, 5, 5))).matrices.values()
        assert layout.ratio == expected


def test_a_panel_holds_the_weights():
    model = nn.Conv2d(2, 3, (1, 2), bias=False).double()
    (panel,) = arrange_matrices(
        batch_of(model, torch.zeros(1, 2, 4, 4).double()), gmn.nn.Vocabulary(), stacked=True
    )
    assert panel.values is not None and panel.position is not None
    assert torch.equal(panel.values[0, ..., 0], model.weight.flatten(2))
    assert torch.equal(panel.position[:, -1], torch.tensor([-0.25, 0.25]).double())


def test_properties():
    for level in ("graph", "node", "edge"):
        assert_sensitive(metanetwork(level=level))
        assert_batch_independent(metanetwork(level=level))


@pytest.mark.parametrize("level", ["graph", "node"])
def test_all_learn(level):
    assert_all_learn(metanetwork(level=level))


def test_sums_have_one_scale_at_every_width():
    """What a neuron receives does not grow with the width of the network, nor shrink as a mean would."""
    torch.manual_seed(0)
    models = {width: nn.Linear(width, 20, bias=False).double() for width in (20, 500)}
    batches = {width: batch_of(model, torch.zeros(1, width).double()) for width, model in models.items()}
    matrices = gmn.nn.WeightMatrices(gmn.nn.Vocabulary()).double()
    matrices.fit(batches.values())
    sizes = {}
    for width, batch in batches.items():
        (panels,) = matrices(batch).panels
        nodes = torch.randn(batch.num_nodes, 8).double()
        mix = panels.scale[..., None, None] * torch.eye(8).double()
        received, _ = panels.messages(nodes, mix, mix)
        sizes[width] = float(received.detach().std())
    assert 0.7 < sizes[20] / sizes[500] < 1.4


def test_fitted_scales_are_saved(tmp_path):
    net = metanetwork()
    net.fit([many(["mlp-relu", "cnn-2d-batch-norm"])])
    assert net.matrices is not None and bool((net.matrices.size != 1).any())
    again = gmn.GraphMetanetwork.from_pretrained(net.save_pretrained(tmp_path))
    batch = many(["mlp-relu", "lstm"])
    assert torch.equal(again(batch), net(batch))


def test_unary_parameters_are_seen_by_their_neuron():
    """Also without a block: a bias, a scale or a running mean changes the state of its own neuron only."""
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3, 2)).eval()
    graph = gmn.trace(model, torch.zeros(1, 1, 3, 3))
    encoder = gmn.nn.UnaryEncoder(4, gmn.nn.Vocabulary())
    state = model.state_dict()
    plain = encoder(gmn.collate([(graph, state)]))
    channels = next(group for group in graph.groups if group.kind == "channel" and group.size == 3).nodes
    for name in ("0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"):
        changed = state | {name: state[name] + torch.tensor([0.0, 0.5, 0.0])}
        moved = (encoder(gmn.collate([(graph, changed)])) - plain).abs().sum(1).nonzero().squeeze(1).tolist()
        assert moved == [range(graph.num_nodes)[channels][1]], name


def test_unary_features_do_not_depend_on_the_scale_of_the_zoo():
    model = nn.Linear(3, 5)
    graph = gmn.trace(model, torch.zeros(1, 3))

    def fitted(scale: float) -> torch.Tensor:
        torch.manual_seed(0)
        encoder = gmn.nn.UnaryEncoder(4, gmn.nn.Vocabulary())
        batch = gmn.collate([(graph, {k: scale * v for k, v in model.state_dict().items()})])
        encoder.fit([batch])
        return encoder(batch)

    assert (fitted(1.0) - fitted(2.0)).abs().max() < 0.5 * fitted(1.0).abs().max()


def test_groups_are_read_by_kind_and_depth():
    """Unknown names of tensors make no difference, and the order of layers does."""
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    one = nn.Sequential(first, nn.ReLU(), second)
    other = nn.Sequential(second, nn.ReLU(), first)
    renamed = nn.ModuleDict({"a": first, "b": second})
    renamed.forward = lambda x: renamed["b"](renamed["a"](x).relu())  # type: ignore[method-assign]
    net, example = metanetwork().float(), torch.zeros(1, 4)
    results = [net(gmn.collate([(gmn.trace(m, example), m.state_dict())])) for m in (one, renamed, other)]
    torch.testing.assert_close(results[0], results[1])
    assert not torch.allclose(results[0], results[2])


def test_a_phase_counts_modulo_its_period():
    """What a bias adds as a phase does not change if the sine unit's phase turns once; other features do."""
    encoder = gmn.nn.UnaryEncoder(6, gmn.nn.Vocabulary()).double()
    torch.nn.init.zeros_(encoder.weight)
    name, angles = "siren", []
    for turn in (0.0, 2 * torch.pi / 4, 0.7):  # the frequency is 4
        state = {k: v.double() for k, v in traced(name).model.state_dict().items()}
        state["hidden.0.bias"] = state["hidden.0.bias"] + turn
        angles.append(encoder(gmn.collate([(traced(name).graph, state)])))
    same, turned, other = angles
    assert torch.allclose(same, turned) and not torch.allclose(same, other)
    # the output bias has no phase, so the output node gets nothing
    assert [group.kind for group in traced(name).graph.groups if same[group.nodes].any()] == ["neuron"] * 2


def test_sums_of_sine_units_are_angles():
    """What an angle adds does not change if a phase turns once, and is zero for other neurons."""
    net, own = metanetwork(), traced("siren")
    block, matrices = net.blocks[0], net.matrices
    messages = torch.randn(own.graph.num_nodes, net.hidden).double()
    found = []
    for turn in (0.0, 2 * torch.pi / 4, 0.7):
        state = {k: v.double() for k, v in own.model.state_dict().items()}
        state["hidden.0.bias"] = state["hidden.0.bias"] + turn
        found.append(block._waves(messages, matrices(gmn.collate([(own.graph, state)])).sines))
    same, turned, other = found
    torch.testing.assert_close(turned, same)
    assert not torch.allclose(other, same)
    assert [group.kind for group in own.graph.groups if same[group.nodes].any()] == ["neuron"] * 2


def test_parameters_have_gradients_without_taps_and_sines():
    """Processes that train together wait for the gradient of every parameter."""
    net = metanetwork()
    net(many(["mlp-relu"])).square().sum().backward()
    assert all(p.grad is not None for part in (net.matrices, net.blocks) for p in part.parameters())
