"""Three networks for digits, and the function that builds them again from a row of a table."""

import torch
from torch import Tensor, nn


class Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))

    def forward(self, images: Tensor) -> Tensor:  # [B, 1, 8, 8] -> [B, 10]
        return self.layers(images)


class Cnn(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width)
        self.second, self.head = nn.Conv2d(width, width, 3, stride=2), nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.second(self.norm(self.first(images)).relu()).relu()
        return self.head(hidden.mean((2, 3)))


class Gru(nn.Module):
    """Reads an image row by row."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(8, width, batch_first=True), nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        states, _ = self.rnn(images.squeeze(1))
        return self.head(states[:, -1])


def build(architecture: str, width: int) -> tuple[nn.Module, Tensor]:
    """Build a network, with an example input, from the columns of a table."""
    make = {"mlp": Mlp, "cnn": Cnn, "gru": Gru}[architecture]
    return make(width), torch.zeros(1, 1, 8, 8)
