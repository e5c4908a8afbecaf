"""Modules that several families share.

The networks of a family are ordinary modules. Their `forward` counts axes from the end, so that it also
accepts populations, which have one more leading axis (see `zoo/population/stack.py`).
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from graph_metanetworks.zoo.families.family import ClassifierArchitecture, ImageSpec

GROUPS = 4  # of a group norm


class Head(nn.Module):
    """Dropout and one or more linear layers, from features to classes."""

    stackable = True

    def __init__(self, architecture: ClassifierArchitecture, spec: ImageSpec) -> None:
        super().__init__()
        features = architecture.hidden
        self.dropout = nn.Dropout(architecture.dropout)
        self.hidden = nn.ModuleList(
            nn.Linear(features, features) for _ in range(architecture.linear_layers - 1)
        )
        self.out = nn.Linear(features, spec.classes)

    def forward(self, x: Tensor) -> Tensor:  # [..., features] -> [..., classes]
        x = self.dropout(x)
        for layer in self.hidden:
            x = functional.relu(layer(x))
        return self.out(x)


def norm_2d(name: str, channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels) if name == "batch" else nn.GroupNorm(GROUPS, channels)


def norm_1d(name: str, channels: int) -> nn.Module:
    return nn.BatchNorm1d(channels) if name == "batch" else nn.GroupNorm(GROUPS, channels)
