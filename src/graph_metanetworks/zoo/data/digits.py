"""The digits data set of scikit-learn: 1,797 images of 8 x 8 pixels that come with the package."""

from __future__ import annotations

import torch

from graph_metanetworks.extras import optional_imports
from graph_metanetworks.zoo.data.images import ImageData, shuffled

TEST = 500
BRIGHTEST = 16


def digits() -> ImageData:
    """Load the digits with a fixed split, which is shuffled because the file is sorted by writer."""
    with optional_imports():
        from sklearn.datasets import load_digits
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
