"""Small networks that can be written in several ways, with the same weights whatever the way."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import graph_metanetworks as gmn


class Filled(nn.Module):
    """Weights depend on the seed and on their order, and on nothing else."""

    def fill(self) -> None:
        generator = torch.Generator().manual_seed(0)
        for parameter in self.parameters():
            value = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.data = value / max(1, parameter[0].numel()) ** 0.5


class Mlp(Filled):
    def __init__(self, way: str = "linear", function=torch.relu) -> None:
        super().__init__()
        self.way, self.function = way, function
        shapes = {"a": (5, 3), "b": (5,), "c": (2, 5), "d": (2,)}
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))
        self.fill()

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ways = {
            "linear": lambda: F.linear(x, weight, bias),
            "matmul": lambda: x @ weight.T + bias,
            "bias first": lambda: bias + x @ weight.T,
            "einsum": lambda: torch.einsum("bi,oi->bo", x, weight) + bias,
            "addmm": lambda: torch.addmm(bias, x, weight.T),
            "bmm": lambda: torch.bmm(x[None], weight.T[None])[0] + bias,
            "columns": lambda: (weight @ x[..., None])[..., 0] + bias,
        }
        return ways[self.way]()

    def forward(self, x: Tensor) -> Tensor:  # [B, 3] -> [B, 2]
        return self.linear(self.function(self.linear(x, self.a, self.b)), self.c, self.d)


class Attention(Filled):
    def __init__(self, way: str = "fused", heads: int = 4) -> None:
        super().__init__()
        self.way, self.heads = way, heads
        self.q, self.k, self.v, self.o = (nn.Linear(8, 8) for _ in range(4))
        self.fill()

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        root = q.shape[-1] ** 0.5
        if self.way == "fused":
            return F.scaled_dot_product_attention(q, k, v)
        if self.way == "products":
            return (q @ k.transpose(-1, -2) / root).softmax(-1) @ v
        if self.way == "scaled first":
            return ((q / root) @ k.transpose(-1, -2)).softmax(-1) @ v
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / root
        return torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), v)

    def forward(self, x: Tensor) -> Tensor:  # [B, n, 8] -> [B, n, 8]
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.o(self.attend(q, k, v).transpose(1, 2).flatten(2))


class Residual(Filled):
    def __init__(self, way: str = "x + f(x)") -> None:
        super().__init__()
        self.way = way
        self.first, self.middle, self.last = nn.Linear(3, 6), nn.Linear(6, 6), nn.Linear(6, 2)
        self.fill()

    def forward(self, x: Tensor) -> Tensor:  # [B, 3] -> [B, 2]
        x = self.first(x).relu()
        change = self.middle(x).tanh()
        return self.last(x + change if self.way == "x + f(x)" else change + x)


class Sets(Filled):
    def __init__(self) -> None:
        super().__init__()
        self.own, self.others = nn.Linear(4, 6, bias=False), nn.Linear(4, 6, bias=False)
        self.last = nn.Linear(6, 2)
        self.fill()

    def forward(self, x: Tensor) -> Tensor:  # [B, n, 4] -> [B, n, 2]
        return self.last((self.own(x) + self.others(x.mean(1, keepdim=True))).relu())


EXAMPLES = {Mlp: (4, 3), Attention: (2, 3, 8), Residual: (4, 3), Sets: (2, 3, 4)}


def graph_of(model: nn.Module) -> gmn.ParameterGraph:
    return gmn.trace(model, torch.zeros(EXAMPLES[type(model)], dtype=torch.float64))
