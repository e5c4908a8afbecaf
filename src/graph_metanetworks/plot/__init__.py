"""Pictures of parameter graphs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from torch import Tensor

from graph_metanetworks.extras import optional_imports
from graph_metanetworks.plot.formats import check_suffix

if TYPE_CHECKING:
    from graph_metanetworks.graph.parameter_graph import ParameterGraph
    from graph_metanetworks.plot.picture import Picture

__all__ = ["Detail", "plot"]

Detail = Literal["auto", "neurons", "groups", "layers"]

MAX_NODES, MAX_EDGES = 150, 2500  # a picture of every neuron is readable up to here
MAX_GROUPS = 14  # beyond, layers that repeat are drawn once


@overload
def plot(
    graph: ParameterGraph,
    path: str | Path,
    *,
    weights: Mapping[str, Tensor] | None = None,
    detail: Detail = "auto",
) -> Path: ...
@overload
def plot(
    graph: ParameterGraph,
    path: None = None,
    *,
    weights: Mapping[str, Tensor] | None = None,
    detail: Detail = "auto",
) -> Picture: ...


def plot(
    graph: ParameterGraph,
    path: str | Path | None = None,
    *,
    weights: Mapping[str, Tensor] | None = None,
    detail: Detail = "auto",
) -> Path | Picture:
    """Draw a parameter graph to an svg, png or pdf file; without a path, return a picture for notebooks.

    Args:
        weights: a state dict; edges are then coloured by the sign and size of their weight (neurons only).
        detail: every one of the "neurons", a box for each of the "groups", or "layers": groups, with layers
            that repeat drawn once. By default whatever is readable.

    >>> import tempfile, torch, graph_metanetworks as gmn
    >>> graph = gmn.trace(torch.nn.Linear(3, 2), torch.randn(1, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plot(graph, f"{folder}/linear.svg").stat().st_size > 1000
    True
    >>> plot(graph)                                             # an SVG in a notebook
    Picture(Linear): a notebook shows it; .save('graph.svg') writes it to a file
    """
    if path is not None:
        check_suffix(path)
    with optional_imports():  # they import matplotlib
        from graph_metanetworks.plot.groups import draw_groups
        from graph_metanetworks.plot.neurons import draw_neurons
        from graph_metanetworks.plot.picture import Picture
    level = level_of_detail(graph) if detail == "auto" else detail
    if level not in ("neurons", "groups", "layers"):
        raise ValueError(f"detail={detail!r} is not one of auto, neurons, groups, layers.")
    drawn = draw_neurons(graph, weights) if level == "neurons" else draw_groups(graph, fold=level == "layers")
    picture = Picture(drawn, graph.name)
    return picture if path is None else picture.save(path)


def level_of_detail(graph: ParameterGraph) -> Detail:
    """Return the finest level at which a picture of the graph is readable."""
    if graph.num_nodes <= MAX_NODES and graph.num_edges <= MAX_EDGES:
        return "neurons"
    return "groups" if sum(group.size > 1 for group in graph.groups) <= MAX_GROUPS else "layers"
