"""Parameter graphs as torch_geometric data: features, batching, and the way back."""

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

import graph_metanetworks as gmn
from graph_metanetworks.graph.pyg import from_pyg
from support.traced import traced

NAMES = ["mlp-relu", "cnn-2d-batch-norm", "attention-packed-qkv", "lstm", "language-model-tied-embedding"]


@pytest.fixture(params=NAMES)
def case(request):
    return traced(request.param)


def weights(case):
    return {n: t for n, t in case.model.state_dict().items() if n not in case.graph.ignored}


def test_shapes_and_dtypes(case):
    graph, data = case.graph, case.graph.to_pyg(weights(case))
    assert isinstance(data, Data) and data.validate()
    assert data.num_nodes == graph.num_nodes and data.num_edges == graph.num_edges
    assert data.x.shape == (graph.num_nodes, 3) and data.x.dtype == torch.float32
    assert data.edge_attr.shape == (graph.num_edges, 1)
    assert data.edge_position.shape == (graph.num_edges, 3)
    for name in ("edge_kind", "edge_depth", "edge_activation"):
        assert data[name].shape == (graph.num_edges,), name
    for name in ("node_kind", "node_depth", "node_index", "node_activation"):
        assert data[name].shape == (graph.num_nodes,), name


def test_each_edge_carries_its_weight_between_its_nodes():
    model = torch.nn.Linear(3, 2)
    graph = gmn.trace(model, torch.randn(1, 3))
    data = graph.to_pyg(model.state_dict())
    kinds = [data.edge_kinds[kind] for kind in data.edge_kind]
    position = {group.name if group.kind != "linear bias" else "bias": group.start for group in graph.groups}
    found = torch.zeros(2, 3)
    for kind, (source, target), value in zip(kinds, data.edge_index.T, data.edge_attr, strict=True):
        row = target - graph.groups[1].start
        if kind == "linear weight":
            found[row, source - position["input"]] = value
        else:
            assert source == position["bias"] and value == model.bias[row]
    assert torch.equal(found, model.weight)


def test_names_translate_the_integers(case):
    graph, data = case.graph, case.graph.to_pyg(weights(case))
    for group in graph.groups:
        assert {data.node_kinds[k] for k in data.node_kind[group.nodes]} == {group.kind}
        assert {data.activations[k] for k in data.node_activation[group.nodes]} == {group.activation}
    for block, where in zip(graph.blocks, graph.edge_slices, strict=True):
        assert {data.edge_kinds[k] for k in data.edge_kind[where].unique()} == {block.kind}


def test_round_trip(case):
    expected = weights(case)
    found = from_pyg(case.graph, case.graph.to_pyg(expected))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value) and found[name].dtype == value.dtype


def test_several_state_dicts_are_channels(case):
    first = weights(case)
    second = {name: value + 1 for name, value in first.items()}
    data = case.graph.to_pyg(first, second)
    assert data.edge_attr.shape == (case.graph.num_edges, 2)
    for name, value in from_pyg(case.graph, data).items():
        assert torch.equal(value, torch.stack([first[name], second[name]], dim=-1))


def test_without_weights_there_is_structure_only(case):
    assert case.graph.to_pyg().edge_attr.shape == (case.graph.num_edges, 0)


def test_float64_is_kept():
    model = torch.nn.Linear(3, 2).double()
    graph = gmn.trace(model, torch.randn(1, 3).double())
    data = graph.to_pyg(model.state_dict())
    assert data.edge_attr.dtype == torch.float64
    assert torch.equal(from_pyg(graph, data)["weight"], model.weight)


def test_batching_shifts_edges_but_no_feature(case):
    graph = case.graph
    one = graph.to_pyg(weights(case))
    two = graph.to_pyg({name: value + 1 for name, value in weights(case).items()})
    batch = Batch.from_data_list([one, two])
    nodes, edges = graph.num_nodes, graph.num_edges
    assert torch.equal(batch.edge_index[:, edges:], one.edge_index + nodes)
    for name in ("node_kind", "node_depth", "node_index", "node_activation", "x"):
        assert torch.equal(batch[name][nodes:], one[name]), f"batching changed {name}"
    for name in ("edge_kind", "edge_depth", "edge_position", "edge_activation"):
        assert torch.equal(batch[name][edges:], one[name]), f"batching changed {name}"
    assert batch.node_kinds == [gmn.nn.Vocabulary().node_kinds] * 2
    for before, after in zip([one, two], batch.to_data_list(), strict=True):
        assert torch.equal(after.node_index, before.node_index)
        assert torch.equal(after.edge_index, before.edge_index)
        assert torch.equal(after.edge_attr, before.edge_attr)


def test_different_architectures_are_numbered_alike():
    cases = [traced(name) for name in NAMES]
    data = [case.graph.to_pyg(weights(case)) for case in cases]
    assert data[0].kinds["edge_kinds"] == gmn.nn.Vocabulary().edge_kinds
    batch = Batch.from_data_list(data)
    kinds = gmn.nn.Vocabulary()
    found = {
        "edge_kind": [kinds.edge_kinds[k] for k in batch.edge_kind.tolist()],
        "node_kind": [kinds.node_kinds[k] for k in batch.node_kind.tolist()],
        "node_activation": [kinds.activations[k] for k in batch.node_activation.tolist()],
        "edge_activation": [kinds.activations[k] for k in batch.edge_activation.tolist()],
    }
    for name, names in found.items():
        listed = {"edge_kind": "edge_kinds", "node_kind": "node_kinds"}.get(name, "activations")
        own = [getattr(c.graph, listed)[k] for c in cases for k in getattr(c.graph, name).tolist()]
        assert names == own, name
    assert torch.equal(batch.x[:, 0].long(), batch.node_kind)


def test_different_vocabularies_are_not_mixed():
    one, two = traced("mlp-relu"), traced("siren")
    other = gmn.nn.Vocabulary(edge_kinds=("bilinear weight", *one.graph.edge_kinds))
    data = [one.graph.to_pyg(weights(one), vocabulary=other), two.graph.to_pyg(weights(two))]
    for pair in (data, [own.to("cpu") for own in data], [own.clone() for own in data]):
        with pytest.raises(ValueError, match="number their kinds differently"):
            Batch.from_data_list(pair)
    same = [case.graph.to_pyg(weights(case), vocabulary=other) for case in (one, one)]
    assert Batch.from_data_list(same).to("cpu").edge_kinds == [other.edge_kinds] * 2


def test_an_unknown_kind_is_refused():
    few = gmn.nn.Vocabulary(node_kinds=("input",))
    with pytest.raises(gmn.nn.UnknownKind, match=r"vocabulary=gmn.nn.Vocabulary\(\).extended"):
        traced("mlp-relu").graph.to_pyg(vocabulary=few)


def test_data_loader_mixes_architectures():
    data = [traced(name).graph.to_pyg(traced(name).model.state_dict()) for name in ("mlp-relu", "siren")]
    (batch,) = DataLoader(data, batch_size=2)
    assert batch.num_graphs == 2
    assert batch.name == [one.name for one in data]
    assert batch.num_edges == sum(one.num_edges for one in data)


def test_head_index_is_a_feature_when_asked_for():
    case = traced("attention-packed-qkv")
    assert "node_head" not in case.graph.to_pyg()
    graph = gmn.Tracer(heads="index").trace(case.model, *case.args, **case.kwargs)
    assert torch.equal(graph.to_pyg().node_head, graph.node_head)


def test_data_without_weights_is_refused():
    case = traced("mlp-relu")
    with pytest.raises(gmn.StateDictMismatch, match="no edge_attr"):
        from_pyg(case.graph, Data(x=torch.zeros(2, 1)))


def test_data_of_another_network_is_refused():
    mlp, siren = traced("mlp-relu"), traced("siren")
    with pytest.raises(gmn.StateDictMismatch, match="do not fit"):
        from_pyg(mlp.graph, siren.graph.to_pyg(siren.model.state_dict()))
