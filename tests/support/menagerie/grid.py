"""Parameters on a grid, looked up by coordinate: planes, triplanes, voxels and hash grids."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import graph_metanetworks as gmn

from .architecture import architecture
from .inputs import inputs, uniform

grid = partial(architecture, family="grid", example=inputs(uniform(15, 3)))


def decoder(features: int) -> nn.Module:
    """Return the perceptron that turns looked-up features into three colours."""
    return nn.Sequential(nn.Linear(features, 11), nn.ReLU(), nn.Linear(11, 3))


@grid("grid-bilinear", example=inputs(uniform(15, 2)))
class PlaneGrid(nn.Module):
    """Features on a plane, looked up bilinearly by F.grid_sample."""

    def __init__(self, features: int = 6, size: tuple[int, int] = (5, 7)) -> None:
        super().__init__()
        self.plane = nn.Parameter(torch.randn(1, features, *size))
        self.decoder = decoder(features)

    def forward(self, position: Tensor) -> Tensor:  # [B, 2] in [0, 1] -> [B, 3]
        where = (2 * position - 1)[None, :, None]
        features = F.grid_sample(self.plane, where, align_corners=True)
        return self.decoder(features[0, :, :, 0].T)


@grid("grid-voxel")
class VoxelGrid(nn.Module):
    """Features in a volume, looked up trilinearly by F.grid_sample."""

    def __init__(self, features: int = 6, size: tuple[int, int, int] = (4, 5, 7)) -> None:
        super().__init__()
        self.volume = nn.Parameter(torch.randn(features, *size))
        self.decoder = decoder(features)

    def forward(self, position: Tensor) -> Tensor:  # [B, 3] in [0, 1] -> [B, 3]
        where = (2 * position - 1)[None, :, None, None]
        features = F.grid_sample(self.volume[None], where, align_corners=False)
        return self.decoder(features.flatten(1).unflatten(1, (len(self.volume), -1))[0].T)


@grid("grid-triplane")
class Triplane(nn.Module):
    """The sum of features on three axis-aligned planes, https://arxiv.org/abs/2112.07945."""

    def __init__(self, features: int = 6, size: tuple[int, int] = (5, 7)) -> None:
        super().__init__()
        self.planes = nn.Parameter(torch.randn(3, features, *size))
        self.decoder = decoder(features)

    def forward(self, position: Tensor) -> Tensor:  # [B, 3] in [0, 1] -> [B, 3]
        pairs = [position[:, [0, 1]], position[:, [1, 2]], position[:, [2, 0]]]
        where = (2 * torch.stack(pairs) - 1)[:, :, None]
        features = F.grid_sample(self.planes, where, align_corners=True)
        return self.decoder(features.squeeze(-1).sum(dim=0).T)


class HashGrid(nn.Module):
    """Features at hashed corners of ever finer cubes, https://arxiv.org/abs/2201.05989."""

    corners: Tensor
    primes: Tensor

    def __init__(self, levels: int = 3, entries: int = 19, features: int = 4) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(levels, entries, features))
        zero_one = torch.arange(2)
        corners = torch.cartesian_prod(zero_one, zero_one, zero_one)
        self.register_buffer("corners", corners, persistent=False)  # [8, 3]
        primes = torch.tensor([1, 2_654_435_761, 805_459_861])
        self.register_buffer("primes", primes, persistent=False)

    def entry(self, corner: Tensor) -> Tensor:  # integers [..., 3] -> [...]
        """Return where in the table the hash of a corner points."""
        x, y, z = (corner * self.primes).unbind(-1)
        return (x ^ y ^ z) % self.table.shape[1]

    def forward(self, position: Tensor) -> Tensor:  # [B, 3] in [0, 1] -> [B, levels * features]
        levels = []
        for level, table in enumerate(self.table):
            scaled = position[:, None] * (2 * 2**level)
            below = scaled.floor()
            near = scaled - below
            weight = torch.where(self.corners == 1, near, 1 - near).prod(dim=-1, keepdim=True)
            entry = self.entry(below.long() + self.corners)  # [B, 8]
            levels.append((weight * table[entry]).sum(dim=1))
        return torch.cat(levels, dim=-1)


class DeclaredHashGrid(HashGrid):
    """The same lookup, declared below instead of traced."""


gmn.declare(DeclaredHashGrid, inputs=["B C"], parameters={"table": "L T f"}, outputs=["B (L f)"])


def hash_field(lookup: type[HashGrid]) -> nn.Module:
    """Return a hash grid with its decoder."""
    return nn.Sequential(lookup(levels=3, features=4), decoder(3 * 4))


grid("grid-hash")(partial(hash_field, HashGrid))
grid("grid-hash-declared")(partial(hash_field, DeclaredHashGrid))
