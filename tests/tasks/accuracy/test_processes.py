"""Two processes that train together: the same scores as one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3] / "src"
TESTS = Path(__file__).resolve().parents[2]
COMMAND = "from graph_metanetworks.cli import main\n\nif __name__ == '__main__':\n    main()\n"


@pytest.mark.slow
def test_two_processes_score_as_one(zoo_folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "gmn.py"  # Lightning starts the second process by the file of the first
    script.write_text(COMMAND)
    env = os.environ | {"PYTHONPATH": f"{SOURCE}:{TESTS}", "OMP_NUM_THREADS": "1"}
    scores = {}
    for devices in (1, 2):
        out = tmp_path / f"run-{devices}"
        options = ("--setting", "50", "--steps", "8", "--rounds", "2", "--batch-size", "8", "--quiet")
        words = ["train", "accuracy", zoo_folder, "--out", out, "--devices", str(devices), *options]
        done = subprocess.run([sys.executable, script, *words], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("of training") == 1, "only the first process reports"
        scores[devices] = json.loads((out / "run.json").read_text())["result"]["scores"]
        curve = (out / "curve.csv").read_text().splitlines()
        assert len(curve) == 3
        scores[devices]["curve"] = {"val_r2": float(curve[-1].split(",")[-2])}
    for part, found in scores[1].items():
        assert found == pytest.approx(scores[2][part], abs=2e-3), part
