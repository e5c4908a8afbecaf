"""Fitted state is part of the state dict: a fresh module of the same configuration loads it."""

import pickle
from copy import deepcopy

import lightning
import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.errors import WeightsError
from graph_metanetworks.nn.baselines import DMC, StatNN, WeightSet
from graph_metanetworks.nn.baselines.boosting import BoostedStatNN
from graph_metanetworks.nn.fitted import fitted_names, set_fitted_names
from graph_metanetworks.nn.weights import load_weights, save_weights
from graph_metanetworks.tasks.accuracy.novelty import Novelty

LEVELS = [("graph", name) for name in ("edges", "kinds", "tensors", "nodes", "attention")]
LEVELS += [("node", "each"), ("edge", "each"), ("edge", "ends"), ("edge", "edit")]
MODELS = {
    f"gmn-{level}-{readout}": lambda level=level, readout=readout: gmn.GraphMetanetwork(
        8, 2, level=level, readout=readout
    )
    for level, readout in LEVELS
}
MODELS |= {
    "gmn-matrix-product-edit": lambda: gmn.GraphMetanetwork(
        8, 2, level="edge", readout="edit", blocks="matrix-product"
    ),
    "gmn-bundles-edit": lambda: gmn.GraphMetanetwork(8, 2, level="edge", readout="edit", blocks="bundles"),
    "gmn-named": lambda: gmn.GraphMetanetwork(8, 1, level="edge", readout="edit", tensors=["0.weight"]),
    "grit": lambda: gmn.GraphMetanetwork(8, 2, blocks=gmn.nn.Grit(heads=2), readout="tensors"),
    "statnn": lambda: StatNN(16),
    "statnn-budget": lambda: StatNN(None, by="both", budget=2000),
    "dmc": lambda: DMC((4, 6), 8),
    "deepsets": lambda: WeightSet(8, 12),
    "statnn-boosting": lambda: BoostedStatNN(iterations=5),
}


def network(outputs: int = 2) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, outputs))


@pytest.fixture(scope="module")
def batch() -> gmn.Batch:
    torch.manual_seed(1)
    graph = gmn.trace(network(), torch.zeros(1, 3))
    return gmn.collate([(graph, network().state_dict()) for _ in range(6)])


@pytest.mark.parametrize("name", [name for name in MODELS if name != "statnn-boosting"])
def test_an_optimizer_made_before_fit_trains_everything(name: str, batch: gmn.Batch) -> None:
    model = MODELS[name]()
    optimizer = torch.optim.Adam(model.parameters())
    model.fit([batch])
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    assert all(id(parameter) in held for parameter in model.parameters())
    model(batch).square().sum().backward()
    optimizer.step()


def test_fit_after_a_step_is_an_error(batch: gmn.Batch) -> None:
    model = gmn.GraphMetanetwork(8, 1)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        model(batch).sum().backward()
        optimizer.step()
    model.fit([batch])
    model(batch).sum().backward()
    with pytest.raises(RuntimeError, match="size of tensor"):
        optimizer.step()


def fitted(name: str, batch: gmn.Batch) -> nn.Module:
    """A fitted model, all of whose parameters differ from those of a fresh one."""
    torch.manual_seed(0)
    model = MODELS[name]()
    model.fit([batch])
    if isinstance(model, BoostedStatNN):
        model.grow(model.statistics(batch), torch.rand(len(batch)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@torch.no_grad()
def assert_same(model: nn.Module, other: nn.Module, batch: gmn.Batch) -> None:
    assert fitted_names(model) == fitted_names(other) != ()
    assert torch.equal(model(batch), other(batch))
    state, again = model.state_dict(), other.state_dict()
    assert list(state) == list(again)
    assert all(torch.equal(state[name], again[name]) for name in state)
    assert all(isinstance(value, Tensor) for value in state.values())


@pytest.mark.parametrize("name", MODELS)
def test_a_fresh_model_loads_a_fitted_one(name: str, batch: gmn.Batch) -> None:
    model, fresh = fitted(name, batch), MODELS[name]()
    fresh.load_state_dict(model.state_dict())
    assert_same(model, fresh, batch)


@pytest.mark.parametrize("name", MODELS)
def test_through_torch_save_and_safetensors(name: str, batch: gmn.Batch, tmp_path) -> None:
    model, fresh, other = fitted(name, batch), MODELS[name](), MODELS[name]()
    torch.save(model.state_dict(), tmp_path / "model.pt")
    fresh.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert_same(model, fresh, batch)
    save_weights(model, tmp_path / "model.safetensors")
    load_weights(other, tmp_path / "model.safetensors")
    assert_same(model, other, batch)


class Regression(lightning.LightningModule):
    """A user's own."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.metanetwork = MODELS[name]()


@pytest.mark.parametrize("name", ["gmn-graph-tensors", "gmn-edge-edit", "statnn-budget", "dmc"])
def test_lightning_loads_a_checkpoint(name: str, batch: gmn.Batch, tmp_path) -> None:
    module = Regression(name)
    module.metanetwork = fitted(name, batch)
    trainer = lightning.Trainer(logger=False, enable_checkpointing=False, accelerator="cpu")
    trainer.strategy.connect(module)
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    again = Regression.load_from_checkpoint(tmp_path / "last.ckpt", weights_only=True)
    assert_same(module.metanetwork, again.metanetwork, batch)


@pytest.mark.parametrize("name", MODELS)
def test_copies(name: str, batch: gmn.Batch) -> None:
    model = fitted(name, batch)
    for copy in (deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_same(model, copy, batch)
    copy = deepcopy(MODELS[name]())
    copy.load_state_dict(model.state_dict())
    assert_same(model, copy, batch)


@pytest.mark.parametrize("name", ["gmn-graph-tensors", "gmn-edge-edit", "statnn-budget"])
def test_loading_draws_no_random_numbers(name: str, batch: gmn.Batch) -> None:
    state, fresh = fitted(name, batch).state_dict(), MODELS[name]()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fresh.load_state_dict(state)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("name", ["gmn-graph-tensors", "gmn-edge-edit", "statnn-budget"])
def test_a_fitted_model_keeps_its_parameters_when_it_loads(name: str, batch: gmn.Batch) -> None:
    """An optimizer, made before a checkpoint is restored, holds them."""
    model = fitted(name, batch)
    before = [id(parameter) for parameter in model.parameters()]
    model.load_state_dict(model.state_dict())
    assert [id(parameter) for parameter in model.parameters()] == before


@pytest.mark.parametrize("name", MODELS)
def test_state_dicts_without_names(name: str, batch: gmn.Batch) -> None:
    """As earlier versions saved them."""
    model, fresh = fitted(name, batch), MODELS[name]()
    old = {key: value for key, value in model.state_dict().items() if not key.endswith("names")}
    assert len(old) < len(model.state_dict())
    set_fitted_names(fresh, fitted_names(model))
    fresh.load_state_dict(old)
    assert_same(model, fresh, batch)
    with pytest.raises(RuntimeError, match="size mismatch"):
        MODELS[name]().load_state_dict(old)


WRONG = {
    "hidden": ("gmn-graph-edges", lambda: gmn.GraphMetanetwork(16, 2)),
    "layers": ("gmn-graph-edges", lambda: gmn.GraphMetanetwork(8, 3)),
    "readout": ("gmn-graph-tensors", lambda: gmn.GraphMetanetwork(8, 2)),
    "method": ("gmn-graph-edges", lambda: StatNN(16)),
    "budget": ("statnn-budget", lambda: StatNN(None, by="both", budget=4000)),
    "vocabulary": (
        "gmn-graph-edges",
        lambda: gmn.GraphMetanetwork(
            8, 2, vocabulary=gmn.nn.Vocabulary(edge_kinds=("linear weight", "linear bias"))
        ),
    ),
}


@pytest.mark.parametrize("option", WRONG)
def test_another_configuration(option: str, batch: gmn.Batch, tmp_path) -> None:
    name, other = WRONG[option]
    save_weights(fitted(name, batch), tmp_path / "weights")
    with pytest.raises(WeightsError, match=r"(?s)weights do not fit this.*(mismatch|Missing|Unexpected)"):
        load_weights(other(), tmp_path / "weights")


def test_damaged_names(batch: gmn.Batch) -> None:
    state = fitted("gmn-graph-edges", batch).state_dict()
    state["edge_encoder.names"] = state["edge_encoder.names"][:-1]
    with pytest.raises(ValueError, match=r"damaged: 'edge_encoder\.names'"):
        MODELS["gmn-graph-edges"]().load_state_dict(state)


def test_any_name_can_be_saved() -> None:
    names = ("", "a\nb", "Schräg.weight", '"quoted"')
    model, fresh = StatNN(4), StatNN(4)
    set_fitted_names(model, names)
    fresh.load_state_dict(model.state_dict())
    assert fitted_names(fresh) == names


def test_novelty(batch: gmn.Batch) -> None:
    novelty, fresh = Novelty().double(), Novelty().double()
    double = batch.to(torch.float64)
    accuracies = torch.linspace(0, 1, 2 * len(batch), dtype=torch.float64)
    novelty.fit([double], [double], accuracies)
    fresh.load_state_dict(novelty.state_dict())
    assert fitted_names(fresh) == fitted_names(novelty) != ()
    own = accuracies[: len(batch)]
    assert fresh.judge(double, own) == novelty.judge(double, own)
    assert torch.equal(fresh.thresholds, novelty.thresholds)


@pytest.mark.parametrize("name", MODELS)
def test_networks_with_one_output(name: str) -> None:
    """Their last bias is a block of one edge, of shape ()."""
    graph = gmn.trace(network(1), torch.zeros(1, 3))
    one = gmn.collate([(graph, network(1).state_dict()) for _ in range(6)])
    model, fresh = fitted(name, one), MODELS[name]()
    fresh.load_state_dict(model.state_dict())
    assert_same(model, fresh, one)


def test_editing_has_a_step_size_for_each_fitted_tensor(batch: gmn.Batch) -> None:
    torch.manual_seed(0)
    model = MODELS["gmn-edge-edit"]()
    model.fit([batch])
    kinds = len(gmn.nn.Vocabulary().edge_kinds)
    assert model.readout.fitted_names == model.edge_encoder.fitted_names
    assert model.readout.gamma.shape == (kinds + 4,) and (model.readout.gamma == 0.01).all()
    with torch.no_grad():
        model.readout.gamma[kinds + model.readout.fitted_names.index("0.bias (linear bias)")] = 0.0
        (edited, *_), (before, *_) = (
            batch.state_dicts(edges)
            for edges in (model(batch), torch.cat([g.edge_values(_weights(batch)) for g in batch.graphs]))
        )
    assert torch.equal(edited["0.bias"], before["0.bias"])
    assert not torch.equal(edited["2.bias"], before["2.bias"])


def test_editing_steps_are_small_where_weights_are_small() -> None:
    """An untrained editor is close to the identity in every tensor."""
    torch.manual_seed(0)
    model, graph = MODELS["gmn-edge-edit"](), gmn.trace(network(), torch.zeros(1, 3))
    sizes = {"0.weight": 1e-4, "0.bias": 1.0, "2.weight": 1e-2, "2.bias": 1e-3}
    batch = gmn.collate(
        [(graph, {n: sizes[n] * torch.randn_like(x) for n, x in network().state_dict().items()})] * 6
    )
    before = graph.edge_values(_weights(batch))
    for fit, close in ((False, False), (True, True)):
        if fit:
            model.fit([batch])
        with torch.no_grad():
            edited = batch.state_dicts(model(batch))[0]
        given = graph.state_dict(before)
        changes = [float((edited[n] - given[n]).abs().max()) / sizes[n] for n in sizes]
        assert (max(changes) < 0.2) is close


def test_editors_of_earlier_versions_load(batch: gmn.Batch) -> None:
    """Their step sizes were absolute."""
    model, fresh = fitted("gmn-edge-edit", batch), MODELS["gmn-edge-edit"]()
    old = model.state_dict()
    assert (old.pop("readout.deviation") != 1).any()
    assert "readout.deviation" not in old
    fresh.load_state_dict(old)
    assert (fresh.readout.deviation == 1).all() and torch.equal(fresh.readout.gamma, model.readout.gamma)
    model.readout.deviation.fill_(1)
    assert_same(model, fresh, batch)


def _weights(batch: gmn.Batch) -> dict[str, Tensor]:
    shapes = {parameter.name: parameter.shape for parameter in batch.graphs[0].parameters}
    return {name: x[:, 0, 0].reshape(shapes[name]) for name, x in batch.stacks[0].weights.items()}
