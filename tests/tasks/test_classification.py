"""Classification: exact augmentation, splits by image, every command, and what cannot be classified."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from typer.testing import CliRunner

import graph_metanetworks as gmn
from graph_metanetworks.cli import app
from graph_metanetworks.errors import TaskError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.tasks.classification import Classification, Options
from graph_metanetworks.tasks.coordinates import CoordinateLayer, random_motions
from graph_metanetworks.tasks.grouped_splits import GroupedSetting
from graph_metanetworks.zoo import build
from graph_metanetworks.zoo.recipes.inrs import ImageInrs, SineInrs
from support.traced import traced

QUICK = ("--steps", "4", "--rounds", "2", "--batch-size", "8", "--quiet")


def passes(*words: object) -> str:
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classified") / "zoo"
    return build(
        ImageInrs(data="digits", steps=2, hidden=8), count=60, out=folder, workers=1, quiet=True
    ).folder


# ------------------------------------------------------------------ augmentation


class Tangled(nn.Module):
    """It reads its coordinates twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.skip = nn.Linear(2, 8), nn.Linear(2, 8)

    def forward(self, x: Tensor) -> Tensor:
        return (self.first(x).sin() + self.skip(x)).sum(-1, keepdim=True)


class Squashed(nn.Module):
    """Its first layer reads a function of the coordinates."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x.tanh()).sin().sum(-1, keepdim=True)


@pytest.mark.parametrize("name", ["siren", "siren-without-bias", "siren-cosine"])
def test_moving_the_first_layer_moves_the_input(name: str) -> None:
    graph = traced(name).graph
    layer = CoordinateLayer.of(graph)
    generator = torch.Generator().manual_seed(0)
    count, options = 3, {"generator": generator, "dtype": torch.float64}
    weights = {p.name: torch.randn(p.numel, count, 1, **options) for p in graph.parameters}
    matrix, shift = random_motions(count, 2, generator, torch.float64)
    shift = shift * (layer.bias is not None)
    moved, points = layer.moved(weights, matrix, shift), torch.rand(15, 2, **options)
    shapes = {p.name: p.shape for p in graph.parameters}

    def run(own: dict[str, Tensor], number: int, x: Tensor) -> Tensor:
        return graph.run({k: v[:, number].reshape(shapes[k]) for k, v in own.items()}, x)

    for number in range(count):
        expected = run(weights, number, points @ matrix[number].T + shift[number])
        assert torch.allclose(run(moved, number, points), expected, atol=1e-8)
        assert not torch.allclose(run(weights, number, points), expected, atol=1e-3)


@pytest.mark.parametrize(
    "model", [Tangled(), Squashed(), nn.Linear(5, 2)], ids=["tangled", "squashed", "wide"]
)
def test_what_cannot_be_moved_is_refused(model: nn.Module) -> None:
    width = 5 if isinstance(model, nn.Linear) else 2
    with pytest.raises(TaskError, match="does not begin with a linear layer on 1 to 3 coordinates"):
        CoordinateLayer.of(gmn.trace(model, torch.zeros(1, width)))


def test_training_batches_only_are_augmented() -> None:
    task, graph = Classification(Options(augment=True)), traced("siren").graph
    batch = gmn.collate([(graph, traced("siren").model.state_dict())] * 2)
    changed: Batch = task.transform(batch, torch.Generator().manual_seed(0), training=True)
    assert task.transform(batch, torch.Generator(), training=False) is batch
    first, name = changed.stacks[0].weights, CoordinateLayer.of(graph).weight
    assert not torch.equal(first[name][:, 0], first[name][:, 1])  # each network moves in its own way
    others = set(first) - {name, CoordinateLayer.of(graph).bias}
    assert all(torch.equal(first[other], batch.stacks[0].weights[other]) for other in others)


# ------------------------------------------------------------------ splits


@given(st.integers(8, 60), st.integers(1, 3), st.sampled_from(["own", "80", "50"]), st.booleans())
def test_networks_of_one_image_stay_together(images: int, copies: int, name: str, named: bool) -> None:
    image = np.tile(np.arange(images), copies)
    table = pa.table({"image": image, "split": np.where(image % 4 == 3, "test", "train")})
    table = table if named else table.drop_columns(["split"])
    parts = GroupedSetting.of(name, "image").split(table, np.ones(len(image), dtype=bool), 0).parts()
    together = np.concatenate(list(parts.values()))
    assert sorted(together.tolist()) == list(range(len(image)))
    owners = [set(image[own].tolist()) for own in parts.values()]
    assert sum(map(len, owners)) == images
    if named and name == "own":
        assert owners[2] == set(range(3, images, 4))


def test_settings_by_size_are_not_for_classes() -> None:
    with pytest.raises(TaskError, match="no setting 'ood' here: give own, a percentage"):
        Classification().setting("ood")


# ------------------------------------------------------------------ commands


def test_train_predict_and_report(zoo: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert "accuracy" in passes("train", "classification", zoo, "--out", run, "--augment", *QUICK)
    found = json.loads(passes("predict", run, zoo, "--json", "-"))
    assert len(found) == 60 and set(found[0]["probabilities"]) == set("0123456789")
    for one in found:
        assert sum(one["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        assert one["probabilities"][one["label"]] == one["probability"] == max(one["probabilities"].values())
    header, *_ = csv.reader(passes("predict", run, zoo, "--csv", "-").splitlines())
    assert header[:3] == ["name", "label", "probability"] and header[-1] == "probabilities 9"
    saved = {row["index"]: row for row in csv.DictReader((run / "predictions.csv").read_text().splitlines())}
    assert saved["7"]["predicted class"] == found[7]["label"]
    out = tmp_path / "experiment"
    words = ("--zoo", zoo, "--out", out, "--methods", "statnn,deepsets", "--seeds", "1", *QUICK)
    assert "own accuracy" in passes("experiment", "classification", *words)
    report = (out / "report.html").read_text()
    for part in ("confusion matrices", "mostly taken for", "misread networks", "the zoo&#x27;s own split"):
        assert part in report


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "digit"}, "has no column 'digit' of classes; its columns are index"),
        ({"label": "steps"}, "has one class, 2, for 60 networks"),
        ({"label": "loss"}, "has 60 different entries, for 60 networks"),
        ({"smoothing": 1.0}, "smoothing is at least 0 and less than 1"),
        ({"method": "statnn-boosting"}, "predicts one number per network"),
        ({"setting": "ood"}, "there is no setting 'ood' here"),
    ],
)
def test_what_cannot_be_classified(zoo: Path, tmp_path: Path, options: dict, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        gmn.train("classification", zoo, out=tmp_path / "run", quiet=True, **options)
    assert not (tmp_path / "run" / "run.json").exists()


def test_signals_have_no_labels(tmp_path: Path) -> None:
    waves = build(SineInrs(points=20, steps=2), count=4, out=tmp_path / "waves", workers=1, quiet=True).folder
    result = CliRunner().invoke(app, ["train", "classification", str(waves), "--out", str(tmp_path / "run")])
    assert result.exit_code == 1 and "has no column 'label'" in " ".join(result.output.split())
    assert not (tmp_path / "run").exists()
