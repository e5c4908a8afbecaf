"""Edits of images: dilation, and local contrast against one pixel at a time."""

import pytest
import torch
from torch import Tensor

from graph_metanetworks.tasks.editing import clahe, dilate, raise_contrast
from graph_metanetworks.tasks.editing.images import luminance


def test_dilation_is_the_maximum_of_neighbours() -> None:
    image = torch.rand(2, 3, 5, 6)
    found = dilate(image)
    for row in range(5):
        for column in range(6):
            near = image[..., max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]
            assert torch.equal(found[..., row, column], near.amax((2, 3)))


def slowly(image: Tensor, tiles: int, clip: float) -> Tensor:
    """The same for one image, as the method is described."""
    size = image.shape[0] // tiles
    tables = {}
    for tile in [(row, column) for row in range(tiles) for column in range(tiles)]:
        part = image[tile[0] * size : (tile[0] + 1) * size, tile[1] * size : (tile[1] + 1) * size].flatten()
        limit = max(int(clip * len(part) / 256), 1)
        counts = [int((part == level).sum()) for level in range(256)]
        cut = sum(max(0, count - limit) for count in counts)
        counts = [min(count, limit) + cut // 256 for count in counts]
        rest = cut % 256
        step = max(1, 256 // rest) if rest else 1
        for number in range(rest):
            counts[number * step] += 1
        total = torch.tensor(counts).cumsum(0)
        tables[tile] = [min(255, round(own * 255 / len(part))) for own in total.tolist()]
    found = torch.zeros_like(image)
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            level = int(image[y, x])
            above, left = int(y / size - 0.5 + 1) - 1, int(x / size - 0.5 + 1) - 1
            down, along = y / size - 0.5 - above, x / size - 0.5 - left
            value = 0.0
            for row, weight in ((above, 1 - down), (above + 1, down)):
                for column, share in ((left, 1 - along), (left + 1, along)):
                    tile = tuple(min(max(place, 0), tiles - 1) for place in (row, column))
                    value += weight * share * tables[tile][level]
            found[y, x] = round(value)
    return found


@pytest.mark.parametrize(("clip", "spread"), [(1.0, 256), (40.0, 40)])
def test_clahe_as_described(clip: float, spread: int) -> None:
    images = torch.randint(spread, (2, 12, 12), generator=torch.Generator().manual_seed(0))
    expected = torch.stack([slowly(image, 3, clip) for image in images])
    assert (clahe(images, clip=clip) - expected).abs().max() <= 1  # halves are rounded either way
    assert not torch.equal(clahe(images, clip=clip), images)


def test_without_clipping_one_tile_is_histogram_equalization() -> None:
    images = torch.randint(30, 90, (1, 8, 8), generator=torch.Generator().manual_seed(1))
    ranks = (images.flatten()[:, None] <= images.flatten()[None]).sum(0).view(8, 8)
    assert torch.equal(clahe(images, tiles=1, clip=1e6)[0], (ranks * 255 / 64).round().long())


def test_sizes_that_are_no_multiple_of_the_tiles() -> None:
    images = torch.randint(256, (3, 32, 28), generator=torch.Generator().manual_seed(2))
    found = clahe(images)
    assert found.shape == images.shape and found.min() >= 0 and found.max() <= 255
    assert torch.equal(clahe(images[1:2])[0], found[1])


def test_contrast_changes_the_luminance_only() -> None:
    grey = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(3))
    colour = 0.3 + 0.2 * torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(4))
    for images in (grey, colour):
        found = raise_contrast(images)
        assert found.shape == images.shape and not torch.allclose(found, images)
        shift = luminance(found) - luminance(images)
        inside = ((found > 0) & (found < 1)).all(1)
        assert torch.allclose((found - images)[:, 0][inside], shift[inside], atol=1e-5)
    assert torch.allclose(
        raise_contrast(grey.expand(-1, 3, -1, -1)), raise_contrast(grey).expand(-1, 3, -1, -1)
    )
