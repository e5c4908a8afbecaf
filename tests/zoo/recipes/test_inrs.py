"""The recipes of INRs draw, fit, store and render."""

import json
import math
from dataclasses import replace
from statistics import median

import pytest
import torch

import graph_metanetworks as gmn
from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo import build
from graph_metanetworks.zoo.data import load
from graph_metanetworks.zoo.inr import Siren
from graph_metanetworks.zoo.recipe import Recipe, Trained, network_seed
from graph_metanetworks.zoo.recipes.inrs import ImageInrs, SineInrs, SineWave
from support.zoo_recipes import Regressors


def trained(recipe: Recipe, count: int) -> tuple[list, list[Trained]]:
    configs = [recipe.draw_at(k, torch.Generator().manual_seed(k)) for k in range(count)]
    return configs, recipe.train(configs, [network_seed(0, k) for k in range(count)], lambda share: None)


@pytest.fixture(scope="module")
def digits() -> ImageInrs:
    return ImageInrs(data="digits", steps=150)


@pytest.mark.parametrize("protocol", ["editing", "classifying"])
def test_images_are_fitted_and_rendered(protocol) -> None:
    recipe = ImageInrs(data="digits", protocol=protocol, steps=150)
    configs, networks = trained(recipe, 4)
    again = ImageInrs.from_options(json.loads(json.dumps(recipe.options())))
    for config, network in zip(configs, networks, strict=True):
        assert network.metrics["converged"]
        assert not network.metrics["diverged"]
        error = (again.render(network.state_dict, config) - recipe.original(config)).square().mean().item()
        assert recipe.conventions.psnr(error) == pytest.approx(network.metrics["psnr"], abs=0.5)
        assert again.render(network.state_dict, config, 20).shape == (1, 20, 20)
        built = again.build(config)
        built.load_state_dict(network.state_dict)
        assert isinstance(built, Siren)


def test_sine_waves_are_fitted_and_rendered() -> None:
    recipe = SineInrs(points=400, steps=150, stop_loss=0.05, learning_rate=5e-3)
    configs, networks = trained(recipe, 4)
    again = SineInrs.from_options(json.loads(json.dumps(recipe.options())))
    assert again.options() == recipe.options()
    targets = recipe.targets(configs)[:, 0]
    for config, network, target in zip(configs, networks, targets, strict=True):
        error = (again.render(network.state_dict, config) - target).square().mean().item()
        assert error == pytest.approx(network.metrics["loss"], rel=1e-2)
        assert network.metrics["converged"] == (error <= 0.05) == (network.metrics["steps"] < 150)
        assert 0 <= config.amplitude <= 10
    assert any(network.metrics["converged"] for network in networks)


def test_the_defaults_are_those_of_the_protocols() -> None:
    sines = SineInrs()
    assert sines.architecture.num_parameters == 1153
    assert sines.conventions.size == (2000,)
    assert (sines.fit_options.steps, sines.fit_options.learning_rate, sines.fit_options.weight_decay) == (
        1500,
        1e-3,
        1e-4,
    )
    assert sines.fit_options.stop_loss == 1e-4


def test_every_image_has_its_turn_and_both_splits_are_drawn_in_proportion(digits: ImageInrs) -> None:
    data, count = load("digits"), digits.num_images
    choices = [digits.draw_at(k, torch.Generator()) for k in range(count)]
    assert sorted(choice.image for choice in choices) == list(range(count))
    for few in (10, 100, 1000):
        tested = sum(choice.split == "test" for choice in choices[:few])
        assert tested == len(data.test_images) * few // count
    for choice in choices[:8]:
        number = choice.image if choice.split == "train" else choice.image - len(data.train_images)
        images, labels = (getattr(data, f"{choice.split}_{name}") for name in ("images", "labels"))
        assert choice.label == labels[number]
        assert torch.equal(digits.original(choice), images[number] / 255)
    assert digits.draw_at(count + 2, torch.Generator()) == replace(choices[2], copy=1)
    drawn = {digits.draw(torch.Generator().manual_seed(seed)).image for seed in range(50)}
    assert len(drawn) > 40


@pytest.fixture(scope="module")
def mixed() -> ImageInrs:
    return ImageInrs(data="digits", kind="mixed", hidden=12, layers=1, steps=100)


def test_a_mixed_zoo_has_every_kind(mixed: ImageInrs, tmp_path) -> None:
    zoo = build(mixed, 24, tmp_path, workers=1, quiet=True)
    columns = zoo.table.select(["kind", "hidden", "layers"]).to_pydict()
    assert {name: set(values) for name, values in columns.items()} == {
        "kind": {"siren", "fourier", "grid", "hash"},
        "hidden": {9, 12, 15},
        "layers": {1, 2},
    }
    again = gmn.Zoo.open(tmp_path)
    sizes = [tuple(row.values()) for row in zoo.table.select(["kind", "hidden", "layers"]).to_pylist()]
    assert len({mixed.shape(network.config) for network in again}) == len(set(sizes))
    for network in again:
        error = (network.render() - mixed.original(network.config)).square().mean().item()
        assert mixed.conventions.psnr(error) == pytest.approx(network.metrics["psnr"], abs=0.1)
        assert network.render(20).shape == (1, 20, 20)
    assert median(zoo.table["psnr"].to_pylist()) > 18


def test_sirens_have_several_sizes() -> None:
    recipe = ImageInrs(data="digits", kind="sirens")
    drawn = [recipe.draw_at(k, torch.Generator().manual_seed(k)) for k in range(60)]
    assert {config.kind for config in drawn} == {"siren"}
    assert len({recipe.shape(config) for config in drawn}) == 6
    with pytest.raises(ValueError, match="no kind 'painting'; choose one of siren, sirens, fourier, grid"):
        ImageInrs(data="digits", kind="painting")  # pyright: ignore[reportArgumentType]


def test_zoos_from_before_there_were_kinds_are_the_same(digits: ImageInrs) -> None:
    assert set(digits.options()) == {
        *("architecture", "conventions", "options", "data", "checksum", "min_psnr", "order")
    }
    wide = ImageInrs(data="digits", hidden=48, layers=3)
    former = {"image": 5, "label": 1, "split": "train", "copy": 0}
    for values in (
        former,
        former | {"kind": None, "hidden": None, "layers": None},
    ):  # a zoo that was extended
        config = ImageInrs.from_options(wide.options()).config(values)
        assert wide.shape(config) == wide.architecture


def test_shapes_are_equal(digits: ImageInrs) -> None:
    first, second = (digits.draw_at(k, torch.Generator()) for k in (0, 1))
    assert digits.shape(first) == digits.shape(second)


def test_fits_that_fail_are_marked() -> None:
    recipe = SineInrs(points=50, steps=5)
    fits = recipe.train([SineWave(math.inf, 1.0), SineWave(1.0, 1.0)], [0, 1], lambda share: None)
    assert fits[0].metrics["diverged"]
    assert not fits[0].metrics["converged"]
    assert not fits[1].metrics["diverged"]
    assert not fits[1].metrics["converged"]  # after five steps


def test_a_recipe_from_a_zoo_says_that_it_has_no_images(digits: ImageInrs) -> None:
    again = ImageInrs.from_options(digits.options())
    with pytest.raises(ValueError, match="loaded without its images"):
        again.draw_at(0, torch.Generator())
    with pytest.raises(ValueError, match="there is no protocol 'painting'"):
        ImageInrs(data="digits", protocol="painting")  # pyright: ignore[reportArgumentType]


def test_networks_of_a_zoo_are_rendered(tmp_path) -> None:
    recipe = ImageInrs(data="digits", steps=20)
    network = build(recipe, 2, tmp_path, workers=1, quiet=True)[1]
    assert torch.equal(network.render(), recipe.render(network.state_dict, network.config))
    assert network.render(5).shape == (1, 5, 5)


def test_only_inrs_are_rendered(tmp_path) -> None:
    network = build(Regressors(), 1, tmp_path, workers=1, quiet=True)[0]
    with pytest.raises(ZooError, match="represent no signal that could be rendered"):
        network.render()
