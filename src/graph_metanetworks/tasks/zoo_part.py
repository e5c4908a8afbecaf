"""Networks of a zoo as units of work, which any process can do: memory does not grow with the zoo."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from graph_metanetworks.graph.batch import Batch, collate
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.tasks.resident import is_finite
from graph_metanetworks.tasks.traced_zoo import network_name, trace_network
from graph_metanetworks.zoo.from_folder.sources import LeftOut
from graph_metanetworks.zoo.zoo import Zoo

T = TypeVar("T")

BATCH = 32  # networks that are run together
GRAPHS = 512  # architectures that a process remembers
NETWORK, PATH = "network", "path"  # columns of every table
NOT_FINITE = "weights are NaN or infinite"


@dataclass(frozen=True, eq=False)
class Applied(Generic[T]):
    """Results for the networks of a part, in order, with a row of labels for each."""

    results: list[T]
    labels: pa.Table
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class ZooPart:
    """The networks of a zoo at positions `start` to `stop - 1`."""

    folder: str  # as results name it
    place: str  # the same, for a process with another working directory
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def apply(self, function: Callable[[Batch], Iterable[T]]) -> Applied[T]:
        """Apply a function, which gives one result per network, to batches of all networks.

        Networks of one architecture are run together; results are in the order of the zoo.
        """
        zoo = open_zoo(self.place)[self.start : self.stop]
        found: dict[int, T] = {}
        for positions, batch in _batches(zoo, self.folder):
            found |= zip(positions, function(batch), strict=True)
        kept = sorted(found)
        labels = _labels(zoo, self.folder, kept)
        others = [network_name(self.folder, zoo[at]) for at in range(len(zoo)) if at not in found]
        left_out = tuple(LeftOut(name, NOT_FINITE) for name in others)
        return Applied([found[position] for position in kept], labels, left_out)


def zoo_parts(folder: str | Path, size: int) -> list[ZooPart]:
    """Cut a zoo into parts of at most `size` networks."""
    place = str(Path(folder).resolve())
    count = len(open_zoo(place))
    return [ZooPart(str(folder), place, start, min(start + size, count)) for start in range(0, count, size)]


@lru_cache(maxsize=4)
def open_zoo(folder: str) -> Zoo:
    """Open a zoo once per process: its table is read for every part."""
    return Zoo.open(folder)


def forget() -> None:
    """Forget zoos and graphs."""
    open_zoo.cache_clear()
    _GRAPHS.clear()


def _batches(zoo: Zoo, folder: str) -> Iterator[tuple[list[int], Batch]]:
    """Yield positions and networks, those of one architecture together."""
    networks = list(zoo)
    shapes = [zoo.recipe.shape(network.config) for network in networks]
    numbers = {shape: number for number, shape in enumerate(dict.fromkeys(shapes))}
    order = np.argsort([numbers[shape] for shape in shapes], kind="stable").tolist()
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        weights = {position: networks[position].state_dict for position in chosen}
        kept = [position for position in chosen if is_finite(weights[position])]
        if kept:
            graphs = (
                remembered((str(zoo.folder), shapes[at]), partial(trace_network, zoo, networks[at]))
                for at in kept
            )
            pairs = [(graph, weights[at]) for graph, at in zip(graphs, kept, strict=True)]
            yield kept, collate(pairs, names=[network_name(folder, networks[at]) for at in kept])


_GRAPHS: OrderedDict[Hashable, ParameterGraph] = OrderedDict()


def remembered(key: Hashable, trace: Callable[[], ParameterGraph]) -> ParameterGraph:
    """Trace an architecture once; the graphs used last are kept."""
    if key not in _GRAPHS:
        _GRAPHS[key] = trace()
        if len(_GRAPHS) > GRAPHS:
            _GRAPHS.popitem(last=False)
    _GRAPHS.move_to_end(key)
    return _GRAPHS[key]


def _labels(zoo: Zoo, folder: str, positions: list[int]) -> pa.Table:
    """Return what is known of some networks: name, folder, and their rows of the table."""
    rows = zoo.table.take(pa.array(positions, pa.int64()))
    names = pa.array([network_name(folder, zoo[position]) for position in positions], pa.string())
    own = pa.table({NETWORK: names, PATH: pa.array([folder] * len(positions), pa.string())})
    for field in rows.schema:
        if field.name not in (NETWORK, PATH):
            own = own.append_column(field.name, rows[field.name])
    return own
