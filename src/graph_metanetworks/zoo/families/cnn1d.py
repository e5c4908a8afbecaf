"""One-dimensional CNNs: the pixels in raster order as a sequence, with kernels of size 9."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from graph_metanetworks.zoo.draws import Choice, Uniform
from graph_metanetworks.zoo.families.family import ClassifierArchitecture, Family, ImageSpec
from graph_metanetworks.zoo.families.parts import Head, norm_1d


class Cnn1d(nn.Module):
    stackable = True

    def __init__(self, architecture: ClassifierArchitecture, spec: ImageSpec) -> None:
        super().__init__()
        hidden, depth = architecture.hidden, architecture.depth
        inputs = [spec.channels, *[hidden] * (depth - 1)]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(channels, hidden, 9, stride=stride, padding=4)
            for channels, stride in zip(inputs, strides(spec.height * spec.width, depth), strict=True)
        )
        self.norms = nn.ModuleList(norm_1d(architecture.norm, hidden) for _ in range(depth))
        self.pool = nn.AdaptiveAvgPool1d(1)
        self.head = Head(architecture, spec)

    def forward(self, x: Tensor) -> Tensor:  # [..., channels, height, width] -> [..., classes]
        x = x.flatten(-2)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = functional.relu(norm(convolution(x)))
        return self.head(self.pool(x).flatten(-2))


def strides(length: int, depth: int) -> list[int]:
    """Return the stride of each layer. Long sequences are shortened faster.

    >>> strides(32 * 32, 3), strides(8 * 8, 3)
    ([4, 2, 2], [2, 2, 2])
    """
    found = []
    for _ in range(depth):
        found.append(4 if length > 256 else 2)
        length = -(-length // found[-1])
    return found


CNN_1D = Family(
    "cnn1d",
    hidden=Choice(24, 28, 32),
    depth=Choice(1, 2, 3),
    linear_layers=Choice(1, 2),
    norm=Choice("batch", "group"),
    dropout=Uniform(0, 0.25),
    build=Cnn1d,
)
