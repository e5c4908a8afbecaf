"""Image data sets of the Hugging Face hub, by name, or files that its package `datasets` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageOps
from torch import Tensor

from graph_metanetworks.zoo.data.folder import GREY, pixels
from graph_metanetworks.zoo.data.images import DataError, ImageData, shuffled

FLIPPED = {"cifar10", "cifar100", "fashion_mnist", "imagenet-1k", "stl10", "tiny-imagenet"}  # ends of names
TEST_SPLITS = ("test", "validation", "valid")
HELD_OUT = "fifth-of-train"  # the test split of data that have none
SAVED, SAVED_SPLIT = "dataset_dict.json", "state.json"  # what save_to_disk writes: splits, or one alone
WAYS = """To get it where the hub cannot be reached:
  1. load it once where it can, python -c 'import datasets; datasets.load_dataset("{name}")', and keep the \
cache (~/.cache/huggingface, or the folder that HF_HOME names)
  2. or copy its parquet or arrow files, or what save_to_disk wrote, and name their folder: huggingface:FOLDER
  3. or save its images as train/CLASS/IMAGE.png and test/CLASS/IMAGE.png and name folder:FOLDER"""


@dataclass(frozen=True)
class Reference:
    """What follows `huggingface:`, a name or folder and what it leaves open, as in `NAME,label=fine,size=32`.

    >>> Reference.parse("uoft-cs/cifar100,label=fine_label").label
    'fine_label'
    """

    text: str
    name: str
    config: str | None = None
    image: str | None = None  # the column of images
    label: str | None = None  # the column of classes
    train: str = "train"  # the split to train on
    test: str | None = None  # the split to test with, or HELD_OUT
    size: str | None = None  # images are cut to squares and scaled to so many pixels

    @classmethod
    def parse(cls, text: str) -> Reference:
        name, *options = text.split(",")
        known = [entry.name for entry in fields(cls) if entry.name not in ("text", "name")]
        pairs = [option.partition("=") for option in options]
        for option, (key, equals, value) in zip(options, pairs, strict=True):
            if key not in known or not equals or not value:
                raise DataError(
                    f"huggingface:{text}: '{option}' is not understood; write NAME,option=value with the "
                    f"options {', '.join(known)}"
                )
        found = cls(text, name, **{key: value for key, _, value in pairs})
        if found.size is not None and not (found.size.isdecimal() and int(found.size)):
            raise DataError(f"huggingface:{text}: size must be a number of pixels, not '{found.size}'")
        return found

    def error(self, what: str) -> DataError:
        return DataError(f"huggingface:{self.text}: {what}")


def huggingface(text: str) -> ImageData:
    """A data set with a column of images and a column of classes."""
    asked = Reference.parse(text)
    train, test, name = _splits(asked, _load(asked))
    image = _column(asked, train.features, "image", "Image")
    label = _column(asked, train.features, "label", "ClassLabel")
    pictures = _read(asked, [train.select_columns([image]), test.select_columns([image])], image)
    classes, labels = _labels(train.features[label], [*train[label], *test[label]])
    return ImageData(
        name=f"huggingface:{name}",
        train_images=pictures[: len(train)],
        train_labels=labels[: len(train)],
        test_images=pictures[len(train) :],
        test_labels=labels[len(train) :],
        classes=classes,
        flips=asked.name.rpartition("/")[2].lower() in FLIPPED,
    )


def _load(asked: Reference) -> Mapping[str, Any]:
    """The splits by name."""
    try:
        import datasets
    except ImportError:
        raise asked.error("needs the package datasets: pip install 'graph_metanetworks[datasets]'") from None
    folder = Path(asked.name)
    try:
        if (folder / SAVED).is_file():
            return datasets.load_from_disk(asked.name)  # pyright: ignore[reportReturnType]
        if (folder / SAVED_SPLIT).is_file():
            return {"train": datasets.load_from_disk(asked.name)}
        return datasets.load_dataset(asked.name, asked.config)  # pyright: ignore[reportReturnType]
    except OSError as error:  # among others that there is no connection, or no such name
        raise asked.error(f"not found ({error}). {WAYS.format(name=asked.name)}") from error
    except ValueError as error:
        hint = "; choose one with ,config=NAME" if "config" in str(error).lower() else ""
        raise asked.error(f"{error}{hint}") from error


def _splits(asked: Reference, found: Mapping[str, Any]) -> tuple[Any, Any, str]:
    """The rows to train on, those to test with, and a name that tells where these come from.

    They are shuffled, always alike: many data sets are sorted by class.
    """
    usual = (split for split in TEST_SPLITS if split in found and split != asked.train)
    test = asked.test or next(usual, HELD_OUT)
    for key, split in (("train", asked.train), ("test", test)):
        if split not in found and (key, split) != ("test", HELD_OUT):
            choices = ", ".join(found)
            raise asked.error(f"there is no split '{split}'; choose one with ,{key}=SPLIT: {choices}")
    train = _shuffled(found[asked.train])
    if test != HELD_OUT:
        return train, _shuffled(found[test]), asked.text
    fifth = len(train) // 5
    name = asked.text if asked.test else f"{asked.text},test={HELD_OUT}"
    return train.select(range(fifth, len(train))), train.select(range(fifth)), name


def _shuffled(rows: Any) -> Any:
    return rows.select(shuffled(len(rows)).tolist())


def _column(asked: Reference, features: Mapping[str, Any], key: str, kind: str) -> str:
    """The column that is named, or else the only one of its kind."""
    kinds = {column: type(feature).__name__ for column, feature in features.items()}
    named = getattr(asked, key)
    fitting = [column for column in kinds if kinds[column] == kind]
    if named in kinds or (named is None and len(fitting) == 1):
        return named or fitting[0]
    what = f"{len(fitting)} columns of type {kind}" if named is None else f"no column '{named}'"
    choices = ", ".join(f"{column} ({kinds[column]})" for column in fitting or kinds)
    raise asked.error(f"there are {what}; choose one with ,{key}=COLUMN: {choices}")


def _read(asked: Reference, parts: Sequence[Any], column: str) -> Tensor:  # [n, channels, height, width]
    """The images of all parts: grey if all of them are."""
    mode = "L" if all(row[column].mode in GREY for row in chain(*parts)) else "RGB"
    found = [pixels(_sized(row[column].convert(mode), asked.size), mode) for row in chain(*parts)]
    sizes = sorted({tuple(image.shape[1:]) for image in found})
    if len(sizes) > 1:
        raise asked.error(
            f"images have {len(sizes)} sizes, such as {sizes[0]} and {sizes[-1]}; bring them to one, such as "
            "32 x 32, with ,size=32"
        )
    return torch.stack(found)


def _sized(image: Image.Image, size: str | None) -> Image.Image:
    return image if size is None else ImageOps.fit(image, (int(size), int(size)))


def _labels(feature: Any, values: list[Any]) -> tuple[tuple[str, ...], Tensor]:  # [n]
    """Names of classes and the number of each label; a column of plain values is numbered in their order."""
    if hasattr(feature, "names"):
        return tuple(feature.names), torch.tensor(values)
    classes = sorted(set(values))
    numbers = {value: number for number, value in enumerate(classes)}
    return tuple(map(str, classes)), torch.tensor([numbers[value] for value in values])
