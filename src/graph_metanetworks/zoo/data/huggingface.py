"""Image data sets from the Hugging Face hub, or from local files that the package `datasets` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageOps
from torch import Tensor

from graph_metanetworks.extras import optional_imports
from graph_metanetworks.zoo.data.folder import GREY, pixels
from graph_metanetworks.zoo.data.images import DataError, ImageData, shuffled

# last parts of the names of data sets whose images may be mirrored
FLIPPED = {"cifar10", "cifar100", "fashion_mnist", "imagenet-1k", "stl10", "tiny-imagenet"}
TEST_SPLITS = ("test", "validation", "valid")
HELD_OUT = "fifth-of-train"  # the test split of data sets that have none
SAVED, SAVED_SPLIT = "dataset_dict.json", "state.json"  # written by save_to_disk for all splits, for one
INSTRUCTIONS = """To get it without access to the hub:
  1. load it where it can be reached, python -c 'import datasets; datasets.load_dataset("{name}")', and copy \
the cache (~/.cache/huggingface, or the folder that HF_HOME names)
  2. or copy its parquet or arrow files, or the output of save_to_disk, and use huggingface:FOLDER
  3. or save its images as train/CLASS/IMAGE.png and test/CLASS/IMAGE.png and use folder:FOLDER"""


@dataclass(frozen=True)
class Reference:
    """The text after `huggingface:`: a name or folder with options, as in `NAME,label=fine,size=32`.

    >>> Reference.parse("uoft-cs/cifar100,label=fine_label").label
    'fine_label'
    """

    text: str
    name: str
    config: str | None = None
    image: str | None = None  # the column of images
    label: str | None = None  # the column of classes
    train: str = "train"  # the split to train on
    test: str | None = None  # the split to test on, or HELD_OUT
    size: str | None = None  # images are cropped to squares and scaled to this side in pixels

    @classmethod
    def parse(cls, text: str) -> Reference:
        name, *options = text.split(",")
        known = [entry.name for entry in fields(cls) if entry.name not in ("text", "name")]
        pairs = [option.partition("=") for option in options]
        for option, (key, equals, value) in zip(options, pairs, strict=True):
            if key not in known or not equals or not value:
                raise DataError(
                    f"huggingface:{text}: '{option}' is not a valid option; write NAME,option=value with "
                    f"one of {', '.join(known)}"
                )
        found = cls(text, name, **{key: value for key, _, value in pairs})
        if found.size is not None and not (found.size.isdecimal() and int(found.size)):
            raise DataError(f"huggingface:{text}: size must be a number of pixels, not '{found.size}'")
        return found

    def error(self, message: str) -> DataError:
        return DataError(f"huggingface:{self.text}: {message}")


def huggingface(text: str) -> ImageData:
    """Load a data set with a column of images and a column of classes."""
    reference = Reference.parse(text)
    train, test, name = _splits(reference, _load(reference))
    image = _column(reference, train.features, "image", "Image")
    label = _column(reference, train.features, "label", "ClassLabel")
    pictures = _read(reference, [train.select_columns([image]), test.select_columns([image])], image)
    classes, labels = _labels(train.features[label], [*train[label], *test[label]])
    return ImageData(
        name=f"huggingface:{name}",
        train_images=pictures[: len(train)],
        train_labels=labels[: len(train)],
        test_images=pictures[len(train) :],
        test_labels=labels[len(train) :],
        classes=classes,
        flips=reference.name.rpartition("/")[2].lower() in FLIPPED,
    )


def _load(reference: Reference) -> Mapping[str, Any]:
    """Load the splits by name."""
    with optional_imports():
        import datasets
    folder = Path(reference.name)
    try:
        if (folder / SAVED).is_file():
            return datasets.load_from_disk(reference.name)  # pyright: ignore[reportReturnType]
        if (folder / SAVED_SPLIT).is_file():
            return {"train": datasets.load_from_disk(reference.name)}
        return datasets.load_dataset(reference.name, reference.config)  # pyright: ignore[reportReturnType]
    except OSError as error:  # such as no connection, or no such name
        raise reference.error(f"not found ({error}). {INSTRUCTIONS.format(name=reference.name)}") from error
    except ValueError as error:
        hint = "; choose one with ,config=NAME" if "config" in str(error).lower() else ""
        raise reference.error(f"{error}{hint}") from error


def _splits(reference: Reference, found: Mapping[str, Any]) -> tuple[Any, Any, str]:
    """Return the training rows, the test rows, and a name that says where the latter come from.

    They are shuffled in a fixed order, because many data sets are sorted by class.
    """
    usual = (split for split in TEST_SPLITS if split in found and split != reference.train)
    test = reference.test or next(usual, HELD_OUT)
    for key, split in (("train", reference.train), ("test", test)):
        if split not in found and (key, split) != ("test", HELD_OUT):
            choices = ", ".join(found)
            raise reference.error(f"there is no split '{split}'; choose one with ,{key}=SPLIT: {choices}")
    train = _shuffled(found[reference.train])
    if test != HELD_OUT:
        return train, _shuffled(found[test]), reference.text
    fifth = len(train) // 5
    name = reference.text if reference.test else f"{reference.text},test={HELD_OUT}"
    return train.select(range(fifth, len(train))), train.select(range(fifth)), name


def _shuffled(rows: Any) -> Any:
    return rows.select(shuffled(len(rows)).tolist())


def _column(reference: Reference, features: Mapping[str, Any], key: str, kind: str) -> str:
    """Return the requested column, or else the only one of its type."""
    kinds = {column: type(feature).__name__ for column, feature in features.items()}
    named = getattr(reference, key)
    fitting = [column for column in kinds if kinds[column] == kind]
    if named in kinds or (named is None and len(fitting) == 1):
        return named or fitting[0]
    what = f"{len(fitting)} columns of type {kind}" if named is None else f"no column '{named}'"
    choices = ", ".join(f"{column} ({kinds[column]})" for column in fitting or kinds)
    raise reference.error(f"there are {what}; choose one with ,{key}=COLUMN: {choices}")


def _read(reference: Reference, parts: Sequence[Any], column: str) -> Tensor:  # [n, channels, height, width]
    """Read the images of all parts, in grey if all of them are."""
    mode = "L" if all(row[column].mode in GREY for row in chain(*parts)) else "RGB"
    found = [pixels(_sized(row[column].convert(mode), reference.size), mode) for row in chain(*parts)]
    sizes = sorted({tuple(image.shape[1:]) for image in found})
    if len(sizes) > 1:
        raise reference.error(
            f"images have {len(sizes)} sizes, such as {sizes[0]} and {sizes[-1]}; resize them, for "
            "example to 32 x 32 with ,size=32"
        )
    return torch.stack(found)


def _sized(image: Image.Image, size: str | None) -> Image.Image:
    return image if size is None else ImageOps.fit(image, (int(size), int(size)))


def _labels(feature: Any, values: list[Any]) -> tuple[tuple[str, ...], Tensor]:  # [n]
    """Return the names of classes and the class of each row. Plain values are numbered in sorted order."""
    if hasattr(feature, "names"):
        return tuple(feature.names), torch.tensor(values)
    classes = sorted(set(values))
    numbers = {value: number for number, value in enumerate(classes)}
    return tuple(map(str, classes)), torch.tensor([numbers[value] for value in values])
