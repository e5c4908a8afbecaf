"""Data sets from files that the tests write, intact and damaged."""

import gzip
import pickle
from pathlib import Path

import pytest
import torch
from torch import Tensor

from graph_metanetworks.zoo.data import DataError, load
from graph_metanetworks.zoo.data.cifar import RECORD, TEST, TRAIN
from graph_metanetworks.zoo.data.idx import FASHION_MNIST, FILES


def idx(values: Tensor) -> bytes:
    lengths = b"".join(n.to_bytes(4, "big") for n in values.shape)
    return bytes([0, 0, 8, values.dim()]) + lengths + values.numpy().tobytes()


@pytest.fixture
def written() -> dict[str, Tensor]:
    def some(*shape: int, below: int) -> Tensor:
        return torch.randint(below, shape, dtype=torch.uint8)

    images = [some(n, 28, 28, below=256) for n in (7, 3)]
    labels = [some(n, below=10) for n in (7, 3)]
    return dict(zip(FILES, (images[0], labels[0], images[1], labels[1]), strict=True))


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide all data sets except those of the test."""
    monkeypatch.delenv("GMN_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


def write_idx(folder: Path, written: dict[str, Tensor]) -> None:
    folder.mkdir(parents=True)
    for name, values in written.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(idx(values)))


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_idx_files(name: str, tmp_path: Path, written: dict[str, Tensor], nowhere: None) -> None:
    write_idx(tmp_path / "here" / name, written)
    data = load(name, tmp_path / "here")
    assert torch.equal(data.train_images.squeeze(1), written[FILES[0]])
    assert torch.equal(data.train_labels, written[FILES[1]].long())
    assert torch.equal(data.test_images.squeeze(1), written[FILES[2]])
    assert torch.equal(data.test_labels, written[FILES[3]].long())
    assert data.flips == (name == "fashion-mnist")


def test_plain_idx_files_found_by_variable(
    tmp_path: Path, written: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, values in written.items():
        (tmp_path / name).write_bytes(idx(values))
    monkeypatch.setenv("GMN_DATA", str(tmp_path))
    assert torch.equal(load("mnist").test_labels, written[FILES[3]].long())


def test_the_checksum_is_of_the_content(tmp_path: Path, written: dict[str, Tensor], nowhere: None) -> None:
    write_idx(tmp_path / "a" / "mnist", written)
    write_idx(tmp_path / "b", written)
    first = load("mnist", tmp_path / "a").checksum
    assert first == load("mnist", tmp_path / "b").checksum
    written[FILES[3]][0] = (written[FILES[3]][0] + 1) % 10
    write_idx(tmp_path / "c", written)
    assert first != load("mnist", tmp_path / "c").checksum


@pytest.mark.parametrize("damage", ["truncated", "not gzip", "not idx", "missing", "labels"])
def test_damaged_idx_files(damage: str, tmp_path: Path, written: dict[str, Tensor], nowhere: None) -> None:
    folder = tmp_path / "mnist"
    write_idx(folder, written)
    path = folder / f"{FILES[1]}.gz"
    if damage == "missing":
        path.unlink()
    else:
        content = {
            "truncated": gzip.compress(idx(written[FILES[1]])[:-2]),
            "not gzip": idx(written[FILES[1]]),
            "not idx": gzip.compress(b"<html>not found</html>"),
            "labels": gzip.compress(idx(torch.full((7,), 10, dtype=torch.uint8))),
        }[damage]
        path.write_bytes(content)
    with pytest.raises(DataError, match=r"mnist: train labels" if damage == "labels" else FILES[1]):
        load("mnist", tmp_path)


def records(count: int) -> tuple[bytes, Tensor, Tensor]:
    labels = torch.randint(10, (count, 1), dtype=torch.uint8)
    images = torch.randint(256, (count, RECORD - 1), dtype=torch.uint8)
    return torch.cat([labels, images], 1).numpy().tobytes(), images.view(-1, 3, 32, 32), labels[:, 0].long()


def test_cifar(tmp_path: Path, nowhere: None) -> None:
    folder = tmp_path / "data" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    written = {name: records(2) for name in (*TRAIN, TEST)}
    for name, (content, _, _) in written.items():
        (folder / name).write_bytes(content)
    data = load("cifar10")
    assert torch.equal(data.train_images, torch.cat([written[name][1] for name in TRAIN]))
    assert torch.equal(data.test_labels, written[TEST][2])
    (folder / TEST).write_bytes(written[TEST][0][:-1])
    with pytest.raises(DataError, match="not a multiple of 3073"):
        load("cifar10")


class Trap:
    """An object that reports when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


def test_the_pickled_cifar_is_refused_and_never_opened(tmp_path: Path, nowhere: None) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    (folder / "data_batch_1").write_bytes(pickle.dumps(Trap()))
    for place in (tmp_path, folder):
        with pytest.raises(DataError, match="so it is not read: get the binary version"):
            load("cifar10", place)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_missing_data_names_three_ways_to_get_it(name: str, tmp_path: Path, nowhere: None) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=f"{name} was not found") as caught:
        load(name, tmp_path / "empty")
    message = str(caught.value)
    assert all(f"  {number}. " in message for number in (1, 2, 3))
    assert "GMN_DATA" in message and "--data-dir" in message and str(tmp_path / "empty") in message


def test_debian_is_among_the_places_unless_a_folder_is_named(nowhere: None) -> None:
    system = Path("/usr/share/datasets/fashion-mnist")
    assert system in FASHION_MNIST.search_folders(None)
    assert system not in FASHION_MNIST.search_folders(Path("named"))


@pytest.mark.parametrize("name", ["digits", "mnist", "folder:pictures", "huggingface:mnist"])
def test_a_folder_that_is_named_must_be_there(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"there is no folder .*none to search for {name}"):
        load(name, tmp_path / "none")


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(DataError, match="no data set 'imagenet'; choose one of digits, cifar10"):
        load("imagenet")
