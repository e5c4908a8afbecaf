"""The same results as the package `nfn` of the authors of NFN and NFT, with its weights carried over."""

import pytest
import torch

from graph_metanetworks.nn.baselines.equivariant import EquivariantLinear
from graph_metanetworks.nn.baselines.nft import WeightAttention
from support.tiny_chains import Tensors, TinyChain, affine, affine_of_each_parameter

pytestmark = pytest.mark.slow
CHAIN = TinyChain((2, 4, 3, 2))
CHANNELS = 2


@pytest.fixture
def package():
    return pytest.importorskip("nfn.layers", reason="the extra 'compare' installs nfn")


def as_package(tensors: Tensors):
    """Return weights and biases in the classes of the package, with channels before rows and columns."""
    from nfn.common import WeightSpaceFeatures

    weights = [x.permute(0, 3, 1, 2) for x in tensors[::2]]
    return WeightSpaceFeatures(weights, [x.permute(0, 2, 1) for x in tensors[1::2]])


def from_package(features) -> Tensors:
    return [x.movedim(1, -1) for pair in features for x in pair]


def specification():
    from nfn.common import network_spec_from_wsfeat

    tensors = CHAIN.tensors(torch.zeros(1, CHAIN.numel, CHANNELS))
    return network_spec_from_wsfeat(as_package(tensors), set_all_dims=True)


@pytest.mark.parametrize(
    ("name", "permuted", "missing"),
    # HNPLinear has no map from the last hidden biases to the weights of the outputs: one for each output
    # and each pair of channels
    [("NPLinear", "all", 0), ("HNPLinear", "hidden", 2 * CHANNELS**2)],
)
def test_linear_layers(package, name: str, permuted, missing: int) -> None:
    theirs = getattr(package, name)(specification(), CHANNELS, CHANNELS).double()
    places = CHAIN.form.places(permuted)
    widths = [place.width(CHANNELS) for place in places]
    ours = EquivariantLinear(places, widths, widths).double()

    def their_map(tensors: Tensors) -> Tensors:
        return from_package(theirs(as_package(tensors)))

    def our_map(tensors: Tensors) -> Tensors:
        states = ours([place.fold(x) for place, x in zip(places, tensors, strict=True)])
        return [place.unfold(x) for place, x in zip(places, states, strict=True)]

    x = CHAIN.tensors(torch.randn(5, CHAIN.numel, CHANNELS, dtype=torch.float64))
    wanted = affine(their_map, CHAIN, CHANNELS).detach()
    expected = [value.detach() for value in their_map(x)]
    basis = affine_of_each_parameter(ours, our_map, CHAIN, CHANNELS)
    solution = torch.linalg.lstsq(basis.t(), wanted[:, None], driver="gelsd").solution[:, 0]
    torch.nn.utils.vector_to_parameters(solution, ours.parameters())
    for found, value in zip(our_map(x), expected, strict=True):
        assert torch.allclose(found, value, atol=1e-9)
    rank = torch.linalg.matrix_rank(basis)
    assert (
        rank - torch.linalg.matrix_rank(affine_of_each_parameter(theirs, their_map, CHAIN, CHANNELS))
        == missing
    )


def test_attention(package) -> None:
    heads, hidden = 2, 4
    theirs = package.NPAttention(specification(), hidden, num_heads=heads).double()
    ours = WeightAttention(CHAIN.form.slots, hidden, heads).double()
    projection = theirs.to_qkv.linear
    state = {  # theirs has query, key and value for each head, ours has heads for each of them
        name: value.unflatten(0, (heads, 3, -1)).transpose(0, 1).flatten(0, 2)
        for name, value in projection.state_dict().items()
    }
    ours.project.load_state_dict(state)
    x = CHAIN.tensors(torch.randn(5, CHAIN.numel, hidden, dtype=torch.float64))
    for found, expected in zip(ours(x), from_package(theirs(as_package(x))), strict=True):
        assert torch.allclose(found, expected, atol=1e-9)
