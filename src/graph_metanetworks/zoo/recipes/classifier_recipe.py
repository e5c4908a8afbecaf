"""Recipes for classifiers of images: a subclass says what is drawn and built, training is done here."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from graph_metanetworks.zoo import draws
from graph_metanetworks.zoo.data import ImageData, load
from graph_metanetworks.zoo.families import Task
from graph_metanetworks.zoo.population.batches import (
    Augmentation,
    Batches,
    Statistics,
    channel_statistics,
    usual_augmentation,
)
from graph_metanetworks.zoo.population.course import Course, TrainingConfig
from graph_metanetworks.zoo.population.train import train
from graph_metanetworks.zoo.recipe import Recipe, Trained

Config = TypeVar("Config", bound=TrainingConfig)
WARMUP = 0.1  # share of the steps
TRAINING_FIELDS = {entry.name for entry in fields(TrainingConfig)}


@dataclass(frozen=True)
class Images:
    """What is known of the data of a recipe when the images themselves are not there."""

    name: str
    checksum: str
    channels: int
    height: int
    width: int
    classes: tuple[str, ...]
    mean: tuple[float, ...]  # of each channel, by which images are normalised
    deviation: tuple[float, ...]

    @classmethod
    def of(cls, data: ImageData) -> Images:
        channels, height, width = data.image_shape
        found = channel_statistics(data.train_images)
        return cls(
            data.name, data.checksum, channels, height, width, data.classes, found.mean, found.deviation
        )


class ClassifierRecipe(Recipe[Config]):
    """A zoo of classifiers. A subclass names its hyper-parameters (`hyperparameters`) and builds networks.

    All networks of a zoo see the same batches in the same order, with the same augmentation: that is decided
    by `batch_seed`. Initial weights and dropout are each network's own.
    """

    hyperparameters: ClassVar[type[TrainingConfig]]
    population: ClassVar[int] = 32

    def __init__(
        self,
        data: str | ImageData = "digits",
        *,
        data_dir: Path | None = None,
        epochs: int = 8,
        batch_size: int = 32,
        checkpoints: int = 0,
        augment: bool = True,
        flips: bool | None = None,
        batch_seed: int = 0,
    ) -> None:
        """A recipe with its data.

        Args:
            checkpoints: at so many moments along training, weights and metrics are kept too.
            augment: shift images, cover parts of them, and flip them where that suits the data.
            flips: whether to flip them, whatever the data and `augment` say.
        """
        images = self.prepare(load(data, data_dir) if isinstance(data, str) else data)
        options = {
            "epochs": epochs,
            "batch_size": batch_size,
            "checkpoints": checkpoints,
            "augment": augment,
            "flips": flips,  # zoos made before there was this option have none, which is equal to None
            "batch_seed": batch_seed,
        }
        self._set(Images.of(images), images, options)

    def _set(self, known: Images, images: ImageData | None, options: dict[str, Any]) -> None:
        for name, lowest in (("epochs", 1), ("batch_size", 1), ("checkpoints", 0)):
            if options[name] < lowest:
                raise ValueError(f"{name} must be at least {lowest}, not {options[name]}")
        self.images, self._data, self.options = known, images, options

    def settings(self) -> dict[str, Any]:
        return {"data": _as_json(asdict(self.images)), **self.options}

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> ClassifierRecipe[Config]:
        options = dict(settings)
        data = options.pop("data")
        recipe = cls.__new__(cls)
        recipe._set(Images(**_from_json(data)), None, options)
        return recipe

    def config(self, values: dict[str, Any]) -> Config:
        """Hyper-parameters again, from their names and values."""
        return self.hyperparameters(**values)  # pyright: ignore[reportReturnType]

    def draw(self, generator: torch.Generator) -> Config:
        return draws.draw(self.hyperparameters, generator)  # pyright: ignore[reportReturnType]

    @abstractmethod
    def build(self, config: Config) -> nn.Module: ...

    def example(self, config: Config) -> tuple[Tensor]:
        return (torch.zeros(1, self.images.channels, self.images.height, self.images.width),)

    def shape(self, config: Config) -> Hashable:
        """All hyper-parameters of networks that are not numbers on a scale."""
        values = asdict(config)
        return tuple(
            values[name]
            for name in values
            if name not in TRAINING_FIELDS and not isinstance(values[name], float)
        )

    def train(
        self, configs: Sequence[Config], seeds: Sequence[int], progress: Callable[[float], None]
    ) -> list[Trained]:
        batches = self.batches(configs[0])
        return train(self.build, configs, seeds, batches, self.course(batches), progress)

    @property
    def task(self) -> Task:
        """What networks are built for."""
        return Task(self.images.channels, self.images.height, self.images.width, len(self.images.classes))

    @property
    def data(self) -> ImageData:
        if self._data is None:
            raise ValueError(
                f"the recipe {self.name} was read from settings, without its images; to train, make it with "
                f"its data: {type(self).__name__}({self.images.name!r})"
            )
        return self._data

    def prepare(self, data: ImageData) -> ImageData:
        """The images that networks see, before augmentation."""
        return data

    def batches(self, config: Config) -> Batches:
        """The batches of all networks that have the shape of `config`."""
        return self._batches(self.data)

    def _batches(self, data: ImageData) -> Batches:
        augmentation = usual_augmentation(data) if self.options["augment"] else Augmentation(False, 0, 0)
        flips = self.options["flips"]
        return Batches(
            data,
            min(self.options["batch_size"], len(data.train_images)),
            augmentation if flips is None else replace(augmentation, flips=flips),
            Statistics(self.images.mean, self.images.deviation),
            self.options["batch_seed"],
        )

    def course(self, batches: Batches) -> Course:
        steps = self.options["epochs"] * batches.per_epoch
        moments = self.options["checkpoints"]
        return Course(
            steps=steps,
            warmup=min(max(1, round(WARMUP * steps)), steps - 1),
            checkpoints=tuple(max(1, steps * (k + 1) // (moments + 1)) for k in range(moments)),
        )


def _as_json(values: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _from_json(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
