"""Augmented batches of images, the same for every network of a zoo."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from graph_metanetworks.zoo.data import ImageData


@dataclass(frozen=True)
class Statistics:
    """The mean and standard deviation of each channel, in units of bytes."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def normalized(self, images: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Normalise bytes `[..., channels, height, width]` to mean 0 and standard deviation 1."""
        mean = torch.tensor(self.mean, dtype=dtype).view(-1, 1, 1)
        deviation = torch.tensor(self.deviation, dtype=dtype).view(-1, 1, 1)
        return (images.to(dtype) - mean).div_(deviation)


def channel_statistics(images: Tensor) -> Statistics:
    """Compute exact statistics from the counts of the 256 values, without a copy of the images."""
    values = torch.arange(256, dtype=torch.float64)
    counts = torch.stack([torch.bincount(c.flatten(), minlength=256) for c in images.unbind(1)]).double()
    fractions = counts / counts.sum(1, keepdim=True)
    mean = fractions @ values
    deviation = (fractions @ values.square() - mean.square()).clamp(min=1).sqrt()
    return Statistics(tuple(mean.tolist()), tuple(deviation.tolist()))


@dataclass(frozen=True)
class Augmentation:
    """Random augmentation of training images. Lengths are in pixels."""

    flips: bool
    shift: int  # largest shift along both axes
    cutout: int  # side of the square that is masked


def usual_augmentation(data: ImageData) -> Augmentation:
    """Return the paper's augmentation, scaled to the image: on 32 x 32, shifts by 2 and cutouts of 4 x 4."""
    side = min(data.image_shape[1:])
    return Augmentation(flips=data.flips, shift=max(1, round(side / 16)), cutout=max(1, round(side / 8)))


@dataclass(frozen=True, eq=False)
class Batches:
    """Batches of training images. Batch `step` depends only on the data, these options and `step`."""

    data: ImageData
    size: int
    augmentation: Augmentation
    statistics: Statistics
    seed: int = 0
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        if self.size > len(self.data.train_images):
            raise ValueError(
                f"a batch size of {self.size} is larger than {self.data.name}, which has "
                f"{len(self.data.train_images)} training images"
            )

    @property
    def per_epoch(self) -> int:
        """The number of full batches. The remainder of an epoch is dropped."""
        return len(self.data.train_images) // self.size

    def training(self, step: int) -> tuple[Tensor, Tensor]:  # [batch, channels, height, width], [batch]
        epoch, batch = divmod(step, self.per_epoch)
        chosen = self._order(epoch)[batch * self.size : (batch + 1) * self.size]
        images, labels = self.data.train_images[chosen], self.data.train_labels[chosen]
        return self._augmented(images, self._generator(f"step {step}")), labels

    def evaluation(self, images: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        for some, their_labels in zip(images.split(256), labels.split(256), strict=True):
            yield self._normalized(some), their_labels

    def _order(self, epoch: int) -> Tensor:
        return _permutation(len(self.data.train_images), self._seed(f"epoch {epoch}"))

    def _seed(self, purpose: str) -> int:
        digest = hashlib.blake2b(f"{self.seed}/{purpose}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") >> 1

    def _generator(self, purpose: str) -> torch.Generator:
        return torch.Generator().manual_seed(self._seed(purpose))

    def _normalized(self, images: Tensor) -> Tensor:
        return self.statistics.normalized(images, self.dtype)

    def _augmented(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Augment images. Pixels outside a shifted image, or in the cutout, are set to the mean."""
        rows, inside_rows = self._moved(images.shape[-2], len(images), False, generator)
        columns, inside_columns = self._moved(
            images.shape[-1], len(images), self.augmentation.flips, generator
        )
        each = torch.arange(len(images))[:, None, None]
        moved = images.permute(0, 2, 3, 1)[each, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
        # contiguous, because convolutions keep the memory format, and nn.Dropout draws its mask in it
        moved = moved.clone(memory_format=torch.contiguous_format)
        visible = inside_rows[:, :, None] & inside_columns[:, None, :]
        visible &= ~self._cutout(images, generator)
        return self._normalized(moved).mul_(visible.unsqueeze(1))

    def _moved(
        self, length: int, count: int, flips: bool, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:  # [batch, length] each
        """Return the source pixel of each pixel along an axis, and whether it exists."""
        shift = self.augmentation.shift
        source = torch.arange(length) + torch.randint(-shift, shift + 1, (count, 1), generator=generator)
        inside = (source >= 0) & (source < length)
        source = source.clamp(0, length - 1)
        if flips:
            mirrored = torch.rand(count, 1, generator=generator) < 0.5
            source = torch.where(mirrored, length - 1 - source, source)
        return source, inside

    def _cutout(self, images: Tensor, generator: torch.Generator) -> Tensor:  # [batch, height, width]
        within = []
        for length in images.shape[-2:]:
            first = torch.randint(
                length - self.augmentation.cutout + 1, (len(images), 1), generator=generator
            )
            pixels = torch.arange(length)
            within.append((pixels >= first) & (pixels < first + self.augmentation.cutout))
        return within[0][:, :, None] & within[1][:, None, :]


@lru_cache(maxsize=4)
def _permutation(length: int, seed: int) -> Tensor:
    return torch.randperm(length, generator=torch.Generator().manual_seed(seed))
