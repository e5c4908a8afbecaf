"""The small CNNs of Unterthiner et al. (2020): 4,970 parameters on grey images."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from graph_metanetworks.zoo.draws import Choice, LogUniform, Uniform, drawn
from graph_metanetworks.zoo.population.course import TrainingConfig

CHANNELS = 16
LAYERS = 3


@dataclass(frozen=True)
class SmallCnnConfig(TrainingConfig):
    """The spread of hyper-parameters of the Small CNN Zoo."""

    learning_rate: float = drawn(LogUniform(5e-4, 5e-2))
    weight_decay: float = drawn(LogUniform(1e-8, 1e-2))
    label_smoothing: float = drawn(Choice(0.0))
    activation: str = drawn(Choice("relu", "tanh"))
    initialization: str = drawn(
        Choice("glorot_normal", "he_normal", "orthogonal", "normal", "truncated_normal")
    )
    initial_deviation: float = drawn(LogUniform(1e-3, 0.5))  # of normal and truncated_normal
    dropout: float = drawn(Uniform(0, 0.7))
    train_fraction: float = drawn(Choice(0.1, 0.25, 0.5, 1.0))


class SmallCnn(nn.Module):
    """Three convolutions with stride 2, the mean over places, one linear layer."""

    stackable = True

    def __init__(self, config: SmallCnnConfig, classes: int) -> None:
        super().__init__()
        inputs = [1, *[CHANNELS] * (LAYERS - 1)]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(channels, CHANNELS, 3, stride=2, padding=1) for channels in inputs
        )
        self.activation = nn.ReLU() if config.activation == "relu" else nn.Tanh()
        self.dropout = nn.Dropout(config.dropout)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.out = nn.Linear(CHANNELS, classes)
        for layer in (*self.convolutions, self.out):
            initialize(layer, config)

    def forward(self, x: Tensor) -> Tensor:  # [..., 1, height, width] -> [..., classes]
        for convolution in self.convolutions:
            x = self.dropout(self.activation(convolution(x)))
        return self.out(self.pool(x).flatten(-3))


def initialize(layer: nn.Module, config: SmallCnnConfig) -> None:
    assert isinstance(layer, nn.Conv2d | nn.Linear) and layer.bias is not None
    nn.init.zeros_(layer.bias)
    deviation = config.initial_deviation
    match config.initialization:
        case "glorot_normal":
            nn.init.xavier_normal_(layer.weight)
        case "he_normal":
            nn.init.kaiming_normal_(layer.weight)
        case "orthogonal":
            nn.init.orthogonal_(layer.weight)
        case "normal":
            nn.init.normal_(layer.weight, std=deviation)
        case "truncated_normal":
            nn.init.trunc_normal_(layer.weight, std=deviation, a=-2 * deviation, b=2 * deviation)
        case unknown:
            raise ValueError(f"there is no initialization {unknown!r}")
