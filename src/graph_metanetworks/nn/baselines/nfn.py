"""Neural functional networks: layers of linear maps that commute with permutations of neurons.

Zhou et al., 2023, "Permutation equivariant neural functionals", https://arxiv.org/abs/2302.14040.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor, nn

from graph_metanetworks.nn.baselines.chain_form import Permuted
from graph_metanetworks.nn.baselines.equivariant import EquivariantLinear, Place
from graph_metanetworks.nn.baselines.layer_stack import LinearChainModel


class NfnHnp(LinearChainModel):
    """NFN-HNP: all linear maps that commute with permutations of hidden neurons.

    Inputs and outputs have parameters of their own, so their order counts.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> batch = gmn.collate([(gmn.trace(model, torch.zeros(1, 2)), model.state_dict())] * 3)
    >>> nfn = NfnHnp(out=5, hidden=16)
    >>> nfn.fit([batch])
    >>> nfn(batch).shape
    torch.Size([3, 5])
    """

    method: ClassVar[str] = "nfn-hnp"
    permuted: ClassVar[Permuted] = "hidden"

    def make_layer(self, places: Sequence[Place], inputs: Sequence[int], outputs: Sequence[int]) -> nn.Module:
        return EquivariantLinear(places, inputs, outputs)


class NfnNp(NfnHnp):
    """NFN-NP: all linear maps that commute with permutations of all neurons, inputs and outputs too.

    It has fewer parameters than NFN-HNP, and cannot tell one input or output from another.
    """

    method: ClassVar[str] = "nfn-np"
    permuted: ClassVar[Permuted] = "all"


class PointwiseLinear(nn.Module):
    """A linear layer on the channels of each weight, one for each tensor."""

    def __init__(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        super().__init__()
        self.maps = nn.ModuleList(map(nn.Linear, inputs, outputs))
        for layer in self.maps:
            assert isinstance(layer, nn.Linear)
            nn.init.normal_(layer.weight, std=(2 / layer.in_features) ** 0.5)
            nn.init.zeros_(layer.bias)

    def forward(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return [layer(values) for layer, values in zip(self.maps, tensors, strict=True)]


class NfnPt(LinearChainModel):
    """NFN-PT: an MLP on each weight by itself, with parameters for each tensor.

    It commutes with every permutation within a tensor, and sees nothing of where in it a weight is.
    """

    method: ClassVar[str] = "nfn-pt"
    permuted: ClassVar[Permuted] = "all"

    def make_layer(self, places: Sequence[Place], inputs: Sequence[int], outputs: Sequence[int]) -> nn.Module:
        return PointwiseLinear(inputs, outputs)
