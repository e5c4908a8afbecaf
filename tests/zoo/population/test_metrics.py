"""The images that accuracy and loss are measured on."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from graph_metanetworks.zoo.population import metrics
from support.classifiers import little_batches


@pytest.mark.parametrize("most", [25, 48])
def test_training_images_are_a_fair_sample_of_sorted_ones(most: int, monkeypatch) -> None:
    """The sample of images is random: a network that always answers 0 has the accuracy of all images."""
    monkeypatch.setattr(metrics, "TRAIN_IMAGES", most)
    batches = little_batches()
    data = replace(batches.data, train_labels=torch.arange(48) // 24, test_labels=torch.zeros(20).long())
    batches = replace(batches, data=data)
    seen: list[int] = []

    def zero(images: Tensor) -> Tensor:  # [1, batch, classes]
        seen.append(len(images))
        return functional.one_hot(torch.zeros(1, len(images)).long(), 10).double()

    (found,) = metrics.measure(zero, batches)
    assert seen == [most, 20]
    assert found["train_accuracy"] == pytest.approx(0.5, abs=0.15)
    assert found["test_accuracy"] == 1
    assert metrics.measure(zero, batches) == [found]
