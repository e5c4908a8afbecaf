"""The model that is trained: an encoder, and what is put on its embeddings for training only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.methods.method import as_metanetwork


class Inputs(NamedTuple):
    """Versions of B networks in one batch: clean ones if asked for, then two views of each if asked for."""

    networks: Batch
    size: int  # B
    clean: bool
    views: bool


class Outputs(NamedTuple):
    """What the encoder and its top make of them."""

    embeddings: Tensor | None  # [B, d] of clean networks
    projections: Tensor | None  # [2 B, d] of views
    estimates: Tensor | None  # [B, k] of the columns, in supervised training


class Encoded(nn.Module):
    """An encoder with a top: the projector of contrastive learning, or the head of supervised training."""

    def __init__(self, encoder: nn.Module, top: nn.Module) -> None:
        super().__init__()
        self.encoder, self.top = encoder, top

    def fit(self, batches: Iterable[Batch]) -> None:
        as_metanetwork(self.encoder).fit(batches)

    def forward(self, batch: Batch) -> Tensor:  # [B, d]
        return self.encoder(batch)

    def run(self, inputs: Inputs) -> Outputs:
        """Embed all versions at once, and apply the top to the views, or else to the clean networks."""
        found = self.encoder(inputs.networks)
        clean = found[: inputs.size] if inputs.clean else None
        if inputs.views:
            return Outputs(clean, self.top(found[-2 * inputs.size :]), None)
        return Outputs(clean, None, self.top(found))
