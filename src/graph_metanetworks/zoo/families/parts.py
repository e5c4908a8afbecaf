"""What several families are made of.

Networks of a family are ordinary modules. Their `forward` counts axes from the end, so that it also takes
populations, which have one more axis in front (see `zoo/population/stack.py`).
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

GROUPS = 4  # of a group norm


class Head(nn.Module):
    """Dropout and one or more linear layers: from features to classes."""

    stackable = True

    def __init__(self, features: int, classes: int, *, linear_layers: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.ModuleList(nn.Linear(features, features) for _ in range(linear_layers - 1))
        self.out = nn.Linear(features, classes)

    def forward(self, x: Tensor) -> Tensor:  # [..., features] -> [..., classes]
        x = self.dropout(x)
        for layer in self.hidden:
            x = functional.relu(layer(x))
        return self.out(x)


def norm_2d(name: str, channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels) if name == "batch" else nn.GroupNorm(GROUPS, channels)


def norm_1d(name: str, channels: int) -> nn.Module:
    return nn.BatchNorm1d(channels) if name == "batch" else nn.GroupNorm(GROUPS, channels)
