"""Recipes: hyper-parameters follow the paper's table, options are JSON, accuracies spread."""

import json
import math
from collections import Counter
from dataclasses import asdict, replace

import pytest
import torch

from graph_metanetworks.zoo.data import load
from graph_metanetworks.zoo.description import Description
from graph_metanetworks.zoo.families import FAMILIES
from graph_metanetworks.zoo.recipe import network_seed
from graph_metanetworks.zoo.recipes.classifiers import CnnWidths, Diverse, SmallCnns, VaryingCnns, grey
from support.classifiers import little_data

RECIPES = [VaryingCnns, Diverse, SmallCnns]


def drawn(recipe, count: int) -> list:
    return [recipe.draw(torch.Generator().manual_seed(network_seed(0, k))) for k in range(count)]


def test_draws_follow_the_table() -> None:
    configs = drawn(Diverse(little_data()), 2000)
    assert all(350 < count < 450 for count in Counter(config.family for config in configs).values())
    for name, family in FAMILIES.items():
        those = [config for config in configs if config.family == name]
        for field in ("hidden", "depth", "linear_layers", "norm"):
            values = getattr(family, field).values
            counts = Counter(getattr(config, field) for config in those)
            assert set(counts) == set(values)
            assert all(abs(counts[v] / len(those) - 1 / len(values)) < 0.12 for v in values)
        dropouts = [config.dropout for config in those]
        assert max(dropouts) <= family.dropout.high
        assert name == "resnet" or max(dropouts) > 0.24
    for values, low, high in (
        ([-math.log10(config.learning_rate) for config in configs], 1, 3),
        ([-math.log10(config.weight_decay) for config in configs], 2, 5),
        ([config.label_smoothing for config in configs], 0, 0.2),
    ):
        assert (
            low <= min(values) < low + 0.02 * (high - low)
            and high - 0.02 * (high - low) < max(values) <= high
        )
        assert sum(values) / len(values) == pytest.approx((low + high) / 2, rel=0.05)
    assert set(Counter(config.optimizer for config in configs)) == {"sgd", "adam", "rmsprop"}


def test_varying_cnns_are_two_dimensional() -> None:
    assert {config.family for config in drawn(VaryingCnns(little_data()), 20)} == {"cnn2d"}


@pytest.mark.parametrize("kind", RECIPES)
def test_a_recipe_from_its_settings(kind) -> None:
    recipe = kind(little_data(), epochs=3, checkpoints=1)
    options = json.loads(json.dumps(recipe.options()))
    again = kind.from_options(options)
    assert again.options() == options
    for config in drawn(recipe, 3):
        assert again.config(asdict(config)) == config
        assert again.build(config).state_dict().keys() == recipe.build(config).state_dict().keys()
    with pytest.raises(ValueError, match="was loaded without its images"):
        again.train([config], [0], lambda share: None)


@pytest.mark.parametrize(
    ("suited", "augment", "flips", "expected"),
    [
        *((suited, True, None, suited) for suited in (False, True)),
        *((suited, False, None, False) for suited in (False, True)),
        *((not flips, augment, flips, flips) for flips in (False, True) for augment in (False, True)),
    ],
)
def test_flips(suited: bool, augment: bool, flips: bool | None, expected: bool) -> None:
    recipe = SmallCnns(replace(little_data(), flips=suited), augment=augment, flips=flips)
    found = recipe.batches(drawn(recipe, 1)[0]).augmentation
    assert found.flips == expected and (found.shift > 0) == augment
    assert recipe.options()["flips"] == flips


def test_settings_from_before_there_were_flips() -> None:
    recipe = VaryingCnns(little_data())
    options = {name: value for name, value in recipe.options().items() if name != "flips"}
    assert VaryingCnns.from_options(options).options() == options
    old = Description(recipe="varying-cnns", options=options, seed=0, ranges=())
    assert not old.differences(replace(old, options=recipe.options()))  # so the build can be resumed


def test_settings_change_with_the_data() -> None:
    data = little_data()
    other = replace(data, train_images=255 - data.train_images)
    assert VaryingCnns(data).options()["data"] != VaryingCnns(other).options()["data"]


def test_a_sample_of_the_images() -> None:
    data = little_data()
    recipe = VaryingCnns(data, images=5)
    assert len(recipe.data.train_images) == 5 and recipe.options()["images"] == 5
    assert torch.equal(recipe.data.test_images, data.test_images)
    assert all(
        any(torch.equal(image, other) for other in data.train_images) for image in recipe.data.train_images
    )
    for count in (0, len(data.train_images) + 1):
        with pytest.raises(ValueError, match="training images: choose 1 to all of them, not"):
            VaryingCnns(data, images=count)


def test_widths() -> None:
    recipe = CnnWidths(little_data())
    assert {config.hidden for config in drawn(recipe, 60)} == {16, 32, 64, 128}


@pytest.mark.parametrize("options", [{"epochs": 0}, {"batch_size": 0}, {"checkpoints": -1}])
def test_bad_options(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        VaryingCnns(little_data(), **options)


def test_networks_of_one_shape_have_one_architecture() -> None:
    recipe = Diverse(little_data())
    shapes: dict = {}
    for config in drawn(recipe, 300):
        state = {name: value.shape for name, value in recipe.build(config).state_dict().items()}
        assert shapes.setdefault(recipe.shape(config), state) == state


def test_training_reports_metrics_and_checkpoints() -> None:
    recipe = VaryingCnns(little_data(), epochs=2, batch_size=16, checkpoints=1)
    config = drawn(recipe, 1)[0]
    (result,) = recipe.train([config], [5], lambda share: None)
    expected = {"train_accuracy", "train_loss", "test_accuracy", "test_loss"}
    at_half = {f"{name}_at_1_of_2" for name in (*expected, "step")}
    assert set(result.metrics) == expected | at_half | {"diverged"}
    assert result.metrics["step_at_1_of_2"] == 3
    network = recipe.build(config)
    network.load_state_dict(result.state_dict)
    assert list(result.checkpoints) == [3]


def test_small_cnns_see_grey_images_and_a_share_of_them() -> None:
    data = little_data()
    coloured = replace(
        data,
        train_images=data.train_images.repeat(1, 3, 1, 1),
        test_images=data.test_images.repeat(1, 3, 1, 1),
    )
    assert torch.equal(grey(coloured).train_images, data.train_images)
    recipe = SmallCnns(coloured, batch_size=4)
    assert recipe.spec.channels == 1
    some = next(config for config in drawn(recipe, 50) if config.train_fraction == 0.25)
    assert len(recipe.batches(some).data.train_images) == 12


def test_checkpoints_of_networks_that_train_for_longer_can_be_compared() -> None:
    """Small CNNs see a fraction of the images, so they take from one to six steps here."""
    recipe = SmallCnns(little_data(), epochs=2, batch_size=16, checkpoints=2)
    config = drawn(recipe, 1)[0]
    results = [
        recipe.train([replace(config, train_fraction=share)], [0], lambda share: None)[0]
        for share in (0.1, 0.5, 1.0)
    ]
    assert len({tuple(result.metrics) for result in results}) == 1
    steps = [[result.metrics[f"step_at_{k}_of_3"] for k in (1, 2)] for result in results]
    assert steps == [[1, 1], [1, 1], [2, 4]]
    for result, moments in zip(results, steps, strict=True):
        assert list(result.checkpoints) == sorted(set(moments))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [VaryingCnns, Diverse])
def test_accuracies_spread_from_chance_to_good(kind) -> None:
    recipe = kind(load("digits"))
    groups: dict = {}
    for k, config in enumerate(drawn(recipe, 60)):
        groups.setdefault(recipe.shape(config), []).append((config, network_seed(0, k)))
    accuracies = torch.tensor(
        [
            result.metrics["test_accuracy"]
            for group in groups.values()
            for result in recipe.train(*zip(*group, strict=True), lambda share: None)
        ]
    )
    assert float(accuracies.min()) < 0.2 and float(accuracies.max()) > 0.9
    assert float(accuracies.std()) > 0.2
