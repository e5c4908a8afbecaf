"""Methods by name: the built-in ones, and those of users as `file.py:NAME` or `package.module:NAME`.

A name may have modifiers, as in `mlp+permuted`; see `variants`.

A new method is its model in `nn/` and one entry here. The command line, its help, the tables of the docs and
the tests take it from this list.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any

import torch

from graph_metanetworks.errors import TaskError, UnsupportedNetwork
from graph_metanetworks.lookup import UnknownTarget, find_object
from graph_metanetworks.methods.method import Method, Output
from graph_metanetworks.methods.variants import MODIFIERS_HELP, split_name, variant
from graph_metanetworks.nn.baselines import (
    DMC,
    Dws,
    FlatMlp,
    Inr2Vec,
    NeuronTransformer,
    NfnHnp,
    NfnNp,
    NfnPt,
    Nft,
    ProbedStatNN,
    StatNN,
    WeightSet,
)
from graph_metanetworks.nn.baselines.boosting import BoostedStatNN
from graph_metanetworks.nn.baselines.chain_model import ChainModel
from graph_metanetworks.nn.grit import Grit
from graph_metanetworks.nn.metanetwork import GraphMetanetwork
from graph_metanetworks.nn.probes import Probes
from graph_metanetworks.training.strategy import DirectFit

NUM_PROBES, NUM_POINTS = 32, 128  # inputs such as images; points, which cost little
BUDGETS = {"paper": 750_000, "small": 50_000}  # parameters: as in the paper; for some thousand networks


def _gmn(output: Output, **options: object) -> GraphMetanetwork:
    """Make a metanetwork. Only results per network have a choice of readouts."""
    if output.level != "graph":
        options.pop("readout", None)
    return GraphMetanetwork(**options, out=output.width, level=output.level)  # pyright: ignore[reportArgumentType]


def _probes(output: Output, name: str) -> Probes:
    if output.input_shape is None:
        raise UnsupportedNetwork(
            f"{name} runs networks on probes, and the networks of this zoo do not all take one input of the "
            "same shape: choose another method."
        )
    shape = tuple(output.input_shape)
    if output.input_range is None:
        return Probes(NUM_PROBES, shape)
    low, high = output.input_range
    points = torch.quasirandom.SobolEngine(prod(shape)).draw(NUM_POINTS)  # cover the range evenly
    inputs = (low + (high - low) * points).view(-1, *shape)
    return Probes(NUM_POINTS, shape, inputs=inputs, outputs="values")


def _probing_method(
    name: str, title: str, base: str, sizes: Mapping[str, Mapping[str, Any]], learning_rate: float
) -> Method:
    """Make the entry of a metanetwork that also runs the networks on probes."""

    def make(output: Output, options: Mapping[str, Any]) -> GraphMetanetwork:
        return _gmn(output, **options, probes=_probes(output, name))

    return Method(
        name,
        title,
        f"{base}, and what networks make of learned inputs: needs forward passes through them",
        {size: partial(make, options=options) for size, options in sizes.items()},
        levels=("graph", "node", "edge"),
        learning_rate=learning_rate,
    )


def _chain_method(model: type[ChainModel], title: str, about: str, learning_rate: float) -> Method:
    """Make the entry of a model on plain chains of layers."""

    def make(output: Output, budget: int) -> ChainModel:
        return model(output.width, level="edge" if output.level == "edge" else "graph", budget=budget)

    return Method(
        model.method,
        title,
        about,
        {size: partial(make, budget=budget) for size, budget in BUDGETS.items()},
        levels=("graph", "edge"),
        learning_rate=learning_rate,
    )


METHODS = {
    method.name: method
    for method in (
        Method(
            "gmn",
            "GMN",
            "products of node states with weights; any architecture; invariant to its symmetries",
            {
                "paper": lambda output: _gmn(output, hidden=97, layers=4, blocks="matrix-product"),
                # a result per edge needs wider states than one per network
                "small": lambda output: (
                    _gmn(output, hidden=48, layers=4, blocks="matrix-product")
                    if output.level == "edge"
                    else _gmn(output, hidden=24, layers=3, blocks="matrix-product")
                ),
            },
            levels=("graph", "node", "edge"),
            learning_rate=3e-3,
        ),
        _probing_method(
            "gmn-probes",
            "GMN with probes",
            "gmn",
            {
                "paper": {"hidden": 95, "layers": 4, "blocks": "matrix-product"},
                "small": {"hidden": 20, "layers": 3, "blocks": "matrix-product"},
            },
            3e-3,
        ),
        Method(
            "gmn-bundles",
            "GMN (message passing)",
            "messages with one state per pair of neurons; any architecture; invariant to its symmetries",
            {
                "paper": lambda output: _gmn(output, hidden=135, layers=4, blocks="bundles"),
                "small": lambda output: _gmn(output, hidden=28, layers=3, blocks="bundles"),
            },
            levels=("graph", "node", "edge"),
            learning_rate=8e-3,
        ),
        _probing_method(
            "gmn-bundles-probes",
            "GMN (message passing) with probes",
            "gmn-bundles",
            {
                "paper": {"hidden": 132, "layers": 4, "blocks": "bundles"},
                "small": {"hidden": 24, "layers": 3, "blocks": "bundles"},
            },
            8e-3,
        ),
        Method(
            "gmn-paper",
            "GMN (paper)",
            "message passing as in the paper; any architecture; invariant to its symmetries",
            {
                "paper": lambda output: GraphMetanetwork.preset(
                    "accuracy", out=output.width, level=output.level
                ),
                "small": lambda output: _gmn(output, hidden=16, layers=3, readout="tensors"),
            },
            levels=("graph", "node", "edge"),
            learning_rate=5e-3,
        ),
        Method(
            "gmn-grit",
            "GMN (GRIT)",
            "a graph transformer on the parameter graph; any architecture; invariant to its symmetries",
            {
                "paper": lambda output: _gmn(
                    output, hidden=128, layers=4, blocks=Grit(heads=8), readout="nodes"
                ),
                "small": lambda output: _gmn(
                    output, hidden=16, layers=3, blocks=Grit(heads=4), readout="tensors"
                ),
            },
            levels=("graph", "node", "edge"),
            learning_rate=5e-3,
        ),
        _probing_method(
            "gmn-grit-probes",
            "GMN (GRIT) with probes",
            "gmn-grit",
            {
                "paper": {"hidden": 124, "layers": 4, "blocks": Grit(heads=4), "readout": "nodes"},
                "small": {"hidden": 12, "layers": 3, "blocks": Grit(heads=4), "readout": "tensors"},
            },
            5e-3,
        ),
        Method(
            "statnn",
            "StatNN",
            "an MLP on statistics of tensors and kinds; architectures of the same kinds of layers",
            {
                size: lambda output, budget=budget: StatNN(None, output.width, by="both", budget=budget)
                for size, budget in BUDGETS.items()
            },
            learning_rate=1e-2,
        ),
        Method(
            "statnn-probes",
            "StatNN with probes",
            "the same, and what networks make of learned inputs: needs forward passes through them",
            {
                size: lambda output, budget=budget: ProbedStatNN(
                    _probes(output, "statnn-probes"), None, output.width, by="both", budget=budget
                )
                for size, budget in BUDGETS.items()
            },
            learning_rate=1e-2,
        ),
        Method(
            "statnn-boosting",
            "StatNN, boosted",
            "gradient boosting on statistics of tensors and kinds; architectures of the same kinds of layers",
            {
                "paper": lambda output: _boosted(output, iterations=500),
                "small": lambda output: _boosted(output),
            },
            strategy=DirectFit(),
        ),
        Method(
            "dmc",
            "DMC",
            "a 1-D CNN on the flat weights; any architecture; sees the order of neurons",
            {
                "paper": lambda output: DMC((64, 128, 192, 256), 640, output.width),
                "small": lambda output: DMC((24, 40, 56, 64), 96, output.width),
            },
            learning_rate=3e-3,
        ),
        Method(
            "deepsets",
            "DeepSets",
            "an MLP on the set of weights; any architecture; blind to where a weight is",
            {
                "paper": lambda output: WeightSet(192, 752, output.width),
                "small": lambda output: WeightSet(56, 176, output.width),
            },
            learning_rate=1e-2,
        ),
        Method(
            "mlp",
            "MLP",
            "an MLP on the flat weights; one architecture; sees the order of neurons",
            {
                size: lambda output, budget=budget: FlatMlp(
                    None, output.width, level="edge" if output.level == "edge" else "graph", budget=budget
                )
                for size, budget in BUDGETS.items()
            },
            levels=("graph", "edge"),
            learning_rate=1e-3,
        ),
        Method(
            "transformer",
            "Transformer",
            "a transformer on neurons as tokens; plain chains of one architecture; sees the order of neurons",
            {
                "paper": lambda output: NeuronTransformer(None, output.width, layers=4, budget=750_000),
                "small": lambda output: NeuronTransformer(None, output.width, layers=2, budget=50_000),
            },
            learning_rate=3e-3,
        ),
        Method(
            "inr2vec",
            "INR2Vec",
            "the maximum over rows of hidden matrices; MLPs of one architecture and width; sees the order of "
            "neurons",
            {
                size: lambda output, budget=budget: Inr2Vec(None, output.width, budget=budget)
                for size, budget in BUDGETS.items()
            },
            learning_rate=3e-3,
        ),
        _chain_method(
            NfnNp,
            "NFN-NP",
            "equivariant linear layers; MLPs and plain CNNs of one depth; blind to the order of all neurons",
            3e-3,
        ),
        _chain_method(
            NfnHnp,
            "NFN-HNP",
            "the same, with parameters for each input and output; invariant to symmetries",
            3e-3,
        ),
        _chain_method(
            NfnPt,
            "NFN-PT",
            "an MLP on each weight; MLPs and plain CNNs of one depth; blind to where in its tensor it is",
            3e-3,
        ),
        _chain_method(
            Nft,
            "NFT",
            "attention between rows and columns; MLPs and plain CNNs of one depth; invariant to symmetries",
            1e-3,
        ),
        _chain_method(
            Dws,
            "DWSNets",
            "equivariant layers with maxima; MLPs and plain CNNs of one depth; invariant to symmetries",
            3e-3,
        ),
    )
}


METHOD_HELP = f"{', '.join(METHODS)}; {MODIFIERS_HELP}; or your own, my_methods.py:NAME"


def find_method(name: str) -> Method:
    """Return a method by its name, or by `file.py:NAME` for one of your own; modifiers may follow.

    >>> find_method("gmn+signs+permuted").title
    'GMN, canonical signs, permuted'
    """
    base, modifiers = split_name(name)
    return variant(_find(base), modifiers) if modifiers else _find(base)


def is_built_in(name: str) -> bool:
    """Whether a method of this name needs no code of a user."""
    return split_name(name)[0] in METHODS


def _find(name: str) -> Method:
    if name in METHODS:
        return METHODS[name]
    if ":" not in name:
        raise TaskError(
            f"there is no method '{name}'; choose from {', '.join(METHODS)}, or name your own as "
            "my_methods.py:NAME."
        )
    try:
        found = find_object(name)
    except UnknownTarget as error:
        raise TaskError(f"the method {name} cannot be imported: {error}") from error
    if not isinstance(found, Method):
        raise TaskError(
            f"{name} is a {type(found).__name__}, not a method: make it a graph_metanetworks.methods.Method."
        )
    return found


def _boosted(output: Output, *, iterations: int = 300) -> BoostedStatNN:
    if output.width != 1 or output.link == "softmax":
        raise TaskError("statnn-boosting predicts one number per network: choose another method.")
    return BoostedStatNN(iterations=iterations, logit=output.link == "logit")
