"""A tiny copy of the Small CNN Zoo is imported, and its networks compute the same functions."""

import csv
import gzip
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch

from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo import Zoo
from graph_metanetworks.zoo.imported.small_cnns import import_small_cnns
from support.zoo_folders import contents

SHAPES = {  # in the order of the published files
    "sequential/conv2d/bias:0": (16,),
    "sequential/conv2d/kernel:0": (3, 3, 1, 16),
    "sequential/conv2d_1/bias:0": (16,),
    "sequential/conv2d_1/kernel:0": (3, 3, 16, 16),
    "sequential/conv2d_2/bias:0": (16,),
    "sequential/conv2d_2/kernel:0": (3, 3, 16, 16),
    "sequential/dense/bias:0": (10,),
    "sequential/dense/kernel:0": (16, 10),
}
STEPS = (0, 1, 86)
NETWORKS = 5


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cifar10")
    rows = [(network, step) for network in range(NETWORKS) for step in STEPS if (network, step) != (3, 86)]
    np.random.default_rng(0).shuffle(rows)  # the published rows have no order to rely on
    weights = np.random.default_rng(1).normal(0, 0.3, (len(rows), 4970)).astype(np.float32)
    np.save(folder / "weights.npy", weights)
    with open(folder / "layout.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["", "varname", "shape", "size", "start_idx", "end_idx"])
        start = 0
        for number, (name, shape) in enumerate(SHAPES.items()):
            size = int(np.prod(shape))
            writer.writerow([number, name, shape, size, start, start + size])
            start += size
    with gzip.open(folder / "metrics.csv.gz", "wt", newline="") as file:
        names = ["config.activation", "config.learning_rate", "config.optimizer", "modeldir", "step"]
        writer = csv.writer(file)
        writer.writerow(["", *names, "test_accuracy", "test_loss", "train_accuracy", "train_loss"])
        for row, (network, step) in enumerate(rows):
            values = ["relu" if network % 2 else "tanh", 0.1 * network, "adam", f"/run/{network}", step]
            writer.writerow([row, *values, row / 100, 2.0, 0.5, 1.5])
    return folder


def rows_of(published: Path) -> list[dict[str, str]]:
    with gzip.open(published / "metrics.csv.gz", "rt") as file:
        return list(csv.DictReader(file))


def outputs(row: np.ndarray, activation: str, image: np.ndarray) -> np.ndarray:
    """Compute the TensorFlow network on an image [height, width, 1], by loops over pixels in float64."""
    variables, start = {}, 0
    for name, shape in SHAPES.items():
        size = int(np.prod(shape))
        variables[name] = row[start : start + size].astype(np.float64).reshape(shape)
        start += size
    x = image.astype(np.float64)
    for layer in ("conv2d", "conv2d_1", "conv2d_2"):
        kernel, bias = variables[f"sequential/{layer}/kernel:0"], variables[f"sequential/{layer}/bias:0"]
        height, width = ((side - 3) // 2 + 1 for side in x.shape[:2])
        y = np.zeros((height, width, 16))
        for i in range(height):
            for j in range(width):
                patch = x[2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
                y[i, j] = np.einsum("hwc,hwco->o", patch, kernel) + bias
        x = np.maximum(y, 0) if activation == "relu" else np.tanh(y)
    return x.mean((0, 1)) @ variables["sequential/dense/kernel:0"] + variables["sequential/dense/bias:0"]


def test_networks_compute_the_same(published: Path, tmp_path: Path) -> None:
    zoo = import_small_cnns(published, tmp_path, quiet=True)
    weights = np.load(published / "weights.npy")
    last = [n for n, row in enumerate(rows_of(published)) if row["step"] == "86"]
    assert len(zoo) == len(last) == NETWORKS - 1
    image = np.random.default_rng(2).normal(size=(32, 32, 1))
    for network, row in zip(zoo, last, strict=True):
        expected = outputs(weights[row], network.config.activation, image)
        with torch.no_grad():
            got = network.build().double()(torch.tensor(image).permute(2, 0, 1)[None])[0]
        torch.testing.assert_close(got, torch.tensor(expected), rtol=1e-9, atol=1e-9)


def test_metrics_belong_to_their_networks(published: Path, tmp_path: Path) -> None:
    zoo = import_small_cnns(published, tmp_path, quiet=True)
    rows = [row for row in rows_of(published) if row["step"] == "86"]
    for network, row in zip(zoo, rows, strict=True):
        assert network.config.activation == row["config.activation"]
        assert network.config.learning_rate == pytest.approx(float(row["config.learning_rate"]))
        assert network.config.w_init is None  # a column that this copy does not have
        assert network.metrics["test_accuracy"] == float(row["test_accuracy"])
        assert network.metrics["diverged"] is False
    assert sum(x.numel() for x in zoo[0].state_dict.values()) == 4970
    options = Zoo.open(tmp_path).description.options
    assert "Unterthiner" in options["source"]
    assert options["weights"] == sha256((published / "weights.npy").read_bytes()).hexdigest()
    assert not any("_at_" in name for name in zoo.table.column_names)


def test_all_steps(published: Path, tmp_path: Path) -> None:
    zoo = import_small_cnns(published, tmp_path, all_steps=True, quiet=True)
    weights, rows = np.load(published / "weights.npy"), rows_of(published)
    assert len(zoo) == NETWORKS - 1
    final = [row for row in rows if row["step"] == "86"]
    for network, last in zip(zoo, final, strict=True):
        assert network.steps == (0, 1)
        for step in network.steps:
            row = next(
                n for n, r in enumerate(rows) if r["modeldir"] == last["modeldir"] and int(r["step"]) == step
            )
            bias = network.checkpoint(step)["convolutions.0.bias"]
            assert torch.equal(bias, torch.tensor(weights[row, :16]))
            place = f"at_{STEPS.index(step) + 1}_of_3"  # as the recipe small-cnns names them
            assert network.metrics[f"step_{place}"] == step
            assert network.metrics[f"test_accuracy_{place}"] == float(rows[row]["test_accuracy"])
            assert network.metrics[f"train_loss_{place}"] == float(rows[row]["train_loss"])
        assert network.metrics["test_accuracy"] == float(last["test_accuracy"])


def test_importing_again_changes_nothing(published: Path, tmp_path: Path) -> None:
    import_small_cnns(published, tmp_path, quiet=True)
    before = contents(tmp_path)
    (tmp_path / "weights-00000.safetensors").unlink()
    import_small_cnns(published, tmp_path, quiet=True)
    assert contents(tmp_path) == before


def test_a_network_with_nan_is_marked(published: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in published.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    weights = np.load(copy / "weights.npy")
    weights[:, 7] = np.nan
    np.save(copy / "weights.npy", weights)
    zoo = import_small_cnns(copy, tmp_path / "zoo", quiet=True)
    assert all(network.metrics["diverged"] for network in zoo)


@pytest.mark.parametrize("name", ["weights.npy", "metrics.csv.gz", "layout.csv"])
def test_missing_and_damaged_files(name: str, published: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in published.iterdir():
        if file.name != name:
            (copy / file.name).write_bytes(file.read_bytes())
    with pytest.raises(ZooError, match=f"has no {name}.*Pass such a folder"):
        import_small_cnns(copy, tmp_path / "zoo", quiet=True)
    (copy / name).write_bytes((published / name).read_bytes()[:70])
    with pytest.raises(ZooError, match=name):
        import_small_cnns(copy, tmp_path / "zoo", quiet=True)
    assert not (tmp_path / "zoo").exists()


def test_weights_are_never_unpickled(published: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in published.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    np.save(copy / "weights.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ZooError, match=r"weights.npy cannot be read"):
        import_small_cnns(copy, tmp_path / "zoo", quiet=True)


def test_networks_cannot_be_drawn_again(published: Path, tmp_path: Path) -> None:
    recipe = import_small_cnns(published, tmp_path, quiet=True).recipe
    with pytest.raises(ZooError, match="use the recipe small-cnns to train new ones"):
        recipe.draw(torch.Generator())
