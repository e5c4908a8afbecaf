"""Networks for `benchmarks/engine.py`: INRs, small image classifiers of many shapes, one larger MLP."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import graph_metanetworks as gmn


class Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(30 * x)


def siren(outputs: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(2, 32), Sine(), nn.Linear(32, 32), Sine(), nn.Linear(32, outputs))


def cnn(width: int, depth: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


class ResidualBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.norms[1](self.second(torch.relu(self.norms[0](self.first(x))))))


def resnet(width: int, depth: int) -> nn.Module:
    stem = [nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    blocks = [ResidualBlock(width) for _ in range(depth)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


class VisionTransformer(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, stride=8)
        self.position = nn.Parameter(0.02 * torch.randn(1, 16, width))
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, image: Tensor) -> Tensor:
        tokens = self.patches(image).flatten(2).transpose(1, 2) + self.position
        return self.head(self.layers(tokens).mean(1))


IMAGE = torch.zeros(1, 3, 32, 32)


def sirens(count: int = 32, outputs: int = 3) -> gmn.Batch:
    """INRs of one architecture."""
    graph = gmn.trace(siren(outputs), torch.zeros(1, 2))
    return gmn.collate([(graph, siren(outputs).state_dict()) for _ in range(count)])


def diverse() -> gmn.Batch:
    """16 classifiers of 20,000 to 90,000 parameters, no two alike."""
    shapes = {
        cnn: [(24, 4), (32, 3), (40, 3), (48, 2), (48, 4), (28, 5)],
        resnet: [(24, 2), (32, 2), (32, 3), (40, 2), (24, 4)],
        VisionTransformer: [(32, 2), (48, 2), (48, 3), (40, 3), (32, 3)],
    }
    networks = [make(width, depth).eval() for make, sizes in shapes.items() for width, depth in sizes]
    return gmn.collate([(gmn.trace(network, IMAGE), network.state_dict()) for network in networks])


def mlp() -> gmn.Batch:
    """One MLP of 1.2 million parameters."""
    model = nn.Sequential(nn.Linear(784, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 10))
    return gmn.collate([(gmn.trace(model, torch.zeros(1, 784)), model.state_dict())])


BATCHES = {"32 SIRENs": sirens, "16 diverse networks": diverse, "one MLP of 1.2M": mlp}


def wide_mlp(millions: int) -> tuple[nn.Module, Tensor]:
    """Build an MLP of eight square layers with about this many million parameters, and its example input."""
    width = int((millions * 1e6 / 8) ** 0.5)
    layers = [layer for _ in range(8) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers[:-1]), torch.zeros(1, width)
