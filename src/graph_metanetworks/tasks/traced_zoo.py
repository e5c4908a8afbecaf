"""A zoo with its parameter graphs, traced once per architecture."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from rich.progress import track

from graph_metanetworks.errors import TraceError, ZooError
from graph_metanetworks.graph.batch import Batch, collate
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.tasks.resident import Resident, is_finite
from graph_metanetworks.zoo.zoo import Zoo, ZooNetwork

LARGEST = 1 << 30  # bytes: weights of larger zoos are read when needed


class TracedZoo:
    """The networks of a zoo as batches. Graphs are kept in memory, and so are the weights of small zoos.

    >>> traced = TracedZoo(Zoo.open("zoos/diverse"))  # doctest: +SKIP
    >>> traced.batch([0, 5, 7])  # doctest: +SKIP
    """

    def __init__(self, zoo: Zoo, *, quiet: bool = True) -> None:
        if not len(zoo):
            raise ZooError(f"{zoo.folder} has no networks.")
        self.zoo = zoo
        self.graphs, self.architectures = _trace(zoo, quiet)  # [N] which graph each network has

    def __len__(self) -> int:
        return len(self.zoo)

    def __repr__(self) -> str:
        return f"TracedZoo({len(self):,} networks, {len(self.graphs):,} architectures, {self.zoo.folder})"

    def graph(self, position: int) -> ParameterGraph:
        return self.graphs[self.architectures[position]]

    def name(self, position: int) -> str:
        """Return what messages call a network."""
        return network_name(self.zoo.folder, self.zoo[position])

    def batch(self, positions: Sequence[int] | np.ndarray) -> Batch:
        numbers = [int(position) for position in positions]
        names = [self.name(number) for number in numbers]
        if self.resident is not None and self.finite[numbers].all():
            return self.resident.batch(numbers, names)
        return collate([(self.graph(number), self.zoo[number].state_dict) for number in numbers], names=names)

    @cached_property
    def finite(self) -> np.ndarray:  # [N]
        """Which networks have finite weights only. Reads all of them."""
        if self.resident is not None:
            return self.resident.finite
        return np.array([is_finite(network.state_dict) for network in self.zoo])

    @cached_property
    def resident(self) -> Resident | None:
        """All weights in memory, if they are few. Reads all of them."""
        size = 4 * int(self.num_parameters.sum())
        return Resident.read(self.zoo, self.graphs, self.architectures) if size <= LARGEST else None

    @cached_property
    def input_shape(self) -> tuple[int, ...] | None:
        """The shape of one input of the networks; None if they take several, integers, or different ones."""
        shapes = {graph.recording.input_shape if graph.recording else None for graph in self.graphs}
        return shapes.pop() if len(shapes) == 1 else None

    @property
    def input_range(self) -> tuple[float, float] | None:
        """The smallest and the largest coordinate that the networks were fitted at, if they take points."""
        return self.zoo.recipe.input_range

    @cached_property
    def num_parameters(self) -> np.ndarray:  # [N]
        """Number of parameters of each network."""
        return np.array([graph.num_parameters for graph in self.graphs])[self.architectures]


def network_name(folder: str | Path, network: ZooNetwork) -> str:
    """Return what messages and tables call a network of a zoo."""
    return f"network {network.index} of {folder}"


def trace_network(zoo: Zoo, network: ZooNetwork) -> ParameterGraph:
    """Trace a network on the example input of its recipe."""
    config = network.config
    # freshly initialised: a network that diverged cannot be run
    fresh = zoo.recipe.build(config).eval()
    try:
        return zoo.recipe.tracer.trace(
            fresh, *zoo.recipe.example(config), **zoo.recipe.example_kwargs(config)
        )
    except TraceError as error:
        raise type(error)(f"network {network.index} of {zoo.folder}: {error}") from error


def _trace(zoo: Zoo, quiet: bool) -> tuple[tuple[ParameterGraph, ...], np.ndarray]:
    shapes: dict[Hashable, int] = {}
    first: list[ZooNetwork] = []
    architectures = []
    for network in zoo:
        shape = zoo.recipe.shape(network.config)
        if shape not in shapes:
            shapes[shape] = len(shapes)
            first.append(network)
        architectures.append(shapes[shape])
    shown = track(first, "tracing architectures", disable=quiet, transient=True)
    return tuple(trace_network(zoo, network) for network in shown), np.array(architectures)
