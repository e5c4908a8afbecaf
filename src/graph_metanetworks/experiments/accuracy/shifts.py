"""Distribution shifts: what a predictor says of untrained networks and of ones trained on other data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graph_metanetworks.graph.batch import collate
from graph_metanetworks.tasks.accuracy import LabelledZoo, Prediction, Predictor
from graph_metanetworks.tasks.traced_zoo import is_finite
from graph_metanetworks.zoo.data import DataError, ImageData
from graph_metanetworks.zoo.data.images import sampled
from graph_metanetworks.zoo.population.metrics import measure
from graph_metanetworks.zoo.recipes.classifier_recipe import ClassifierRecipe

EXAMINED = 40  # networks of each kind that must be trained
UNTRAINED = 100
TESTED = 400  # test networks, of which few may be flagged
IMAGES = 1200  # of the other data
LEARNED = 2.0  # times the accuracy of chance, from which on a network has learned something
Weights = Mapping[str, Tensor]


@dataclass(frozen=True)
class Shift:
    """Networks of one kind that are not from the zoo, and what is predicted for them."""

    name: str
    about: str
    networks: int
    predicted: float  # mean
    true: float | None  # mean accuracy on the data of the zoo, where it is known
    error: float | None  # mean size of the error, likewise
    warned: float  # share that is called out of distribution
    learned: tuple[int, float] | None = None  # how many learned from other data, and how many are called so


@dataclass(frozen=True)
class Stranger:
    """A network that is not from the zoo."""

    weights: Weights
    learned: bool | None = None  # whether it learned anything from other data; None if there is none


def examine_shifts(
    predictors: Mapping[str, Predictor], data: LabelledZoo, test: np.ndarray
) -> dict[str, list[Shift]]:
    """Examine test networks, untrained ones, and ones trained on other images or with other labels."""
    chosen, usual = _spread(test, EXAMINED), _spread(test, TESTED)
    recipe = data.networks.zoo.recipe
    own = with_images(recipe) if isinstance(recipe, ClassifierRecipe) else None
    fresh = _untrained(data, _spread(test, UNTRAINED))
    kinds = [("untrained networks", "the same architectures, freshly initialised", fresh)]
    if isinstance(recipe, ClassifierRecipe):
        others = _trained_elsewhere(data, recipe, stripes(recipe), chosen)
        kinds.append(("trained on stripes", "the same recipe on images of stripes", others))
    if own is not None:
        others = _trained_elsewhere(data, own, relabelled(own.data), chosen)
        kinds.append(("trained with other labels", "the same images, each class called another", others))
    found = {}
    for title, predictor in predictors.items():
        known = [p for part in np.array_split(usual, -(-len(usual) // 16)) for p in predictor(data[part][0])]
        found[title] = [
            _shift("test networks", "of the zoo, not trained on", known, data.labels[usual].tolist()),
            *(
                _shift_of_weights(name, about, predictor, data, strangers, own)
                for name, about, strangers in kinds
            ),
        ]
    return found


def with_images(recipe: ClassifierRecipe) -> ClassifierRecipe | None:
    """Return the recipe of a zoo with its images, if they are on this machine and unchanged."""
    try:
        found = type(recipe)(recipe.images.name, **_options(recipe))
    except DataError:
        return None
    return found if found.images == recipe.images else None


@torch.no_grad()
def true_accuracy(recipe: ClassifierRecipe, config: Any, weights: Weights, label: str) -> float | None:
    """Measure what a zoo's label would be for these weights; None if it is no accuracy."""
    network = recipe.build(config).eval()
    network.load_state_dict(weights)
    (found,) = measure(lambda images: network(images)[None], recipe.batches(config))
    return found.get(label)


@torch.no_grad()
def permutation_gap(predictor: Predictor, data: LabelledZoo, test: np.ndarray) -> float:
    """Return the largest change of a prediction when neurons are permuted."""
    gaps = []
    for position in _spread(test, EXAMINED):
        graph, weights = data.networks.graph(position), data.networks.zoo[int(position)].state_dict
        shuffled = graph.symmetry.sample(torch.Generator().manual_seed(int(position))).apply(weights)
        before, after = predictor.accuracies(collate([(graph, weights), (graph, shuffled)])).tolist()
        gaps.append(abs(before - after))
    return max(gaps)


def stripes(like: ClassifierRecipe, *, seed: int = 0) -> ImageData:
    """Make images of stripes, one direction per class, of the shape that a recipe's networks take."""
    generator = torch.Generator().manual_seed(seed)
    spec = like.spec
    labels = torch.randint(spec.classes, (IMAGES,), generator=generator)
    angle = torch.pi * labels / spec.classes
    rows, columns = torch.meshgrid(torch.arange(spec.height), torch.arange(spec.width), indexing="ij")
    along = angle.cos()[:, None, None] * rows + angle.sin()[:, None, None] * columns
    phase = 2 * torch.pi * torch.rand(IMAGES, 1, 1, generator=generator)
    waves = 0.5 + 0.5 * (2 * torch.pi * along / 4 + phase).sin()
    noise = 0.3 * torch.randn(waves.shape, generator=generator)
    images = (255 * (waves + noise).clamp(0, 1)).to(torch.uint8)[:, None].repeat(1, spec.channels, 1, 1)
    part = IMAGES * 3 // 4
    names = tuple(f"direction {number}" for number in range(spec.classes))
    return ImageData(
        "stripes", images[:part], labels[:part], images[part:], labels[part:], names, flips=False
    )


def relabelled(data: ImageData, *, seed: int = 0) -> ImageData:
    """Return the same images, or some of them, with a permutation of the classes that keeps none."""
    data = sampled(data, min(IMAGES, len(data.train_images)))
    order = torch.randperm(data.num_classes, generator=torch.Generator().manual_seed(seed))
    other = torch.empty_like(order)
    other[order] = order.roll(1)
    return replace(data, train_labels=other[data.train_labels], test_labels=other[data.test_labels])


def _untrained(data: LabelledZoo, positions: np.ndarray) -> dict[int, Stranger]:
    recipe, found = data.networks.zoo.recipe, {}
    with torch.random.fork_rng(devices=[]):
        for position in positions.tolist():
            torch.manual_seed(position)
            found[position] = Stranger(recipe.build(data.networks.zoo[position].config).state_dict())
    return found


def _trained_elsewhere(
    data: LabelledZoo, recipe: ClassifierRecipe, images: ImageData, positions: np.ndarray
) -> dict[int, Stranger]:
    """Train the same configurations on other images; leave out those that diverge."""
    options: dict[str, Any] = _options(recipe) | {"images": None}  # they are few
    if images.name != recipe.images.name:
        options["flips"] = False  # a mirrored stripe belongs to another class
    other = type(recipe)(images, **options)
    least, zoo = LEARNED / images.num_classes, data.networks.zoo
    found = {}
    for architecture in np.unique(data.networks.architectures[positions]):
        alike = positions[data.networks.architectures[positions] == architecture].tolist()
        trained = other.train([zoo[position].config for position in alike], alike, lambda share: None)
        for position, own in zip(alike, trained, strict=True):
            if is_finite(own.state_dict):
                accuracy = own.metrics.get("test_accuracy")
                learned = None if accuracy is None else float(accuracy) >= least
                found[position] = Stranger(own.state_dict, learned)
    return found


def _options(recipe: ClassifierRecipe) -> dict[str, Any]:
    return {name: value for name, value in recipe.options().items() if name != "data"}


def _shift_of_weights(
    name: str,
    about: str,
    predictor: Predictor,
    data: LabelledZoo,
    strangers: dict[int, Stranger],
    recipe: ClassifierRecipe | None,
) -> Shift:
    """Examine other weights for the architectures at these positions of the zoo."""
    found, true = [], []
    for position, own in strangers.items():
        found += predictor(collate([(data.networks.graph(position), own.weights)]))
        if recipe is not None:
            config = data.networks.zoo[position].config
            true.append(true_accuracy(recipe, config, own.weights, data.label))
    shift = _shift(name, about, found, true)
    pairs = zip(strangers.values(), found, strict=True)
    learned = [bool(prediction.warning) for own, prediction in pairs if own.learned]
    return replace(shift, learned=(len(learned), float(np.mean(learned)))) if learned else shift


def _shift(name: str, about: str, found: list[Prediction], true: Sequence[float | None]) -> Shift:
    predicted = np.array([prediction.accuracy for prediction in found])
    warned = float(np.mean([bool(prediction.warning) for prediction in found]))
    mean, error = None, None
    known = np.array([value for value in true if value is not None])
    if len(known) and len(known) == len(true):
        mean, error = float(known.mean()), float(np.abs(predicted - known).mean())
    return Shift(name, about, len(found), float(predicted.mean()), mean, error, warned)


def _spread(positions: np.ndarray, count: int) -> np.ndarray:
    """Choose positions evenly spread over all."""
    return positions[np.unique(np.linspace(0, len(positions) - 1, min(count, len(positions))).astype(int))]
