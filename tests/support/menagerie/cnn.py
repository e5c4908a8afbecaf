"""Convolutional classifiers in one, two and three dimensions, with each norm."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from .architecture import architecture
from .inputs import inputs, normal

CONVOLUTION = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
BATCH_NORM = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
INSTANCE_NORM = {1: nn.InstanceNorm1d, 2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}
AVERAGE = {1: nn.AdaptiveAvgPool1d, 2: nn.AdaptiveAvgPool2d, 3: nn.AdaptiveAvgPool3d}
SIZE = {1: (9,), 2: (8, 6), 3: (5, 4, 6)}

Norm = Callable[[int], nn.Module]


def classifier(dimensions: int, norm: Norm, *, flatten: bool, bias: bool = True) -> nn.Module:
    """Return two convolutions, 3 -> 12 -> 10, and a linear head on all positions or their mean."""
    conv = CONVOLUTION[dimensions]
    positions = torch.Size(SIZE[dimensions]).numel()
    return nn.Sequential(
        conv(3, 12, 3, padding=1, bias=bias),
        norm(12),
        nn.ReLU(),
        conv(12, 10, 3, padding=1, bias=bias),
        norm(10),
        nn.ReLU(),
        nn.Identity() if flatten else AVERAGE[dimensions](1),
        nn.Flatten(),
        nn.Linear(10 * positions if flatten else 10, 4),
    )


for dimensions, size in SIZE.items():
    batch, instance = BATCH_NORM[dimensions], INSTANCE_NORM[dimensions]
    averaged = partial(classifier, dimensions, flatten=False)
    flattened = partial(classifier, dimensions, flatten=True)
    variants = {
        "plain": partial(averaged, lambda channels: nn.Identity()),
        "batch-norm": partial(averaged, batch),
        "batch-norm-without-affine": partial(averaged, partial(batch, affine=False)),
        "batch-norm-flatten": partial(flattened, batch),
        "group-norm": partial(flattened, partial(nn.GroupNorm, 2)),
        "layer-norm": partial(averaged, lambda channels, size=size: nn.LayerNorm((channels, *size))),
        # Instance norm subtracts the mean of each channel, so no bias before it is visible.
        "instance-norm": partial(flattened, instance, bias=False),
        "instance-norm-affine": partial(averaged, partial(instance, affine=True), bias=False),
    }
    for variant, build in variants.items():
        architecture(
            f"cnn-{dimensions}d-{variant}",
            family="convolution",
            example=inputs(normal(2, 3, *size)),
        )(build)
