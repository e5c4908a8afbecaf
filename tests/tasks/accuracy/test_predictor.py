"""Predictions: intervals that hold what they promise, symmetry, and warnings where they belong."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.errors import StateDictMismatch, TaskError
from graph_metanetworks.tasks.accuracy import LabelledZoo, Predictor, train
from graph_metanetworks.tasks.accuracy.intervals import covered, interval, quantile, residuals
from graph_metanetworks.training.run_folder import Run
from tasks.accuracy.conftest import QUICK


@pytest.fixture(scope="module")
def predictor(run_folder: Path) -> Predictor:
    return Predictor.load(run_folder)


def test_predictions_are_those_of_training(predictor: Predictor, data: LabelledZoo, run_folder: Path) -> None:
    rows = [line.split(",") for line in (run_folder / "predictions.csv").read_text().splitlines()[1:]]
    for index, _, true, predicted in rows[:5]:
        batch, labels = data[[int(index)]]
        (found,) = predictor(batch)
        assert found.accuracy == pytest.approx(float(predicted), abs=2e-6)
        assert float(labels) == pytest.approx(float(true), abs=2e-6)
        assert 0 <= found.low <= found.accuracy <= found.high <= 1


@pytest.mark.parametrize("method", ["gmn", "gmn-probes", "gmn-grit", "deepsets", "statnn", "statnn-boosting"])
def test_permuted_neurons_change_no_digit(method: str, data: LabelledZoo, tmp_path: Path) -> None:
    train(data, tmp_path, replace(QUICK, method=method, steps=3, rounds=1))
    predictor = Predictor.load(tmp_path)
    for position in range(12):
        graph, weights = data.networks.graph(position), data.networks.zoo[position].state_dict
        other = graph.symmetry.sample(torch.Generator().manual_seed(position)).apply(weights)
        assert any(not torch.equal(weights[name], other[name]) for name in weights)
        (first,) = predictor(gmn.collate([(graph, weights)], names=["it"]))
        (second,) = predictor(gmn.collate([(graph, other)], names=["it"]))
        assert first == second


def test_strange_networks_are_called_so(predictor: Predictor, data: LabelledZoo) -> None:
    graph, weights = data.networks.graph(0), data.networks.zoo[0].state_dict
    (huge,) = predictor(gmn.collate([(graph, {name: 100 * x for name, x in weights.items()})]))
    assert "its weights are farther from those of the training networks" in huge.warning
    (normed,) = predictor(in_batch(nn.Sequential(nn.Linear(2, 4), nn.LayerNorm(4), nn.Linear(4, 3))))
    assert "it has layer norm scale, layer norm shift, which no network of the" in normed.warning
    (bare,) = predictor(in_batch(nn.Sequential(nn.Linear(2, 4, bias=False), nn.Linear(4, 3, bias=False))))
    assert "it has no linear bias, which all networks of the training zoo have" in bare.warning
    usual = predictor(data[list(range(40))][0])
    assert sum(bool(prediction.warning) for prediction in usual) <= 4


def in_batch(model: nn.Module) -> gmn.Batch:
    return gmn.collate([(gmn.trace(model, torch.zeros(1, 2)), model.state_dict())])


def test_nan_weights_are_refused(data: LabelledZoo) -> None:
    weights = data.networks.zoo[0].state_dict
    weights["0.weight"][0, 0] = torch.nan
    with pytest.raises(StateDictMismatch, match="NaN or infinite"):
        gmn.collate([(data.networks.graph(0), weights)])


def test_damaged_runs_are_refused(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"there is no run in .*: run.json is missing"):
        Predictor.load(tmp_path)
    shutil.copytree(run_folder, tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(TaskError, match="is damaged"):
        Predictor.load(tmp_path / "run")
    (tmp_path / "run" / "run.json").write_text("{}")
    with pytest.raises(TaskError, match=r"run.json is damaged"):
        Predictor.load(tmp_path / "run")


def test_runs_of_other_versions_are_refused(run_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(run_folder, tmp_path / "run")
    run, (major, minor, *_) = Run.load(run_folder), gmn.__version__.split(".")
    replace(run, version=f"{major}.{minor}.99").save(tmp_path / "run")
    Predictor.load(tmp_path / "run")
    replace(run, version="9.9.9").save(tmp_path / "run")
    with pytest.raises(
        TaskError, match=rf"version 9\.9\.9 .*version {gmn.__version__}.*install version 9\.9\.9"
    ):
        Predictor.load(tmp_path / "run")


@given(st.integers(20, 200), st.floats(0.5, 0.95), st.integers(0, 1000))
def test_intervals_hold_the_calibration_networks(count: int, level: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    predicted = torch.rand(count, generator=generator, dtype=torch.float64)
    true = (predicted + 0.1 * torch.randn(count, generator=generator, dtype=torch.float64)).clamp(0, 1)
    held = covered(predicted, true, residuals(predicted, true), level)
    assert held >= level - 1e-9


def test_intervals_keep_their_promise_for_nine_draws_in_ten() -> None:
    generator = torch.Generator().manual_seed(0)
    held = []
    for _ in range(300):
        predicted = torch.rand(2040, generator=generator, dtype=torch.float64)
        true = (predicted + 0.1 * torch.randn(2040, generator=generator, dtype=torch.float64)).clamp(0, 1)
        calibration = residuals(predicted[:40], true[:40])
        held.append(covered(predicted[40:], true[40:], calibration, 0.9))
    kept = sum(share >= 0.9 for share in held) / len(held)
    assert 0.87 <= kept <= 0.97  # the confidence is 0.9 or, because residuals are counted, a little more


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_higher_levels_give_wider_intervals(one: float, other: float) -> None:
    calibration, predicted = torch.linspace(0, 1, 50), torch.tensor([0.3])
    (low, high), (lower, higher) = (interval(predicted, calibration, level) for level in sorted((one, other)))
    assert lower <= low <= high <= higher


def test_levels_lie_between_0_and_1() -> None:
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        quantile(torch.zeros(3), 1.0)
