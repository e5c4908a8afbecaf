"""GraphMetanetwork: encode, blocks, readout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch, require_batch
from graph_metanetworks.nn import pretrained
from graph_metanetworks.nn.encoders import EdgeEncoder, NodeEncoder
from graph_metanetworks.nn.grit import Grit
from graph_metanetworks.nn.message_passing import Aggregation, MessagePassing
from graph_metanetworks.nn.panel_run import BLOCKS, in_order, run_panels
from graph_metanetworks.nn.readouts import (
    AttentionPooling,
    EachEdge,
    EachNode,
    Edit,
    MeanByKind,
    MeanEdges,
    MeanNodes,
    Readout,
)
from graph_metanetworks.nn.state import Links, State
from graph_metanetworks.nn.streaming import streaming
from graph_metanetworks.nn.tensor_readout import MeanByTensor
from graph_metanetworks.nn.vocabulary import Vocabulary

Engine = Literal["blocks", "stream", "edge_list"]
ENGINES = ("blocks", "stream", "edge_list")
READOUTS: dict[str, dict[str, type[Readout]]] = {
    "graph": {
        "edges": MeanEdges,
        "kinds": MeanByKind,
        "tensors": MeanByTensor,
        "nodes": MeanNodes,
        "attention": AttentionPooling,
    },
    "node": {"each": EachNode},
    "edge": {"each": EachEdge, "edit": Edit},
}

PRESETS: dict[str, dict[str, Any]] = {
    "accuracy": {"hidden": 128, "layers": 4},  # section 5.1: about 750,000 parameters
    "contrastive": {"hidden": 76, "layers": 3, "inner": 38, "out": 16},  # section 5.3: about 100,000
    "editing": {
        "hidden": 512,
        "layers": 4,
        "inner": 384,
        "level": "edge",
        "readout": "edit",
    },  # 5.2: 8.9 million
    # 2,965,365 parameters; published with 3,652,865, of which we do not know how they are spent
    "grit": {"hidden": 256, "layers": 4, "blocks": Grit(heads=16), "readout": "nodes"},
}


class GraphMetanetwork(nn.Module):
    """A network that takes networks: encodes a batch of parameter graphs, passes messages, reads out.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> graph = gmn.trace(model, torch.randn(1, 2))
    >>> batch = gmn.collate([(graph, model.state_dict())] * 3)
    >>> gmn.GraphMetanetwork(hidden=16, layers=2, out=5)(batch).shape                 # one row per network
    torch.Size([3, 5])
    >>> editor = gmn.GraphMetanetwork(hidden=16, layers=2, level="edge", readout="edit")
    >>> edited = batch.state_dicts(editor(batch))                                     # new weights
    >>> edited[0]["0.weight"].shape
    torch.Size([8, 2])

    Args:
        hidden: width of states.
        layers: number of blocks.
        out: width of the result.
        level: "graph" `[B, out]`, "node" `[N, out]` or "edge" `[E, out]`.
        inner: width inside the blocks' MLPs; `hidden` by default.
        readout: at graph level "edges" (the mean over edges), "kinds", "tensors", "nodes" or "attention"; at
            edge level "each" or "edit" (the weights plus a learned change); or a `Readout`.
        channels: numbers on each edge, 2 for weights and gradients.
        fourier: pairs of sine and cosine features of each weight.
        tensors: names of parameters that have a learned scale of their own (and, when editing, a step size);
            others share that of their kind. `fit` adds those of a zoo.
        aggregation, two_way, global_feature: see `MessagePassing`; other blocks ignore them.
        blocks: instead of `layers` times `MessagePassing`: `gmn.nn.Grit(...)`, for as many `GritBlock`s; or
            blocks of your own, modules that take and return a `State`, given `Links`.
        node_encoder, edge_encoder: encoders of your own.
        vocabulary: the kinds that are embedded.
        engine: "blocks", "stream" (edge states are recomputed, not stored) or "edge_list" (plain PyG, which
            other blocks need).
    """

    def __init__(
        self,
        hidden: int = 64,
        layers: int = 4,
        out: int = 1,
        *,
        level: Literal["graph", "node", "edge"] = "graph",
        inner: int | None = None,
        readout: str | Readout | None = None,
        channels: int = 1,
        fourier: int = 0,
        tensors: Sequence[str] = (),
        aggregation: Aggregation = "mean",
        two_way: bool = True,
        global_feature: bool = False,
        blocks: Sequence[nn.Module] | Grit | None = None,
        node_encoder: nn.Module | None = None,
        edge_encoder: EdgeEncoder | None = None,
        vocabulary: Vocabulary | None = None,
        engine: Engine = "blocks",
    ) -> None:
        super().__init__()
        self.config: dict[str, Any] = pretrained.config_of(locals())
        vocabulary = vocabulary or Vocabulary()
        self.hidden, self.out, self.level = hidden, out, level
        self.engine: Engine = _known(engine)
        self.readout = _readout(readout, level, hidden, out, vocabulary, tensors)
        self.node_encoder = node_encoder or NodeEncoder(hidden, vocabulary)
        self.edge_encoder = edge_encoder or EdgeEncoder(
            hidden, vocabulary, channels=channels, fourier=fourier, tensors=tensors
        )
        self.first_global = nn.Parameter(torch.zeros(hidden)) if global_feature else None
        options = {"aggregation": aggregation, "two_way": two_way, "global_feature": global_feature}
        if blocks is None:
            last = layers - 1
            blocks = [
                MessagePassing(
                    hidden, inner, **options, updates_edges=self.readout.reads_edges or layer < last
                )
                for layer in range(layers)
            ]
        if isinstance(blocks, Grit):
            blocks = blocks.make(hidden, layers, self.readout, inner)
        self.blocks = nn.ModuleList(blocks)

    @property
    def runs_on_panels(self) -> bool:
        """Whether all blocks are `MessagePassing`; others need a list of edges."""
        return all(isinstance(block, MessagePassing) for block in self.blocks)

    def forward(self, batch: Batch, engine: Engine | None = None, **options: Any) -> Tensor:
        """Run on a batch.

        Options of the engine "stream": `workers` (how many share the work) and `progress` (a bar).
        """
        require_batch(batch)
        engine = self.engine if engine is None else _known(engine)
        self._check(batch, engine)
        if engine == "stream":
            return run_panels(self, batch, streaming(**options))
        if options:
            raise TypeError(f"{', '.join(options)}: options of engine='stream' only, not of {engine!r}")
        if engine == "edge_list" or not self.runs_on_panels:
            return self._run_edge_list(batch)
        return run_panels(self, batch, BLOCKS)

    def fit(self, batches: Iterable[Batch]) -> None:
        """Take the scale of each tensor, by name, and of each kind of edge from a training zoo.

        Call it before making the optimizer: it makes new parameters, which an earlier optimizer would not
        train. Some readouts iterate over the batches a second time; an iterator is kept in memory for that.
        What is fitted is part of the state dict, which loads into a fresh metanetwork.
        """
        batches = list(batches) if isinstance(batches, Iterator) else batches
        self.edge_encoder.fit(batches)
        self.readout.fit(batches, self)

    def read(self, batch: Batch, readout: Readout) -> Tensor:
        """Run on a batch with another readout."""
        kept, self.readout = self.readout, readout
        try:
            return self(batch)
        finally:
            self.readout = kept

    def first_globals(self, batch: Batch) -> Tensor | None:
        return None if self.first_global is None else self.first_global.expand(len(batch), -1)

    def _run_edge_list(self, batch: Batch) -> Tensor:
        links = Links(batch)
        edges = self.edge_encoder.states(
            self.edge_encoder.terms(links.panel, batch), self.edge_encoder.weights()
        )
        state = State(self.node_encoder(batch), edges, self.first_globals(batch))
        for block in self.blocks:
            state = block(state, links)
        result = self.readout(state, links)
        return in_order([links.panel], [result]) if self.level == "edge" else result

    def _check(self, batch: Batch, engine: Engine) -> None:
        if engine == "stream" and not self.runs_on_panels:
            raise ValueError(
                "engine='stream' runs MessagePassing blocks only; run others with engine='edge_list'."
            )
        if batch.channels != self.edge_encoder.channels:
            raise ValueError(
                f"the batch has {batch.channels} numbers on each edge, but this metanetwork was made with "
                f"channels={self.edge_encoder.channels}. Make it with channels={batch.channels}, or collate "
                "other state dicts."
            )

    # -------------------------------------------------------------- making, saving, loading

    @classmethod
    def preset(cls, name: str, **options: Any) -> GraphMetanetwork:
        """A published configuration: "accuracy", "contrastive", "editing" or "grit". Options override it."""
        if name not in PRESETS:
            raise ValueError(f"no preset {name!r}; there are {', '.join(PRESETS)}")
        return cls(**(PRESETS[name] | options))

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write `model.safetensors` and `config.json` into a folder."""
        return pretrained.save(self, folder)

    @classmethod
    def from_pretrained(cls, folder: str | Path, **custom: Any) -> GraphMetanetwork:
        """Read what `save_pretrained` wrote; modules of your own are passed again by name."""
        return pretrained.load(cls, folder, **custom)

    @property
    def num_parameters(self) -> int:
        """Numbers that training changes."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def _known(engine: Engine) -> Engine:
    if engine not in ENGINES:
        raise ValueError(f"engine={engine!r} is none of {', '.join(ENGINES)}")
    return engine


def _readout(
    readout: str | Readout | None,
    level: str,
    hidden: int,
    out: int,
    vocabulary: Vocabulary,
    tensors: Sequence[str],
) -> Readout:
    if isinstance(readout, Readout):
        return readout
    if level not in READOUTS:
        raise ValueError(f"level={level!r} is none of {', '.join(READOUTS)}")
    choices = READOUTS[level]
    name = readout or next(iter(choices))
    if name not in choices:
        raise ValueError(f"readout={name!r} at level {level!r} is none of {', '.join(choices)}")
    if name == "kinds":
        return MeanByKind(hidden, out, vocabulary)
    if name == "tensors":
        return MeanByTensor(hidden, out, vocabulary=vocabulary, tensors=tensors)
    if name == "edit":
        return Edit(hidden, out, vocabulary=vocabulary, tensors=tensors)
    return choices[name](hidden, out)
