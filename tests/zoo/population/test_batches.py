"""Batches are the same for all networks, cover an epoch once, and are augmented as the data allow."""

from dataclasses import replace

import pytest
import torch

from graph_metanetworks.zoo.population.batches import (
    Augmentation,
    Batches,
    channel_statistics,
    usual_augmentation,
)
from support.classifiers import little_batches, little_data


def test_a_step_gives_the_same_batch_whatever_came_before() -> None:
    first, second = little_batches(), little_batches()
    expected = [first.training(step) for step in range(5)]
    for step in (4, 0, 3):
        for a, b in zip(second.training(step), expected[step], strict=True):
            assert torch.equal(a, b)
    assert not torch.equal(expected[0][0], expected[3][0])


def test_an_epoch_shows_every_image_once() -> None:
    batches = replace(little_batches(), augmentation=Augmentation(False, 0, 0))
    seen = torch.cat([batches.training(step)[0] for step in range(batches.per_epoch)])
    ((everything, _),) = batches.evaluation(batches.data.train_images, batches.data.train_labels)
    assert sorted(seen.flatten(1).tolist()) == sorted(everything.flatten(1).tolist())


def test_images_are_normalised() -> None:
    data = little_data()
    found = channel_statistics(data.train_images)
    images = data.train_images.double()
    assert found.mean == pytest.approx([float(images.mean())])
    assert found.deviation == pytest.approx([float(images.std(correction=0))])
    normal = found.normalized(data.train_images, torch.float64)
    assert float(normal.mean()) == pytest.approx(0, abs=1e-12) and float(normal.std()) == pytest.approx(
        1, 1e-3
    )


def test_flips_mirror_and_only_where_they_make_sense() -> None:
    batches = replace(little_batches(), augmentation=Augmentation(flips=True, shift=0, cutout=0))
    plain = replace(batches, augmentation=Augmentation(False, 0, 0))
    (images, _), (originals, _) = batches.training(0), plain.training(0)
    mirrored = [torch.equal(a, b.flip(-1)) for a, b in zip(images, originals, strict=True)]
    kept = [torch.equal(a, b) for a, b in zip(images, originals, strict=True)]
    assert all(a or b for a, b in zip(mirrored, kept, strict=True)) and any(mirrored) and any(kept)
    assert not usual_augmentation(little_data()).flips
    assert usual_augmentation(replace(little_data(), flips=True)).flips


def test_shifts_move_images_and_fill_with_the_mean() -> None:
    batches = replace(little_batches(), augmentation=Augmentation(False, shift=1, cutout=0))
    plain = replace(batches, augmentation=Augmentation(False, 0, 0))
    (images, _), (originals, _) = batches.training(0), plain.training(0)
    padded = torch.nn.functional.pad(originals, (1, 1, 1, 1))
    moves = [(y, x) for y in range(3) for x in range(3)]
    found = {
        move
        for image, whole in zip(images, padded, strict=True)
        for move in moves
        if torch.equal(image, whole[:, move[0] : move[0] + 8, move[1] : move[1] + 8])
    }
    assert len(found) > 4


def test_cutout_covers_one_square() -> None:
    batches = replace(little_batches(), augmentation=Augmentation(False, shift=0, cutout=3))
    plain = replace(batches, augmentation=Augmentation(False, 0, 0))
    (images, _), (originals, _) = batches.training(0), plain.training(0)
    for covered in images != originals:
        assert int(covered.sum()) <= 9
        rows, columns = covered[0].any(1).nonzero(), covered[0].any(0).nonzero()
        assert int(rows.max() - rows.min()) < 3 and int(columns.max() - columns.min()) < 3
    assert all(bool((image == 0).any()) for image in images)


def test_too_large_batches_are_refused() -> None:
    data = little_data()
    with pytest.raises(ValueError, match="larger than digits, which has 48 training images"):
        Batches(data, 64, usual_augmentation(data), channel_statistics(data.train_images))
