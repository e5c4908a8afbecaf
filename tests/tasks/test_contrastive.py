"""Contrastive learning: views, the loss, regression, whole runs, and what is refused."""

from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import graph_metanetworks as gmn
from graph_metanetworks.errors import TaskError
from graph_metanetworks.experiments import Grid, Results, run_grid, write_report
from graph_metanetworks.methods import Output
from graph_metanetworks.tasks import TracedZoo
from graph_metanetworks.tasks.contrastive.loss import info_nce, retrieval
from graph_metanetworks.tasks.contrastive.regression import Regression, left_out_errors
from graph_metanetworks.tasks.contrastive.task import Contrastive
from graph_metanetworks.tasks.contrastive.views import KINDS, Views, join, symmetric_copies
from graph_metanetworks.tasks.model_card import command
from graph_metanetworks.tasks.registry import make_task
from graph_metanetworks.zoo.recipes.inrs import SineInrs
from support.command_line import fails, succeeds
from support.scaled_networks import scaled_zoo

QUICK = {"columns": "size,rate", "setting": "50", "batch_size": 8, "steps": 4, "rounds": 2}
WORDS = ("--columns", "size,rate", "--setting", 50, "--batch-size", 8, "--steps", 4, "--rounds", 2, "--quiet")


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> gmn.Zoo:
    return scaled_zoo(tmp_path_factory.mktemp("contrastive") / "zoo", 40)


@pytest.fixture(scope="module")
def batch(zoo: gmn.Zoo) -> gmn.Batch:
    return TracedZoo(zoo).batch(range(12))


@pytest.fixture(scope="module")
def run(zoo: gmn.Zoo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    gmn.train("contrastive", zoo, out=out, quiet=True, **QUICK)
    return out


def flat(batch: gmn.Batch) -> Tensor:
    return torch.cat([value.flatten() for stack in batch.stacks for value in stack.weights.values()])


# ------------------------------------------------------------------ views


@pytest.mark.parametrize("kind", KINDS)
def test_views_depend_on_the_generator_only(kind, batch: gmn.Batch) -> None:
    before = flat(batch).clone()
    pairs = [Views(kind, symmetries=True).pair(batch, drawn(seed)) for seed in (0, 0, 1)]
    values = [torch.cat([flat(first), flat(second)]) for first, second in pairs]
    assert torch.equal(values[0], values[1]) and not torch.equal(values[0], values[2])
    assert torch.equal(flat(batch), before)


def siren_batch(count: int, hidden: int = 64) -> gmn.Batch:
    siren = SineInrs(hidden=hidden)
    model = siren.build(siren.draw(drawn()))
    return gmn.collate([(gmn.trace(model, torch.zeros(1, 1)), model.state_dict())] * count)


def test_views_have_the_stated_noise_and_mask() -> None:
    batch, name = siren_batch(4), "seq.1.weight"
    value = batch.stacks[0].weights[name]
    size = 0.2 * value.std(0, correction=0)
    noisy, other = (own.stacks[0].weights[name] for own in Views("noise").pair(batch, drawn()))
    assert torch.allclose((noisy - value).std(0), size, rtol=0.1)
    assert ((noisy - value) * (other - value)).mean() < 0.1 * size.mean() ** 2  # views are independent
    described, _ = (own.stacks[0].weights[name] for own in Views("described").pair(batch, drawn()))
    assert abs(float((described == 0).float().mean()) - 0.5) < 0.02
    clean, released = Views("released").pair(batch, drawn())
    assert clean is batch
    kept = released.stacks[0].weights[name]
    assert torch.allclose(kept[kept != 0], (2 * (value + size))[kept != 0])
    assert abs(float((kept == 0).float().mean()) - 0.5) < 0.02


def test_symmetric_copies_are_the_same_networks_to_a_metanetwork(batch: gmn.Batch) -> None:
    net = gmn.GraphMetanetwork(8, 2, blocks="matrix-product", canonical="scales").double()
    batch = batch.to(torch.float64)
    copies = symmetric_copies(batch, drawn())
    assert not torch.equal(flat(copies), flat(batch))
    assert torch.allclose(net(copies), net(batch), atol=1e-9)


def test_joined_versions_keep_their_order(batch: gmn.Batch) -> None:
    net = gmn.GraphMetanetwork(8, 1, out=3, blocks="matrix-product").double()
    first, second = (own.to(torch.float64) for own in Views("noise").pair(batch, drawn()))
    joined = join([first, second])
    assert len(joined) == 2 * len(batch) and joined.names == batch.names * 2
    assert torch.allclose(net(joined), torch.cat([net(first), net(second)]))


# ------------------------------------------------------------------ loss and regression


def test_the_loss_is_that_of_simclr() -> None:
    views = torch.randn(10, 4, generator=drawn(), dtype=torch.float64)
    rows, total = views / views.norm(dim=1, keepdim=True), 0.0
    for i in range(10):
        logits = [float(rows[i] @ rows[k]) / 0.1 for k in range(10) if k != i]
        total += log(sum(np.exp(logits))) - float(rows[i] @ rows[(i + 5) % 10]) / 0.1
    assert float(info_nce(views, 0.1)) == pytest.approx(total / 10)


def test_what_cannot_be_told_apart_is_found_by_chance() -> None:
    assert float(info_nce(torch.ones(12, 3), 0.1)) == pytest.approx(log(11), abs=1e-5)
    swapped = torch.eye(4)[[0, 1, 2, 3, 1, 0, 2, 3]]
    assert retrieval(swapped).tolist() == [False, False, True, True] * 2


def test_errors_left_out_are_those_of_regressions_on_all_others() -> None:
    x, y = torch.randn(20, 3, generator=drawn()), torch.randn(20, 2, generator=drawn(1))
    found = left_out_errors(x, y)
    for out in range(20):
        others = torch.arange(20) != out
        predicted = Regression().fit(x[others], y[others])(x[[out]])
        assert torch.allclose(found[out], (predicted - y[[out]]).square()[0], rtol=1e-3)


def test_regression_takes_embeddings_that_depend_on_one_another() -> None:
    x = torch.randn(30, 2, generator=drawn())
    x = torch.cat([x, x.sum(1, keepdim=True), torch.ones(30, 1)], 1)
    y = 100 + x[:, :1] * 3
    assert torch.allclose(Regression().fit(x, y)(x), y.double(), atol=1e-4)
    assert left_out_errors(x, y).isfinite().all()


# ------------------------------------------------------------------ runs


def test_a_run_embeds_before_the_projector_and_predicts_columns(run: Path, zoo: gmn.Zoo) -> None:
    runner = gmn.load(run)
    found = runner.embed(zoo, quiet=True)
    assert found.shape == (40, 16)
    batch = TracedZoo(zoo).batch(range(4))
    with torch.no_grad():
        own = runner.model.encoder(batch.to(torch.float64)).float()  # pyright: ignore
    assert torch.equal(found[:4], own)
    first = runner(batch)[0]
    assert first.values == pytest.approx(tuple(runner.reference(found[:1])[0].tolist()), rel=1e-5)
    assert "size" in str(runner.table([first]).text())
    assert runner.record(first) == {"name": first.name, "size": first.values[0], "rate": first.values[1]}
    assert set(runner.run.scores["test"]) == {"loss", "retrieval", "mse", "mse_size", "mse_rate"}
    header = (run / "predictions.csv").read_text().splitlines()[0]
    assert header == "index,part,true size,true rate,predicted size,predicted rate"
    curve = (run / "curve.csv").read_text().splitlines()[0]
    assert "val_mse" in curve and "val_retrieval" in curve


def test_the_reported_error_is_that_of_ordinary_least_squares(run: Path, zoo: gmn.Zoo) -> None:
    runner, task = gmn.load(run), make_task("contrastive", QUICK)
    data = task.data(TracedZoo(zoo))
    split = task.split(data, "50", 0)
    x, y = runner.embed(zoo, quiet=True).double().numpy(), data.targets[np.arange(40)].double().numpy()
    x = np.hstack([x, np.ones((40, 1))])
    solution = np.linalg.lstsq(x[split.train], y[split.train], rcond=None)[0]
    expected = np.square(x[split.test] @ solution - y[split.test]).mean()
    assert runner.run.scores["test"]["mse"] == pytest.approx(expected, rel=1e-2)


def test_a_zoo_without_columns_can_be_learned_from(zoo: gmn.Zoo, tmp_path: Path) -> None:
    options = QUICK | {"columns": "none"}
    found = gmn.train("contrastive", zoo, out=tmp_path / "run", method="deepsets", quiet=True, **options)
    assert set(found.scores["test"]) == {"loss", "retrieval"}
    runner = gmn.load(tmp_path / "run")
    assert len(runner(zoo, quiet=True)[0].values) == 16 == runner.embed(zoo, quiet=True).shape[1]


def test_views_of_training_are_brought_together(zoo: gmn.Zoo, tmp_path: Path) -> None:
    """Retrieval rises above that of an untrained encoder, 1 in 15 by chance."""
    options = QUICK | {"steps": 60, "rounds": 2, "views": "noise", "noise": 0.05, "learning_rate": 1e-2}
    found = gmn.train("contrastive", zoo, out=tmp_path / "run", method="statnn", quiet=True, **options)
    assert found.scores["train"]["retrieval"] > 0.5


def test_selection_decides_what_is_monitored() -> None:
    for select, first in (("loss", "loss"), ("error", "mse")):
        assert make_task("contrastive", {"select": select}).scores[0].name == first


@pytest.mark.parametrize("method", Contrastive.methods)
@pytest.mark.parametrize("setting", ["80", "supervised"])
def test_a_step_of_every_method_of_the_experiment(method: str, setting: str) -> None:
    task, batch = make_task("contrastive", {"method": method, "setting": setting}), siren_batch(3, hidden=4)
    model = task.make_model(Output(width=16, input_shape=(1,)))
    model.fit([batch])  # pyright: ignore
    outputs = task.forward(model, task.transform(batch, drawn(), training=True))
    task.loss(outputs, torch.randn(3, 2, generator=drawn())).backward()
    assert all(own.grad is not None for own in model.parameters())
    assert task.embed(model, batch).shape == (3, 16)


def test_the_command_of_the_model_card_is_one_that_works(run: Path) -> None:
    runner = gmn.load(run).run
    task = make_task("contrastive", runner.options | {"symmetries": True})
    moved = replace(runner, options=runner.options | {"symmetries": True})
    assert command(moved, task).endswith("--symmetries") and "--no-" not in command(runner, task)


def test_commands_and_report(zoo: gmn.Zoo, run: Path, tmp_path: Path) -> None:
    words = ("--zoo", zoo.folder, "--methods", "statnn,deepsets", "--settings", "50,supervised-50")
    output = succeeds(
        "experiment", "contrastive", *words, "--seeds", 1, "--out", tmp_path / "e", *WORDS[:2], *WORDS[4:]
    ).output
    assert "supervised-50 MSE" in output
    report = (tmp_path / "e" / "report.html").read_text()
    for picture in ("maps of embeddings", "linear regression", "loss, error and retrieval"):
        assert f'alt="{picture}' in report
    assert "Predicting the mean of each column has a mean squared error of 0.0" in report
    succeeds("embed", run, zoo.folder, "--out", tmp_path / "embeddings.npz", "--quiet")
    words = ("--method", "statnn", "--setting", "supervised-50", "--out", tmp_path / "labels")
    output = succeeds("train", "contrastive", zoo.folder, *words, *WORDS[:2], *WORDS[4:]).output
    assert "MSE" in output and "nan" not in output + repr(gmn.load(tmp_path / "labels").run)


def test_a_report_without_columns(zoo: gmn.Zoo, tmp_path: Path) -> None:
    task = make_task("contrastive", QUICK | {"columns": "none"})
    data = task.data(TracedZoo(zoo))
    grid = Grid(task, methods=("deepsets",), settings=("50",), seeds=1)
    results = Results(grid, tmp_path, run_grid(data, grid, tmp_path))
    assert "loss, error and retrieval" in write_report(results, data).read_text()


# ------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": "amplitude"}, "has no column 'amplitude' to predict; .* Name one with --columns"),
        ({"batch_size": 1}, "--batch-size at least 2"),
        ({"batch_size": 64}, "leaves 20 to train on: choose a smaller --batch-size"),
        ({"views": "blurred"}, "there are no views 'blurred': choose described, released, noise"),
        ({"mask": 1.0}, "mask in"),
        ({"setting": "supervised", "columns": "none"}, "need --columns"),
        ({"setting": "half"}, "no setting 'half'.* supervised-50"),
        ({"method": "statnn-boosting"}, "is not trained by gradients"),
        ({"select": "luck"}, "choose loss or error"),
    ],
)
def test_what_is_refused_writes_nothing(options: dict, message: str, zoo: gmn.Zoo, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=message):
        gmn.train("contrastive", zoo, out=tmp_path / "run", quiet=True, **(QUICK | options))
    assert not (tmp_path / "run").exists()


def test_the_command_line_refuses_too(zoo: gmn.Zoo, tmp_path: Path) -> None:
    output = fails("train", "contrastive", zoo.folder, "--out", tmp_path / "run", "--quiet")
    assert "has no column 'amplitude'" in output and not (tmp_path / "run").exists()
