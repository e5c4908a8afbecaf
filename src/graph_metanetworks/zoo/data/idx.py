"""MNIST and Fashion-MNIST, from idx files, compressed or not."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import torch
from torch import Tensor

from graph_metanetworks.zoo.data.images import DataError, ImageData
from graph_metanetworks.zoo.data.source import Source

FILES = tuple(f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1"))
UNSIGNED_BYTES = 8  # type code in the header of an idx file

MNIST = Source(
    "mnist",
    files=FILES,
    folders=("mnist", "MNIST/raw"),
    instructions=(
        "put the four idx files (train-images-idx3-ubyte.gz, ...; yann.lecun.com/exdb/mnist) into data/mnist",
        'or use huggingface:ylecun/mnist (pip install "graph_metanetworks[datasets]")',
    ),
)
FASHION_MNIST = Source(
    "fashion-mnist",
    files=FILES,
    folders=("fashion-mnist", "FashionMNIST/raw"),
    system=(Path("/usr/share/datasets/fashion-mnist"),),
    instructions=(
        "install Debian's package: apt install dataset-fashion-mnist",
        "or put the four idx files (github.com/zalandoresearch/fashion-mnist) into data/fashion-mnist",
    ),
)
GARMENTS = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)


def mnist(data_dir: Path | None) -> ImageData:
    return _load(MNIST, data_dir, tuple("0123456789"), flips=False)


def fashion_mnist(data_dir: Path | None) -> ImageData:
    return _load(FASHION_MNIST, data_dir, GARMENTS, flips=True)


def _load(source: Source, data_dir: Path | None, classes: tuple[str, ...], flips: bool) -> ImageData:
    paths = source.find(data_dir)
    train_images, train_labels, test_images, test_labels = (read_idx(paths[name]) for name in source.files)
    return ImageData(
        name=source.name,
        train_images=train_images.unsqueeze(1),
        train_labels=train_labels.long(),
        test_images=test_images.unsqueeze(1),
        test_labels=test_labels.long(),
        classes=classes,
        flips=flips,
    )


def read_idx(path: Path) -> Tensor:
    """Read an idx file of bytes: two zeros, type code, number of axes, their lengths, then the values."""
    content = _content(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != UNSIGNED_BYTES:
        raise DataError(f"{path} is not an idx file of bytes; download it again")
    start = 4 + 4 * content[3]
    shape = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    if len(content) - start != math.prod(shape):
        raise DataError(
            f"{path} should have {math.prod(shape)} values, not {len(content) - start}; download it again"
        )
    return torch.frombuffer(bytearray(content[start:]), dtype=torch.uint8).view(shape)


def _content(path: Path) -> bytes:
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        return gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a valid gzip file ({error}); download it again") from error
