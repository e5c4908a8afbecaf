"""The base class of recipes for image classifiers, which trains what subclasses draw and build."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from graph_metanetworks.zoo import draws
from graph_metanetworks.zoo.data import ImageData, load
from graph_metanetworks.zoo.data.images import sampled
from graph_metanetworks.zoo.families import ImageSpec
from graph_metanetworks.zoo.population.batches import (
    Augmentation,
    Batches,
    Statistics,
    channel_statistics,
    usual_augmentation,
)
from graph_metanetworks.zoo.population.schedule import TrainingConfig, TrainingSchedule
from graph_metanetworks.zoo.population.train import train
from graph_metanetworks.zoo.recipe import Recipe, Trained

Config = TypeVar("Config", bound=TrainingConfig)
WARMUP = 0.1  # fraction of the steps
TRAINING_FIELDS = {entry.name for entry in fields(TrainingConfig)}


@dataclass(frozen=True)
class DataSummary:
    """A description of the data of a recipe, which zoo.json stores instead of the images."""

    name: str
    checksum: str
    channels: int
    height: int
    width: int
    classes: tuple[str, ...]
    mean: tuple[float, ...]  # per channel, to normalise images
    deviation: tuple[float, ...]

    @classmethod
    def of(cls, data: ImageData) -> DataSummary:
        channels, height, width = data.image_shape
        found = channel_statistics(data.train_images)
        return cls(
            data.name, data.checksum, channels, height, width, data.classes, found.mean, found.deviation
        )


class ClassifierRecipe(Recipe[Config]):
    """A recipe for image classifiers. A subclass declares its `hyperparameters` and builds networks.

    All networks of a zoo see the same batches in the same order, with the same augmentation, as decided by
    `batch_seed`. Initial weights and dropout differ between networks.
    """

    hyperparameters: ClassVar[type[TrainingConfig]]
    population: ClassVar[int] = 32

    def __init__(
        self,
        data: str | ImageData = "digits",
        *,
        data_dir: Path | None = None,
        images: int | None = None,
        epochs: int = 8,
        batch_size: int = 32,
        checkpoints: int = 0,
        augment: bool = True,
        flips: bool | None = None,
        batch_seed: int = 0,
    ) -> None:
        """Load the data of the recipe.

        Args:
            images: number of training images to use, a random sample; all by default.
            checkpoints: number of intermediate steps at which weights and metrics are saved.
            augment: shift images, mask parts of them, and flip them if the data set allows it.
            flips: whether to flip images, which overrides the data set and `augment`.
        """
        loaded = self.prepare(load(data, data_dir) if isinstance(data, str) else data)
        if images is not None:
            loaded = sampled(loaded, images)
        options = {
            "images": images,  # like flips, missing in older zoos
            "epochs": epochs,
            "batch_size": batch_size,
            "checkpoints": checkpoints,
            "augment": augment,
            "flips": flips,  # missing in zoos from before this option existed, which is equivalent to None
            "batch_seed": batch_seed,
        }
        self._set(DataSummary.of(loaded), loaded, options)

    def _set(self, summary: DataSummary, images: ImageData | None, options: dict[str, Any]) -> None:
        for name, lowest in (("epochs", 1), ("batch_size", 1), ("checkpoints", 0)):
            if options[name] < lowest:
                raise ValueError(f"{name} must be at least {lowest}, not {options[name]}")
        self.images, self._data, self._training = summary, images, options

    def options(self) -> dict[str, Any]:
        return {"data": _as_json(asdict(self.images)), **self._training}

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> ClassifierRecipe[Config]:
        training = dict(options)
        data = training.pop("data")
        recipe = cls.__new__(cls)
        recipe._set(DataSummary(**_from_json(data)), None, training)
        return recipe

    def config(self, values: dict[str, Any]) -> Config:
        """Rebuild the hyper-parameters from their names and values."""
        return self.hyperparameters(**values)  # pyright: ignore[reportReturnType]

    def draw(self, generator: torch.Generator) -> Config:
        return draws.draw(self.hyperparameters, generator)  # pyright: ignore[reportReturnType]

    @abstractmethod
    def build(self, config: Config) -> nn.Module: ...

    def example(self, config: Config) -> tuple[Tensor]:
        return (torch.zeros(1, self.images.channels, self.images.height, self.images.width),)

    def shape(self, config: Config) -> Hashable:
        """Return all hyper-parameters of the architecture that are not real numbers."""
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
        return train(self.build, configs, seeds, batches, self.schedule(batches), progress)

    @property
    def spec(self) -> ImageSpec:
        """The shape of the images and the number of classes, to build networks for."""
        return ImageSpec(
            self.images.channels, self.images.height, self.images.width, len(self.images.classes)
        )

    @property
    def task(self) -> ImageSpec:
        """The former name of `spec`."""
        warnings.warn(f"{type(self).__name__}.task is now called spec.", DeprecationWarning, stacklevel=2)
        return self.spec

    @property
    def data(self) -> ImageData:
        """The images to train on."""
        if self._data is None:
            raise ValueError(
                f"this recipe {self.name} was loaded without its images. To train, create it with its data: "
                f"{type(self).__name__}({self.images.name!r})"
            )
        return self._data

    def prepare(self, data: ImageData) -> ImageData:
        """Return the images that networks see, before augmentation."""
        return data

    def batches(self, config: Config) -> Batches:
        """Return the batches of all networks with the shape of `config`."""
        return self._batches(self.data)

    def _batches(self, data: ImageData) -> Batches:
        augmentation = usual_augmentation(data) if self._training["augment"] else Augmentation(False, 0, 0)
        flips = self._training["flips"]
        return Batches(
            data,
            min(self._training["batch_size"], len(data.train_images)),
            augmentation if flips is None else replace(augmentation, flips=flips),
            Statistics(self.images.mean, self.images.deviation),
            self._training["batch_seed"],
        )

    def schedule(self, batches: Batches) -> TrainingSchedule:
        """Return the training schedule, which all networks share."""
        steps = self._training["epochs"] * batches.per_epoch
        count = self._training["checkpoints"]
        return TrainingSchedule(
            steps=steps,
            warmup=min(max(1, round(WARMUP * steps)), steps - 1),
            checkpoints=tuple(max(1, steps * (k + 1) // (count + 1)) for k in range(count)),
        )


def _as_json(values: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _from_json(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
