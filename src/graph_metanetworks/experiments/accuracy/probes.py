"""What a predictor says of networks that are not from the zoo: untrained, permuted, trained on other data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from graph_metanetworks.batch import collate
from graph_metanetworks.tasks.accuracy import LabelledZoo, Prediction, Predictor
from graph_metanetworks.zoo.data import ImageData
from graph_metanetworks.zoo.recipes.classifier_recipe import ClassifierRecipe

PROBED = 24  # networks of each kind
IMAGES = 1200  # of the other data


@dataclass(frozen=True)
class Probe:
    """Predictions for networks of one kind."""

    name: str
    about: str
    networks: int
    predicted: float  # mean
    true: float | None  # mean accuracy on the data of the zoo, where it is known
    warned: float  # share that is called out of distribution


def probe_all(predictor: Predictor, data: LabelledZoo, test: np.ndarray) -> list[Probe]:
    """Test networks, untrained ones, and ones trained on stripes instead of the zoo's images."""
    chosen = _spread(test, PROBED)
    usual = predictor(data.networks.batch(chosen))
    found = [
        _probe("test networks", "of the zoo, not trained on", usual, float(data.labels[chosen].mean())),
        _probe(
            "untrained networks",
            "the same architectures as they are initialised",
            _untrained(predictor, data, chosen),
        ),
    ]
    recipe = data.networks.zoo.recipe
    if isinstance(recipe, ClassifierRecipe):
        others = _trained_elsewhere(predictor, data, recipe, chosen)
        found.append(_probe("trained on stripes", "the same recipe on images of stripes", others))
    return found


@torch.no_grad()
def permutation_gap(predictor: Predictor, data: LabelledZoo, test: np.ndarray) -> float:
    """The largest change of a prediction when neurons of a network are permuted."""
    gaps = []
    for position in _spread(test, PROBED):
        graph, weights = data.networks.graph(position), data.networks.zoo[int(position)].state_dict
        shuffled = graph.symmetry.sample(torch.Generator().manual_seed(int(position))).apply(weights)
        before, after = predictor.accuracies(collate([(graph, weights), (graph, shuffled)])).tolist()
        gaps.append(abs(before - after))
    return max(gaps)


def stripes(like: ClassifierRecipe, *, seed: int = 0) -> ImageData:
    """Images of stripes, a direction for each class, of the shape that a recipe's networks take."""
    generator = torch.Generator().manual_seed(seed)
    task = like.task
    labels = torch.randint(task.classes, (IMAGES,), generator=generator)
    angle = torch.pi * labels / task.classes
    rows, columns = torch.meshgrid(torch.arange(task.height), torch.arange(task.width), indexing="ij")
    along = angle.cos()[:, None, None] * rows + angle.sin()[:, None, None] * columns
    phase = 2 * torch.pi * torch.rand(IMAGES, 1, 1, generator=generator)
    waves = 0.5 + 0.5 * (2 * torch.pi * along / 4 + phase).sin()
    noise = 0.3 * torch.randn(waves.shape, generator=generator)
    images = (255 * (waves + noise).clamp(0, 1)).to(torch.uint8)[:, None].repeat(1, task.channels, 1, 1)
    part = IMAGES * 3 // 4
    names = tuple(f"direction {number}" for number in range(task.classes))
    return ImageData(
        "stripes", images[:part], labels[:part], images[part:], labels[part:], names, flips=False
    )


def _untrained(predictor: Predictor, data: LabelledZoo, positions: np.ndarray) -> list[Prediction]:
    recipe, found = data.networks.zoo.recipe, []
    with torch.random.fork_rng(devices=[]):
        for position in positions:
            torch.manual_seed(int(position))
            network = recipe.build(data.networks.zoo[int(position)].config)
            found += predictor(collate([(data.networks.graph(position), network.state_dict())]))
    return found


def _trained_elsewhere(
    predictor: Predictor, data: LabelledZoo, recipe: ClassifierRecipe, positions: np.ndarray
) -> list[Prediction]:
    zoo = data.networks.zoo
    options = {name: value for name, value in recipe.settings().items() if name != "data"}
    other = type(recipe)(stripes(recipe), **options)
    found = []
    for position in positions:
        config = zoo[int(position)].config
        (trained,) = other.train([config], [int(position)], lambda share: None)
        if all(bool(x.isfinite().all()) for x in trained.state_dict.values()):
            found += predictor(collate([(data.networks.graph(position), trained.state_dict)]))
    return found


def _probe(name: str, about: str, found: list[Prediction], true: float | None = None) -> Probe:
    predicted = float(np.mean([prediction.accuracy for prediction in found]))
    warned = float(np.mean([bool(prediction.warning) for prediction in found]))
    return Probe(name, about, len(found), predicted, true, warned)


def _spread(positions: np.ndarray, count: int) -> np.ndarray:
    """Some positions, evenly spread over all."""
    return positions[np.unique(np.linspace(0, len(positions) - 1, min(count, len(positions))).astype(int))]
