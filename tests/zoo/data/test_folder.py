"""Image folders, read directly and through the package `datasets`."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor

from graph_metanetworks.zoo.data import DataError, load
from graph_metanetworks.zoo.recipes.inrs import ImageInrs


def write(path: Path, pixels: Tensor) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.numpy()).save(path)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    root = tmp_path / "pictures"
    for part, number in (("train", 3), ("test", 2)):
        for label, name in enumerate(("cat", "dog")):
            for index in range(number):
                write(root / part / name / f"{index}.png", torch.full((5, 4), 100 * label + index).byte())
    return root


def test_grey_images(pictures: Path) -> None:
    data = load(f"folder:{pictures}")
    assert data.image_shape == (1, 5, 4) and data.classes == ("cat", "dog") and not data.flips
    assert sorted(data.train_images[:, 0, 0, 0].tolist()) == [0, 1, 2, 100, 101, 102]
    assert data.train_labels.tolist() == [value // 100 for value in data.train_images[:, 0, 0, 0].tolist()]
    assert sorted(data.test_labels.tolist()) == [0, 0, 1, 1]


def test_the_first_images_are_of_all_classes_and_always_the_same(tmp_path: Path) -> None:
    for part, number in (("train", 30), ("test", 1)):
        for label, name in enumerate(("ant", "bee", "cat")):
            for index in range(number):
                write(
                    tmp_path / part / name / f"{index:02}.png", torch.full((2, 2), label * 30 + index).byte()
                )
    recipe = ImageInrs(data=f"folder:{tmp_path}")
    choices = [recipe.draw_at(k, torch.Generator()) for k in range(12)]
    assert {choice.label for choice in choices} == {0, 1, 2}
    assert load(f"folder:{tmp_path}").train_images[:4, 0, 0, 0].tolist() == [44, 70, 47, 57]


def test_one_coloured_image_makes_all_coloured(pictures: Path) -> None:
    coloured = torch.randint(256, (5, 4, 3), dtype=torch.uint8)
    write(pictures / "train" / "cat" / "0.png", coloured)
    data = load(f"folder:{pictures}")
    assert data.image_shape == (3, 5, 4)
    assert any(torch.equal(image, coloured.permute(2, 0, 1)) for image in data.train_images)


def test_bad_folders(pictures: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no folder .*train"):
        load(f"folder:{tmp_path / 'none'}")
    write(pictures / "train" / "cat" / "9.png", torch.zeros(6, 4, dtype=torch.uint8))
    with pytest.raises(DataError, match=r"to one size, or use huggingface:.*pictures,size=32"):
        load(f"folder:{pictures}")
    (pictures / "train" / "cat" / "9.png").write_bytes(b"not a picture")
    with pytest.raises(DataError, match=r"9\.png is not a readable image"):
        load(f"folder:{pictures}")
    (pictures / "train" / "cow").mkdir()
    with pytest.raises(DataError, match="the classes in train/ are"):
        load(f"folder:{pictures}")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_same_through_hugging_face(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    found, expected = load(f"huggingface:{pictures}"), load(f"folder:{pictures}")
    assert torch.equal(found.train_images, expected.train_images)
    assert torch.equal(found.test_labels, expected.test_labels)
    assert found.classes == expected.classes
