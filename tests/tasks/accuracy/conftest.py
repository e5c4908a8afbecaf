"""A zoo, and a run on it, that all tests of the task share."""

from pathlib import Path

import pytest

from graph_metanetworks.tasks.accuracy import LabelledZoo, Options, train
from support.scaled_networks import labelled, scaled_zoo

QUICK = Options(setting="50", steps=12, rounds=3, batch_size=8, patience=0, learning_rate=3e-3)


@pytest.fixture(scope="session")
def zoo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scaled_zoo(tmp_path_factory.mktemp("scaled") / "zoo").folder


@pytest.fixture(scope="session")
def data(zoo_folder: Path) -> LabelledZoo:
    from graph_metanetworks.zoo import Zoo

    return labelled(Zoo.open(zoo_folder))


@pytest.fixture(scope="session")
def run_folder(data: LabelledZoo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "gmn"
    train(data, folder, QUICK)
    return folder
