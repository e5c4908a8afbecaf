"""SIRENs as ordinary modules: multilayer perceptrons with sine activations."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from graph_metanetworks.zoo.inr.conventions import Conventions


@dataclass(frozen=True, slots=True)
class SirenArchitecture:
    """The layer sizes of a SIREN.

    >>> SirenArchitecture(inputs=1, outputs=1).num_parameters
    1153
    """

    kind: ClassVar[str] = "siren"

    inputs: int
    outputs: int
    hidden: int = 32
    layers: int = 2  # hidden layers

    def __post_init__(self) -> None:
        for name in ("inputs", "outputs", "hidden", "layers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} of a SIREN must be at least 1, not {getattr(self, name)}")

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.inputs, *[self.hidden] * self.layers, self.outputs)

    @property
    def parameters(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the parameters, as in the published files."""
        shapes: dict[str, tuple[int, ...]] = {}
        for layer, (fan_in, fan_out) in enumerate(zip(self.widths, self.widths[1:], strict=False)):
            shapes[f"seq.{layer}.weight"] = (fan_out, fan_in)
            shapes[f"seq.{layer}.bias"] = (fan_out,)
        return shapes

    @property
    def num_parameters(self) -> int:
        return sum(math.prod(shape) for shape in self.parameters.values())

    @classmethod
    def for_images(cls, outputs: int, hidden: int, layers: int, size: tuple[int, int]) -> SirenArchitecture:
        """Return the architecture for images; it does not depend on their size."""
        return cls(2, outputs, hidden, layers)

    def build(self, conventions: Conventions) -> Siren:
        """Build an untrained network."""
        return Siren(self, conventions)

    @classmethod
    def of(cls, state_dict: dict[str, Tensor]) -> SirenArchitecture:
        """Infer the architecture from the weights of a SIREN."""
        shapes = {name: tuple(tensor.shape) for name, tensor in state_dict.items()}
        layers = len(shapes) // 2 - 1
        first, last = shapes.get("seq.0.weight", ()), shapes.get(f"seq.{layers}.weight", ())
        if len(first) == len(last) == 2 and layers >= 1:
            found = cls(inputs=first[1], outputs=last[0], hidden=first[0], layers=layers)
            if found.parameters == shapes:
                return found
        raise ValueError(
            "these are not the weights of a SIREN: expected seq.0.weight, seq.0.bias, ..., with hidden "
            f"layers of equal width, but got {shapes}"
        )


class SineLayer(nn.Linear):
    """`sin(omega * (W x + b))`."""

    def __init__(self, fan_in: int, fan_out: int, omega: float):
        super().__init__(fan_in, fan_out)
        self.omega = omega

    def forward(self, input: Tensor) -> Tensor:
        return torch.sin(self.omega * super().forward(input))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, omega={self.omega}"


class Siren(nn.Module):
    """A SIREN, which maps coordinates [..., inputs] to values [..., outputs].

    >>> network = Siren(SirenArchitecture(inputs=2, outputs=3), Conventions())
    >>> network(torch.zeros(5, 2)).shape
    torch.Size([5, 3])
    """

    def __init__(
        self,
        architecture: SirenArchitecture,
        conventions: Conventions,
        *,
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        self.conventions = conventions
        *hidden, (last_in, last_out) = zip(architecture.widths, architecture.widths[1:], strict=False)
        layers: list[nn.Module] = [SineLayer(a, b, conventions.omega) for a, b in hidden]
        self.seq = nn.Sequential(*layers, nn.Linear(last_in, last_out))
        self.load_state_dict(initial_weights(architecture, conventions, generator))

    def forward(self, coordinates: Tensor) -> Tensor:
        values = self.seq(coordinates)
        return values + self.conventions.output_offset if self.conventions.output_offset else values


def initial_weights(
    architecture: SirenArchitecture, conventions: Conventions, generator: torch.Generator | None = None
) -> OrderedDict[str, Tensor]:
    """Draw initial weights as Sitzmann et al. do."""
    weights: OrderedDict[str, Tensor] = OrderedDict()
    for name, shape in architecture.parameters.items():
        fan_in = architecture.parameters[name.replace("bias", "weight")][1]
        bound = _bound(name, fan_in, conventions)
        weights[name] = torch.empty(shape).uniform_(-bound, bound, generator=generator)
    return weights


def rewritten(weights: Mapping[str, Tensor], given: Conventions, wanted: Conventions) -> dict[str, Tensor]:
    """Return the weights of a SIREN of other conventions that shows the same image or signal.

    >>> given, wanted = Conventions(omega=10.0, output_offset=0.5, value_low=0.0, order="xy"), Conventions()
    >>> network = Siren(SirenArchitecture(2, 1), given)
    >>> other = Siren(SirenArchitecture(2, 1), wanted)
    >>> _ = other.load_state_dict(rewritten(network.state_dict(), given, wanted))
    >>> points = torch.rand(5, 2)                                # x and y; a brightness of 0.3 is -0.4
    >>> torch.allclose(other(points.flip(1)), 2 * network(points) - 1, atol=1e-4)
    True
    """
    found = dict(weights)
    last = len(weights) // 2 - 1
    stretch = (given.stop - given.start) / (wanted.stop - wanted.start)
    first = weights["seq.0.weight"].flip(1) if given.order != wanted.order else weights["seq.0.weight"]
    found["seq.0.bias"] = weights["seq.0.bias"] + first.sum(1) * (given.start - stretch * wanted.start)
    found["seq.0.weight"] = first * stretch
    for layer in range(last):
        for name in (f"seq.{layer}.weight", f"seq.{layer}.bias"):
            found[name] = found[name] * (given.omega / wanted.omega)
    scale = wanted.value_range / given.value_range
    found[f"seq.{last}.weight"] = scale * weights[f"seq.{last}.weight"]
    shown = weights[f"seq.{last}.bias"] + given.output_offset - given.value_low
    found[f"seq.{last}.bias"] = scale * shown + wanted.value_low - wanted.output_offset
    return found


def _bound(name: str, fan_in: int, conventions: Conventions) -> float:
    if name.endswith("bias"):
        return 0.0 if conventions.initial_biases == "zero" else 1 / math.sqrt(fan_in)
    if name.startswith("seq.0."):
        return 1 / fan_in
    return math.sqrt(6 / fan_in) / conventions.omega
