"""CIFAR-10, from the official binary version. The Python version consists of pickles, which are unsafe."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from graph_metanetworks.zoo.data.images import DataError, ImageData
from graph_metanetworks.zoo.data.source import Source

SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32  # the label, then the image
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = "test_batch.bin"

CIFAR10 = Source(
    "cifar10",
    files=(*TRAIN, TEST),
    folders=("cifar-10-batches-bin", "cifar10"),
    instructions=(
        "unpack cifar-10-binary.tar.gz (www.cs.toronto.edu/~kriz/cifar.html, the binary version) in data/",
        'or use huggingface:uoft-cs/cifar10 (pip install "graph_metanetworks[datasets]")',
    ),
)


def cifar10(data_dir: Path | None) -> ImageData:
    try:
        paths = CIFAR10.find(data_dir)
    except DataError as error:
        raise DataError(f"{error}{_about_pickles(data_dir)}") from None
    train = [read_records(paths[name]) for name in TRAIN]
    test_images, test_labels = read_records(paths[TEST])
    return ImageData(
        name=CIFAR10.name,
        train_images=torch.cat([images for images, _ in train]),
        train_labels=torch.cat([labels for _, labels in train]),
        test_images=test_images,
        test_labels=test_labels,
        classes=CLASSES,
        flips=True,
    )


def read_records(path: Path) -> tuple[Tensor, Tensor]:
    content = path.read_bytes()
    if not content or len(content) % RECORD:
        raise DataError(
            f"{path} has {len(content)} bytes, which is not a multiple of {RECORD}: it is damaged or not the "
            "binary version of CIFAR-10; unpack cifar-10-binary.tar.gz again"
        )
    records = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(-1, RECORD)
    return records[:, 1:].reshape(-1, *SHAPE), records[:, 0].long()


def _about_pickles(data_dir: Path | None) -> str:
    for folder in CIFAR10.search_folders(data_dir):
        for pickled in (folder / "data_batch_1", folder.parent / "cifar-10-batches-py" / "data_batch_1"):
            if pickled.is_file():
                return (
                    f"\n{pickled.parent} has the Python version. It consists of pickles, which can run "
                    "arbitrary code when opened, so it is not read: get the binary version."
                )
    return ""
