"""The methods under one interface: a batch of networks in, logits of accuracies `[B, 1]` out.

Each can be fitted to the scales of a training zoo (`fit`); its state dict holds them. `paper` has about
750,000 parameters, as there; `small` about 50,000, for zoos of some thousand networks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from torch import Tensor, nn

from graph_metanetworks.errors import TaskError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.nn.baselines import DMC, StatNN, WeightSet
from graph_metanetworks.nn.baselines.boosting import BoostedStatNN
from graph_metanetworks.nn.grit import Grit
from graph_metanetworks.nn.metanetwork import GraphMetanetwork

BUDGETS = {"paper": 750_000, "small": 50_000}


class Metanetwork(Protocol):
    """What a method makes, an `nn.Module`."""

    def fit(self, batches: Iterable[Batch]) -> None: ...
    def __call__(self, batch: Batch) -> Tensor: ...


@dataclass(frozen=True)
class Method:
    """A way to predict from weights."""

    name: str
    title: str
    about: str  # what it takes, and to what it is blind
    sizes: Mapping[str, Callable[[], nn.Module]]
    learning_rate: float = 1e-3
    by_gradient: bool = True

    def make(self, size: str) -> nn.Module:
        if size not in self.sizes:
            raise TaskError(f"{self.name} has no size '{size}'; there are {', '.join(self.sizes)}.")
        return self.sizes[size]()


METHODS = {
    method.name: method
    for method in (
        Method(
            "gmn",
            "GMN",
            "message passing on the parameter graph; any architecture; invariant to its symmetries",
            {
                "paper": lambda: GraphMetanetwork.preset("accuracy"),
                "small": lambda: GraphMetanetwork(hidden=16, layers=3, readout="tensors"),
            },
            learning_rate=5e-3,
        ),
        Method(
            "gmn-grit",
            "GMN (GRIT)",
            "a graph transformer on the parameter graph; any architecture; invariant to its symmetries",
            {
                "paper": lambda: GraphMetanetwork(
                    hidden=128, layers=4, blocks=Grit(heads=8), readout="nodes"
                ),
                "small": lambda: GraphMetanetwork(
                    hidden=16, layers=3, blocks=Grit(heads=4), readout="tensors"
                ),
            },
            learning_rate=5e-3,
        ),
        Method(
            "statnn",
            "StatNN",
            "an MLP on statistics of tensors and kinds; architectures of the same kinds of layers",
            {
                "paper": lambda: StatNN(None, by="both", budget=BUDGETS["paper"]),
                "small": lambda: StatNN(None, by="both", budget=BUDGETS["small"]),
            },
        ),
        Method(
            "statnn-boosting",
            "StatNN, boosted",
            "gradient boosting on statistics of tensors and kinds; architectures of the same kinds of layers",
            {"paper": lambda: BoostedStatNN(iterations=500), "small": lambda: BoostedStatNN()},
            by_gradient=False,
        ),
        Method(
            "dmc",
            "DMC",
            "a 1-D CNN on the flat weights; any architecture; sees the order of neurons",
            {
                "paper": lambda: DMC((64, 128, 192, 256), 640),
                "small": lambda: DMC((24, 40, 56, 64), 96),
            },
        ),
        Method(
            "deepsets",
            "DeepSets",
            "an MLP on the set of weights; any architecture; blind to where a weight is",
            {"paper": lambda: WeightSet(192, 752), "small": lambda: WeightSet(56, 176)},
            learning_rate=1e-2,
        ),
    )
}


def find_method(name: str) -> Method:
    if name not in METHODS:
        raise TaskError(f"there is no method '{name}'; there are {', '.join(METHODS)}.")
    return METHODS[name]


def as_metanetwork(model: nn.Module) -> Metanetwork:
    """The same object, typed as what every method makes."""
    return cast(Metanetwork, model)


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
