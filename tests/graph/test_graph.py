"""The parameter graph: nodes, edges, kinds, positions and values, by example."""

from collections import Counter

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.graph.parts import block_position
from support.traced import traced


def blocks(graph: gmn.ParameterGraph, **wanted: object) -> list[gmn.EdgeBlock]:
    return [b for b in graph.blocks if all(getattr(b, key) == value for key, value in wanted.items())]


def block(graph: gmn.ParameterGraph, parameter: str) -> gmn.EdgeBlock:
    (found,) = blocks(graph, parameter=parameter)
    return found


def kinds(graph: gmn.ParameterGraph) -> Counter[str]:
    return Counter(group.kind for group in graph.groups)


def groups_at(graph: gmn.ParameterGraph, end: Tensor) -> set[tuple[str, str]]:
    """Kind and name of the node groups that an index tensor touches."""
    return {(g.kind, g.name) for g in graph.groups for n in end.unique().tolist() if n in range(*_span(g))}


def _span(group: gmn.NodeGroup) -> tuple[int, int]:
    return group.start, group.start + group.size


# ------------------------------------------------------------------ layers


def test_a_linear_layer() -> None:
    model = nn.Linear(3, 2)
    graph = gmn.trace(model, torch.randn(1, 3))
    assert (graph.num_nodes, graph.num_edges, graph.num_parameters) == (6, 8, 8)
    assert kinds(graph) == {"input": 1, "output": 1, "linear bias": 1}
    weight = block(graph, "weight")
    assert (weight.kind, weight.shape) == ("linear weight", (2, 3))
    assert (weight.source.shape, weight.target.shape) == ((1, 3), (2, 1))
    index, values = graph.edge_index, graph.edge_values(model.state_dict())
    rows = {name: value.tolist() for name, value in model.state_dict().items()}
    for source, target, value in zip(*index.tolist(), values.tolist(), strict=True):
        row, column = target - int(weight.target.min()), source - int(weight.source.min())
        if source in weight.source:
            assert value == rows["weight"][row][column]
        else:
            assert value == rows["bias"][row]


def test_a_convolution_has_parallel_edges_with_centred_positions() -> None:
    graph = gmn.trace(nn.Conv2d(2, 4, (3, 2)), torch.randn(1, 2, 5, 5))
    weight = block(graph, "weight")
    assert (weight.shape, weight.positions) == ((4, 2, 3, 2), (2, 3))
    position = block_position(weight).view(4, 2, 3, 2, 3)
    assert torch.allclose(position[1, 1, :, 0, 1], torch.tensor([-1 / 3, 0, 1 / 3]))
    assert torch.allclose(position[1, 1, 0, :, 2], torch.tensor([-0.25, 0.25]))
    assert bool((position[..., 0] == 0).all())


@pytest.mark.parametrize(("layer", "columns"), [(nn.Conv1d, 1), (nn.Conv2d, 2), (nn.Conv3d, 3)])
def test_positions_lie_in_the_last_columns(layer: type[nn.Module], columns: int) -> None:
    graph = gmn.trace(layer(1, 1, 3), torch.randn(1, 1, *[4] * columns))
    varies = [bool(graph.edge_position[:, i].unique().numel() > 1) for i in range(3)]
    assert varies == [False] * (3 - columns) + [True] * columns


def test_grouped_channels_are_joined_within_their_group() -> None:
    graph = gmn.trace(nn.Conv1d(4, 6, 1, groups=2, bias=False), torch.randn(1, 4, 3))
    inputs, outputs = (next(g for g in graph.groups if g.kind == kind) for kind in ("input", "output"))
    index = graph.edge_index
    pairs = {((s - inputs.start) // 2, (t - outputs.start) // 3) for s, t in index.T.tolist()}
    assert pairs == {(0, 0), (1, 1)}


def test_a_flattened_layer_reads_places_as_positions() -> None:
    graph = traced("cnn-2d-batch-norm-flatten").graph
    weight = block(graph, "8.weight")
    assert weight.shape == (4, 10, 48)
    assert weight.positions == (2,)
    assert weight.source.numel() == 10


def test_a_batch_norm_has_four_kinds() -> None:
    graph = traced("cnn-2d-batch-norm").graph
    found = {b.parameter: b.kind for b in graph.blocks if b.parameter and b.parameter.startswith("1.")}
    assert found == {
        "1.weight": "batch norm scale",
        "1.bias": "batch norm shift",
        "1.running_mean": "batch norm mean",
        "1.running_var": "batch norm variance",
    }
    for name in found:
        (group,) = groups_at(graph, block(graph, str(name)).source)
        assert group[0] == found[name]
    assert "1.num_batches_tracked" in graph.ignored


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mlp-layer-norm", "layer norm scale"),
        ("mlp-rms-norm", "rms norm scale"),
        ("mlp-group-norm", "group norm scale"),
        ("cnn-2d-instance-norm-affine", "instance norm scale"),
        ("hf-llama", "rms norm scale"),
    ],
)
def test_norms_have_kinds_of_their_own(name: str, kind: str) -> None:
    assert kind in traced(name).graph.edge_kinds


def test_residual_edges_carry_one() -> None:
    case = traced("resnet-basic-identity")
    residual = blocks(case.graph, kind="residual")
    assert residual
    assert all(b.parameter is None for b in residual)
    values = case.graph.edge_values(case.model.state_dict())
    for b, where in zip(case.graph.blocks, case.graph.edge_slices, strict=True):
        if b.parameter is None:
            assert bool((values[where] == 1).all())


# ------------------------------------------------------------------ attention, tokens, sharing


@pytest.mark.parametrize(
    "name",
    [
        "attention-packed-qkv",
        "vision-transformer",
        "multihead-self-attention",
        "hf-gpt2",
        "hf-llama",
        "hf-bert-masked-lm",
    ],
)
def test_queries_keys_values_and_outputs_have_kinds(name: str) -> None:
    graph = traced(name).graph
    expected = {"query weight", "key weight", "value weight", "output weight"}
    assert expected <= set(graph.edge_kinds)
    assert "head" in kinds(graph)


def test_a_packed_weight_falls_into_three_blocks() -> None:
    graph = traced("attention-packed-qkv").graph
    found = [b.kind for b in blocks(graph, parameter="attends.0.qkv.weight")]
    assert found == ["query weight", "key weight", "value weight"]
    assert [b.num_edges for b in blocks(graph, parameter="attends.0.qkv.weight")] == [144] * 3
    biases = [b.kind for b in blocks(graph, parameter="attends.0.qkv.bias")]
    assert biases == ["query bias", "key bias", "value bias"]


def test_heads_are_nodes_joined_to_their_dimensions() -> None:
    graph = traced("attention-packed-qkv").graph
    heads = [g for g in graph.groups if g.kind == "head"]
    assert [g.size for g in heads] == [3, 3]
    into = [b for b in blocks(graph, kind="head") if int(b.target.min()) == heads[0].start]
    (joined,) = into
    assert Counter(joined.target.tolist()) == {heads[0].start + i: 4 for i in range(3)}


def test_an_embedding_starts_at_its_vocabulary() -> None:
    graph = traced("sinusoidal-positions").graph
    words = next(g for g in graph.groups if g.kind == "vocabulary")
    assert (words.size, words.indexed, words.depth) == (17, True, 0)
    embedding = block(graph, "embed.weight")
    assert embedding.kind == "embedding"
    assert torch.equal(embedding.source.flatten(), torch.arange(*_span(words)))


def test_class_token_and_positions_have_nodes_of_their_own() -> None:
    graph = traced("vision-transformer").graph
    token, position = block(graph, "class_token"), block(graph, "position")
    assert token.source.unique().numel() == 1
    assert position.source.unique().numel() == 13
    assert not groups_at(graph, token.source) & groups_at(graph, position.source)
    places = next(g for g in graph.groups if g.size == 13 and int(position.source.min()) == g.start)
    assert places.indexed


def test_tied_weights_have_one_owner() -> None:
    graph = traced("language-model-tied-embedding").graph
    owner, alias = blocks(graph, parameter="embed.weight")
    assert (owner.kind, owner.is_owner) == ("embedding", True)
    assert (alias.kind, alias.is_owner) == ("linear weight", False)
    (tied,) = [p for p in graph.parameters if p.tied]
    assert (tied.name, tied.tied) == ("embed.weight", ("head.weight",))


def test_a_shared_block_is_shown_at_each_use() -> None:
    graph = traced("shared-block").graph
    uses = blocks(graph, parameter="block.inner.weight")
    assert [b.is_owner for b in uses] == [True, False, False]
    assert len({int(b.target.min()) for b in uses}) == 3


def test_the_two_matrices_of_deep_sets_differ() -> None:
    graph = traced("deep-sets").graph
    own, shared = block(graph, "0.own"), block(graph, "0.shared")
    same_ends = torch.equal(own.source, shared.source) and torch.equal(own.target, shared.target)
    assert not same_ends or own.kind != shared.kind


def test_equivariant_basis_elements_are_positions() -> None:
    graph = traced("equivariant-c4-declared").graph
    weight = block(graph, "layers.0.weight")
    assert weight.positions == (0,)
    assert weight.shape == (4, 10, 3)


def test_recurrent_weights_have_kinds() -> None:
    graph = traced("lstm").graph
    assert {"recurrent weight", "gate weight", "recurrent bias", "gate bias"} <= set(graph.edge_kinds)
    recurrent = block(graph, "recurrence.weight_hh_l0")
    assert torch.equal(recurrent.source.unique(), recurrent.target.unique())


def test_grid_sites_are_nodes() -> None:
    graph = traced("grid-bilinear").graph
    plane = block(graph, "plane")
    assert plane.kind == "grid"
    assert plane.source.unique().numel() == 35
    assert plane.target.unique().numel() == 6


# ------------------------------------------------------------------ features


def test_inputs_and_outputs_are_indexed() -> None:
    graph = traced("mlp-relu").graph
    for group in graph.groups:
        expected = list(range(group.size)) if group.kind in ("input", "output") else [-1] * group.size
        assert graph.node_index[group.nodes].tolist() == expected


def test_depths_and_activations() -> None:
    graph = traced("mlp-relu").graph
    by_kind = {g.kind: g for g in graph.groups}
    assert (by_kind["input"].depth, by_kind["output"].depth) == (0, 3)
    hidden = sorted((g.depth, g.size, g.activation) for g in graph.groups if g.kind == "neuron")
    assert hidden == [(1, 12, "relu"), (2, 9, "relu")]
    assert by_kind["output"].activation == ""
    weight = graph.edge_slices[graph.blocks.index(block(graph, "2.weight"))]
    assert set(graph.edge_depth[weight].tolist()) == {1}
    assert graph.activations[int(graph.edge_activation[weight][0])] == "relu"


def test_features_are_aligned_with_names() -> None:
    graph = traced("cnn-2d-batch-norm").graph
    for b, where in zip(graph.blocks, graph.edge_slices, strict=True):
        assert {graph.edge_kinds[i] for i in graph.edge_kind[where].tolist()} == {b.kind}
    for group in graph.groups:
        assert {graph.node_kinds[i] for i in graph.node_kind[group.nodes].tolist()} == {group.kind}


# ------------------------------------------------------------------ values


def test_several_state_dicts_are_channels() -> None:
    case = traced("cnn-2d-batch-norm")
    state = case.model.state_dict()
    doubled = {name: 2 * value for name, value in state.items()}
    both = case.graph.edge_values(state, doubled)
    assert both.shape == (case.graph.num_edges, 2)
    owned = torch.cat([torch.full((b.num_edges,), b.parameter is not None) for b in case.graph.blocks])
    assert torch.equal(both[owned, 1], 2 * both[owned, 0])
    back = case.graph.state_dict(both)
    assert torch.equal(back["3.weight"], torch.stack([state["3.weight"], doubled["3.weight"]], -1))
    assert torch.equal(case.graph.edge_values(back), both)


def test_entries_without_edges_come_from_like() -> None:
    case = traced("cnn-2d-batch-norm")
    state = case.model.state_dict() | {"1.num_batches_tracked": torch.tensor(7)}
    values = case.graph.edge_values(state)
    assert "1.num_batches_tracked" not in case.graph.state_dict(values)
    whole = case.graph.state_dict(values, like=state)
    assert int(whole["1.num_batches_tracked"]) == 7
    case.model.load_state_dict(whole)


def test_gradients_flow_from_edges_to_weights() -> None:
    """An editor of networks is trained through the weights it writes."""
    graph = traced("cnn-2d-batch-norm").graph
    values = torch.randn(graph.num_edges, requires_grad=True)
    torch.cat([v.flatten() for v in graph.state_dict(values).values()]).square().sum().backward()
    owned = torch.cat([torch.full((b.num_edges,), b.parameter is not None) for b in graph.blocks])
    assert values.grad is not None
    assert torch.allclose(values.grad, 2 * values.detach() * owned)


def test_gradients_flow_from_weights_to_edges() -> None:
    case = traced("mlp-relu")
    weights = {n: v.clone().requires_grad_() for n, v in case.model.state_dict().items()}
    case.graph.edge_values(weights).square().sum().backward()
    assert all(w.grad is not None and torch.allclose(w.grad, 2 * w.detach()) for w in weights.values())


def test_the_graph_is_frozen() -> None:
    graph = traced("mlp-relu").graph
    with pytest.raises(AttributeError):
        graph.name = "other"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        graph.blocks[0].kind = "other"  # type: ignore[misc]


def test_the_printed_form() -> None:
    assert repr(traced("mlp-relu").graph) == "ParameterGraph(Sequential: 32 nodes, 219 edges, 219 parameters)"


def test_a_large_layer_needs_few_indices() -> None:
    with torch.device("meta"):
        model = nn.Linear(4096, 4096)
    graph = gmn.trace(model, torch.randn(1, 4096))
    assert graph.num_parameters == 4096**2 + 4096
    assert sum(end.numel() for b in graph.blocks for end in (b.source, b.target)) < 20_000
