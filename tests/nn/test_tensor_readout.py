"""The readout by tensor: tensors are seen standardized those of the same name, or else kind."""

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.nn.tensor_readout import MeanByTensor, TensorMeans


def networks(count: int = 6, *, hidden: int = 5, name: str = "layer") -> gmn.Batch:
    pairs = []
    for seed in range(count):
        torch.manual_seed(seed)
        parts = {f"{name}{i}": nn.Linear(a, b) for i, (a, b) in enumerate([(3, hidden), (hidden, 2)])}
        model = nn.Sequential(*parts.values())
        for number, key in enumerate(parts):
            model._modules[key] = model._modules.pop(str(number))
        pairs.append((gmn.trace(model, torch.zeros(1, 3)), model.state_dict()))
    return gmn.collate(pairs)


def fitted(batches) -> gmn.GraphMetanetwork:
    torch.manual_seed(0)
    network = gmn.GraphMetanetwork(8, 2, readout="tensors")
    network.fit(batches)
    return network


def means(network: gmn.GraphMetanetwork, batch: gmn.Batch) -> torch.Tensor:
    network.readout = TensorMeans()
    with torch.no_grad():
        return network(batch)


def test_means_of_the_training_zoo_are_brought_to_one_scale() -> None:
    network, batch = fitted([networks()]), networks()
    readout = network.readout
    assert isinstance(readout, MeanByTensor) and len(readout.fitted_names) == 4
    rows = readout.rows(batch)
    standardized = (means(network, batch) - readout.mean[rows]) / readout.deviation[rows]
    for row in rows.unique():
        own = standardized[rows == row]
        assert torch.allclose(own.mean(0), torch.zeros(16), atol=1e-3)
        assert (own.std(0, correction=0) < 1.001).all()


def test_results_depend_on_how_tensors_differ_from_those_of_the_zoo() -> None:
    network, batch = fitted([networks()]), networks()
    before = network(batch)
    for table in ("mean", "deviation"):
        kept = getattr(network.readout, table).clone()
        getattr(network.readout, table).add_(1)
        assert not torch.allclose(network(batch), before, atol=1e-4)
        getattr(network.readout, table).copy_(kept)
    assert torch.equal(network(batch), before)


@pytest.mark.parametrize("kind", [list, iter])
def test_batches_may_be_a_list_or_an_iterator(kind) -> None:
    network = fitted(kind([networks(3), networks(6)]))
    assert torch.equal(network(networks()), fitted([networks(3), networks(6)])(networks()))


def test_a_name_that_is_not_known_counts_among_its_kind() -> None:
    network = fitted([networks()])
    readout = network.readout
    assert isinstance(readout, MeanByTensor)
    other = networks(name="other")
    assert torch.equal(readout.rows(other), readout.rows(other, by_name=False))
    assert not torch.equal(network(other), network(networks()))
    kinds = readout.rows(other)
    for kind in kinds.unique():  # all layers of the kind, whatever their names
        own = means(network, networks())[kinds == kind]
        assert torch.allclose(readout.mean[kind], own.mean(0), atol=1e-6)


def test_a_fitted_network_is_saved_and_loaded(tmp_path) -> None:
    network = fitted([networks()])
    again = gmn.GraphMetanetwork.from_pretrained(network.save_pretrained(tmp_path))
    assert torch.equal(network(networks()), again(networks()))


def test_every_tensor_counts_however_small() -> None:
    network = fitted([networks(hidden=50)])
    batch = networks(1, hidden=50)
    graph = batch.graphs[0]
    weights = {name: x[..., 0].squeeze(1).reshape(shape) for name, x, shape in _tensors(batch)}
    changed = weights | {"layer1.bias": weights["layer1.bias"] + 1}
    before, after = network(gmn.collate([(graph, weights), (graph, changed)])).flatten().tolist()
    assert abs(before - after) > 1e-3


def _tensors(batch: gmn.Batch):
    (stack,) = batch.stacks
    shapes = {parameter.name: parameter.shape for parameter in stack.graph.parameters}
    return [(name, x, shapes[name]) for name, x in stack.weights.items()]
