"""Which linear maps a layer expresses: as many as commute with the symmetry it claims, on tiny chains.

The equations `P M = M P` are solved for all matrices `M` on flat weights, for permutations `P` that generate
the group. They know nothing of rows, columns or means.
"""

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from torch import Tensor, nn

from graph_metanetworks.nn.baselines.chain_form import ChainForm, Permuted, Slot
from graph_metanetworks.nn.baselines.dws import Dws
from graph_metanetworks.nn.baselines.equivariant import Place
from graph_metanetworks.nn.baselines.nfn import NfnHnp, NfnNp, NfnPt

Maker = type[NfnNp] | type[NfnPt] | type[Dws]


def form_of(sizes: Sequence[int], biased: bool) -> ChainForm:
    layers = len(sizes) - 1
    return ChainForm(sizes[0], sizes[-1], 1, (1,) * layers, (biased,) * layers)


def shapes(form: ChainForm, sizes: Sequence[int]) -> list[tuple[int, ...]]:
    return [tuple(sizes[group] for group in slot.groups) for slot in form.slots]


def unflat(flat: Tensor, form: ChainForm, sizes: Sequence[int]) -> list[Tensor]:
    """Split flat weights into tensors with one channel. [n, D] -> [n, out, in, 1], [n, out, 1], ..."""
    found = shapes(form, sizes)
    parts = flat.split([torch.Size(shape).numel() for shape in found], dim=1)
    return [part.view(-1, *shape, 1) for part, shape in zip(parts, found, strict=True)]


# ------------------------------------------------------------------ what a layer expresses


def expressed(maker: Maker, sizes: Sequence[int], biased: bool) -> int:
    """Count independent maps: those of each parameter alone, as vectors, have this rank."""
    form = form_of(sizes, biased)
    places = form.places(maker.permuted)
    widths = [place.width(1) for place in places]
    layer = maker().make_layer(places, widths, widths).double()
    basis = torch.eye(sum(torch.Size(shape).numel() for shape in shapes(form, sizes)), dtype=torch.float64)
    return int(torch.linalg.matrix_rank(torch.stack(list(_maps(layer, basis, places, form, sizes)))))


@torch.no_grad()
def _maps(
    layer: nn.Module, basis: Tensor, places: Sequence[Place], form: ChainForm, sizes: Sequence[int]
) -> Iterator[Tensor]:
    def of_basis() -> Tensor:
        both = torch.cat([basis, torch.zeros_like(basis[:1])])
        folded = [place.fold(x) for place, x in zip(places, unflat(both, form, sizes), strict=True)]
        results = [place.unfold(x).flatten(1) for place, x in zip(places, layer(folded), strict=True)]
        flat = torch.cat(results, dim=1)
        return (flat[:-1] - flat[-1]).flatten()  # without constants

    for parameter in layer.parameters():
        parameter.zero_()
    for parameter in layer.parameters():
        for entry in range(parameter.numel()):
            parameter.view(-1)[entry] = 1
            yield of_basis()
            parameter.view(-1)[entry] = 0


# ------------------------------------------------------------------ brute force


def commuting(generators: Sequence[Tensor]) -> int:
    """Return the dimension of all matrices that commute with these."""
    one = torch.eye(len(generators[0]), dtype=torch.float64)
    equations = torch.cat([torch.kron(g, one) - torch.kron(one, g.t().contiguous()) for g in generators])
    return one.numel() - int(torch.linalg.matrix_rank(equations.t() @ equations, hermitian=True))


def neurons(sizes: Sequence[int], biased: bool, permuted: Permuted) -> list[Tensor]:
    """Permutation matrices on flat weights that exchange neighbouring neurons, in each permuted group."""
    form = form_of(sizes, biased)
    groups = range(1, len(sizes) - 1) if permuted == "hidden" else range(len(sizes))
    count = sum(torch.Size(shape).numel() for shape in shapes(form, sizes))
    found = [torch.eye(count, dtype=torch.float64)]
    for group in groups:
        for first in range(sizes[group] - 1):
            order = torch.arange(sizes[group])
            order[[first, first + 1]] = order[[first + 1, first]]
            number = unflat(torch.arange(count)[None], form, sizes)
            moved = [_reordered(x, slot, group, order) for x, slot in zip(number, form.slots, strict=True)]
            found.append(torch.eye(count, dtype=torch.float64)[torch.cat([x.flatten() for x in moved])])
    return found


def _reordered(values: Tensor, slot: Slot, group: int, order: Tensor) -> Tensor:
    for dim, own in enumerate(slot.groups, 1):
        values = values.index_select(dim, order) if own == group else values
    return values


def entries(sizes: Sequence[int], biased: bool) -> list[Tensor]:
    """Exchange any two neighbouring entries of a tensor, or change the sign of one: what PT commutes with."""
    numels = [torch.Size(shape).numel() for shape in shapes(form_of(sizes, biased), sizes)]
    found, start = [], 0
    for numel in numels:
        for place in range(start, start + numel):
            sign = torch.eye(sum(numels), dtype=torch.float64)
            sign[place, place] = -1
            found.append(sign)
            if place > start:
                found.append(torch.eye(sum(numels), dtype=torch.float64))
                found[-1][[place - 1, place]] = found[-1][[place, place - 1]]
        start += numel
    return found


SIZES = [(2, 3, 2, 1), (2, 3, 2), (3, 2), (1, 2, 2, 2, 1)]


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: "-".join(map(str, sizes)))
@pytest.mark.parametrize(
    ("maker", "generators"),
    [
        (NfnNp, lambda *network: neurons(*network, "all")),
        (NfnHnp, lambda *network: neurons(*network, "hidden")),
        (Dws, lambda *network: neurons(*network, "hidden")),
        (NfnPt, entries),
    ],
    ids=["np", "hnp", "dws", "pt"],
)
def test_a_layer_expresses_all_maps_that_commute(
    maker: Maker, generators: Callable[..., list[Tensor]], sizes: tuple[int, ...], biased: bool
) -> None:
    assert expressed(maker, sizes, biased) == commuting(generators(sizes, biased))


def test_a_layer_expresses_more_if_less_is_permuted() -> None:
    """The counts of an MLP 2-3-2-1 with biases, 20 numbers: of 400 maps."""
    sizes = (2, 3, 2, 1)
    assert [expressed(maker, sizes, True) for maker in (NfnPt, NfnNp, NfnHnp, Dws)] == [6, 57, 75, 75]
