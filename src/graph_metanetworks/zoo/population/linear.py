"""Linear layers of a population: batched matrix products."""

from __future__ import annotations

import torch
from torch import Tensor

from graph_metanetworks.zoo.population.stacked import Stacked


class Linear(Stacked):
    shared = ("in_features", "out_features")
    weight: Tensor  # [G, out, in]
    bias: Tensor | None  # [G, out]

    def forward(self, x: Tensor) -> Tensor:  # [G or 1, ..., in] -> [G, ..., out]
        if x.shape[0] == 1 < len(self.weight) or x.stride(-1) != 1:
            return self._columns(x)
        rows = x.flatten(1, -2)  # [G, N, in]
        if self.bias is None:
            return torch.bmm(rows, self.weight.mT).unflatten(1, x.shape[1:-1])
        return torch.baddbmm(self.bias.unsqueeze(1), rows, self.weight.mT).unflatten(1, x.shape[1:-1])

    def _columns(self, x: Tensor) -> Tensor:
        """Return a result whose features precede the batch in memory, contiguous for channel norms."""
        columns = x.movedim(-1, 1).flatten(2)  # [G or 1, in, N]
        if len(columns) == 1 < len(self.weight):
            y = torch.mm(self.weight.flatten(0, 1), columns[0]).unflatten(0, self.weight.shape[:2])
        else:
            y = torch.bmm(self.weight, columns)  # [G, out, N]
        if self.bias is not None:
            y = y + self.bias.unsqueeze(2)
        return y.unflatten(2, x.shape[1:-1]).movedim(1, -1)
