"""An intact zoo, and copies of it that tests may damage."""

import shutil
from pathlib import Path

import pytest

from support.zoo_folders import make


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    make(folder)
    return folder


@pytest.fixture
def zoo(undisturbed: Path, tmp_path: Path) -> Path:
    return shutil.copytree(undisturbed, tmp_path / "zoo")
