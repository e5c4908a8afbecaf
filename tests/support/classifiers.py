"""Small data and networks of every family, for tests of classifiers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from graph_metanetworks.zoo.data import ImageData, load
from graph_metanetworks.zoo.families import FAMILIES, ClassifierArchitecture, ImageSpec
from graph_metanetworks.zoo.families.small_cnn import ACTIVATIONS, SmallCnnConfig, initialized_small_cnn
from graph_metanetworks.zoo.population.batches import Batches, channel_statistics, usual_augmentation
from graph_metanetworks.zoo.population.schedule import TrainingConfig

SPEC = ImageSpec(channels=1, height=8, width=8, classes=10)
SCALE = 3  # enlarges images so that strides and patches are as on CIFAR-10
LARGE_SPEC = replace(SPEC, height=8 * SCALE, width=8 * SCALE)
VARIANTS = [(family.name, norm) for family in FAMILIES.values() for norm in family.norm.values]


@dataclass(frozen=True)
class Config(ClassifierArchitecture, TrainingConfig):
    pass


def build(config: Config) -> nn.Module:
    return FAMILIES[config.family].build(config, SPEC)


def build_large(config: Config) -> nn.Module:
    return FAMILIES[config.family].build(config, LARGE_SPEC)


def build_small_cnn(config: SmallCnnConfig) -> nn.Module:
    return initialized_small_cnn(config, LARGE_SPEC)


def architecture(
    family: str, norm: str, dropout: float = 0.1, *, largest: bool = False
) -> ClassifierArchitecture:
    known = FAMILIES[family]
    hidden, depth = (
        (known.hidden.values[-1], known.depth.values[-1]) if largest else (known.hidden.values[0], 2)
    )
    return ClassifierArchitecture(family, hidden, depth, known.linear_layers.values[-1], norm, dropout)


def configs(family: str, norm: str, *, largest: bool = False) -> list[Config]:
    """Return four networks of one shape that differ in all else, with unsorted optimisers."""
    return [
        Config(**vars(architecture(family, norm, dropout, largest=largest)), **training)
        for dropout, training in _trainings()
    ]


def small_cnns(activation: str) -> list[SmallCnnConfig]:
    """Return four networks that differ in training and initialisation."""
    schemes = ("glorot_normal", "he_normal", "orthogonal", "truncated_normal")
    return [
        SmallCnnConfig(
            activation=activation,
            initialization=scheme,
            initial_deviation=0.2,
            dropout=dropout,
            train_fraction=1.0,
            **training,
        )
        for scheme, (dropout, training) in zip(schemes, _trainings(), strict=True)
    ]


def _trainings() -> list[tuple[float, dict[str, Any]]]:
    rows = [
        ("rmsprop", 0.0, 1e-3, 0.1),
        ("sgd", 0.2, 1e-2, 0.0),
        ("adam", 0.25, 1e-3, 0.2),
        ("sgd", 0.1, 3e-3, 0),
    ]
    return [
        (
            dropout,
            {
                "learning_rate": rate,
                "weight_decay": 10 * rate,
                "label_smoothing": smoothing,
                "optimizer": optimizer,
            },
        )
        for optimizer, dropout, rate, smoothing in rows
    ]


@dataclass(frozen=True, eq=False)
class Together:
    """Networks that a test trains together, and the scale of their images."""

    build: Callable[[Any], nn.Module]
    configs: Sequence[TrainingConfig]
    scale: int = 1


TOGETHER = {f"{family}-{norm}": Together(build, configs(family, norm)) for family, norm in VARIANTS} | {
    f"small-cnn-{activation}": Together(build_small_cnn, small_cnns(activation), SCALE)
    for activation in ACTIVATIONS
}
LARGEST = {
    f"{name}-largest": Together(build_large, configs(name, family.norm.values[0], largest=True), SCALE)
    for name, family in FAMILIES.items()
}


def little_data(train: int = 48, test: int = 20, scale: int = 1) -> ImageData:
    data = load("digits")
    return replace(
        data,
        train_images=_enlarged(data.train_images[:train], scale),
        train_labels=data.train_labels[:train],
        test_images=_enlarged(data.test_images[:test], scale),
        test_labels=data.test_labels[:test],
    )


def _enlarged(images: Tensor, scale: int) -> Tensor:
    return images.repeat_interleave(scale, -1).repeat_interleave(scale, -2)


def little_batches(dtype: torch.dtype = torch.float64, scale: int = 1) -> Batches:
    data = little_data(scale=scale)
    return Batches(data, 16, usual_augmentation(data), channel_statistics(data.train_images), dtype=dtype)
