"""Residual networks: blocks with identity, projected, zero-padded and gated shortcuts."""

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from .architecture import architecture
from .inputs import inputs, normal

residual = partial(architecture, family="residual", example=inputs(normal(2, 3, 8, 6)))


def convolve(inner: int, outer: int, size: int, *, stride: int = 1, groups: int = 1) -> nn.Module:
    """Return a convolution without bias followed by batch norm."""
    return nn.Sequential(
        nn.Conv2d(inner, outer, size, stride, padding=size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outer),
    )


def basic(inner: int, outer: int, stride: int) -> nn.Module:
    """Return the two 3x3 convolutions of ResNet-18."""
    return nn.Sequential(convolve(inner, outer, 3, stride=stride), nn.ReLU(), convolve(outer, outer, 3))


def bottleneck(inner: int, outer: int, stride: int, *, hidden: int = 5) -> nn.Module:
    """Return the 1x1, 3x3, 1x1 convolutions of ResNet-50."""
    return nn.Sequential(
        convolve(inner, hidden, 1),
        nn.ReLU(),
        convolve(hidden, hidden, 3, stride=stride),
        nn.ReLU(),
        convolve(hidden, outer, 1),
    )


class ZeroPadded(nn.Module):
    """The shortcut of CIFAR ResNets: every second pixel, padded with zero channels."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.before = (outer - inner) // 2
        self.after = outer - inner - self.before

    def forward(self, image: Tensor) -> Tensor:  # [B, inner, H, W] -> [B, outer, H/2, W/2]
        return F.pad(image[:, :, ::2, ::2], (0, 0, 0, 0, self.before, self.after))


class Residual(nn.Module):
    """relu(branch(x) + shortcut(x))."""

    def __init__(self, branch: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.branch = branch
        self.shortcut = shortcut

    def forward(self, image: Tensor) -> Tensor:  # [B, inner, H, W] -> [B, outer, H', W']
        return F.relu(self.branch(image) + self.shortcut(image))


def classifier(channels: int, *blocks: nn.Module, stem: int = 8) -> nn.Module:
    """Return the stem, the blocks and a linear head on the mean of their channels."""
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 4))
    return nn.Sequential(convolve(3, stem, 3), nn.ReLU(), *blocks, *head)


@residual("resnet-basic-identity")
def basic_identity() -> nn.Module:
    """Return two basic blocks on one residual stream."""
    return classifier(8, *(Residual(basic(8, 8, 1), nn.Identity()) for _ in range(2)))


@residual("resnet-basic-projection")
def basic_projection() -> nn.Module:
    """Return a basic block that changes the residual stream, between two that do not."""
    return classifier(
        12,
        Residual(basic(8, 8, 1), nn.Identity()),
        Residual(basic(8, 12, 2), convolve(8, 12, 1, stride=2)),
        Residual(basic(12, 12, 1), nn.Identity()),
    )


@residual("resnet-option-a")
def option_a() -> nn.Module:
    """Return basic blocks whose shortcut pads the channels with zeros."""
    return classifier(
        13,
        Residual(basic(8, 13, 2), ZeroPadded(8, 13)),
        Residual(basic(13, 13, 1), nn.Identity()),
    )


@residual("resnet-bottleneck-identity")
def bottleneck_identity() -> nn.Module:
    """Return two bottleneck blocks on one residual stream."""
    return classifier(8, *(Residual(bottleneck(8, 8, 1), nn.Identity()) for _ in range(2)))


@residual("resnet-bottleneck-projection")
def bottleneck_projection() -> nn.Module:
    """Return a bottleneck block that changes the residual stream, then one that does not."""
    return classifier(
        14,
        Residual(bottleneck(8, 14, 2), convolve(8, 14, 1, stride=2)),
        Residual(bottleneck(14, 14, 1), nn.Identity()),
    )


@residual("resnext")
def resnext() -> nn.Module:
    """Return a bottleneck block whose 3x3 convolution is grouped."""
    branch = nn.Sequential(
        convolve(8, 12, 1),
        nn.ReLU(),
        convolve(12, 12, 3, groups=3),
        nn.ReLU(),
        convolve(12, 8, 1),
    )
    return classifier(8, Residual(branch, nn.Identity()))


@residual("resnet-pre-activation")
class PreActivation(nn.Module):
    """Blocks that normalise before they convolve, leaving the residual stream linear."""

    def __init__(self, width: int = 9) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))
        self.convolutions = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.head = nn.Linear(width, 4)

    def forward(self, image: Tensor) -> Tensor:  # [B, 3, H, W] -> [B, 4]
        x = self.stem(image)
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            x = x + convolution(F.relu(norm(x)))
        return self.head(x.mean(dim=(2, 3)))
