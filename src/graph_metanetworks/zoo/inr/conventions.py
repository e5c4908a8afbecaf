"""Everything that one must know, beside the weights, to draw an INR again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from torch import Tensor

Biases = Literal["zero", "uniform"]


@dataclass(frozen=True, slots=True)
class Conventions:
    """How a SIREN reads coordinates, computes and writes values.

    >>> Conventions.from_settings(EDITING.settings()) == EDITING
    True
    """

    omega: float = 30.0  # sin(omega * (W x + b))
    output_offset: float = 0.0  # added to what the last layer gives
    value_low: float = -1.0  # the darkest value, the lowest of a signal
    value_high: float = 1.0
    start: float = -1.0  # the first coordinate along every axis
    stop: float = 1.0  # the last one, or, without `closed`, the one after it
    closed: bool = True
    order: Literal["x", "yx", "xy"] = "yx"  # of the coordinates of a point; y goes down; "x" for signals
    size: tuple[int, ...] = ()  # height and width, or the number of points, if it is known
    initial_biases: Biases = "uniform"  # in ±1/√fan_in as in nn.Linear, or zero

    def __post_init__(self) -> None:
        if not self.omega > 0:
            raise ValueError(f"omega must be positive, not {self.omega}")
        if not self.value_low < self.value_high:
            raise ValueError(f"values cannot go from {self.value_low} up to {self.value_high}")
        if not self.start < self.stop:
            raise ValueError(f"coordinates cannot go from {self.start} up to {self.stop}")
        if self.order not in ("x", "yx", "xy"):
            raise ValueError(f"the order of coordinates is 'x', 'yx' or 'xy', not {self.order!r}")
        if self.size:
            self.sized(self.size)
        if self.initial_biases not in ("zero", "uniform"):
            raise ValueError(f"initial biases are 'zero' or 'uniform', not {self.initial_biases!r}")

    def sized(self, size: int | Sequence[int] | None = None) -> tuple[int, ...]:
        """A size along all axes: as given, one number for all of them, or that of the conventions.

        >>> EDITING.sized(28), EDITING.sized((20, 30)), SINES.sized(2000)
        ((28, 28), (20, 30), (2000,))
        """
        if size is None and not self.size:
            raise ValueError("the conventions do not say at which size networks were fitted: give a size")
        wanted = self.size if size is None else size
        sizes = (wanted,) * len(self.order) if isinstance(wanted, int) else tuple(wanted)
        if len(sizes) != len(self.order) or min(sizes) < 1:
            raise ValueError(
                f"a size has {len(self.order)} positive numbers here, for {self.order!r}, not {sizes}"
            )
        return sizes

    @property
    def value_range(self) -> float:
        return self.value_high - self.value_low

    def from_bytes(self, images: Tensor) -> Tensor:
        """Values of images that are stored as bytes."""
        return images / 255 * self.value_range + self.value_low

    def to_unit(self, values: Tensor) -> Tensor:
        """Values as brightness from 0 to 1; what lies outside is cut off."""
        return ((values - self.value_low) / self.value_range).clamp(0, 1)

    def psnr(self, loss: float) -> float:
        """Peak signal-to-noise ratio in decibel, from the mean squared error.

        >>> round(EDITING.psnr(0.0004), 6)  # an error of 0.02 in values from -1 to 1
        40.0
        """
        if not math.isfinite(loss):
            return -loss
        return 10 * math.log10(self.value_range**2 / loss) if loss else math.inf

    def settings(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> Conventions:
        values: dict[str, Any] = settings | {"size": tuple(settings["size"])}  # JSON has no tuples
        return cls(**values)


EDITING = Conventions()
"""NFN's INRs, which the paper edits: images in [-1, 1], a linear output."""

CLASSIFYING = Conventions(output_offset=0.5, value_low=0.0, initial_biases="zero")
"""DWSNets' INRs of images, which are classified: images in [0, 1], the output plus 0.5."""

SINES = Conventions(
    output_offset=0.5,
    value_low=-10.0,
    value_high=10.0,
    start=-math.pi,
    stop=math.pi,
    closed=False,
    order="x",
    initial_biases="zero",
)
"""DWSNets' INRs of sine waves: points on [-π, π), amplitudes up to 10, the output plus 0.5."""

IMAGE_PROTOCOLS = {"editing": EDITING, "classifying": CLASSIFYING}
