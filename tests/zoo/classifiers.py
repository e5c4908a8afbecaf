"""What the tests of classifiers share: little data, and networks of every family."""

from dataclasses import dataclass, replace

import torch

from graph_metanetworks.zoo.data import ImageData, load
from graph_metanetworks.zoo.families import FAMILIES, Architecture, Task
from graph_metanetworks.zoo.population.batches import Batches, channel_statistics, usual_augmentation
from graph_metanetworks.zoo.population.course import TrainingConfig

TASK = Task(channels=1, height=8, width=8, classes=10)
VARIANTS = [(family.name, norm) for family in FAMILIES.values() for norm in family.norm.values]


@dataclass(frozen=True)
class Config(Architecture, TrainingConfig):
    pass


def build(config: Config):
    return FAMILIES[config.family].build(config, TASK)


def architecture(family: str, norm: str, dropout: float = 0.1) -> Architecture:
    known = FAMILIES[family]
    return Architecture(family, known.hidden.values[0], 2, known.linear_layers.values[-1], norm, dropout)


def configs(family: str, norm: str) -> list[Config]:
    """Four networks of one shape that differ in all else: optimisers out of order, one without dropout."""
    rows = [
        ("rmsprop", 0.0, 1e-3, 0.1),
        ("sgd", 0.2, 1e-2, 0.0),
        ("adam", 0.25, 1e-3, 0.2),
        ("sgd", 0.1, 3e-3, 0),
    ]
    return [
        Config(
            **vars(architecture(family, norm, dropout)),
            learning_rate=rate,
            weight_decay=10 * rate,
            label_smoothing=smoothing,
            optimizer=optimizer,
        )
        for optimizer, dropout, rate, smoothing in rows
    ]


def little_data(train: int = 48, test: int = 20) -> ImageData:
    data = load("digits")
    return replace(
        data,
        train_images=data.train_images[:train],
        train_labels=data.train_labels[:train],
        test_images=data.test_images[:test],
        test_labels=data.test_labels[:test],
    )


def little_batches(dtype: torch.dtype = torch.float64) -> Batches:
    data = little_data()
    return Batches(data, 16, usual_augmentation(data), channel_statistics(data.train_images), dtype=dtype)
