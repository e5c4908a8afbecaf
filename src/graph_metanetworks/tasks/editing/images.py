"""Edits of images, `[n, channels, height, width]` with values from 0 to 1: dilation and local contrast."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 256  # of brightness
LUMA = (0.299, 0.587, 0.114)  # of red, green and blue, as in ITU-R BT.601
TILES = 3
CLIP = 1.0
TOGETHER = 512  # images


def dilate(images: Tensor) -> Tensor:
    """Replace each pixel by the maximum of its 3 x 3 neighbourhood.

    >>> dilate(torch.tensor([[[[0, 0, 0, 0], [5, 0, 0, 3], [0, 0, 0, 0]]]]).float())[0, 0, 0].tolist()
    [5.0, 5.0, 3.0, 3.0]
    """
    return F.max_pool2d(images, 3, stride=1, padding=1)


def raise_contrast(images: Tensor) -> Tensor:
    """Equalize the luminance locally by CLAHE; the colours of a pixel change by the same amount."""
    bright = luminance(images)
    bytes_ = (bright * (LEVELS - 1)).round().long()
    parts = [clahe(part) for part in bytes_.split(TOGETHER)]
    equalized = torch.cat(parts).to(images) / (LEVELS - 1)
    return (images + (equalized - bright)[:, None]).clamp(0, 1)


EDITS: dict[str, Callable[[Tensor], Tensor]] = {"dilate": dilate, "contrast": raise_contrast}


def luminance(images: Tensor) -> Tensor:  # [n, c, h, w] -> [n, h, w]
    if images.shape[1] == 1:
        return images[:, 0]
    return (images * torch.tensor(LUMA).to(images)[:, None, None]).sum(1)


def clahe(images: Tensor, tiles: int = TILES, clip: float = CLIP) -> Tensor:
    """Contrast-limited adaptive histogram equalization (Zuiderveld, 1994) of bytes `[n, h, w]`.

    Each tile has a table of new levels, its cumulative histogram. A histogram is clipped at `clip` times its
    mean, but at least at 1, and what is cut off is spread over all levels: so noise in even areas is not
    amplified. A pixel interpolates between the tables of the four nearest tiles. Images whose size is no
    multiple of `tiles` are extended by reflection for the histograms.
    """
    height, width = images.shape[1:]
    rows, columns = -(-height // tiles), -(-width // tiles)  # of a tile
    table = _tables(_padded(images, rows * tiles, columns * tiles), rows, columns, clip)
    above, below, down = _neighbours(height, rows, tiles)
    left, right, along = _neighbours(width, columns, tiles)
    number, level = torch.arange(len(images))[:, None, None], images.long()

    def levels(row: Tensor, column: Tensor) -> Tensor:
        return table[number, row[:, None], column, level]

    upper = levels(above, left) * (1 - along) + levels(above, right) * along
    lower = levels(below, left) * (1 - along) + levels(below, right) * along
    return (upper * (1 - down[:, None]) + lower * down[:, None]).round().long()


def _padded(images: Tensor, height: int, width: int) -> Tensor:
    extra = (0, width - images.shape[2], 0, height - images.shape[1])
    return F.pad(images[:, None].float(), extra, mode="reflect")[:, 0].long() if any(extra) else images


def _tables(images: Tensor, rows: int, columns: int, clip: float) -> Tensor:  # [n, tiles, tiles, LEVELS]
    """Return the new level of each level in each tile."""
    tiled = images.unflatten(2, (-1, columns)).unflatten(1, (-1, rows)).transpose(2, 3).flatten(3)
    counts = torch.zeros(*tiled.shape[:3], LEVELS, dtype=torch.int64)
    counts.scatter_add_(3, tiled.long(), torch.ones_like(tiled, dtype=torch.int64))
    area = rows * columns
    clipped = counts.clamp(max=max(int(clip * area / LEVELS), 1))
    cut = (counts - clipped).sum(3, keepdim=True)
    share, rest = cut // LEVELS, cut % LEVELS
    step = (LEVELS // rest.clamp(min=1)).clamp(min=1)  # the rest is spread evenly, 1 each
    level = torch.arange(LEVELS)
    extra = (level % step == 0) & (level // step < rest)
    equalized = (clipped + share + extra).cumsum(3) * ((LEVELS - 1) / area)
    return equalized.round().clamp(max=LEVELS - 1)


def _neighbours(length: int, size: int, tiles: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the tiles before and after each pixel along an axis, and how near the second one is."""
    place = (torch.arange(length) / size - 0.5).clamp(0, tiles - 1)
    before = place.floor().long()
    return before, (before + 1).clamp(max=tiles - 1), place - before
