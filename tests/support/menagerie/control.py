"""Python control flow, in-place operations and loops that solve an equation."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .architecture import architecture
from .inputs import inputs, normal

control = partial(architecture, family="control", example=inputs(normal(15, 5)))


class Configured(nn.Module):
    """Layers chosen by flags and visited by a loop."""

    def __init__(self, *, normalise: bool, skip: bool, depth: int) -> None:
        super().__init__()
        self.skip = skip
        self.embed = nn.Linear(5, 9)
        self.layers = nn.ModuleList(nn.Linear(9, 9) for _ in range(depth))
        self.norm = nn.LayerNorm(9) if normalise else None
        self.head = nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 3]
        x = self.embed(x)
        for index, layer in enumerate(self.layers):
            update = torch.tanh(layer(x)) if index % 2 == 0 else F.relu(layer(x))
            x = x + update if self.skip else update
        if self.norm is not None:
            x = self.norm(x)
        return self.head(x)


control("configured-skip-norm")(partial(Configured, normalise=True, skip=True, depth=3))
control("configured-plain")(partial(Configured, normalise=False, skip=False, depth=2))


@control("in-place-operations")
class InPlace(nn.Module):
    """Operations that write into their argument."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 9)
        self.second = nn.Linear(9, 9)
        self.third = nn.Linear(9, 9)
        self.scale = nn.Parameter(torch.ones(9))
        self.head = nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 3]
        x = self.first(x).relu_()
        x = self.second(x).add_(x).mul_(self.scale).clamp_(min=-1.5)
        x = self.third(x)
        x -= x.mean(dim=-1, keepdim=True)
        return self.head(F.leaky_relu(x, inplace=True))


@control("slice-assignment")
class SliceAssignment(nn.Module):
    """Channels gathered into a buffer of zeros by writing to its slices."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(5, 4)
        self.right = nn.Linear(5, 6)
        self.head = nn.Linear(11, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 3]
        gathered = x.new_zeros(len(x), 11)
        gathered[:, :4] = self.left(x).tanh()
        gathered[:, 4:10] = self.right(x).tanh()
        gathered[:, 10] = 1.0
        gathered[:, :4] *= 2
        return self.head(gathered)


@control("slices-of-channels")
class SlicedChannels(nn.Module):
    """Hidden channels of which some are read by one layer and some by another."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 12)
        self.left = nn.Linear(7, 4)
        self.right = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 4]
        hidden = F.relu(self.first(x))
        return self.left(hidden[:, :7]) + self.right(hidden[:, 4:]).flip(-1)


@control("euler-ode")
class EulerODE(nn.Module):
    """A field integrated with time as an input by a fixed number of Euler steps."""

    def __init__(self, width: int = 7, steps: int = 4) -> None:
        super().__init__()
        self.steps = steps
        self.embed = nn.Linear(5, width)
        self.inner = nn.Linear(width + 1, 11)
        self.outer = nn.Linear(11, width)
        self.head = nn.Linear(width, 3)

    def velocity(self, x: Tensor, time: Tensor) -> Tensor:  # [B, width], [] -> [B, width]
        timed = torch.cat([x, time.expand(len(x), 1)], dim=-1)
        return self.outer(torch.tanh(self.inner(timed)))

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 3]
        x = self.embed(x)
        for time in torch.linspace(0, 1, self.steps, dtype=x.dtype, device=x.device):
            x = x + self.velocity(x, time) / self.steps
        return self.head(x)


@control("fixed-point")
class FixedPoint(nn.Module):
    """A deep equilibrium layer, iterated five times from zero."""

    def __init__(self, width: int = 9) -> None:
        super().__init__()
        self.inject = nn.Linear(5, width)
        self.iterate = nn.Parameter(torch.randn(width, width))
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 3]
        injected = self.inject(x)
        state = torch.zeros_like(injected)
        for _ in range(5):
            state = torch.tanh(torch.addmm(injected, state, self.iterate, alpha=0.5))
        return self.head(state)


@control("gradient-descent-inside")
class ProximalGradient(nn.Module):
    """Unrolled sparse coding: one dictionary read forwards and backwards, and thresholds."""

    def __init__(self, atoms: int = 9) -> None:
        super().__init__()
        self.dictionary = nn.Parameter(torch.randn(5, atoms))
        self.threshold = nn.Parameter(torch.zeros(atoms))
        self.head = nn.Linear(atoms, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 3]
        code = x @ self.dictionary
        for _ in range(3):
            code = code - 0.3 * (code @ self.dictionary.T - x) @ self.dictionary
            code = code.sign() * F.relu(code.abs() - 0.1 * self.threshold.abs())
        return self.head(code)
