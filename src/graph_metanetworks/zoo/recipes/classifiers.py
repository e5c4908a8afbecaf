"""The recipes of the paper's zoos of classifiers (appendix D.1), and of small CNNs."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import nn

from graph_metanetworks.zoo import draws
from graph_metanetworks.zoo.data import ImageData
from graph_metanetworks.zoo.data.images import sampled
from graph_metanetworks.zoo.draws import Choice
from graph_metanetworks.zoo.families import FAMILIES, ClassifierArchitecture
from graph_metanetworks.zoo.families.small_cnn import SmallCnnConfig, initialized_small_cnn
from graph_metanetworks.zoo.population.batches import Batches
from graph_metanetworks.zoo.population.schedule import TrainingConfig
from graph_metanetworks.zoo.recipes.classifier_recipe import ClassifierRecipe


@dataclass(frozen=True)
class ClassifierConfig(ClassifierArchitecture, TrainingConfig):
    """The hyper-parameters of the paper's classifiers."""


class Diverse(ClassifierRecipe[ClassifierConfig]):
    """Five equally likely families: 2-D and 1-D CNNs, DeepSets, ResNets and vision transformers."""

    name = "diverse"
    hyperparameters = ClassifierConfig
    families: ClassVar[tuple[str, ...]] = tuple(FAMILIES)
    widths: ClassVar[Choice | None] = None  # instead of those of the family

    def draw(self, generator: torch.Generator) -> ClassifierConfig:
        family = FAMILIES[Choice(*self.families).draw(generator)]
        training = draws.draw(TrainingConfig, generator)
        return ClassifierConfig(
            family=family.name,
            hidden=(self.widths or family.hidden).draw(generator),
            depth=family.depth.draw(generator),
            linear_layers=family.linear_layers.draw(generator),
            norm=family.norm.draw(generator),
            dropout=family.dropout.draw(generator),
            **vars(training),
        )

    def build(self, config: ClassifierConfig) -> nn.Module:
        return FAMILIES[config.family].build(config, self.spec)


class VaryingCnns(Diverse):
    """Two-dimensional CNNs that vary in width, depth, norm and training."""

    name = "varying-cnns"
    families = ("cnn2d",)


class CnnWidths(VaryingCnns):
    """Two-dimensional CNNs of four widths, to learn from narrow networks and test on wide ones."""

    name = "cnn-widths"
    widths = Choice(16, 32, 64, 128)


class SmallCnns(ClassifierRecipe[SmallCnnConfig]):
    """The small CNNs of Unterthiner et al. Hyper-parameters vary as in their zoo, in our own ranges."""

    name = "small-cnns"
    hyperparameters = SmallCnnConfig

    def build(self, config: SmallCnnConfig) -> nn.Module:
        return initialized_small_cnn(config, self.spec)

    def shape(self, config: SmallCnnConfig) -> Hashable:
        return config.activation, config.train_fraction

    def prepare(self, data: ImageData) -> ImageData:
        return grey(data)

    def batches(self, config: SmallCnnConfig) -> Batches:
        data = self.data
        count = max(1, round(config.train_fraction * len(data.train_images)))
        return self._batches(sampled(data, count))


def grey(data: ImageData) -> ImageData:
    """Convert colour images to grey."""
    if data.image_shape[0] == 1:
        return data
    weights = torch.tensor([0.299, 0.587, 0.114])

    def brightness(images: torch.Tensor) -> torch.Tensor:
        parts = [torch.einsum("nchw,c->nhw", part.float(), weights) for part in images.split(4096)]
        return torch.cat(parts).round().to(torch.uint8).unsqueeze(1)

    return replace(data, train_images=brightness(data.train_images), test_images=brightness(data.test_images))
