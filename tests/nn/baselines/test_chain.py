"""Chains: networks whose layers follow one another, read layer by layer and written back."""

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.errors import UnsupportedNetwork
from graph_metanetworks.nn.baselines.chain import chain_of, join_stacks


class Transposed(nn.Module):
    """A chain whose first weight is stored `[in, out]`, and whose second layer comes first in the module."""

    def __init__(self) -> None:
        super().__init__()
        self.second = nn.Linear(4, 2, bias=False)
        self.first = nn.Parameter(torch.randn(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.second((x @ self.first).relu())


CHAINS = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)),
        (1, 2),
        [(3, 2, 1), (1, 3, 1)],
    ),
    "transposed": (Transposed, (1, 3), [(4, 3, 1), (2, 4, 1)]),
    "flattened": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(36, 5)),
        (1, 1, 5, 5),
        [(4, 1, 9), (5, 4, 9)],
    ),
    "pooled": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, bias=False), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)
        ),
        (1, 2, 5, 5),
        [(4, 2, 9), (5, 4, 1)],
    ),
    "one layer": (lambda: nn.Linear(1, 1), (1, 1), [(1, 1, 1)]),
}


@pytest.mark.parametrize("name", CHAINS)
def test_weights_are_read_and_written_back(name: str) -> None:
    build, shape, layers = CHAINS[name]
    models = [build() for _ in range(3)]
    graph = gmn.trace(models[0], torch.zeros(shape))
    batch = gmn.collate([(graph, model.state_dict()) for model in models])
    (stack,) = batch.stacks
    chain = chain_of(stack, batch, "nfn")
    weights, biases = chain.weights(stack), chain.biases(stack)
    assert [(layer.outputs, layer.inputs, layer.taps) for layer in chain.layers] == layers
    assert [tuple(weight.shape[1:]) for weight in weights] == layers
    edges = join_stacks(batch, [chain.edges(weights, biases)])
    for model, found in zip(models, batch.state_dicts(edges), strict=True):
        assert all(torch.equal(value, found[key]) for key, value in model.state_dict().items())


def test_which_weight_is_where() -> None:
    model = Transposed()
    batch = gmn.collate([(gmn.trace(model, torch.zeros(1, 3)), [model.state_dict()] * 2)])
    weights = chain_of(batch.stacks[0], batch, "nfn").weights(batch.stacks[0])
    assert torch.equal(weights[0][0], torch.stack([model.first.t()] * 2, dim=-1))
    assert torch.equal(weights[1][0], torch.stack([model.second.weight] * 2, dim=-1))


def test_results_of_several_stacks_are_in_the_order_of_the_batch() -> None:
    models = [nn.Linear(2, 3), nn.Linear(4, 1), nn.Linear(2, 3)]
    shared = gmn.trace(models[0], torch.zeros(1, 2))
    graphs = [shared, gmn.trace(models[1], torch.zeros(1, 4)), shared]
    batch = gmn.collate([(graph, model.state_dict()) for graph, model in zip(graphs, models, strict=True)])
    chains = [(chain_of(stack, batch, "nfn"), stack) for stack in batch.stacks]
    edges = join_stacks(batch, [chain.edges(chain.weights(s), chain.biases(s)) for chain, s in chains])
    for model, found in zip(models, batch.state_dicts(edges), strict=True):
        assert torch.equal(found["weight"], model.weight) and torch.equal(found["bias"], model.bias)
    names = [torch.tensor([[float(m)] for m in stack.members]) for stack in batch.stacks]
    assert join_stacks(batch, names)[:, 0].tolist() == [0, 1, 2]


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x).relu()
        return hidden + self.second(hidden)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.layer(x).relu())


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x).relu() * self.second(x).tanh()


@pytest.mark.parametrize(
    ("build", "shape", "reason"),
    [
        (Residual, (1, 3), "a 'residual' connection"),
        (Twice, (1, 3), "a parameter that is used twice, 'layer.weight'"),
        (Branches, (1, 3), "two layers on the same inputs, 'first.weight', 'second.weight'"),
        (
            lambda: nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)),
            (1, 3),
            "a layer norm scale",
        ),
        (lambda: nn.Conv2d(4, 4, 3, groups=2), (1, 4, 5, 5), "a layer whose outputs do not have all inputs"),
        (lambda: nn.Sequential(nn.Conv1d(2, 3, 1), nn.BatchNorm1d(3)), (2, 2, 5), "a batch norm scale"),
        (lambda: nn.MultiheadAttention(4, 2, batch_first=True), None, "query weight"),
    ],
)
def test_what_is_no_chain_is_named(build, shape: tuple[int, ...] | None, reason: str) -> None:
    model = build()
    inputs = [torch.zeros(1, 3, 4)] * 3 if shape is None else [torch.zeros(shape)]
    batch = gmn.collate([(gmn.trace(model, *inputs), model.state_dict())], names=["the odd one"])
    for _ in range(2):  # the reason is cached
        with pytest.raises(
            UnsupportedNetwork, match=f"nfn takes plain chains .* but the odd one has .*{reason}"
        ):
            chain_of(batch.stacks[0], batch, "nfn")
