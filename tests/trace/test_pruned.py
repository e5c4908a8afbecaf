"""Modules under `torch.nn.utils.prune`: the weight and its mask are permuted together."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from graph_metanetworks import testing


class Recurrent(nn.Module):
    """A recurrent layer, which is declared as a whole unless a hook computes its weights."""

    def __init__(self, layer: type[nn.LSTM | nn.GRU]) -> None:
        super().__init__()
        self.layer, self.head = layer(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:  # [T, B, 3] -> [T, B, 2]
        return self.head(self.layer(x)[0])


def mlp() -> tuple[nn.Module, Tensor, list[int]]:
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    prune.random_unstructured(model[0], "weight", 0.5)
    prune.l1_unstructured(model[0], "weight", 2)  # on top of the first
    prune.random_unstructured(model[2], "bias", 1)
    return model, torch.randn(4, 3), [5]


def cnn() -> tuple[nn.Module, Tensor, list[int]]:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3))
    prune.ln_structured(model[0], "weight", 0.5, n=2, dim=0)
    return model, torch.randn(1, 3, 6, 6), [4]


def recurrent(layer: type[nn.LSTM | nn.GRU]) -> tuple[nn.Module, Tensor, list[int]]:
    model = Recurrent(layer)
    prune.random_unstructured(model.layer, "weight_hh_l0", 0.5)
    return model, torch.randn(3, 1, 3), [4]


@pytest.mark.parametrize(
    "build",
    [mlp, cnn, lambda: recurrent(nn.LSTM), lambda: recurrent(nn.GRU)],
    ids=["mlp", "cnn", "lstm", "gru"],
)
def test_sound(build: Callable[[], tuple[nn.Module, Tensor, list[int]]]) -> None:
    torch.manual_seed(0)
    model, x, free = build()
    graph = testing.assert_all(model.eval(), x)
    assert [axis.size for axis in graph.symmetry.variables] == free
    assert not graph.ignored
