"""The experiment's parts: spreads, rivals, probes, refusals."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from graph_metanetworks.errors import TaskError
from graph_metanetworks.experiments import (
    Cell,
    Grid,
    Refused,
    Results,
    allowed_settings,
    run_grid,
    write_report,
)
from graph_metanetworks.experiments.accuracy import figures
from graph_metanetworks.experiments.accuracy.rivals import (
    as_features,
    config_columns,
    rival_predictions,
    within_groups,
)
from graph_metanetworks.experiments.accuracy.shifts import (
    Shift,
    relabelled,
    stripes,
    true_accuracy,
    with_images,
)
from graph_metanetworks.experiments.accuracy.trust import Trust, mean_tau
from graph_metanetworks.experiments.results import Predicted, Spread
from graph_metanetworks.tasks.accuracy import Accuracy, Options
from graph_metanetworks.tasks.accuracy.scores import scores
from graph_metanetworks.tasks.splits import Setting
from graph_metanetworks.training.run_folder import Run
from graph_metanetworks.zoo.recipes.classifiers import VaryingCnns
from support.scaled_networks import labelled, scaled_zoo


def run(r2: float) -> Run:
    found = {"networks": 9, "r2": r2, "tau": 0.5, "mae": 0.1}
    result = {"scores": {"test": found}, "parameters": 1234, "seconds": 3.0, "sizes": {"train": 5}}
    return Run("accuracy", "0", {"learning_rate": 1e-3}, {}, result)


def test_the_table_has_means_and_deviations(tmp_path: Path) -> None:
    grid = Grid(Accuracy(), methods=("gmn", "statnn"), settings=("50",), seeds=3)
    runs = {Cell("gmn", "50", seed): run(r2) for seed, r2 in enumerate((0.8, 0.9, 1.0))}
    refused = {Cell("statnn", "50", seed): Refused("cannot take network 7") for seed in range(3)}
    results = Results(grid, tmp_path, {**runs, **refused})
    assert results.table().rows == [
        ("GMN", "1,234", "0.900 ± 0.100", "0.500 ± 0.000"),
        ("StatNN", "–", "–", "–"),
    ]
    assert results.refusals() == {"StatNN, 50 % for training": "cannot take network 7"}


def test_what_diverged_is_shown_beside_what_did_not(tmp_path: Path) -> None:
    grid = Grid(Accuracy(), methods=("gmn", "dmc"), settings=("50",), seeds=3)
    diverged = Refused("training diverged", diverged=True)
    runs = {Cell("gmn", "50", seed): run(0.8) for seed in range(2)} | {Cell("gmn", "50", 2): diverged}
    results = Results(grid, tmp_path, runs | {Cell("dmc", "50", seed): diverged for seed in range(3)})
    assert results.table().rows == [
        ("GMN", "1,234", "0.800 ± 0.000 (1 diverged)", "0.500 ± 0.000 (1 diverged)"),
        ("DMC", "–", "diverged", "diverged"),
    ]
    assert results.refusals() == {
        "GMN, 50 % for training, 1 of 3 seeds": "training diverged",
        "DMC, 50 % for training": "training diverged",
    }
    assert results.table().header[2:] == ("50 % R²", "50 % tau")


def test_a_cell_that_diverges_does_not_stop_the_others(tmp_path: Path) -> None:
    data = labelled(scaled_zoo(tmp_path / "zoo", 40))
    options = Options(steps=4, rounds=2, learning_rate=1e30)
    grid = Grid(Accuracy(options), ("deepsets", "statnn-boosting"), ("50",), seeds=1)
    results = Results(grid, tmp_path, run_grid(data, grid, tmp_path))
    assert isinstance(results.runs[Cell("statnn-boosting", "50", 0)], Run)
    report = write_report(results, data).read_text()
    assert "DeepSets, 50 % for training: no result. Training diverged" in report
    assert "Can it be trusted?" in report


def test_scores_that_are_no_numbers_are_shown_as_such() -> None:
    assert str(Spread.of([0.4, float("nan")])) == str(Spread.of([float("nan")])) == "nan"


def test_one_run_has_no_deviation() -> None:
    assert str(Spread.of([0.5])) == "0.500"
    assert str(Spread.of([0.4, 0.6])) == "0.500 ± 0.141"


def test_grids_are_checked() -> None:
    assert len(list(Grid(Accuracy(), methods=("gmn", "dmc"), settings=("50", "ood"), seeds=3).cells())) == 12
    with pytest.raises(TaskError, match="at least one method"):
        Grid(Accuracy(), seeds=0)


def test_settings_that_a_zoo_does_not_allow(tmp_path: Path) -> None:
    """Small CNNs have one hidden size, and published files do not say which."""
    data = labelled(scaled_zoo(tmp_path, 60))
    grid = Grid(Accuracy(), settings=("50", "ood", "5"))
    assert allowed_settings(grid, data) == (("50", "ood", "5"), [])
    table = data.networks.zoo.table.drop_columns(["hidden"])
    data.networks.zoo.__dict__["table"] = table
    allowed, refused = allowed_settings(grid, data)
    assert allowed == ("50", "5")
    assert len(refused) == 1 and "splits by the column 'hidden', which this zoo lacks" in refused[0]
    with pytest.raises(TaskError, match="which this zoo lacks"):
        allowed_settings(replace(grid, settings=("ood",)), data)


def test_rivals_know_hyper_parameters_and_losses_only(tmp_path: Path) -> None:
    zoo = scaled_zoo(tmp_path, 120)
    table, labels = zoo.table, zoo.table["test_accuracy"].to_numpy()
    assert config_columns(table) == ["family", "hidden", "size", "rate"]
    split = Setting.parse("50").split(table, np.ones(120, dtype=bool), 0)
    found = rival_predictions(table, labels, split)
    assert list(found) == ["hyper-parameters", "training loss", "both of them", "training accuracy"]
    for predicted in found.values():  # the size of weights decides, and so does the loss
        own = scores(torch.from_numpy(predicted), torch.from_numpy(labels[split.test]))
        assert own.r2 > 0.8


def test_names_become_numbers() -> None:
    table = pa.table(
        {"optimizer": ["sgd", "adam", "sgd"], "rate": [0.1, 0.2, 0.3], "flip": [True, False, True]}
    )
    assert as_features(table, ["optimizer", "rate", "flip"]).tolist() == [
        [1, 0.1, 1],
        [0, 0.2, 0],
        [1, 0.3, 1],
    ]


def test_scores_within_groups() -> None:
    true = np.linspace(0, 1, 30)
    groups = np.array(["a"] * 10 + ["b"] * 15 + ["c"] * 5)
    predicted = np.where(groups == "b", 1 - true, true)
    found = within_groups(predicted, true, groups)
    assert {name: own.tau for name, own in found.items()} == {"a": 1.0, "b": -1.0}  # c has too few
    assert mean_tau(found) == pytest.approx((10 - 15) / 25)
    assert np.isnan(mean_tau({}))


def test_stripes_can_be_learned() -> None:
    recipe = VaryingCnns("digits", epochs=2)
    other = VaryingCnns(stripes(recipe), epochs=2)
    assert other.spec == recipe.spec
    config = recipe.draw(torch.Generator().manual_seed(3))
    (trained,) = other.train([config], [0], lambda share: None)
    assert trained.metrics["train_accuracy"] > 0.2  # chance is 0.1


def test_relabelled_images_keep_no_class() -> None:
    recipe = VaryingCnns("digits", epochs=1)
    own, other = recipe.data, relabelled(recipe.data)
    assert len(other.train_images) == 1200
    for label in range(10):
        (found,) = other.test_labels[own.test_labels == label].unique().tolist()
        assert found != label


def test_accuracies_are_measured_as_those_of_the_zoo() -> None:
    recipe = VaryingCnns("digits", epochs=1)
    config = recipe.draw(torch.Generator().manual_seed(3))
    (trained,) = recipe.train([config], [0], lambda share: None)
    again = with_images(VaryingCnns.from_options(recipe.options()))
    assert again is not None
    found = true_accuracy(again, config, trained.state_dict, "test_accuracy")
    assert found == pytest.approx(trained.metrics["test_accuracy"], abs=0.005)
    assert true_accuracy(again, config, trained.state_dict, "robustness") is None
    assert with_images(VaryingCnns(stripes(recipe))) is None  # not a data set of this machine


def test_answers() -> None:
    covered = {"GMN": {"cnn": (40, 0.95), "vit": (30, 0.8)}}
    asked = partial(Trust, "GMN", Setting.parse("50"), {}, {}, (), {}, networks=9, known=100, groups=covered)
    shifts = [
        Shift("untrained networks", "", 4, 0.2, 0.1, 0.1, 1.0),
        Shift("others", "", 4, 0.3, None, None, 0.5, learned=(2, 1.0)),
    ]
    assert asked({"GMN": shifts}, {"GMN": 0.0}).shift_answer == (
        "GMN. Untrained networks: 0.20 predicted (0.10 true), 100% called out of distribution; others: 0.30 "
        "predicted, 50% called out of distribution (100% of the 2 that learned something)."
    )
    assert "No: predictions of permuted networks are equal" in asked({}, {"GMN": 0.0}).permutation_answer
    both = asked({}, {"GMN": 0.0, "DMC": 0.2}).permutation_answer
    worst = asked({}, {}).group_answer
    assert worst == "The worst family or size. GMN: 80.0% for vit (30 networks, chance 11.0%)."
    assert both == "Not with GMN: predictions are equal in every digit. With DMC, yes."


def test_a_single_family_needs_no_legend(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(figures, "as_image", lambda figure, alt: drawn.append(figure) or "")
    some = Predicted(np.arange(3), np.linspace(0, 1, 3), np.linspace(0, 1, 3))
    figures.scatter({"GMN": {"test": some}}, dict.fromkeys(range(3), "cnn"), "one")
    figures.scatter({"GMN": {"test": some}}, {0: "cnn", 1: "vit", 2: "vit"}, "two")
    assert [figure.axes[0].get_legend() is not None for figure in drawn] == [False, True]
