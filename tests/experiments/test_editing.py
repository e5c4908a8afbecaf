"""The editing experiment: its table and its report."""

from pathlib import Path

import pytest

from graph_metanetworks.zoo import build
from graph_metanetworks.zoo.recipes.inrs import ImageInrs
from support.command_line import succeeds

QUICK = ("--steps", "4", "--rounds", "2", "--batch-size", "8", "--quiet")


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inrs") / "zoo"
    recipe = ImageInrs(data="digits", protocol="editing", steps=20, hidden=8)
    build(recipe, 30, folder, workers=1, quiet=True)
    return folder


def test_the_report_shows_pictures_and_errors_to_compare_with(zoo: Path, tmp_path: Path) -> None:
    words = (
        "--zoo",
        zoo,
        "--out",
        tmp_path,
        "--methods",
        "gmn,gmn-bundles",
        "--settings",
        "60",
        "--seeds",
        "1",
    )
    output = succeeds("experiment", "editing", *words, *QUICK).output
    assert "60 % MSE" in output
    report = (tmp_path / "report.html").read_text()
    for shown in ("What the errors mean", "Identity: the network as it is", "Mean image", "Best constant"):
        assert shown in report
    assert 'alt="edits, 60 % for training"' in report and 'alt="errors, 60 % for training"' in report
    assert (
        (tmp_path / "runs.csv").read_text().startswith("method,setting,seed,parameters,seconds,loss,identity")
    )
