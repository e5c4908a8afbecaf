"""Two processes that train together: the same scores as one, one report, and no noise."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import children, finish, members, run_python, started, wait_until

COMMAND = "from graph_metanetworks.cli import main\n\nif __name__ == '__main__':\n    main()\n"


QUICK = ("--setting", "50", "--steps", "8", "--rounds", "2", "--batch-size", "8", "--quiet")


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """Lightning starts the second process by the file of the first."""
    script = tmp_path / "gmn.py"
    script.write_text(COMMAND)
    return script


def trained(command: Path, zoo: Path, out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_python(command, "train", "accuracy", zoo, "--out", out, *QUICK, *words, timeout=400)


@pytest.mark.slow
def test_two_processes_score_as_one(zoo_folder: Path, command: Path, tmp_path: Path) -> None:
    scores = {}
    for devices in (1, 2):
        out = tmp_path / f"run-{devices}"
        done = trained(command, zoo_folder, out, "--devices", str(devices))
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("of training") == 1, "only the first process reports"
        assert done.stderr == ""
        scores[devices] = json.loads((out / "run.json").read_text())["result"]["scores"]
        with (out / "curve.csv").open() as file:
            *_, last = points = list(csv.DictReader(file))
        assert len(points) == 2
        scores[devices]["curve"] = {name: float(last[name]) for name in ("val_r2", "val_r2_tau")}
    for part, found in scores[1].items():
        assert found == pytest.approx(scores[2][part], abs=2e-3), part


@pytest.mark.slow
def test_two_processes_tune_together(zoo_folder: Path, command: Path, tmp_path: Path) -> None:
    words = ("--devices", "2", "--tune", "--method", "statnn")
    done = trained(command, zoo_folder, tmp_path / "run", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("of training") == 1 and done.stderr == ""
    runs = [json.loads(file.read_text()) for file in (tmp_path / "run" / "tuning").glob("*/run.json")]
    best = max(run["result"]["scores"]["validation"]["r2_tau"] for run in runs)
    chosen = json.loads((tmp_path / "run" / "run.json").read_text())
    assert len(runs) == 5 and chosen["result"]["scores"]["validation"]["r2_tau"] == best


LONG = ("--setting", "50", "--steps", "100000", "--rounds", "10000", "--batch-size", "8", "--quiet")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, None)])
def test_all_processes_end_when_one_is_stopped(
    number: signal.Signals, code: int | None, zoo_folder: Path, command: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    asked = [sys.executable, command, "train", "accuracy", zoo_folder, "--out", out, *LONG, "--devices", "2"]
    with started(asked) as process:
        wait_until((out / "curve.csv").exists, 240)
        if number is signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            os.kill(children(process.pid)[0], number)
        done = finish(process, 120)
        assert not members(process.pid)
    assert done.returncode == code if code else done.returncode, done.stderr
    if code:
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_batch_that_cannot_be_shared_is_refused_once(
    zoo_folder: Path, command: Path, tmp_path: Path
) -> None:
    done = trained(command, zoo_folder, tmp_path / "run", "--devices", "2", "--batch-size", "7")
    assert done.returncode == 1 and done.stderr.count("multiple of 2") == 1
    assert not (tmp_path / "run").exists()
