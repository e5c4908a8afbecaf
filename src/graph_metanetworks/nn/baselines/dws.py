"""DWSNets: equivariant layers on deep weight spaces.

Navon et al., 2023, "Equivariant architectures for learning in deep weight spaces",
https://arxiv.org/abs/2301.12780.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from graph_metanetworks.nn.baselines.chain_form import Permuted
from graph_metanetworks.nn.baselines.equivariant import EquivariantLinear, Place
from graph_metanetworks.nn.baselines.layer_stack import LinearChainModel


def largest(values: Tensor, dims: tuple[int, ...]) -> Tensor:
    return torch.amax(values, dims)


class Dws(LinearChainModel):
    method: ClassVar[str] = "dws"
    permuted: ClassVar[Permuted] = "hidden"

    def make_layer(self, places: Sequence[Place], inputs: Sequence[int], outputs: Sequence[int]) -> nn.Module:
        return EquivariantLinear(places, inputs, outputs, pool=largest)
