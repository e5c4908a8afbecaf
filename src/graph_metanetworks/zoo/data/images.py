"""Labelled images with a training and a test split."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from functools import cached_property

import torch
from torch import Tensor


class DataError(ValueError):
    """A data set is missing or damaged. The message says which one, where, and what to do."""


@dataclass(frozen=True, eq=False)
class ImageData:
    """Labelled images, with pixels as bytes.

    >>> from graph_metanetworks.zoo.data import load
    >>> data = load("digits")
    >>> data.train_images.shape, data.num_classes, data.flips
    (torch.Size([1297, 1, 8, 8]), 10, False)
    """

    name: str
    train_images: Tensor  # uint8 [n, channels, height, width]
    train_labels: Tensor  # int64 [n]
    test_images: Tensor
    test_labels: Tensor
    classes: tuple[str, ...]
    flips: bool  # whether a mirrored image still belongs to its class

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            self._check(part, getattr(self, f"{part}_images"), getattr(self, f"{part}_labels"))
        if self.train_images.shape[1:] != self.test_images.shape[1:]:
            raise DataError(
                f"{self.name}: training images are {_size(self.train_images)}, but test images are "
                f"{_size(self.test_images)}; they must have the same size"
            )

    def _check(self, part: str, images: Tensor, labels: Tensor) -> None:
        if images.dtype != torch.uint8 or images.dim() != 4:
            raise DataError(f"{self.name}: {part} images must be uint8 [n, channels, height, width]")
        if not len(images):
            raise DataError(f"{self.name}: there are no {part} images")
        if labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
            raise DataError(f"{self.name}: {len(images)} {part} images have labels {list(labels.shape)}")
        if int(labels.min()) < 0 or int(labels.max()) >= len(self.classes):
            raise DataError(
                f"{self.name}: {part} labels range from {int(labels.min())} to {int(labels.max())}, but "
                f"there are {len(self.classes)} classes"
            )

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        channels, height, width = self.train_images.shape[1:]
        return channels, height, width

    @cached_property
    def checksum(self) -> str:
        """The checksum of all images and labels, which does not depend on the files they came from."""
        digest = hashlib.sha256()
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, Tensor):
                digest.update(f"{entry.name} {list(value.shape)}".encode())
                digest.update(value.contiguous().numpy().tobytes())
        return digest.hexdigest()


def shuffled(count: int) -> Tensor:  # [count]
    """Return a fixed random permutation.

    Data sets are often sorted by class. Shuffled, their first images are a fair sample.
    """
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))


def sampled(data: ImageData, count: int) -> ImageData:
    """Return the same data with `count` of its training images, a fixed random sample."""
    available = len(data.train_images)
    if not 0 < count <= available:
        raise DataError(
            f"{data.name} has {available:,} training images: choose 1 to all of them, not {count}"
        )
    chosen = shuffled(available)[:count]
    return replace(data, train_images=data.train_images[chosen], train_labels=data.train_labels[chosen])


def _size(images: Tensor) -> str:
    return " x ".join(map(str, images.shape[1:]))
