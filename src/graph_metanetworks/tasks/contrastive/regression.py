"""Linear regression from embeddings to columns of a zoo, in float64."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graph_metanetworks.nn.fitted import resize_buffers

RIDGE = 1e-6  # keeps the error of few networks finite; it changes that of many in the sixth digit


class Regression(nn.Module):
    """Ordinary least squares with an intercept; of many solutions the smallest.

    >>> x = torch.arange(6.0, dtype=torch.float64)[:, None]
    >>> Regression().fit(x, 2 * x + 1)(torch.tensor([[10.0]])).round(decimals=3)
    tensor([[21.]], dtype=torch.float64)
    """

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Buffer(torch.zeros(0, 0, dtype=torch.float64))  # [d, k]
        self.bias = nn.Buffer(torch.zeros(0, dtype=torch.float64))  # [k]
        resize_buffers(self, "weight", "bias")

    def fit(self, embeddings: Tensor, columns: Tensor) -> Regression:  # [n, d], [n, k]
        x, y = embeddings.double(), columns.double()
        center, mean = x.mean(0), y.mean(0)
        # gelsd cuts off directions without variance: embeddings of few numbers may be dependent
        self.weight = torch.linalg.lstsq((x - center).cpu(), (y - mean).cpu(), driver="gelsd").solution
        self.bias = mean.cpu() - center.cpu() @ self.weight
        return self

    def forward(self, embeddings: Tensor) -> Tensor:  # [n, d] -> [n, k]
        return embeddings.to(self.weight) @ self.weight + self.bias


def left_out_errors(embeddings: Tensor, columns: Tensor) -> Tensor:
    """Return the squared error for each network of a regression on all others. [n, d], [n, k] -> [n, k]

    One regression on all networks gives them: a residual divided by one minus the leverage of its network.
    """
    x, y = embeddings.double(), columns.double()
    x = x - x.mean(0)
    x = x / x.square().mean(0).sqrt().clamp(min=1e-12)
    x = torch.cat([x, torch.ones_like(x[:, :1])], dim=1)
    gram = x.t() @ x + RIDGE * len(x) * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    solved = torch.linalg.solve(gram, x.t())  # [d + 1, n]
    leverage = (x * solved.t()).sum(1, keepdim=True)
    return ((y - x @ (solved @ y)) / (1 - leverage)).square()
