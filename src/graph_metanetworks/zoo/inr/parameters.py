"""The parameters of several SIRENs, one row each."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graph_metanetworks.zoo.inr.siren import SirenArchitecture

ALIGNED = 32  # rows start at multiples of this, so that vector instructions treat all rows the same


class Parameters:
    """A matrix with a row per network, and views of it by name.

    >>> parameters = Parameters(SirenArchitecture(inputs=1, outputs=1), networks=3)
    >>> parameters.flat.shape, parameters.weight(1).shape
    (torch.Size([3, 1184]), torch.Size([3, 32, 32]))
    """

    def __init__(self, architecture: SirenArchitecture, networks: int, dtype: torch.dtype = torch.float32):
        padded = -(-architecture.num_parameters // ALIGNED) * ALIGNED
        self.flat = torch.zeros(networks, padded, dtype=dtype)
        self.tensors: dict[str, Tensor] = {}  # [n, *shape]
        start = 0
        for name, shape in architecture.parameters.items():
            size = math.prod(shape)
            self.tensors[name] = self.flat[:, start : start + size].unflatten(1, shape)
            start += size

    def weight(self, layer: int) -> Tensor:  # [n, out, in]
        return self.tensors[f"seq.{layer}.weight"]

    def bias(self, layer: int) -> Tensor:  # [n, out]
        return self.tensors[f"seq.{layer}.bias"]

    def state_dict(self, network: int) -> dict[str, Tensor]:
        return {name: tensor[network].clone() for name, tensor in self.tensors.items()}

    def load(self, network: int, state_dict: dict[str, Tensor]) -> None:
        for name, tensor in self.tensors.items():
            tensor[network] = state_dict[name]
