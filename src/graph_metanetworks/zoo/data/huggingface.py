"""Image data sets of the Hugging Face hub, by name."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graph_metanetworks.zoo.data.folder import GREY, pixels
from graph_metanetworks.zoo.data.images import DataError, ImageData, shuffled

FLIPPED = {
    "cifar10",
    "cifar100",
    "fashion_mnist",
    "imagenet-1k",
    "stl10",
    "tiny-imagenet",
}  # last part of names
TEST_SPLITS = ("test", "validation", "valid")


def huggingface(name: str) -> ImageData:
    """A data set with a column of images and a column of class labels, split into train and test."""
    try:
        import datasets
    except ImportError:
        raise DataError(
            f"huggingface:{name} needs the package datasets: pip install 'graph_metanetworks[datasets]'"
        ) from None
    parts = datasets.load_dataset(name)
    test = next((split for split in TEST_SPLITS if split in parts), None)
    if "train" not in parts or test is None:
        raise DataError(f"huggingface:{name} has the splits {sorted(parts)}; train and test are needed")
    image, label = _columns(name, parts["train"].features)
    mode = "L" if parts["train"][0][image].mode in GREY else "RGB"
    train_images, train_labels = _read(parts["train"], image, label, mode)
    test_images, test_labels = _read(parts[test], image, label, mode)
    return ImageData(
        name=f"huggingface:{name}",
        train_images=train_images,
        train_labels=train_labels,
        test_images=test_images,
        test_labels=test_labels,
        classes=tuple(parts["train"].features[label].names),
        flips=name.rpartition("/")[2].lower() in FLIPPED,
    )


def _columns(name: str, features: dict[str, Any]) -> tuple[str, str]:
    """The names of the only column of images and the only one of labels."""
    kinds = {column: type(feature).__name__ for column, feature in features.items()}
    images = [column for column, kind in kinds.items() if kind == "Image"]
    labels = [column for column, kind in kinds.items() if kind == "ClassLabel"]
    if len(images) != 1 or len(labels) != 1:
        raise DataError(
            f"huggingface:{name} has the columns {kinds}; one Image and one ClassLabel are needed. Save "
            "it as an image folder and use folder:PATH"
        )
    return images[0], labels[0]


def _read(part: Any, image: str, label: str, mode: str) -> tuple[Tensor, Tensor]:
    part = part.select(shuffled(len(part)).tolist())  # many are sorted by class
    found = [pixels(row[image], mode) for row in part]
    sizes = {tuple(p.shape[1:]) for p in found}
    if len(sizes) > 1:
        raise DataError(f"images have {len(sizes)} sizes, such as {sorted(sizes)[:2]}; one size is needed")
    return torch.stack(found), torch.tensor(part[label], dtype=torch.int64)
