"""`gmn.train`, `gmn.load` and what a runner takes."""

import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.errors import StorageError, TaskError
from graph_metanetworks.storage.lock import locked
from graph_metanetworks.tasks import Runner, TracedZoo
from graph_metanetworks.tasks.accuracy import Predictor
from support.scaled_networks import scaled_zoo

QUICK = {"setting": "50", "steps": 4, "rounds": 2, "quiet": True}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> gmn.Zoo:
    return scaled_zoo(tmp_path_factory.mktemp("api") / "zoo")


@pytest.fixture(scope="module")
def folder(zoo: gmn.Zoo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("api-run") / "run"
    run = gmn.train("accuracy", str(zoo.folder), out=str(out), **QUICK)
    assert run.options["method"] == "gmn" and -10 < run.scores["test"]["r2"] <= 1
    return out


@pytest.fixture(scope="module")
def predictor(folder: Path) -> Predictor:
    found = gmn.load(str(folder))
    assert isinstance(found, Predictor)
    return found


def test_what_a_runner_takes(predictor: Predictor, zoo: gmn.Zoo) -> None:
    of_zoo = predictor(zoo)
    assert len(of_zoo) == len(zoo) and of_zoo == predictor(str(zoo.folder)) == predictor(TracedZoo(zoo))
    traced = TracedZoo(zoo)
    pairs = [(traced.graph(number), zoo[number].state_dict) for number in range(20)]
    assert [one.accuracy for one in predictor(pairs)] == [one.accuracy for one in of_zoo[:20]]
    model = zoo[0].build()
    (one,) = predictor(model, torch.zeros(1, 2))
    assert one.accuracy == of_zoo[0].accuracy and one.name == "Sequential"
    (again,) = predictor(traced.batch([0]), level=0.5)
    assert again.accuracy == one.accuracy and again.high - again.low <= one.high - one.low


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((nn.Linear(2, 3),), "a model needs an example input"),
        (([nn.Linear(2, 3)],), "of type list: pass a model and an example input, a zoo or its folder"),
        ((3,), "cannot take an object of type int"),
    ],
)
def test_what_a_runner_does_not_take(given: tuple, message: str, predictor: Predictor) -> None:
    with pytest.raises(TaskError, match=message):
        predictor(*given)


def test_an_example_goes_with_a_model(predictor: Predictor, zoo: gmn.Zoo) -> None:
    with pytest.raises(TaskError, match="an example input goes with a model, not with a Zoo"):
        predictor(zoo, torch.zeros(1, 2))


def test_networks_that_are_not_finite_are_left_out(predictor: Predictor, tmp_path: Path) -> None:
    broken = scaled_zoo(tmp_path, 12, broken=4)
    with pytest.warns(UserWarning, match="of 12 networks: their weights are NaN or infinite"):
        found = predictor(broken)
    assert 0 < len(found) < 12


def test_a_predictor_can_be_pickled(predictor: Predictor, zoo: gmn.Zoo) -> None:
    other = pickle.loads(pickle.dumps(predictor))
    assert other(zoo) == predictor(zoo) and other.run == predictor.run


def test_representations_are_short(predictor: Predictor, zoo: gmn.Zoo) -> None:
    for shown in (predictor, predictor.run, zoo, TracedZoo(zoo), TracedZoo(zoo).batch([0, 1])):
        assert len(repr(shown).splitlines()) <= 4 and len(repr(shown)) < 400, repr(shown)
    assert "gmn on" in repr(predictor)


def test_a_busy_run_folder_is_called_that(zoo: gmn.Zoo, tmp_path: Path) -> None:
    with locked(tmp_path / "run"), pytest.raises(StorageError, match="is in use by process"):
        gmn.train("accuracy", zoo, out=tmp_path / "run", **QUICK)


def test_what_is_no_zoo(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"of type Linear: pass a zoo, gmn.Zoo.open\(folder\)"):
        gmn.train("accuracy", nn.Linear(2, 2), out=tmp_path / "run")  # pyright: ignore[reportArgumentType]


def test_tuning_and_a_machine(zoo: gmn.Zoo, tmp_path: Path) -> None:
    run = gmn.train("accuracy", zoo, out=tmp_path / "run", method="statnn", tune=True, loggers=(), **QUICK)
    assert len(list((tmp_path / "run" / "tuning").iterdir())) == 5
    assert isinstance(gmn.load(tmp_path / "run"), Runner) and not (tmp_path / "run" / "logs").exists()
    assert run.is_finished
