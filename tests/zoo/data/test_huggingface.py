"""Data sets read by the package `datasets`, from files that the tests write."""

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from graph_metanetworks.extras import MissingExtra
from graph_metanetworks.zoo.data import DataError, load

datasets = pytest.importorskip("datasets")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def rows(count: int, *, sizes: tuple[int, ...] = (4,), mode: str = "RGB") -> Any:
    """Rows sorted by the fine label, as in many data sets. Pixels encode the row."""
    classes = datasets.ClassLabel(names=["ant", "bee", "cat", "dog"])
    halves = datasets.ClassLabel(names=["insect", "mammal"])
    images = [
        Image.new(mode, (sizes[k % len(sizes)], 4), k if mode == "L" else (k, k, 9)) for k in range(count)
    ]
    columns = {
        "img": images,
        "fine": [4 * k // count for k in range(count)],
        "coarse": [2 * k // count for k in range(count)],
        "word": ["ab"[k % 2] for k in range(count)],
    }
    types = {"img": datasets.Image(), "fine": classes, "coarse": halves, "word": datasets.Value("string")}
    return datasets.Dataset.from_dict(columns, features=datasets.Features(types))


def parquet(folder: Path, **splits: Any) -> Path:
    folder.mkdir()
    for name, part in splits.items():
        part.to_parquet(folder / f"{name}.parquet")
    return folder


def test_the_column_of_labels_is_chosen(tmp_path: Path) -> None:
    folder = parquet(tmp_path / "animals", train=rows(40), test=rows(8))
    with pytest.raises(
        DataError, match=r"2 columns of type ClassLabel; .*,label=COLUMN: fine \(.*, coarse \("
    ):
        load(f"huggingface:{folder}")
    with pytest.raises(DataError, match=r"no column 'age'; .*,label=COLUMN: fine"):
        load(f"huggingface:{folder},label=age")
    fine, coarse, word = (load(f"huggingface:{folder},label={label}") for label in ("fine", "coarse", "word"))
    assert fine.classes == ("ant", "bee", "cat", "dog") and coarse.classes == ("insect", "mammal")
    assert word.classes == ("a", "b")
    written = fine.train_images[:, 0, 0, 0]
    assert torch.equal(fine.train_labels, 4 * written.long() // 40)
    assert torch.equal(coarse.train_labels, 2 * written.long() // 40)
    assert torch.equal(word.train_labels, written.long() % 2)
    assert fine.name == f"huggingface:{folder},label=fine" and not fine.flips
    assert len(fine.train_labels[:20].unique()) == 4  # shuffled, so the first rows include all classes


def test_a_configuration_is_chosen(tmp_path: Path) -> None:
    folder = parquet(tmp_path / "animals", small=rows(20), large=rows(40))
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: few\n  data_files: small.parquet\n- config_name: many\n"
        "  data_files: large.parquet\n---\n"
    )
    with pytest.raises(DataError, match=r"(?s)few.*many.*choose one with ,config=NAME"):
        load(f"huggingface:{folder},label=fine")
    with pytest.raises(DataError, match=r"(?s)few.*many.*choose one with ,config=NAME"):
        load(f"huggingface:{folder},label=fine,config=none")
    assert len(load(f"huggingface:{folder},label=fine,config=many").train_images) == 32


def test_a_fifth_is_held_out_where_there_is_no_test_split(tmp_path: Path) -> None:
    folder = parquet(tmp_path / "animals", train=rows(40))
    data = load(f"huggingface:{folder},label=fine")
    assert len(data.train_images) == 32 and len(data.test_images) == 8
    everything = torch.cat([data.train_images, data.test_images])[:, 0, 0, 0]
    assert sorted(everything.tolist()) == list(range(40))
    assert data.name == f"huggingface:{folder},label=fine,test=fifth-of-train"
    again = load(data.name)  # the name is complete
    assert again.checksum == data.checksum and again.name == data.name


def test_splits_are_chosen(tmp_path: Path) -> None:
    folder = tmp_path / "animals"
    datasets.DatasetDict(train=rows(20), test=rows(8), more=rows(12)).save_to_disk(folder)
    data = load(f"huggingface:{folder},label=fine,train=test,test=more")
    assert len(data.train_images) == 8 and len(data.test_images) == 12
    assert load(f"huggingface:{folder},label=fine,train=test").name.endswith("test=fifth-of-train")
    with pytest.raises(DataError, match="no split 'dev'; choose one with ,test=SPLIT: train, test, more"):
        load(f"huggingface:{folder},label=fine,test=dev")
    with pytest.raises(DataError, match="no split 'dev'; choose one with ,train=SPLIT: train, test, more"):
        load(f"huggingface:{folder},label=fine,train=dev")


def test_one_split_saved_to_disk(tmp_path: Path) -> None:
    rows(20, mode="L").save_to_disk(tmp_path / "animals")
    data = load(f"huggingface:{tmp_path / 'animals'},label=fine")
    assert data.image_shape == (1, 4, 4) and len(data.test_images) == 4


def test_mixed_sizes(tmp_path: Path) -> None:
    folder = parquet(tmp_path / "animals", train=rows(10, sizes=(4, 6)), test=rows(4))
    with pytest.raises(DataError, match=r"2 sizes, such as \(4, 4\) and \(4, 6\); .*,size=32"):
        load(f"huggingface:{folder},label=fine")
    data = load(f"huggingface:{folder},label=fine,size=3")
    assert data.image_shape == (3, 3, 3)
    assert sorted(data.train_images[:, 0, 1, 1].tolist()) == list(range(10))
    with pytest.raises(DataError, match="size must be a number of pixels, not 'small'"):
        load(f"huggingface:{folder},label=fine,size=small")


def test_one_coloured_image_makes_all_coloured(tmp_path: Path) -> None:
    folder = parquet(tmp_path / "animals", train=rows(5, mode="L"), test=rows(4))
    assert load(f"huggingface:{folder},label=fine").image_shape == (3, 4, 4)


def test_names_that_are_known_are_flipped(tmp_path: Path) -> None:
    parquet(tmp_path / "cifar100", train=rows(5), test=rows(4))
    assert load(f"huggingface:{tmp_path}/cifar100,label=coarse").flips


@pytest.mark.parametrize("option", ["label", "label=", "colour=red", "name=other"])
def test_options_that_are_not_understood(option: str) -> None:
    with pytest.raises(
        DataError, match=r"not a valid option; .*one of config, image, label, train, test, size"
    ):
        load(f"huggingface:mnist,{option}")


def test_offline_three_ways_are_named() -> None:
    with pytest.raises(DataError, match="huggingface:uoft-cs/cifar100: not found") as caught:
        load("huggingface:uoft-cs/cifar100")
    message = str(caught.value)
    assert 'load_dataset("uoft-cs/cifar100")' in message and "HF_HOME" in message
    assert "huggingface:FOLDER" in message and "folder:FOLDER" in message


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"pip install 'graph_metanetworks\[datasets\]'"):
        load("huggingface:mnist")
