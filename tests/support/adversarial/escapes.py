"""Values that leave PyTorch's tensors, come back as numbers, and still change with the weights."""

import torch
from torch import Tensor

from .case import Case


def ramp(h: Tensor) -> Tensor:
    return torch.arange(8).to(h)


ESCAPES: dict[str, Case] = {
    "a sum as a number": Case(lambda h: h * h.sum().item(), "8"),
    "one channel as a number": Case(lambda h: h * h[0, 0].item(), "7"),
    "a weighted sum as a number": Case(lambda h: h * (h * ramp(h)).sum().item(), ""),
    "a choice by a weighted sum": Case(lambda h: h * 2 if (h * ramp(h)).sum() > 0 else h * 3, ""),
    "a choice by a sum": Case(lambda h: h * 2 if h.sum() > 0 else h * 3, "8"),
    "the largest channel's number": Case(lambda h: h * float(h.mean(0).argmax().item()), ""),
    "a loop of data-dependent length": Case(lambda h: sum((h for _ in range(int(3 * h[0, 3].abs()))), h)),
    "a count": Case(lambda h: h * float(len((h > 0).nonzero())), None),
    "a mask of the first sample": Case(lambda h: h * h[:, h[0] > 0].sum()),
    "an equality": Case(lambda h: h * (2 if torch.equal(h.relu(), h) else 3), "8"),
    "allclose": Case(lambda h: h * (2 if torch.allclose(h, h * ramp(h)) else 3)),
}
