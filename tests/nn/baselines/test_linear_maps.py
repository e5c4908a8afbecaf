"""Which linear maps a layer expresses: as many as commute with the symmetry it claims, on tiny chains.

The equations `P M = M P` are solved for all matrices `M` on flat weights, for permutations `P` that generate
the group. They know nothing of rows, columns or means.
"""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from graph_metanetworks.nn.baselines import Dws, NfnHnp, NfnNp, NfnPt
from graph_metanetworks.nn.baselines.layer_stack import LinearChainModel
from support.tiny_chains import Tensors, TinyChain, affine_of_each_parameter, commuting

CHAINS = [
    TinyChain(sizes, biased)
    for sizes in ((2, 3, 2, 1), (2, 3, 2), (3, 2), (1, 2, 2, 2, 1))
    for biased in (True, False)
]


def expressed(model: LinearChainModel, chain: TinyChain) -> int:
    """Count independent linear maps of a layer with one channel."""
    places = chain.form.places(model.permuted)
    widths = [place.width(1) for place in places]
    layer = model.make_layer(places, widths, widths).double()

    def unfolded(tensors: Tensors) -> Tensors:
        states = layer([place.fold(x) for place, x in zip(places, tensors, strict=True)])
        return [place.unfold(x) for place, x in zip(places, states, strict=True)]

    maps = affine_of_each_parameter(layer, unfolded, chain)
    return int(torch.linalg.matrix_rank(maps[:, chain.numel :]))  # without constants


@pytest.mark.parametrize("chain", CHAINS, ids=str)
@pytest.mark.parametrize(
    ("model", "generators"),
    [
        (NfnNp(), lambda chain: chain.exchanges("all")),
        (NfnHnp(), lambda chain: chain.exchanges("hidden")),
        (Dws(pool="mean"), lambda chain: chain.exchanges("hidden")),
        (NfnPt(), lambda chain: chain.entry_changes()),
    ],
    ids=["np", "hnp", "dws", "pt"],
)
def test_a_layer_expresses_all_maps_that_commute(
    model: LinearChainModel, generators: Callable[[TinyChain], Iterator[Tensor]], chain: TinyChain
) -> None:
    assert expressed(model, chain) == commuting(list(generators(chain)), chain.numel)


def test_counts_of_a_small_mlp() -> None:
    """An MLP 2-3-2-1 has 20 numbers, and 400 linear maps on them."""
    chain = TinyChain((2, 3, 2, 1))
    assert [expressed(model, chain) for model in (NfnPt(), NfnNp(), NfnHnp(), Dws(pool="mean"))] == [
        6,
        57,
        75,
        75,
    ]
