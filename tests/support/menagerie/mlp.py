"""Multilayer perceptrons: one per activation or norm, and one with an activation of each kind."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .architecture import architecture
from .inputs import inputs, normal

mlp = partial(architecture, family="mlp", example=inputs(normal(15, 5)))


def perceptron(between: Callable[[int], nn.Module], *, bias: bool = True) -> nn.Sequential:
    """Return linear layers of widths 5, 12, 9, 3 with between(width) after each hidden one."""
    return nn.Sequential(
        nn.Linear(5, 12, bias=bias),
        between(12),
        nn.Linear(12, 9, bias=bias),
        between(9),
        nn.Linear(9, 3, bias=bias),
    )


POINTWISE: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "elu": nn.ELU,
    "leaky-relu": nn.LeakyReLU,
    "softplus": nn.Softplus,
    "mish": nn.Mish,
    "hardswish": nn.Hardswish,
    "prelu-shared": nn.PReLU,
}

CHANNELWISE: dict[str, Callable[[int], nn.Module]] = {
    "prelu-per-channel": nn.PReLU,
    "batch-norm": lambda width: nn.Sequential(nn.BatchNorm1d(width), nn.ELU()),
    "layer-norm": lambda width: nn.Sequential(nn.LayerNorm(width), nn.GELU()),
    "layer-norm-without-bias": lambda width: nn.Sequential(nn.LayerNorm(width, bias=False), nn.Tanh()),
    "rms-norm": lambda width: nn.Sequential(nn.RMSNorm(width), nn.SiLU()),
    "group-norm": lambda width: nn.Sequential(nn.GroupNorm(3, width), nn.ReLU()),
    "softmax": lambda width: nn.Softmax(dim=-1),
    "dropout": lambda width: nn.Sequential(nn.ReLU(), nn.Dropout(0.5)),
}

for activation, module in POINTWISE.items():
    mlp(f"mlp-{activation}")(partial(perceptron, lambda width, module=module: module()))

for layer, module in CHANNELWISE.items():
    mlp(f"mlp-{layer}")(partial(perceptron, module))

mlp("mlp-without-bias")(partial(perceptron, lambda width: nn.ReLU(), bias=False))
mlp("mlp-linear")(partial(perceptron, lambda width: nn.Identity()))
mlp("single-linear-layer")(lambda: nn.Linear(5, 3))


@mlp("mlp-glu")
def glu_perceptron() -> nn.Module:
    """Return a perceptron whose hidden layers are halved by their own gates."""
    return nn.Sequential(nn.Linear(5, 24), nn.GLU(), nn.Linear(12, 18), nn.GLU(dim=1), nn.Linear(9, 3))


@mlp("mlp-on-sequence", example=inputs(normal(2, 6, 5)))
def sequence_perceptron() -> nn.Module:
    """Return a perceptron applied at every position of a sequence."""
    return perceptron(lambda width: nn.ReLU())


@mlp("mlp-on-vector", example=inputs(normal(5)))
def vector_perceptron() -> nn.Module:
    """Return a perceptron called without a batch axis."""
    return perceptron(lambda width: nn.GELU())


FUNCTIONS: tuple[Callable[[Tensor], Tensor], ...] = (
    F.selu,
    F.celu,
    F.relu6,
    F.hardtanh,
    F.softsign,
    F.tanhshrink,
    F.softshrink,
    F.hardshrink,
    F.hardsigmoid,
    F.logsigmoid,
    partial(F.gelu, approximate="tanh"),
    partial(F.threshold, threshold=0.1, value=-0.5),
    torch.sin,
    torch.cos,
    torch.square,
    torch.abs,
    torch.erf,
    torch.atan,
    partial(torch.clamp, min=-0.7, max=0.9),
    lambda x: torch.exp(-x.abs()),
    lambda x: torch.where(x > 0, x, 0.2 * x),
    lambda x: x * torch.sigmoid(1.702 * x),
    lambda x: torch.log1p(x**2) - torch.sqrt(x**2 + 1).reciprocal(),
)


@mlp("mlp-many-activations")
class ManyActivations(nn.Module):
    """Hidden layers side by side, each with an activation of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.ModuleList(nn.Linear(5, 4) for _ in FUNCTIONS)
        self.head = nn.Linear(4 * len(FUNCTIONS), 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 3]
        layers = zip(self.hidden, FUNCTIONS, strict=True)
        return self.head(torch.cat([function(linear(x)) for linear, function in layers], dim=-1))


@mlp("mlp-deep-mixed-activations")
def deep_mixed() -> nn.Module:
    """Return a deeper perceptron whose activations differ from layer to layer."""
    return nn.Sequential(
        nn.Linear(5, 12),
        nn.PReLU(12),
        nn.Linear(12, 16),
        nn.GLU(),
        nn.Linear(8, 10),
        nn.SELU(),
        nn.Linear(10, 9),
        nn.Softsign(),
        nn.Linear(9, 7),
        nn.RReLU(),
        nn.Linear(7, 3),
        nn.LogSoftmax(dim=-1),
    )
