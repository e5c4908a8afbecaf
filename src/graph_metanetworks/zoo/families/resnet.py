"""Residual networks (He et al., 2016): blocks of two convolutions, with parameter-free skips."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from graph_metanetworks.zoo.draws import Choice, Uniform
from graph_metanetworks.zoo.families.family import ClassifierArchitecture, Family, ImageSpec
from graph_metanetworks.zoo.families.parts import Head
from graph_metanetworks.zoo.layers import Subsampling


class ResidualBlock(nn.Module):
    """Two convolutions. If the block halves the image, its skip takes every other pixel."""

    stackable = True

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.convolution1 = nn.Conv2d(channels, channels, 3, stride=stride, padding=1)
        self.norm1 = nn.BatchNorm2d(channels)
        self.convolution2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(channels)
        self.skip = nn.Identity() if stride == 1 else Subsampling(stride)

    def forward(self, x: Tensor) -> Tensor:
        branch = functional.relu(self.norm1(self.convolution1(x)))
        branch = self.norm2(self.convolution2(branch))
        return functional.relu(self.skip(x) + branch)


class ResNet(nn.Module):
    stackable = True

    def __init__(self, architecture: ClassifierArchitecture, spec: ImageSpec) -> None:
        super().__init__()
        stem, *rest = strides(spec.height, architecture.depth)
        self.convolution = nn.Conv2d(spec.channels, architecture.hidden, 3, stride=stem, padding=1)
        self.norm = nn.BatchNorm2d(architecture.hidden)
        self.blocks = nn.ModuleList(ResidualBlock(architecture.hidden, stride) for stride in rest)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = Head(architecture, spec)

    def forward(self, x: Tensor) -> Tensor:  # [..., channels, height, width] -> [..., classes]
        x = functional.relu(self.norm(self.convolution(x)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.pool(x).flatten(-3))


def strides(side: int, blocks: int) -> list[int]:
    """Return the strides of the stem and of the blocks.

    Large images are halved by the stem, then by every other block.

    >>> strides(32, 4), strides(8, 4)
    ([2, 1, 2, 1, 2], [1, 1, 2, 1, 1])
    """
    found = [2 if side > 16 else 1]
    side = -(-side // found[0])
    for block in range(blocks):
        found.append(2 if block % 2 and side > 4 else 1)
        side = -(-side // found[-1])
    return found


RESNET = Family(
    "resnet",
    hidden=Choice(16, 32),
    depth=Choice(2, 3, 4),
    linear_layers=Choice(1),
    norm=Choice("batch"),
    dropout=Uniform(0, 0),
    build=ResNet,
)
