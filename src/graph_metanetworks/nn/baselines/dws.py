"""DWSNets: equivariant layers on deep weight spaces.

Navon et al., 2023, "Equivariant architectures for learning in deep weight spaces",
https://arxiv.org/abs/2301.12780.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from graph_metanetworks.nn.baselines.chain_form import Permuted
from graph_metanetworks.nn.baselines.equivariant import EquivariantLinear, Place, Pool, mean
from graph_metanetworks.nn.baselines.layer_stack import LinearChainModel


def largest(values: Tensor, dims: tuple[int, ...]) -> Tensor:
    return values.amax(dims)


POOLS: dict[str, Pool] = {"mean": mean, "max": largest}


class Dws(LinearChainModel):
    """DWSNets: blocks between all pairs of weights and biases, in any order of hidden neurons.

    A block reduces the axes that a pair does not share, mixes channels, and repeats the result. With the mean
    these are the linear maps of NFN-HNP, since both papers found all there are. The maximum gives maps that
    are equivariant too, but not linear.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> batch = gmn.collate([(gmn.trace(model, torch.zeros(1, 2)), model.state_dict())] * 3)
    >>> dws = Dws(out=5, hidden=16)
    >>> dws.fit([batch])
    >>> dws(batch).shape
    torch.Size([3, 5])

    Args:
        out, options: as for `ChainModel`.
        pool: "max" or "mean", how a layer reduces rows and columns.
    """

    method: ClassVar[str] = "dws"
    permuted: ClassVar[Permuted] = "hidden"

    def __init__(self, out: int = 1, *, pool: Literal["max", "mean"] = "max", **options: Any) -> None:
        super().__init__(out, **options)
        self.pool = pool

    def make_layer(self, places: Sequence[Place], inputs: Sequence[int], outputs: Sequence[int]) -> nn.Module:
        return EquivariantLinear(places, inputs, outputs, pool=POOLS[self.pool])
