"""The digits of scikit-learn: 1,797 images of 8 x 8, which come with the package."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits

from graph_metanetworks.zoo.data.images import ImageData, shuffled

TEST = 500
BRIGHTEST = 16


def digits() -> ImageData:
    """The same split every time. It is shuffled, because writers are in order in the file."""
    rows, targets = load_digits(return_X_y=True)
    images = torch.as_tensor(rows).mul(255 / BRIGHTEST).round().to(torch.uint8).view(-1, 1, 8, 8)
    labels = torch.as_tensor(targets).long()
    order = shuffled(len(images))
    test, train = order[:TEST], order[TEST:]
    return ImageData(
        name="digits",
        train_images=images[train],
        train_labels=labels[train],
        test_images=images[test],
        test_labels=labels[test],
        classes=tuple("0123456789"),
        flips=False,
    )
