"""The small CNNs of Unterthiner et al. (2020): 4,970 parameters on grey images."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from graph_metanetworks.zoo.draws import Choice, LogUniform, Uniform, drawn
from graph_metanetworks.zoo.families.family import ImageSpec
from graph_metanetworks.zoo.population.schedule import TrainingConfig

CHANNELS = 16
LAYERS = 3
SMALLEST_SIDE = 15  # smallest image size for three convolutions without padding
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


@dataclass(frozen=True)
class SmallCnnConfig(TrainingConfig):
    """The hyper-parameters that vary in the Small CNN Zoo, with our own ranges."""

    learning_rate: float = drawn(LogUniform(5e-4, 5e-2))
    weight_decay: float = drawn(LogUniform(1e-8, 1e-2))
    label_smoothing: float = drawn(Choice(0.0))
    activation: str = drawn(Choice("relu", "tanh"))
    initialization: str = drawn(
        Choice("glorot_normal", "he_normal", "orthogonal", "normal", "truncated_normal")
    )
    initial_deviation: float = drawn(LogUniform(1e-3, 0.5))  # for normal and truncated_normal
    dropout: float = drawn(Uniform(0, 0.7))
    train_fraction: float = drawn(Choice(0.1, 0.25, 0.5, 1.0))


class SmallCnn(nn.Module):
    """Three convolutions with stride 2, global average pooling, one linear layer.

    The convolutions have no padding, as in the published networks, except for images below 15 x 15, which
    would vanish. There the padding is 1.
    """

    stackable = True

    def __init__(self, activation: str, spec: ImageSpec, dropout: float = 0.0) -> None:
        super().__init__()
        padding = 0 if min(spec.height, spec.width) >= SMALLEST_SIDE else 1
        self.convolutions = nn.ModuleList(
            nn.Conv2d(channels, CHANNELS, 3, stride=2, padding=padding)
            for channels in (spec.channels, *[CHANNELS] * (LAYERS - 1))
        )
        self.activation = ACTIVATIONS[activation]()
        self.dropout = nn.Dropout(dropout)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.out = nn.Linear(CHANNELS, spec.classes)

    def forward(self, x: Tensor) -> Tensor:  # [..., 1, height, width] -> [..., classes]
        for convolution in self.convolutions:
            x = self.dropout(self.activation(convolution(x)))
        return self.out(self.pool(x).flatten(-3))


def initialized_small_cnn(config: SmallCnnConfig, spec: ImageSpec) -> SmallCnn:
    network = SmallCnn(config.activation, spec, config.dropout)
    for layer in (*network.convolutions, network.out):
        initialize(layer, config)
    return network


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
