"""Zoos of INRs: SIRENs fitted to sine waves (`sine-inrs`) and to images (`image-inrs`)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from graph_metanetworks.zoo.data import ImageData, load
from graph_metanetworks.zoo.inr.conventions import IMAGE_PROTOCOLS, SINES, Conventions
from graph_metanetworks.zoo.inr.fitting import Fit, FitOptions, LearningRateSchedule
from graph_metanetworks.zoo.inr.grid import Grid, make_grid
from graph_metanetworks.zoo.inr.population import fit_population
from graph_metanetworks.zoo.inr.render import render
from graph_metanetworks.zoo.inr.siren import Siren, SirenArchitecture, initial_weights
from graph_metanetworks.zoo.recipe import Config, Recipe, Trained

Metrics = dict[str, float | int | bool | str]


class InrRecipe(Recipe[Config]):
    """The base class of both recipes. All networks are SIRENs of one size, fitted with the same options."""

    architecture: SirenArchitecture
    conventions: Conventions
    fit_options: FitOptions

    @property
    def grid(self) -> Grid:
        """The points that networks are fitted at."""
        return make_grid(self.conventions)

    @abstractmethod
    def targets(self, configs: Sequence[Config]) -> Tensor:  # [networks, outputs, points]
        """Return the values that networks are fitted to."""

    @abstractmethod
    def converged(self, fit: Fit) -> bool:
        """Return whether a fit is good enough."""

    def build(self, config: Config) -> Siren:
        return Siren(self.architecture, self.conventions)

    @property
    def input_range(self) -> tuple[float, float]:
        return self.conventions.start, self.conventions.stop

    def example(self, config: Config) -> tuple[Tensor]:
        return (torch.zeros(1, self.architecture.inputs),)

    def shape(self, config: Config) -> Hashable:
        return self.architecture

    def train(
        self, configs: Sequence[Config], seeds: Sequence[int], progress: Callable[[float], None]
    ) -> list[Trained]:
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        initial = [initial_weights(self.architecture, self.conventions, g) for g in generators]
        fits = fit_population(
            *(self.architecture, self.conventions, self.grid),
            *(initial, self.targets(configs), self.fit_options),
            progress=progress,
        )
        return [Trained(fit.state_dict, self.metrics(fit)) for fit in fits]

    def metrics(self, fit: Fit) -> Metrics:
        return {
            "loss": fit.loss,
            "psnr": self.conventions.psnr(fit.loss),
            "steps": fit.steps,
            "converged": self.converged(fit),
            "diverged": not math.isfinite(fit.loss),
        }

    def render(
        self, state_dict: dict[str, Tensor], config: Config, size: int | Sequence[int] | None = None
    ) -> Tensor:
        """Render a network as a signal [points] or an image [channels, height, width]."""
        return render(state_dict, self.conventions, size)

    def options(self) -> dict[str, Any]:
        return {
            "architecture": asdict(self.architecture),
            "conventions": self.conventions.as_json(),
            "options": asdict(self.fit_options),
        }

    def _restore(self, options: dict[str, Any]) -> None:
        self.architecture = SirenArchitecture(**options["architecture"])
        self.conventions = Conventions.from_json(options["conventions"])
        self.fit_options = FitOptions(**options["options"])


@dataclass(frozen=True, slots=True)
class SineWave:
    """The signal `amplitude * sin(frequency * x)`."""

    amplitude: float
    frequency: float


class SineInrs(InrRecipe[SineWave]):
    """SIRENs fitted to a·sin(b·x), with a and b from U(0, 10), as in DWSNets and the paper's section 5.3.

    >>> recipe = SineInrs(points=100)
    >>> wave = recipe.draw(torch.Generator().manual_seed(0))
    >>> recipe.build(wave)(torch.zeros(7, 1)).shape
    torch.Size([7, 1])
    """

    name: ClassVar[str] = "sine-inrs"

    def __init__(
        self,
        *,
        hidden: int = 32,
        layers: int = 2,
        points: int = 2000,
        steps: int = 1500,
        learning_rate: float = 1e-3,
        schedule: LearningRateSchedule = "constant",
        weight_decay: float = 1e-4,
        stop_loss: float = 1e-4,
        largest: float = 10.0,
    ):
        if points < 1 or not largest > 0:
            raise ValueError(f"points and largest must be positive, not {points} and {largest}")
        self.architecture = SirenArchitecture(inputs=1, outputs=1, hidden=hidden, layers=layers)
        self.conventions = replace(SINES, size=(points,))
        self.fit_options = FitOptions(steps, learning_rate, schedule, weight_decay, stop_loss)
        self.largest = largest  # of amplitude and frequency

    def options(self) -> dict[str, Any]:
        return super().options() | {"largest": self.largest}

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> SineInrs:
        recipe = cls(largest=options["largest"])
        recipe._restore(options)
        return recipe

    def draw(self, generator: torch.Generator) -> SineWave:
        uniform = torch.rand(2, generator=generator, dtype=torch.float64)
        amplitude, frequency = (uniform * self.largest).tolist()
        return SineWave(amplitude, frequency)

    def targets(self, configs: Sequence[SineWave]) -> Tensor:
        x = self.grid.coordinates[:, 0]
        return torch.stack([wave.amplitude * torch.sin(wave.frequency * x) for wave in configs])[:, None]

    def converged(self, fit: Fit) -> bool:
        return self.fit_options.stop_loss is not None and fit.loss <= self.fit_options.stop_loss


@dataclass(frozen=True, slots=True)
class ImageChoice:
    """An image of a data set, by its number among the training images followed by the test images."""

    image: int
    label: int
    split: Literal["train", "test"]
    copy: int = 0  # number of earlier networks fitted to this image


class ImageInrs(InrRecipe[ImageChoice]):
    """SIRENs fitted to images, in order, training and test images in proportion however few there are.

    Args:
        data: the name of a data set, see `graph_metanetworks.zoo.data.load`.
        protocol: "editing" (images in [-1, 1]) or "classifying" (images in [0, 1], output plus 0.5).
        min_psnr: fits below this PSNR are marked as not converged.

    >>> recipe = ImageInrs(data="digits")
    >>> [recipe.draw_at(index, torch.Generator()).split for index in range(5)]
    ['train', 'train', 'train', 'test', 'train']
    """

    name: ClassVar[str] = "image-inrs"

    def __init__(
        self,
        *,
        data: str | ImageData = "fashion-mnist",
        data_dir: str | Path | None = None,
        protocol: Literal["editing", "classifying"] = "classifying",
        hidden: int = 32,
        layers: int = 2,
        steps: int = 200,
        learning_rate: float = 4e-3,
        schedule: LearningRateSchedule = "cosine",
        min_psnr: float = 30.0,
    ):
        if protocol not in IMAGE_PROTOCOLS:
            raise ValueError(f"there is no protocol {protocol!r}; choose one of {', '.join(IMAGE_PROTOCOLS)}")
        loaded = load(data, data_dir) if isinstance(data, str) else data
        channels, height, width = loaded.image_shape
        self.data: ImageData | None = loaded
        self.provenance = {"data": loaded.name, "checksum": loaded.checksum}
        self.architecture = SirenArchitecture(inputs=2, outputs=channels, hidden=hidden, layers=layers)
        self.conventions = replace(IMAGE_PROTOCOLS[protocol], size=(height, width))
        self.fit_options = FitOptions(steps, learning_rate, schedule)
        self.min_psnr = min_psnr

    def options(self) -> dict[str, Any]:
        # the order keeps zoos from before training and test images were mixed from being extended
        return super().options() | self.provenance | {"min_psnr": self.min_psnr, "order": "interleaved"}

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> ImageInrs:
        recipe = cls.__new__(cls)  # bypasses __init__, which would load the data
        recipe.data = None
        recipe.provenance = {key: options[key] for key in ("data", "checksum")}
        recipe.min_psnr = options["min_psnr"]
        recipe._restore(options)
        return recipe

    def draw(self, generator: torch.Generator) -> ImageChoice:
        return self._choice(int(torch.randint(self.num_images, (), generator=generator)))

    def draw_at(self, index: int, generator: torch.Generator) -> ImageChoice:
        copy, place = divmod(index, self.num_images)
        images, trained = self.num_images, len(self._loaded.train_labels)
        tested = [(images - trained) * taken // images for taken in (place, place + 1)]  # so far
        image = trained + tested[0] if tested[1] > tested[0] else place - tested[0]
        return self._choice(copy * images + image)

    def original(self, config: ImageChoice) -> Tensor:  # [channels, height, width]
        """The image that a network was fitted to."""
        data, number = self._loaded, config.image
        trained = len(data.train_images)
        image = data.train_images[number] if number < trained else data.test_images[number - trained]
        return self.conventions.from_bytes(image)

    def targets(self, configs: Sequence[ImageChoice]) -> Tensor:
        return torch.stack([self.original(config).flatten(1) for config in configs])

    def converged(self, fit: Fit) -> bool:
        return self.conventions.psnr(fit.loss) >= self.min_psnr

    @property
    def num_images(self) -> int:
        return len(self._labels)

    @cached_property
    def _labels(self) -> Tensor:
        return torch.cat((self._loaded.train_labels, self._loaded.test_labels))

    def _choice(self, index: int) -> ImageChoice:
        copy, image = divmod(index, self.num_images)
        split = "train" if image < len(self._loaded.train_labels) else "test"
        return ImageChoice(image, int(self._labels[image]), split, copy)

    @property
    def _loaded(self) -> ImageData:
        if self.data is None:
            raise ValueError(
                "this recipe was loaded without its images. Create it with its data: ImageInrs(data=...)"
            )
        return self.data
