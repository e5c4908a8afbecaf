"""GraphMetanetwork: encode, blocks, readout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import UnsupportedNetwork
from graph_metanetworks.graph.batch import Batch, require_batch
from graph_metanetworks.nn import pretrained
from graph_metanetworks.nn.bundles import BundleEncoder, BundlePassing
from graph_metanetworks.nn.canonical import Canonical
from graph_metanetworks.nn.embedding import MeanStates, input_of, node_means
from graph_metanetworks.nn.encoders import EdgeEncoder, NodeEncoder
from graph_metanetworks.nn.execution import BLOCKS, in_batch_order, run_pairs, run_panels, streaming
from graph_metanetworks.nn.grit import Grit
from graph_metanetworks.nn.group_readout import MeanByGroup
from graph_metanetworks.nn.matrix_product import MatrixProduct, WeightMatrices
from graph_metanetworks.nn.message_passing import Aggregation, MessagePassing, UpdatesEdges
from graph_metanetworks.nn.mlp import Mlp, signed_log
from graph_metanetworks.nn.probe_outputs import WIDTH as PROBE_WIDTH
from graph_metanetworks.nn.probe_outputs import ProbeOutputs
from graph_metanetworks.nn.probes import Probes
from graph_metanetworks.nn.readouts import (
    AttentionPooling,
    EachEdge,
    EachNode,
    Edit,
    FromEnds,
    MeanByKind,
    MeanEdges,
    MeanNodes,
    Readout,
)
from graph_metanetworks.nn.state import Links, State, node_network
from graph_metanetworks.nn.tensor_readout import MeanByTensor
from graph_metanetworks.nn.unary import UnaryEncoder
from graph_metanetworks.nn.vocabulary import Vocabulary
from graph_metanetworks.symmetry.scaling import CanonicalKind

BlockName = Literal["message-passing", "matrix-product", "bundles"]
Engine = Literal["blocks", "stream", "edge_list"]
ENGINES = ("blocks", "stream", "edge_list")
READOUTS: dict[str, dict[str, type[Readout]]] = {
    "graph": {
        "edges": MeanEdges,
        "kinds": MeanByKind,
        "tensors": MeanByTensor,
        "groups": MeanByGroup,
        "nodes": MeanNodes,
        "attention": AttentionPooling,
    },
    "node": {"each": EachNode},
    "edge": {"each": EachEdge, "ends": FromEnds, "edit": Edit},
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
    # 2,966,135 parameters. The published model has 3,652,865; the paper does not say where they are.
    "grit": {"hidden": 256, "layers": 4, "blocks": Grit(heads=16), "readout": "nodes"},
}


class GraphMetanetwork(nn.Module):
    """A graph network on networks: encode a batch of parameter graphs, pass messages, read out.

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
        readout: at graph level "edges" (the mean over edges), "kinds", "tensors", "groups" (of nodes; the
            default of "matrix-product" and "bundles"), "nodes" or "attention"; at edge level "each", "ends"
            (from the weight and both nodes, in one pass; the default of these two) or "edit" (the weights
            plus a learned change); or a `Readout`.
        channels: numbers on each edge: 1 for weights, 2 for weights and gradients, ...
        fourier: pairs of sine and cosine features of each weight.
        tensors: names of parameters with their own learned scale and, when editing, step size; others share
            those of their kind. `fit` adds the tensors of a zoo.
        aggregation, two_way, global_feature: see `MessagePassing`; other blocks ignore them.
        blocks: "message-passing" (the paper's, the default); "matrix-product" (states are multiplied by the
            weights: no edge states, faster by far, transfers to other widths); "bundles" (message passing;
            parallel edges, such as taps of a kernel, share a state; transfers too); `gmn.nn.Grit(...)`; or a
            list of your own modules `(State, Links) -> State`.
        probes: inputs to run through the networks, such as `gmn.nn.Probes(32, (3, 32, 32))`. Activations are
            features of nodes; all nodes and the readout "groups" know the outputs. Needs forward passes.
        canonical: bring networks to canonical form first: "scales" (and signs and phases of units) or "signs"
            (and phases). Results then do not depend on these choices; those per edge are for that form.
        node_encoder, edge_encoder: your own encoders.
        vocabulary: the kinds that have embeddings.
        engine: "blocks", "stream" (read the weights again in each block, with memory for nodes only) or
            "edge_list" (an explicit list of edges, always used for GRIT and blocks of your own).
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
        blocks: Sequence[nn.Module] | Grit | BlockName = "message-passing",
        probes: Probes | None = None,
        canonical: CanonicalKind | None = None,
        node_encoder: nn.Module | None = None,
        edge_encoder: EdgeEncoder | None = None,
        vocabulary: Vocabulary | None = None,
        engine: Engine = "blocks",
    ) -> None:
        super().__init__()
        self.config: dict[str, Any] = pretrained.config_of(locals())
        vocabulary = vocabulary or Vocabulary()
        self.hidden, self.out, self.level = hidden, out, level
        self.channels = channels if edge_encoder is None else edge_encoder.channels
        self.engine: Engine = _checked_engine(engine)
        pairs = _joins_pairs(blocks)  # of neurons: edges then have no states of their own
        if readout is None and pairs:
            readout = {"graph": "groups", "edge": "ends"}.get(level)
        on_edges = {"channels": self.channels, "fourier": fourier, "tensors": tensors}
        self.readout = _readout(readout, level, hidden, out, vocabulary, on_edges)
        self.node_encoder = node_encoder or NodeEncoder(hidden, vocabulary)
        self.unary = UnaryEncoder(hidden, vocabulary, channels=channels) if pairs else None
        self.matrices: WeightMatrices | BundleEncoder | None = None
        self.edge_encoder, self.edge_pass = edge_encoder, None
        if self.readout.reads_edges or not pairs:
            self.edge_encoder = edge_encoder or EdgeEncoder(
                hidden, vocabulary, channels=channels, fourier=fourier, tensors=tensors
            )
        if self.readout.reads_edges and pairs:
            self.edge_pass = UpdatesEdges(hidden, inner or 2 * hidden, gain=1.0)
        self.canonical = None if canonical is None else Canonical(canonical)
        self.probes = probes
        if probes is not None:
            self.signals = nn.Linear(2 * probes.count, hidden, bias=False)
            self.outputs = ProbeOutputs(probes.count, PROBE_WIDTH)
            self.spread = nn.Linear(PROBE_WIDTH, hidden, bias=False)
            self.readout.add_outputs(PROBE_WIDTH)
        self.first_global = nn.Parameter(torch.zeros(hidden)) if global_feature else None
        if blocks == "matrix-product":
            self.matrices = WeightMatrices(vocabulary, channels=channels)
            sizes = (hidden, self.matrices.num_planes, len(vocabulary.edge_kinds), inner)
            made: Sequence[nn.Module] = [MatrixProduct(*sizes) for _ in range(layers)]
        elif blocks == "bundles":
            self.matrices = BundleEncoder(hidden, vocabulary, channels=channels)
            made = [BundlePassing(hidden, inner, updates_edges=n < layers - 1) for n in range(layers)]
        elif isinstance(blocks, Grit):
            made = blocks.make(hidden, layers, self.readout, inner)
        elif isinstance(blocks, str):
            options = {"aggregation": aggregation, "two_way": two_way, "global_feature": global_feature}
            updates_edges = [True] * (layers - 1) + [self.readout.reads_edges] * (layers > 0)
            made = [MessagePassing(hidden, inner, **options, updates_edges=own) for own in updates_edges]
        else:
            made = blocks
        self.blocks = nn.ModuleList(made)

    @property
    def runs_on_panels(self) -> bool:
        """Whether an engine knows all blocks; others need an explicit list of edges."""
        return self.matrices is not None or all(isinstance(block, MessagePassing) for block in self.blocks)

    def forward(self, batch: Batch, engine: Engine | None = None, **options: Any) -> Tensor:
        """Run on a batch.

        The engine "stream" has two options: `workers`, their number, and `progress`, to show a bar.
        """
        require_batch(batch)
        engine = self.engine if engine is None else _checked_engine(engine)
        self._check(batch, engine)
        if self.canonical is not None:
            batch = self.canonical(batch)
        if options and engine != "stream":
            raise TypeError(f"{', '.join(options)}: only engine='stream' takes options, not {engine!r}")
        if engine == "edge_list" or not self.runs_on_panels:
            return self._run_edge_list(batch)
        plan = streaming(**options) if engine == "stream" else BLOCKS
        if self.matrices is not None:
            return run_pairs(self, batch, engine, plan)
        return run_panels(self, batch, plan)

    def fit(self, batches: Iterable[Batch]) -> None:
        """Take the scale of each tensor, by name, and of each kind of edge from a training zoo.

        Call it before the first step of an optimizer: parameters get other sizes. Some parts iterate over the
        batches a second time; an iterator is kept in memory for that. What is fitted is part of the state
        dict, which loads into a fresh metanetwork.
        """
        batches = list(batches) if isinstance(batches, Iterator) else batches
        if self.canonical is not None:
            batches = [self.canonical(batch) for batch in batches]
        for part in (self.unary, self.matrices, self.edge_encoder):
            if part is not None:
                part.fit(batches)
        if self.probes is not None:
            with torch.no_grad():  # the first outputs decide the size of their encoder
                self.encode(next(iter(batches)))
        self.readout.fit(batches, self)

    def read(self, batch: Batch, readout: Readout) -> Tensor:
        """Run on a batch with another readout."""
        kept, self.readout = self.readout, readout
        try:
            return self(batch)
        finally:
            self.readout = kept

    def embed(self, batch: Batch) -> Tensor:
        """Return the representation of each network before the last layer, `[B, d]`.

        At graph level it is what the last linear layer of the readout is given; at node and edge level, the
        mean of that over the nodes or edges of each network, of nodes for the readout "ends". It is invariant
        to symmetries of the networks, also before training: a fingerprint. Embed in float64 and round to have
        equal numbers for them.

        >>> import torch, graph_metanetworks as gmn
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> graph = gmn.trace(model, torch.randn(1, 2))
        >>> permuted = graph.symmetry.sample(torch.Generator().manual_seed(0)).apply(model.state_dict())
        >>> batch = gmn.collate([(graph, model.state_dict()), (graph, permuted)])
        >>> net = gmn.GraphMetanetwork(hidden=16, layers=2, blocks="matrix-product").double()
        >>> first, second = net.embed(batch.to(torch.float64)).float()
        >>> first.shape, torch.equal(first, second)
        (torch.Size([64]), True)
        """
        readout = self.readout
        if isinstance(readout, FromEnds):
            return node_means(input_of(readout.source, self, batch), batch)
        if isinstance(readout, EachEdge):
            return self.read(batch, MeanStates(readout))
        head = getattr(readout, "head", None)
        if not isinstance(head, Mlp):
            raise UnsupportedNetwork(
                f"{type(readout).__name__} has no last layer that is known, so there is nothing to embed "
                "networks by. Give your readout an Mlp called `head`, which makes its result."
            )
        found = input_of(head.second, self, batch)
        return node_means(found, batch) if self.level == "node" else found

    @property
    def tensor_names(self) -> tuple[str, ...]:
        """The tensors that `fit` found on edges."""
        return () if self.edge_encoder is None else self.edge_encoder.fitted_names

    def encode(self, batch: Batch) -> tuple[Tensor, Links]:
        """Return the first states of nodes, `[N, hidden]`, and the batch as its readout sees it."""
        nodes = self.node_encoder(batch)
        if self.unary is not None:
            nodes = nodes + self.unary(batch)
        if self.probes is None:
            return nodes, Links(batch)
        found = self.probes(batch)
        outputs = self.outputs(found.outputs)
        nodes = nodes + self.signals(signed_log(found.nodes)) + self.spread(outputs)[node_network(batch)]
        return nodes, Links(batch, outputs)

    def first_globals(self, batch: Batch) -> Tensor | None:
        return None if self.first_global is None else self.first_global.expand(len(batch), -1)

    def _run_edge_list(self, batch: Batch) -> Tensor:
        nodes, links = self.encode(batch)
        state = State(nodes, self._edges_over_list(links, batch), self.first_globals(batch))
        panels = None if self.matrices is None else self.matrices(batch, "edge_list")
        for block in self.blocks:
            if panels is None:
                state = block(state, links)
            else:
                state = state._replace(nodes=block(state.nodes, panels))
        if self.edge_pass is not None:
            normed = self.edge_pass.edge_norm(state.edges)
            state = state._replace(edges=self.edge_pass.edges_over_list(state, normed, links))
        result = self.readout(state, links)
        return in_batch_order([links.panel], [result]) if self.level == "edge" else result

    def _edges_over_list(self, links: Links, batch: Batch) -> Tensor:
        encoder = self.edge_encoder
        if encoder is None:
            return torch.empty(0, self.hidden, dtype=batch.dtype, device=batch.device)
        return encoder.states(encoder.terms(links.panel, batch), encoder.weights())

    def _check(self, batch: Batch, engine: Engine) -> None:
        if engine == "stream" and not self.runs_on_panels:
            raise ValueError(
                "engine='stream' runs message passing, bundles and matrix products only. Use "
                "engine='edge_list' for other blocks."
            )
        if batch.channels != self.channels:
            raise ValueError(
                f"the batch has {batch.channels} numbers on each edge, but this metanetwork was made with "
                f"channels={self.channels}. Make it with channels={batch.channels}, or collate "
                "another number of state dicts per network."
            )

    # -------------------------------------------------------------- presets, saving, loading

    @classmethod
    def preset(cls, name: str, **options: Any) -> GraphMetanetwork:
        """Make a published configuration: "accuracy", "contrastive", "editing" or "grit", with options."""
        if name not in PRESETS:
            raise ValueError(f"no preset {name!r}; there are {', '.join(PRESETS)}")
        return cls(**(PRESETS[name] | options))

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write `model.safetensors` and `config.json` into a folder."""
        return pretrained.save(self, folder)

    @classmethod
    def from_pretrained(cls, folder: str | Path, **custom: Any) -> GraphMetanetwork:
        """Load what `save_pretrained` wrote, from a folder or a repository of the Hugging Face hub.

        Pass modules of your own again, by name.
        """
        return pretrained.load(cls, folder, **custom)

    def push_to_hub(self, name: str, *, private: bool | None = None, token: str | None = None) -> str:
        """Upload to the Hugging Face hub as `user/name`, with a model card; return its address."""
        return pretrained.push(self, name, private=private, token=token)

    @property
    def num_parameters(self) -> int:
        """The number of trainable parameters."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def _checked_engine(engine: Engine) -> Engine:
    if engine not in ENGINES:
        raise ValueError(f"engine={engine!r} is none of {', '.join(ENGINES)}")
    return engine


def _joins_pairs(blocks: object) -> bool:
    """Whether blocks work on pairs of neurons, whatever the number of edges between them."""
    if isinstance(blocks, str) and blocks not in get_args(BlockName):
        raise ValueError(f"blocks={blocks!r} is none of {', '.join(get_args(BlockName))}")
    return blocks in ("matrix-product", "bundles")


def _readout(
    readout: str | Readout | None,
    level: str,
    hidden: int,
    out: int,
    vocabulary: Vocabulary,
    on_edges: dict[str, Any],
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
    if name == "groups":
        return MeanByGroup(hidden, out, vocabulary=vocabulary)
    if name == "tensors":
        return MeanByTensor(hidden, out, vocabulary=vocabulary, tensors=on_edges["tensors"])
    if name == "ends":
        return FromEnds(hidden, out, vocabulary=vocabulary, **on_edges)
    if name == "edit":
        return Edit(hidden, out, vocabulary=vocabulary, tensors=on_edges["tensors"])
    return choices[name](hidden, out)
