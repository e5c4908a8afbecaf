"""Everything needed, besides the weights, to render an INR."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from torch import Tensor

Biases = Literal["zero", "uniform"]


@dataclass(frozen=True, slots=True)
class Conventions:
    """How an INR maps coordinates to values.

    >>> Conventions.from_json(EDITING.as_json()) == EDITING
    True
    """

    omega: float = 30.0  # sin(omega * (W x + b)), in SIRENs
    output_offset: float = 0.0  # added to the output of the last layer
    value_low: float = -1.0  # value of black, or the minimum of a signal
    value_high: float = 1.0
    start: float = -1.0  # the first coordinate along each axis
    stop: float = 1.0  # the last coordinate, or the one after it unless `closed`
    closed: bool = True
    order: Literal["x", "yx", "xy"] = "yx"  # order of coordinates; y points down; "x" for signals
    size: tuple[int, ...] = ()  # height and width, or the number of points, if known
    initial_biases: Biases = "uniform"  # in ±1/√fan_in as in nn.Linear, or zero

    def __post_init__(self) -> None:
        if not self.omega > 0:
            raise ValueError(f"omega must be positive, not {self.omega}")
        if not self.value_low < self.value_high:
            raise ValueError(
                f"value_low must be less than value_high, not {self.value_low} and {self.value_high}"
            )
        if not self.start < self.stop:
            raise ValueError(f"start must be less than stop, not {self.start} and {self.stop}")
        if self.order not in ("x", "yx", "xy"):
            raise ValueError(f"order must be 'x', 'yx' or 'xy', not {self.order!r}")
        if self.size:
            self.resolve_size(self.size)
        if self.initial_biases not in ("zero", "uniform"):
            raise ValueError(f"initial_biases must be 'zero' or 'uniform', not {self.initial_biases!r}")

    def resolve_size(self, size: int | Sequence[int] | None = None) -> tuple[int, ...]:
        """Return the size along each axis. One number applies to all axes; the default is `self.size`.

        >>> EDITING.resolve_size(28), EDITING.resolve_size((20, 30)), SINES.resolve_size(2000)
        ((28, 28), (20, 30), (2000,))
        """
        if size is None and not self.size:
            raise ValueError("the conventions have no size: pass one")
        wanted = self.size if size is None else size
        sizes = (wanted,) * len(self.order) if isinstance(wanted, int) else tuple(wanted)
        if len(sizes) != len(self.order) or min(sizes) < 1:
            raise ValueError(
                f"for the order {self.order!r}, a size has {len(self.order)} positive numbers, not {sizes}"
            )
        return sizes

    @property
    def value_range(self) -> float:
        return self.value_high - self.value_low

    def from_bytes(self, images: Tensor) -> Tensor:
        """Convert pixels from bytes to values."""
        return images / 255 * self.value_range + self.value_low

    def to_unit(self, values: Tensor) -> Tensor:
        """Convert values to brightness, clamped to [0, 1]."""
        return ((values - self.value_low) / self.value_range).clamp(0, 1)

    def psnr(self, loss: float) -> float:
        """Return the peak signal-to-noise ratio in decibels, from the mean squared error.

        >>> round(EDITING.psnr(0.0004), 6)  # an error of 0.02 in values from -1 to 1
        40.0
        """
        if not math.isfinite(loss):
            return -loss
        return 10 * math.log10(self.value_range**2 / loss) if loss else math.inf

    def to_unit_square(self, coordinates: Tensor) -> Tensor:  # [points, 2] -> x and y, [points, 2]
        """Convert coordinates in the order of the INR to x and y, from 0 to 1 within the image.

        >>> import torch
        >>> EDITING.to_unit_square(torch.tensor([[-1.0, 0.0]])).tolist()  # the top row
        [[0.5, 0.0]]
        """
        ordered = coordinates[:, [1, 0]] if self.order == "yx" else coordinates
        return (ordered - self.start) / (self.stop - self.start)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Conventions:
        values: dict[str, Any] = content | {"size": tuple(content["size"])}  # JSON has no tuples
        return cls(**values)


EDITING = Conventions()
"""The INRs of NFN, used for editing: images in [-1, 1], linear output."""

CLASSIFYING = Conventions(output_offset=0.5, value_low=0.0, initial_biases="zero")
"""The image INRs of DWSNets, used for classification: images in [0, 1], output plus 0.5."""

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
"""The sine-wave INRs of DWSNets: points on [-π, π), amplitudes up to 10, output plus 0.5."""

IMAGE_PROTOCOLS = {"editing": EDITING, "classifying": CLASSIFYING}
