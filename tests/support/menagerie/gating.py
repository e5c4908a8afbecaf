"""Networks that multiply, choose among, or generate their own channels."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .architecture import architecture
from .inputs import inputs, normal

gating = partial(architecture, family="gating", example=inputs(normal(15, 5)))


@gating("gated-mlp-swiglu")
class SwiGLU(nn.Module):
    """Two residual gated blocks, down(silu(gate(x)) * up(x))."""

    def __init__(self, width: int = 8, hidden: int = 14) -> None:
        super().__init__()
        self.embed = nn.Linear(5, width)
        self.gates = nn.ModuleList(nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.ups = nn.ModuleList(nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.downs = nn.ModuleList(nn.Linear(hidden, width, bias=False) for _ in range(2))
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 3]
        x = self.embed(x)
        for gate, up, down in zip(self.gates, self.ups, self.downs, strict=True):
            x = x + down(F.silu(gate(x)) * up(x))
        return self.head(x)


@gating("gated-mlp-packed")
class PackedGate(nn.Module):
    """A gated block whose gate and value are the two chunks of one linear layer."""

    def __init__(self, hidden: int = 11) -> None:
        super().__init__()
        self.gate_and_value = nn.Linear(5, 2 * hidden)
        self.down = nn.Linear(hidden, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 3]
        gate, value = self.gate_and_value(x).chunk(2, dim=-1)
        return self.down(F.gelu(gate) * value)


@gating("highway")
class Highway(nn.Module):
    """A convex combination of a layer and its input, mixed channel by channel."""

    def __init__(self, width: int = 9) -> None:
        super().__init__()
        self.embed = nn.Linear(5, width)
        self.transform = nn.Linear(width, width)
        self.carry = nn.Linear(width, width)
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 3]
        x = self.embed(x)
        return self.head(torch.lerp(x, self.transform(x).tanh(), self.carry(x).sigmoid()))


@gating("maxout")
class Maxout(nn.Module):
    """Hidden units that are each the largest of three linear pieces."""

    def __init__(self, hidden: int = 10, pieces: int = 3) -> None:
        super().__init__()
        self.pieces = pieces
        self.first = nn.Linear(5, hidden * pieces)
        self.second = nn.Linear(hidden, 7 * pieces)
        self.head = nn.Linear(7, 2)

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 2]
        for layer in (self.first, self.second):
            x = layer(x).unflatten(-1, (-1, self.pieces)).amax(dim=-1)
        return self.head(x)


@gating("film-conditioning", example=inputs(normal(2, 3, 6, 7), normal(2, 5)))
class FiLM(nn.Module):
    """Image features scaled and shifted per channel by a condition vector."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.condition = nn.Sequential(nn.Linear(5, 11), nn.SiLU(), nn.Linear(11, 2 * channels))
        self.head = nn.Linear(channels, 4)

    def forward(self, image: Tensor, condition: Tensor) -> Tensor:  # [B, 3, H, W], [B, 5] -> [B, 4]
        scale, shift = self.condition(condition)[:, :, None, None].chunk(2, dim=1)
        features = F.relu(self.norm(self.convolution(image)) * (1 + scale) + shift)
        return self.head(features.mean(dim=(2, 3)))


@gating("hypernetwork", example=inputs(normal(15, 5), normal(6)))
class HyperNetwork(nn.Module):
    """A two-layer network whose weights are the output of another network."""

    def __init__(self, hidden: int = 8) -> None:
        super().__init__()
        self.hidden = hidden
        self.trunk = nn.Sequential(nn.Linear(6, 11), nn.Tanh())
        self.inner_weight = nn.Linear(11, hidden * 5)
        self.inner_bias = nn.Linear(11, hidden)
        self.outer_weight = nn.Linear(11, 3 * hidden)

    def forward(self, x: Tensor, code: Tensor) -> Tensor:  # [B, 5], [6] -> [B, 3]
        code = self.trunk(code)
        inner = self.inner_weight(code).view(self.hidden, 5)
        outer = self.outer_weight(code).view(3, self.hidden)
        return F.linear(F.relu(F.linear(x, inner, self.inner_bias(code))), outer)


@gating("soft-mixture-of-experts")
class SoftMixture(nn.Module):
    """Every expert runs, and a softmax over experts weights what they say."""

    def __init__(self, experts: int = 3, hidden: int = 7) -> None:
        super().__init__()
        self.router = nn.Linear(5, experts)
        self.inner = nn.Parameter(torch.randn(experts, 5, hidden))
        self.outer = nn.Parameter(torch.randn(experts, hidden, 2))

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 2]
        hidden = F.relu(torch.einsum("bi,eih->beh", x, self.inner))
        spoken = torch.einsum("beh,eho->beo", hidden, self.outer)
        return torch.einsum("be,beo->bo", self.router(x).softmax(-1), spoken)


@gating("bilinear", example=inputs(normal(15, 5), normal(15, 6)))
class BilinearForm(nn.Module):
    """Two embedded inputs joined by nn.Bilinear."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(5, 7)
        self.right = nn.Linear(6, 8)
        self.join = nn.Bilinear(7, 8, 9)
        self.head = nn.Linear(9, 2)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:  # [B, 5], [B, 6] -> [B, 2]
        return self.head(torch.tanh(self.join(self.left(left), self.right(right))))
