"""Families have the paper's numbers of parameters, and graphs with all weights and the right symmetry."""

from itertools import product

import pytest
import torch

import graph_metanetworks as gmn
from graph_metanetworks.zoo.draws import draw
from graph_metanetworks.zoo.families import FAMILIES, ClassifierArchitecture, ImageSpec
from graph_metanetworks.zoo.families.small_cnn import SmallCnnConfig, initialized_small_cnn
from support.classifiers import SPEC, VARIANTS, architecture

CIFAR = ImageSpec(channels=3, height=32, width=32, classes=10)


def sizes(family: str) -> list[int]:
    """Count the elements of the state dict, as the paper does."""
    known = FAMILIES[family]
    choices = product(known.hidden.values, known.depth.values, known.linear_layers.values, known.norm.values)
    networks = [known.build(ClassifierArchitecture(family, *choice, 0.0), CIFAR) for choice in choices]
    return [sum(value.numel() for value in network.state_dict().values()) for network in networks]


def test_the_papers_numbers_of_parameters() -> None:
    assert (min(sizes("cnn2d")), max(sizes("cnn2d"))) == (970, 21_165)
    everything = [size for family in FAMILIES for size in sizes(family)]
    assert (min(everything), max(everything)) == (970, 87_658)


@pytest.mark.parametrize(("family", "norm"), VARIANTS)
def test_families_trace(family: str, norm: str) -> None:
    model = FAMILIES[family].build(architecture(family, norm), SPEC).eval()
    example = torch.randn(3, 1, 8, 8)
    graph = gmn.trace(model, example)
    gmn.testing.assert_covers(graph, model)
    gmn.testing.assert_round_trip(graph, model)
    gmn.testing.assert_function_kept(graph, model, example)
    hidden = architecture(family, norm).hidden
    assert graph.symmetry.log_order > hidden  # neurons can be exchanged: hidden! is far more than e ** hidden


@pytest.mark.parametrize("size", [(1, 8, 8), (3, 32, 32), (1, 28, 28), (3, 15, 21)])
@pytest.mark.parametrize("family", FAMILIES)
def test_images_of_any_size(family: str, size: tuple[int, int, int]) -> None:
    known = FAMILIES[family]
    largest = ClassifierArchitecture(
        family, known.hidden.values[0], known.depth.values[-1], 1, known.norm.values[0], 0.1
    )
    model = known.build(largest, ImageSpec(*size, classes=7))
    assert model(torch.randn(2, *size)).shape == (2, 7)


@pytest.mark.parametrize(("side", "padding"), [(32, 0), (15, 0), (14, 1), (8, 1)])
def test_small_cnns(side: int, padding: int) -> None:
    """No padding, as published, unless the image would vanish."""
    spec = ImageSpec(1, side, side, classes=10)
    model = initialized_small_cnn(draw(SmallCnnConfig, torch.Generator().manual_seed(side)), spec).eval()
    assert all(convolution.padding == (padding, padding) for convolution in model.convolutions)
    assert sum(p.numel() for p in model.parameters()) == 4_970
    example = torch.randn(2, 1, side, side)
    graph = gmn.trace(model, example)
    gmn.testing.assert_covers(graph, model)
    gmn.testing.assert_function_kept(graph, model, example)
