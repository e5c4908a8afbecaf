"""Convert parameter graphs to `torch_geometric` data and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graph_metanetworks.errors import StateDictMismatch

if TYPE_CHECKING:
    from graph_metanetworks.graph.parameter_graph import ParameterGraph


class ParameterData(Data):
    """A `Data` whose `node_index` is a feature: batching must not shift it as it does `edge_index`."""

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        return 0 if key == "node_index" else super().__inc__(key, value, *args, **kwargs)


def to_pyg(graph: ParameterGraph, *state_dicts: Mapping[str, Tensor]) -> ParameterData:
    """Convert one network to a `torch_geometric.data.Data`; each state dict is a channel of `edge_attr`.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Linear(3, 2)
    >>> data = gmn.trace(model, torch.randn(1, 3)).to_pyg(model.state_dict())
    >>> data.x.shape, data.edge_attr.shape          # nodes: kind, depth, index; edges: the weights
    (torch.Size([6, 3]), torch.Size([8, 1]))
    >>> [data.edge_kinds[kind] for kind in data.edge_kind.unique()]
    ['linear bias', 'linear weight']

    The integers of `node_kind`, `edge_kind` and `..._activation` index this graph's own lists `node_kinds`,
    `edge_kinds` and `activations`, so batch only graphs of one architecture, or translate them first.
    """
    values = _channels(graph, state_dicts)
    data = ParameterData(
        x=torch.stack([graph.node_kind, graph.node_depth, graph.node_index], dim=1).float(),  # [N, 3]
        edge_index=graph.edge_index,  # [2, E]
        edge_attr=values,  # [E, C]
        node_kind=graph.node_kind,
        node_depth=graph.node_depth,
        node_index=graph.node_index,
        node_activation=graph.node_activation,
        edge_kind=graph.edge_kind,
        edge_depth=graph.edge_depth,
        edge_position=graph.edge_position,  # [E, 3]
        edge_activation=graph.edge_activation,
        node_kinds=list(graph.node_kinds),
        edge_kinds=list(graph.edge_kinds),
        activations=list(graph.activations),
        name=graph.name,
    )
    if graph.node_head is not None:
        data.node_head = graph.node_head
    return data.to(values.device)


def from_pyg(
    graph: ParameterGraph, data: Data, like: Mapping[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """Return the state dict on `data.edge_attr`; several channels become a trailing dimension.

    >>> import torch, graph_metanetworks as gmn
    >>> from graph_metanetworks.graph.pyg import from_pyg
    >>> model = torch.nn.Linear(3, 2)
    >>> graph = gmn.trace(model, torch.randn(1, 3))
    >>> data = graph.to_pyg(model.state_dict())
    >>> data.edge_attr = 2 * data.edge_attr         # what a metanetwork would do
    >>> torch.equal(from_pyg(graph, data)["weight"], 2 * model.weight)
    True
    """
    if data.edge_attr is None:
        raise StateDictMismatch(
            f"this Data has no edge_attr, so it holds no weights of {graph.name}. Make it with "
            "graph.to_pyg(state_dict), and write new weights to data.edge_attr."
        )
    values = data.edge_attr
    single = values.dim() == 2 and values.shape[1] == 1
    return graph.state_dict(values.squeeze(1) if single else values, like)


def _channels(graph: ParameterGraph, state_dicts: tuple[Mapping[str, Tensor], ...]) -> Tensor:
    """Return edge values as a matrix, `[E, C]`; without a state dict, `[E, 0]`."""
    if not state_dicts:
        return torch.empty(graph.num_edges, 0, device="cpu")
    return graph.edge_values(*state_dicts).reshape(graph.num_edges, -1)
