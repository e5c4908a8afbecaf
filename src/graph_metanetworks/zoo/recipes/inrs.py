"""Zoos of INRs: SIRENs fitted to sine waves (`sine-inrs`); several kinds fitted to images (`image-inrs`)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from graph_metanetworks.zoo.data import ImageData, load
from graph_metanetworks.zoo.inr.conventions import IMAGE_PROTOCOLS, SINES, Conventions
from graph_metanetworks.zoo.inr.fit import fit
from graph_metanetworks.zoo.inr.fitting import Fit, FitOptions, LearningRateSchedule
from graph_metanetworks.zoo.inr.grid import Grid, make_grid
from graph_metanetworks.zoo.inr.kinds import KINDS, Choice, InrArchitecture, draw_size, kinds_of
from graph_metanetworks.zoo.inr.render import render, with_weights
from graph_metanetworks.zoo.inr.siren import SirenArchitecture
from graph_metanetworks.zoo.recipe import Config, Recipe, Trained

Metrics = dict[str, float | int | bool | str]


class InrRecipe(Recipe[Config]):
    """The base class of both recipes. By default all networks are SIRENs of one size."""

    architecture: SirenArchitecture
    conventions: Conventions
    fits: dict[str, FitOptions]  # by kind of network

    @property
    def fit_options(self) -> FitOptions:
        """The options of the first kind."""
        return next(iter(self.fits.values()))

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

    def architecture_of(self, config: Config) -> InrArchitecture:
        """Return the architecture of a network."""
        return self.architecture

    def build(self, config: Config) -> nn.Module:
        return self.architecture_of(config).build(self.conventions)

    @property
    def input_range(self) -> tuple[float, float]:
        return self.conventions.start, self.conventions.stop

    def example(self, config: Config) -> tuple[Tensor]:
        return (torch.zeros(1, self.architecture.inputs),)

    def shape(self, config: Config) -> Hashable:
        return self.architecture_of(config)

    def train(
        self, configs: Sequence[Config], seeds: Sequence[int], progress: Callable[[float], None]
    ) -> list[Trained]:
        architecture = self.architecture_of(configs[0])
        fits = fit(
            *(architecture, self.conventions, self.grid, seeds),
            *(self.targets(configs), self.fits[architecture.kind]),
            progress=progress,
        )
        return [Trained(fitted.state_dict, self.metrics(fitted)) for fitted in fits]

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
        return render(with_weights(self.build(config), state_dict), self.conventions, size)

    def options(self) -> dict[str, Any]:
        return {
            "architecture": asdict(self.architecture),
            "conventions": self.conventions.as_json(),
            "options": asdict(self.fit_options),
        }

    def _restore(self, options: dict[str, Any]) -> None:
        self.architecture = SirenArchitecture(**options["architecture"])
        self.conventions = Conventions.from_json(options["conventions"])
        # zoos of one kind from before there were several have its options only
        fits = options["options"] if "kind" in options else {"siren": options["options"]}
        self.fits = {kind: FitOptions(**fit) for kind, fit in fits.items()}


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
        self.fits = {"siren": FitOptions(steps, learning_rate, schedule, weight_decay, stop_loss)}
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
    kind: str = "siren"
    hidden: int = 32
    layers: int = 2


class ImageInrs(InrRecipe[ImageChoice]):
    """INRs fitted to images, in order, training and test images in proportion however few there are.

    Args:
        kind: siren, fourier (random Fourier features), grid (bilinear features) or hash (hash grids), all of
            one width and depth; "sirens" of several widths and depths; "mixed", drawn from all of these.
        data: the name of a data set, see `graph_metanetworks.zoo.data.load`.
        protocol: "editing" (images in [-1, 1]) or "classifying" (images in [0, 1], output plus 0.5).
        hidden, layers: of the perceptron. "sirens" and "mixed" draw 3/4, 1 or 5/4 of the width, and this
            number of hidden layers or one more.
        steps, learning_rate: by default those of the kind.
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
        kind: Choice = "siren",
        hidden: int = 32,
        layers: int = 2,
        steps: int | None = None,
        learning_rate: float | None = None,
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
        self.kind: str = kind
        self.fits = {one: KINDS[one].fit_options(steps, learning_rate, schedule) for one in kinds_of(kind)}
        self.min_psnr = min_psnr

    def architecture_of(self, config: ImageChoice) -> InrArchitecture:
        height, width = self.conventions.size
        found = KINDS[config.kind].architecture
        return found.for_images(self.architecture.outputs, config.hidden, config.layers, (height, width))

    def config(self, values: dict[str, Any]) -> ImageChoice:
        """Rebuild a config. Zoos from before there were kinds have SIRENs of one size."""
        sizes: dict[str, Any] = {"hidden": self.architecture.hidden, "layers": self.architecture.layers}
        return ImageChoice(**sizes | {name: value for name, value in values.items() if value is not None})

    def options(self) -> dict[str, Any]:
        # the order keeps zoos from before training and test images were mixed from being extended
        common = super().options() | self.provenance | {"min_psnr": self.min_psnr, "order": "interleaved"}
        if self.kind == "siren":  # as in zoos from before there were kinds
            return common
        return common | {
            "kind": self.kind,
            "options": {kind: asdict(options) for kind, options in self.fits.items()},
        }

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> ImageInrs:
        recipe = cls.__new__(cls)  # bypasses __init__, which would load the data
        recipe.data = None
        recipe.provenance = {key: options[key] for key in ("data", "checksum")}
        recipe.min_psnr = options["min_psnr"]
        recipe.kind = options.get("kind", "siren")
        recipe._restore(options)
        return recipe

    def draw(self, generator: torch.Generator) -> ImageChoice:
        return self._choice(int(torch.randint(self.num_images, (), generator=generator)), generator)

    def draw_at(self, index: int, generator: torch.Generator) -> ImageChoice:
        copy, place = divmod(index, self.num_images)
        images, trained = self.num_images, len(self._loaded.train_labels)
        tested = [(images - trained) * taken // images for taken in (place, place + 1)]  # so far
        image = trained + tested[0] if tested[1] > tested[0] else place - tested[0]
        return self._choice(copy * images + image, generator)

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

    def _choice(self, index: int, generator: torch.Generator) -> ImageChoice:
        copy, image = divmod(index, self.num_images)
        split = "train" if image < len(self._loaded.train_labels) else "test"
        size = draw_size(self.kind, self.architecture.hidden, self.architecture.layers, generator)
        return ImageChoice(image, int(self._labels[image]), split, copy, *astuple(size))

    @property
    def _loaded(self) -> ImageData:
        if self.data is None:
            raise ValueError(
                "this recipe was loaded without its images. Create it with its data: ImageInrs(data=...)"
            )
        return self.data
