"""A zoo of INRs of digits, and a run on it, that all tests of the task share."""

from pathlib import Path

import pytest

import graph_metanetworks as gmn
from graph_metanetworks.tasks import TracedZoo
from graph_metanetworks.tasks.editing import ImageZoo
from graph_metanetworks.zoo import Zoo, build
from graph_metanetworks.zoo.recipes.inrs import ImageInrs

QUICK = {"setting": "60", "steps": 20, "rounds": 2, "batch_size": 8, "patience": 0, "quiet": True}


@pytest.fixture(scope="session")
def inr_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inrs") / "zoo"
    build(
        ImageInrs(data="digits", protocol="editing", steps=60, hidden=16), 40, folder, workers=1, quiet=True
    )
    return folder


@pytest.fixture(scope="session")
def data(inr_folder: Path) -> ImageZoo:
    return ImageZoo(TracedZoo(Zoo.open(inr_folder)), "dilate")


@pytest.fixture(scope="session")
def edit_run(data: ImageZoo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edit") / "run"
    gmn.train("editing", data, out=folder, learning_rate=1e-2, **QUICK)
    return folder
