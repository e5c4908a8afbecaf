"""What is followed during training: retrieval of the other view, and the error of a linear regression."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from graph_metanetworks.tasks.contrastive.loss import retrieval
from graph_metanetworks.tasks.contrastive.model import Outputs
from graph_metanetworks.tasks.contrastive.regression import left_out_errors


class Retrieval(Metric):
    """The share of views whose nearest view is that of the same network; NaN without views."""

    full_state_update = False
    found: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("found", "count"):
            self.add_state(name, torch.zeros(()), dist_reduce_fx="sum")

    def update(self, outputs: Outputs, targets: Tensor) -> None:
        if outputs.projections is not None:
            hits = retrieval(outputs.projections)
            self.found += hits.sum()
            self.count += len(hits)

    def compute(self) -> Tensor:
        return self.found / self.count


class LinearError(Metric):
    """Mean squared error, on each validation network, of a linear regression on all others."""

    full_state_update = False

    def __init__(self) -> None:
        super().__init__()
        for name in ("embeddings", "targets"):
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(self, outputs: Outputs, targets: Tensor) -> None:
        assert outputs.embeddings is not None
        self.embeddings.append(outputs.embeddings)  # pyright: ignore
        self.targets.append(targets)  # pyright: ignore

    def compute(self) -> Tensor:
        embeddings, targets = (dim_zero_cat(part) for part in (self.embeddings, self.targets))  # pyright: ignore
        return left_out_errors(embeddings, targets).mean().float()
