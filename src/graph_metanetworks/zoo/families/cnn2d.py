"""Two-dimensional CNNs: 3 x 3 convolutions, global average pooling, linear layers."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from graph_metanetworks.zoo.draws import Choice, Uniform
from graph_metanetworks.zoo.families.family import ClassifierArchitecture, Family, ImageSpec
from graph_metanetworks.zoo.families.parts import Head, norm_2d


class Cnn2d(nn.Module):
    stackable = True

    def __init__(self, architecture: ClassifierArchitecture, spec: ImageSpec) -> None:
        super().__init__()
        hidden, depth = architecture.hidden, architecture.depth
        inputs = [spec.channels, *[hidden] * (depth - 1)]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(channels, hidden, 3, stride=stride, padding=1)
            for channels, stride in zip(inputs, strides(spec.height, depth), strict=True)
        )
        self.norms = nn.ModuleList(norm_2d(architecture.norm, hidden) for _ in range(depth))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = Head(architecture, spec)

    def forward(self, x: Tensor) -> Tensor:  # [..., channels, height, width] -> [..., classes]
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = functional.relu(norm(convolution(x)))
        return self.head(self.pool(x).flatten(-3))


def strides(side: int, depth: int) -> list[int]:
    """Return the stride of each layer. Images are halved down to about 4 x 4; the first layer keeps 8 x 8.

    >>> strides(32, 3), strides(8, 3)
    ([2, 2, 2], [1, 2, 1])
    """
    found = []
    for layer in range(depth):
        found.append(2 if side > (8 if layer == 0 else 4) else 1)
        side = -(-side // found[-1])
    return found


CNN_2D = Family(
    "cnn2d",
    hidden=Choice(24, 28, 32),
    depth=Choice(1, 2, 3),
    linear_layers=Choice(1, 2),
    norm=Choice("batch", "group"),
    dropout=Uniform(0, 0.25),
    build=Cnn2d,
)
