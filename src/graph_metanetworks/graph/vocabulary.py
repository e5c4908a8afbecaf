"""The kinds of nodes and edges, numbered: one list for all architectures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graph_metanetworks.errors import TraceError

if TYPE_CHECKING:
    from graph_metanetworks.graph.parameter_graph import ParameterGraph

NORMS = ("batch norm", "instance norm", "layer norm", "group norm", "rms norm")
NORM_KINDS = tuple(f"{norm} {part}" for norm in NORMS for part in ("scale", "shift", "mean", "variance"))
ACTING_KINDS = ("scale", "shift", "token", "position", "grid", "gate bias", "recurrent bias")
BIAS_KINDS = ("linear bias", "convolution bias")
LATER_KINDS = ("norm group",)  # new kinds go last: the rows of saved embeddings stay as they are

NODE_KINDS = (
    *("input", "neuron", "channel", "output", "sum", "product", "score", "head", "context", "pool", "shared"),
    *("copy", "mix", "feature", "constant", "axis", "vocabulary", "parameter"),
    *BIAS_KINDS,
    *NORM_KINDS,
    *ACTING_KINDS,
    *LATER_KINDS,
)
EDGE_KINDS = (
    *("linear weight", "pooled weight", "convolution weight", "bilinear weight", "expert weight"),
    *(f"{duty} {part}" for duty in ("query", "key", "value", "output") for part in ("weight", "bias")),
    *("gate weight", "recurrent weight", "embedding", "weight"),
    *("residual", "product", "left factor", "right factor", "query", "key", "head", "value"),
    *("pool", "share", "copy", "mix"),
    *BIAS_KINDS,
    *NORM_KINDS,
    *ACTING_KINDS,
    *LATER_KINDS,
)
ACTIVATIONS = (
    *("", "relu", "relu6", "gelu", "silu", "sigmoid", "hardsigmoid", "hardswish", "tanh", "elu", "selu"),
    *("leaky_relu", "prelu", "softplus", "mish", "sine", "cosine", "exponential", "logsigmoid"),
)


class UnknownKind(TraceError):
    """A graph has a kind of node or edge, or an activation, that a vocabulary does not have."""


@dataclass(frozen=True)
class Vocabulary:
    """Names of kinds and activations, in order: their places are the numbers that stand for them.

    The default has every kind that the tracer makes. A metanetwork has an embedding for each.

    >>> Vocabulary().edge_kinds[:2]
    ('linear weight', 'pooled weight')
    """

    node_kinds: tuple[str, ...] = NODE_KINDS
    edge_kinds: tuple[str, ...] = EDGE_KINDS
    activations: tuple[str, ...] = ACTIVATIONS

    def extended(self, graphs: Iterable[ParameterGraph]) -> Vocabulary:
        """Return a vocabulary that also has the kinds of these graphs, such as those of declared modules."""
        graphs = list(graphs)
        return Vocabulary(
            *(
                tuple(dict.fromkeys([*getattr(self, field), *(k for g in graphs for k in getattr(g, field))]))
                for field in ("node_kinds", "edge_kinds", "activations")
            )
        )

    def rows(self, field: str, names: Sequence[str], network: str) -> list[int]:
        """Return the rows of names of `field` ("node_kinds", "edge_kinds" or "activations")."""
        known = getattr(self, field)
        unknown = [name for name in names if name not in known]
        if unknown:
            raise UnknownKind(
                f"{network} has {field.replace('_', ' ')} that this vocabulary does not have: "
                f"{', '.join(repr(name) for name in unknown)}. Make the metanetwork (or the data of "
                "torch_geometric) with vocabulary=gmn.nn.Vocabulary().extended(graphs), for graphs that have "
                "them."
            )
        return [known.index(name) for name in names]
