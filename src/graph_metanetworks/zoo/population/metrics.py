"""Accuracy and loss of networks on training and test images, without augmentation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from graph_metanetworks.zoo.data.images import shuffled
from graph_metanetworks.zoo.population.batches import Batches

TRAIN_IMAGES = 10_000  # maximum number to evaluate on, enough for an error of half a percent


def measure(logits: Callable[[Tensor], Tensor], batches: Batches) -> list[dict[str, float]]:
    """Evaluate each network. `logits` maps images to `[G, batch, classes]`."""
    data = batches.data
    parts = {
        "train": _sample(data.train_images, data.train_labels),
        "test": (data.test_images, data.test_labels),
    }
    columns: dict[str, list[float]] = {}
    for part, (images, labels) in parts.items():
        accuracy, loss = _means(logits, batches, images, labels)
        columns[f"{part}_accuracy"], columns[f"{part}_loss"] = accuracy.tolist(), loss.tolist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _sample(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the images to evaluate on, the same random sample for all networks."""
    if len(images) <= TRAIN_IMAGES:
        return images, labels
    chosen = shuffled(len(images))[:TRAIN_IMAGES]
    return images[chosen], labels[chosen]


def _means(
    logits: Callable[[Tensor], Tensor], batches: Batches, images: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:  # [G] each
    """Return the accuracy and the mean loss of each network."""
    correct, losses = [], []
    for some, their_labels in batches.evaluation(images, labels):
        found = logits(some).double()
        expected = their_labels.expand(len(found), -1)
        correct.append(found.argmax(-1) == expected)
        losses.append(functional.cross_entropy(found.mT, expected, reduction="none"))
    return torch.cat(correct, 1).double().mean(1), torch.cat(losses, 1).mean(1)


def has_diverged(state_dict: Mapping[str, Tensor], metrics: Mapping[str, float]) -> bool:
    finite = all(bool(torch.isfinite(value).all()) for value in state_dict.values())
    return not finite or not all(math.isfinite(value) for value in metrics.values())


def at_chance(metrics: Mapping[str, float], classes: int) -> dict[str, float]:
    """Return the metrics of uniform guessing, which label networks that diverged."""
    return {name: 1 / classes if name.endswith("accuracy") else math.log(classes) for name in metrics}
