"""Progress of a build: a bar on a terminal, an occasional line elsewhere."""

import re
from pathlib import Path

import pytest

from graph_metanetworks.zoo import build, progress
from graph_metanetworks.zoo.progress import Display, Pace
from support.zoo_recipes import Regressors


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "INTERVAL", 0.0)


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


@pytest.mark.usefixtures("at_once")
def test_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Display(1000, 10) as display:
        for shard in range(3):  # as a cluster reports: finished shards only
            display.finish(shard, 330)
    lines = said(capsys)
    assert lines[1].startswith("340 of 1,000 networks")
    assert re.fullmatch(r"10 of 1,000 networks, elapsed 0:00:\d\d", lines[0])
    assert re.fullmatch(r"670 of 1,000 networks, [\d.]+/s, elapsed 0:00:\d\d, remaining 0:00:\d\d", lines[2])
    assert re.fullmatch(r"1,000 of 1,000 networks, [\d.]+/s, elapsed 0:00:\d\d", lines[-1])


def test_lines_are_few(capsys: pytest.CaptureFixture[str]) -> None:
    with Display(100, 0) as display:
        for done in range(100):
            display.update(0, done)
    assert len(said(capsys)) == 2


def test_the_bar_names_its_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "60"}.items():
        monkeypatch.setenv(name, value)
    with Display(4, 0) as display:
        display.finish(0, 2)
        display.finish(1, 1)
    shown = capsys.readouterr().err
    assert "3/4" in shown and re.search(r"\d/s elapsed 0:00:\d\d remaining 0:00:\d\d", shown)


def test_time_without_updates_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: clock[0])
    pace = Pace(100, 20)
    assert pace.texts() == ["elapsed 0:00:00"]
    clock[0] = 20.0
    pace.update(60)  # the first update, after a long time
    assert pace.texts() == ["2.0/s", "elapsed 0:00:20", "remaining 0:00:20"]
    clock[0] = 80.0
    assert pace.texts() == ["30.0/min", "elapsed 0:01:20", "remaining 0:01:20"]
    clock[0] = 1000.0
    pace.update(80)
    clock[0] = 1010.0
    pace.update(90)
    assert (
        pace.texts()[0] == "1.8/min"
    )  # 30 networks in the 990 seconds since the last update before the window


def test_quiet(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    build(Regressors(), 5, tmp_path, workers=1, quiet=True)
    assert said(capsys) == []


def test_a_build_that_is_not_watched(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    build(Regressors(), 5, tmp_path, workers=1)
    assert [line.partition(",")[0] for line in said(capsys)] == ["0 of 5 networks", "5 of 5 networks"]
