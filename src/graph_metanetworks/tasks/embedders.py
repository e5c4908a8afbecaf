"""Embedders: what turns networks into vectors. A run, a saved metanetwork, or an untrained one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from graph_metanetworks._version import __version__
from graph_metanetworks.errors import StorageError, TaskError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.nn.metanetwork import GraphMetanetwork
from graph_metanetworks.nn.pretrained import CONFIG, WEIGHTS
from graph_metanetworks.storage import checksum
from graph_metanetworks.storage.hub import download, is_repository
from graph_metanetworks.tasks.loading import load
from graph_metanetworks.tasks.runner import exactly
from graph_metanetworks.training.run_folder import MODEL, RUN

UNTRAINED = "untrained"  # in place of a run
SEED = 0


class Embedder(Protocol):
    """Anything with `embed(batch) -> [B, d]`; a `Runner` is one."""

    def embed(self, networks: Batch, /) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class MetanetworkEmbedder:
    """Embed networks by a metanetwork, trained or not, in float64, rounded to float32.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Linear(3, 2)
    >>> batch = gmn.collate([(gmn.trace(model, torch.zeros(1, 3)), model.state_dict())])
    >>> MetanetworkEmbedder(untrained_metanetwork()).embed(batch).shape
    torch.Size([1, 64])
    """

    network: GraphMetanetwork

    def __post_init__(self) -> None:
        self.network.double().eval()

    @torch.no_grad()
    def embed(self, networks: Batch, /) -> Tensor:
        return self.network.embed(exactly(networks, self.network)).float().to(networks.device)


def untrained_metanetwork(seed: int = SEED) -> GraphMetanetwork:
    """Make a metanetwork of random weights, the same for the same seed: a fingerprint of any network."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GraphMetanetwork(hidden=32, layers=3, blocks="matrix-product")


def find_embedder(name: str) -> Embedder:
    """Load a run or a metanetwork from its folder; "untrained" makes an untrained metanetwork."""
    if name == UNTRAINED:
        return MetanetworkEmbedder(untrained_metanetwork())
    folder = local(name)
    if (folder / RUN).is_file():
        return load(name)
    if (folder / CONFIG).is_file():
        return MetanetworkEmbedder(GraphMetanetwork.from_pretrained(folder))
    raise _unknown(name)


def local(name: str) -> Path:
    """Return the folder of a run or metanetwork; download it if this names a repository of the hub."""
    if name == UNTRAINED or Path(name).exists() or not is_repository(name):
        return Path(name)
    try:
        return download(name)
    except StorageError as error:
        raise TaskError(f"there is no folder {name}, and {error}") from error


def identify(name: str) -> str:
    """Return a text that is the same for embedders of the same weights: embeddings can then be compared."""
    if name == UNTRAINED:
        return f"{UNTRAINED} {__version__}"
    files = [local(name) / file for file in (MODEL, WEIGHTS) if (local(name) / file).is_file()]
    if not files:
        raise _unknown(name)
    return checksum.of_file(files[0])


def _unknown(name: str) -> TaskError:
    return TaskError(
        f"'{name}' holds neither a run ({RUN}) nor a metanetwork ({CONFIG}). Give the folder of a run of gmn "
        f"train, one that save_pretrained wrote, or the word {UNTRAINED}."
    )
