"""Convert parameter graphs to `torch_geometric` data and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from graph_metanetworks.errors import StateDictMismatch
from graph_metanetworks.graph.vocabulary import Vocabulary

if TYPE_CHECKING:
    from graph_metanetworks.graph.parameter_graph import ParameterGraph

FIELDS = ("node_kinds", "edge_kinds", "activations")


class KindName(str):
    """The key of a list of kinds, which remembers the list that its graph has."""

    names: tuple[str, ...]

    def __new__(cls, key: str, names: tuple[str, ...]) -> KindName:
        made = super().__new__(cls, key)
        made.names = names
        return made


class Kinds(Mapping[str, tuple[str, ...]]):
    """What the integers of a graph stand for: `kinds["edge_kinds"][3]`.

    torch_geometric collates mappings entry by entry, with the keys of the first graph. So the keys carry the
    lists of the first graph, and graphs of another vocabulary, whose integers mean other things, are refused.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._names = {field: getattr(vocabulary, field) for field in FIELDS}

    def __getitem__(self, key: str) -> tuple[str, ...]:
        names = self._names[str(key)]
        if isinstance(key, KindName) and key.names != names:
            raise ValueError(
                "these graphs number their kinds differently, so they cannot be in one batch. Convert all of "
                "them with the same vocabulary: graph.to_pyg(state_dict, vocabulary=vocabulary)."
            )
        return names

    def __iter__(self) -> Iterator[str]:
        return (KindName(field, names) for field, names in self._names.items())

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"Kinds({', '.join(f'{len(names)} {field}' for field, names in self._names.items())})"


class ParameterData(Data):
    """A `Data` whose `node_index` is a feature: batching must not shift it as it does `edge_index`."""

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        return 0 if key == "node_index" else super().__inc__(key, value, *args, **kwargs)

    @property
    def node_kinds(self) -> Any:
        """What the integers of `node_kind` stand for; in a batch, a list with an entry for each graph."""
        return self.kinds["node_kinds"]

    @property
    def edge_kinds(self) -> Any:
        """What the integers of `edge_kind` stand for."""
        return self.kinds["edge_kinds"]

    @property
    def activations(self) -> Any:
        """What the integers of `node_activation` and `edge_activation` stand for."""
        return self.kinds["activations"]

    def apply(self, func: Callable[..., Any], *args: str) -> ParameterData:
        """Apply a function to all tensors, as `to` does; kinds have none and stay as they are."""
        if "kinds" not in self:
            return super().apply(func, *args)
        kept = self.kinds
        del self.kinds
        try:
            return super().apply(func, *args)
        finally:
            self.kinds = kept


def to_pyg(
    graph: ParameterGraph, *state_dicts: Mapping[str, Tensor], vocabulary: Vocabulary | None = None
) -> ParameterData:
    """Convert one network to a `torch_geometric.data.Data`; each state dict is a channel of `edge_attr`.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Linear(3, 2)
    >>> data = gmn.trace(model, torch.randn(1, 3)).to_pyg(model.state_dict())
    >>> data.x.shape, data.edge_attr.shape          # nodes: kind, depth, index; edges: the weights
    (torch.Size([6, 3]), torch.Size([8, 1]))
    >>> [data.edge_kinds[kind] for kind in data.edge_kind.unique()]
    ['linear weight', 'linear bias']

    The integers of `node_kind`, `edge_kind` and `..._activation` mean the same for all architectures: they
    index the lists of one vocabulary, which `data.kinds` holds. So graphs of different architectures can be
    batched. Graphs that were converted with different vocabularies cannot: `Batch.from_data_list` refuses.

    Args:
        vocabulary: `gmn.nn.Vocabulary()` by default. Networks with kinds of your own need one that has them:
            `gmn.nn.Vocabulary().extended(graphs)`, for all graphs.
    """
    known, values = vocabulary or Vocabulary(), _channels(graph, state_dicts)
    kinds = Kinds(known)
    numbers = {
        field: torch.tensor(known.rows(field, getattr(graph, field), graph.name), device="cpu")
        for field in FIELDS
    }
    node_kind = numbers["node_kinds"][graph.node_kind]
    data = ParameterData(
        x=torch.stack([node_kind, graph.node_depth, graph.node_index], dim=1).float(),  # [N, 3]
        edge_index=graph.edge_index,  # [2, E]
        edge_attr=values,  # [E, C]
        node_kind=node_kind,
        node_depth=graph.node_depth,
        node_index=graph.node_index,
        node_activation=numbers["activations"][graph.node_activation],
        edge_kind=numbers["edge_kinds"][graph.edge_kind],
        edge_depth=graph.edge_depth,
        edge_position=graph.edge_position,  # [E, 3]
        edge_activation=numbers["activations"][graph.edge_activation],
        kinds=kinds,
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
