"""Networks with integer and boolean weights. Only the 7 neurons of a plain layer can be permuted."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, FREE = 6, 7


class Discrete(nn.Module):
    """A layer with a discrete weight in its buffer `weight`, then a plain one. [B, 5] -> [B, 3]"""

    dtype: torch.dtype
    shape: tuple[int, ...]
    weight: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, WIDTH)
        self.register_buffer("weight", torch.zeros(self.shape, dtype=self.dtype))
        self.register_buffer("calls", torch.tensor(3))  # never read
        self.middle, self.last = nn.Linear(WIDTH, FREE), nn.Linear(FREE, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.relu(self.middle(self.discrete(F.relu(self.first(x))))))

    def discrete(self, hidden: Tensor) -> Tensor:
        raise NotImplementedError


class Quantised(Discrete):
    """An int8 matrix with a float scale for each row; both of its axes are pinned."""

    dtype, shape = torch.int8, (WIDTH, WIDTH)

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def discrete(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.weight.to(hidden.dtype) * self.scale[:, None])


class MaskedNeurons(Discrete):
    """A mask that switches neurons off."""

    dtype, shape = torch.bool, (WIDTH,)

    def discrete(self, hidden: Tensor) -> Tensor:
        return hidden * self.weight


class MaskedWeight(Discrete):
    """A mask that switches off weights of the first layer, read from its memory without an operation."""

    dtype, shape = torch.bool, (WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.first.weight.masked_fill(self.weight.data, 0)
        return self.last(F.relu(self.middle(F.relu(F.linear(x, weight, self.first.bias)))))


class Selected(Discrete):
    """An index that orders the neurons anew."""

    dtype, shape = torch.int64, (WIDTH,)

    def discrete(self, hidden: Tensor) -> Tensor:
        return hidden[:, self.weight]


DISCRETE: dict[str, type[Discrete]] = {
    "an int8 matrix": Quantised,
    "a mask of neurons": MaskedNeurons,
    "a mask of weights": MaskedWeight,
    "an index": Selected,
}
