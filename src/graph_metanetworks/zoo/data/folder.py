"""Image folders: FOLDER/train/CLASS/*.png and FOLDER/test/CLASS/*.png."""

from __future__ import annotations

from pathlib import Path

import numpy
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from graph_metanetworks.zoo.data.images import DataError, ImageData, shuffled

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif"}
GREY = {"1", "L", "I;16"}


def folder(path: Path) -> ImageData:
    """Load a folder of images of equal size, with one channel if all are grey and three otherwise.

    They are shuffled in a fixed order, because files are sorted by class.
    """
    classes = _classes(path)
    files = {part: _files(path / part, classes) for part in ("train", "test")}
    mode = "L" if all(_is_grey(file) for part in files.values() for file, _ in part) else "RGB"
    train_images, train_labels = _read(files["train"], mode)
    test_images, test_labels = _read(files["test"], mode)
    return ImageData(
        name=f"folder:{path}",
        train_images=train_images,
        train_labels=train_labels,
        test_images=test_images,
        test_labels=test_labels,
        classes=classes,
        flips=False,
    )


def _classes(path: Path) -> tuple[str, ...]:
    for part in ("train", "test"):
        if not (path / part).is_dir():
            raise DataError(
                f"there is no folder {path / part}; an image folder has train/CLASS/IMAGE.png and "
                "test/CLASS/IMAGE.png"
            )
    classes, tested = (sorted(f.name for f in (path / p).iterdir() if f.is_dir()) for p in ("train", "test"))
    if not classes or classes != tested:
        raise DataError(f"{path}: the classes in train/ are {classes}, but those in test/ are {tested}")
    return tuple(classes)


def _files(path: Path, classes: tuple[str, ...]) -> list[tuple[Path, int]]:
    files = [
        (file, label)
        for label, name in enumerate(classes)
        for file in sorted((path / name).iterdir(), key=lambda file: file.name)  # equal on all systems
        if file.suffix.lower() in SUFFIXES
    ]
    return [files[k] for k in shuffled(len(files)).tolist()]


def _is_grey(file: Path) -> bool:
    with _opened(file) as image:
        return image.mode in GREY


def _opened(file: Path) -> Image.Image:
    try:
        return Image.open(file)
    except (UnidentifiedImageError, OSError) as error:
        raise DataError(f"{file} is not a readable image ({error}); remove or replace it") from error


def _read(files: list[tuple[Path, int]], mode: str) -> tuple[Tensor, Tensor]:
    images = [to_tensor(file, mode) for file, _ in files]
    for (file, _), image in zip(files, images, strict=True):
        if image.shape != images[0].shape:
            raise DataError(
                f"{file} has {list(image.shape[1:])} pixels, but {files[0][0]} has "
                f"{list(images[0].shape[1:])}; resize all images to one size, or use "
                f"huggingface:{file.parents[2]},size=32 to resize them"
            )
    stacked = torch.stack(images) if images else torch.empty(0, 1, 1, 1, dtype=torch.uint8)
    return stacked, torch.tensor([label for _, label in files], dtype=torch.int64)


def to_tensor(file: Path, mode: str) -> Tensor:  # [channels, height, width]
    with _opened(file) as image:
        return pixels(image, mode)


def pixels(image: Image.Image, mode: str) -> Tensor:  # [channels, height, width]
    values = torch.from_numpy(numpy.array(image.convert(mode)))
    return values.unsqueeze(0) if values.dim() == 2 else values.permute(2, 0, 1).contiguous()
