"""Training: it learns, it resumes as if it had never stopped, and it overwrites nothing."""

import csv
import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from graph_metanetworks.errors import Diverged, TaskError, UnsupportedNetwork
from graph_metanetworks.tasks import runs
from graph_metanetworks.tasks.accuracy import (
    LabelledZoo,
    Machine,
    Options,
    Predictor,
    train,
    tune,
)
from graph_metanetworks.training.callbacks import Curve
from graph_metanetworks.training.run_folder import RUN, Run
from tasks.accuracy.conftest import QUICK

TUNED = replace(QUICK, learning_rate=None)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("method", ["statnn", "statnn-boosting", "deepsets"])
def test_methods_learn(method: str, data: LabelledZoo, tmp_path: Path) -> None:
    options = replace(QUICK, method=method, steps=80, rounds=4, learning_rate=5e-3)
    run = train(data, tmp_path / "run", options)
    assert run.result and run.result["scores"]["test"]["r2"] > 0.5


@pytest.mark.slow
def test_the_metanetwork_learns(data: LabelledZoo, tmp_path: Path) -> None:
    run = train(
        data, tmp_path / "run", replace(QUICK, steps=200, rounds=10, batch_size=16, learning_rate=1e-3)
    )
    assert run.result and run.result["scores"]["test"]["r2"] > 0.5


def test_the_mean_of_r2_and_tau_chooses_the_weights(data: LabelledZoo, tmp_path: Path) -> None:
    run = train(data, tmp_path / "run", replace(QUICK, method="statnn", steps=60, rounds=12, batch_size=4))
    with (tmp_path / "run" / "curve.csv").open() as file:
        points = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    for point in points:
        assert point["val_r2_tau"] == pytest.approx((point["val_r2"] + point["val_tau"]) / 2, abs=1e-5)
    best = max(points, key=lambda point: point["val_r2_tau"])
    assert run.result and run.result["best_round"] == best["round"]
    assert run.scores["validation"]["r2_tau"] == pytest.approx(best["val_r2_tau"], abs=1e-3)


class Killed(Exception):
    pass


@pytest.mark.parametrize("method", ["gmn", "dmc"])
def test_a_resumed_run_is_as_if_never_stopped(
    method: str, data: LabelledZoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = replace(QUICK, method=method, patience=4)
    whole = train(data, tmp_path / "whole", options)
    with monkeypatch.context() as patched:
        after_a_round = Curve.on_train_epoch_end

        def dies(self: Curve, trainer, module) -> None:
            after_a_round(self, trainer, module)
            if len(self.points) == 2:  # before the second checkpoint is written
                raise Killed

        patched.setattr(Curve, "on_train_epoch_end", dies)
        with pytest.raises(Killed):
            train(data, tmp_path / "stopped", options)
    assert not Run.load(tmp_path / "stopped").is_finished
    with pytest.raises(TaskError, match="is not finished"):
        Predictor.load(tmp_path / "stopped")
    resumed = train(data, tmp_path / "stopped", options)
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "stopped"))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert whole.result and resumed.result and whole.result["scores"] == resumed.result["scores"]
    curves = [(tmp_path / name / "curve.csv").read_text().splitlines() for name in ("whole", "stopped")]
    assert len(curves[0]) == len(curves[1]) == 1 + options.rounds
    for one, other in zip(*curves, strict=True):  # all but the seconds
        assert one.split(",")[:2] + one.split(",")[3:] == other.split(",")[:2] + other.split(",")[3:]


def test_a_run_that_was_stopped_after_training_is_only_finished(
    data: LabelledZoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Early stopping had ended it: it must not train on."""
    options = replace(QUICK, method="statnn", rounds=12, patience=2, learning_rate=1e-9)
    whole = train(data, tmp_path / "whole", options)
    with monkeypatch.context() as patched:

        def dies(*_: object) -> None:
            raise Killed

        patched.setattr(runs, "finish", dies)
        with pytest.raises(Killed):
            train(data, tmp_path / "stopped", options)
    resumed = train(data, tmp_path / "stopped", options)
    assert whole.result and resumed.result
    assert whole.result["rounds"] == resumed.result["rounds"] < 12
    assert whole.result["scores"] == resumed.result["scores"]


def test_ctrl_c_stops_and_the_run_goes_on(
    data: LabelledZoo, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        patched.setattr(Curve, "on_train_start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(data, tmp_path / "run", QUICK)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    train(data, tmp_path / "run", QUICK)
    first, second = (load_file(f / "model.safetensors") for f in (run_folder, tmp_path / "run"))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_training_depends_on_the_seed_only(data: LabelledZoo, run_folder: Path, tmp_path: Path) -> None:
    train(data, tmp_path / "again", QUICK)
    train(data, tmp_path / "other", replace(QUICK, seed=1))
    weights = [
        load_file(f / "model.safetensors") for f in (run_folder, tmp_path / "again", tmp_path / "other")
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not all(torch.equal(weights[0][name], weights[2][name]) for name in weights[0])


def test_a_finished_run_is_not_touched(data: LabelledZoo, run_folder: Path) -> None:
    before = contents(run_folder)
    with pytest.raises(TaskError, match="finished run of the same options: nothing was changed"):
        train(data, run_folder, QUICK)
    with pytest.raises(TaskError, match=r"holds another run: seed: 0, not 1.*Nothing was changed"):
        train(data, run_folder, replace(QUICK, seed=1))
    assert contents(run_folder) == before


def test_other_folders_are_not_touched(data: LabelledZoo, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(TaskError, match=r"is not empty and holds no run \(thesis.tex\)"):
        train(data, tmp_path, QUICK)
    assert (tmp_path / "thesis.tex").read_text() == "precious" and not (tmp_path / RUN).exists()


@pytest.mark.parametrize(
    "name", ["predictions.csv", "model.safetensors", "logs/notes.txt", "tuning/mine.txt"]
)
def test_files_of_a_user_that_are_named_as_ours(name: str, data: LabelledZoo, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("hello")
    with pytest.raises(TaskError, match="is not empty and holds no run"):
        train(data, tmp_path, QUICK)
    if not name.startswith("tuning"):
        with pytest.raises(TaskError, match="is not empty and holds no run"):
            tune(data, tmp_path, TUNED)
    assert (tmp_path / name).read_text() == "hello" and not (tmp_path / RUN).exists()


def test_a_run_of_another_format_is_refused(run_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(run_folder, tmp_path / "old")
    content = json.loads((tmp_path / "old" / RUN).read_text())
    (tmp_path / "old" / RUN).write_text(json.dumps(content | {"format": 0, "version": "0.0.1"}))
    with pytest.raises(
        TaskError, match=r"format 0, made by version 0\.0\.1, and this version reads format 1"
    ):
        Predictor.load(tmp_path / "old")


def test_a_run_is_not_continued_by_another_version(data: LabelledZoo, tmp_path: Path) -> None:
    asked = train(data, tmp_path / "run", replace(QUICK, method="statnn-boosting"))
    replace(asked, version="0.0.1", result=None).save(tmp_path / "run")
    with pytest.raises(TaskError, match=r"version 0\.0\.1 of.*install version 0\.0\.1 to resume it"):
        train(data, tmp_path / "run", replace(QUICK, method="statnn-boosting"))
    with pytest.raises(TaskError, match=r"install version 0\.0\.1 to resume it"):
        tune(data, tmp_path / "run", TUNED)


def test_tuning_takes_the_best_rate(data: LabelledZoo, tmp_path: Path) -> None:
    options = replace(TUNED, method="statnn")
    run = tune(data, tmp_path / "run", options, rates=(1e-5, 5e-3))
    assert run.options["learning_rate"] == 5e-3
    assert Predictor.load(tmp_path / "run").run == run
    assert sorted(p.name for p in (tmp_path / "run" / "tuning").iterdir()) == [
        "learning-rate-0.005",
        "learning-rate-1e-05",
    ]


def test_tuning_that_was_stopped_while_copying_goes_on(data: LabelledZoo, tmp_path: Path) -> None:
    options = replace(TUNED, method="statnn")
    run = tune(data, tmp_path / "run", options, rates=(1e-3,))
    (tmp_path / "run" / RUN).unlink()
    assert tune(data, tmp_path / "run", options, rates=(1e-3,)) == run


def test_what_cannot_be_tuned(data: LabelledZoo, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"give either --tune or --learning-rate 0\.003"):
        tune(data, tmp_path / "run", QUICK)
    with pytest.raises(TaskError, match="statnn-boosting has no learning rate to tune"):
        tune(data, tmp_path / "run", replace(TUNED, method="statnn-boosting"))
    assert not (tmp_path / "run").exists()


def test_tuning_leaves_out_rates_that_diverge(data: LabelledZoo, tmp_path: Path) -> None:
    options = replace(TUNED, method="statnn")
    run = tune(data, tmp_path / "run", options, rates=(1e-3, 1e30))
    assert run.options["learning_rate"] == 1e-3
    with pytest.raises(Diverged, match="diverged with every learning rate"):
        tune(data, tmp_path / "other", options, rates=(1e30,))


def test_tuning_touches_nothing_else(data: LabelledZoo, run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="finished run"):
        tune(data, run_folder, TUNED, rates=(1e-3,))
    replace(Run.load(run_folder), result=None).save(tmp_path)
    with pytest.raises(TaskError, match="unfinished run without --tune: nothing was changed"):
        tune(data, tmp_path, TUNED, rates=(1e-3,))
    (tmp_path / RUN).rename(tmp_path / "mine.json")
    with pytest.raises(TaskError, match=r"holds no run \(mine.json\)"):
        tune(data, tmp_path, TUNED, rates=(1e-3,))


def test_early_stopping(data: LabelledZoo, tmp_path: Path) -> None:
    options = replace(QUICK, method="statnn", rounds=12, patience=2, learning_rate=1e-9)
    run = train(data, tmp_path / "run", options)
    assert run.result and run.result["rounds"] < 12


def test_squared_error_and_tensorboard(data: LabelledZoo, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    options = replace(QUICK, method="deepsets", loss="mse")
    train(data, tmp_path / "run", options, Machine(loggers=("csv", "tensorboard")))
    assert list((tmp_path / "run" / "logs" / "csv").rglob("metrics.csv"))
    assert list((tmp_path / "run" / "logs" / "tensorboard").rglob("events*"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "resnet"}, "no method 'resnet'; choose from gmn"),
        ({"size": "huge"}, "no size 'huge'"),
        ({"loss": "mae"}, "no loss 'mae'"),
        ({"steps": 10, "rounds": 3}, "cannot be cut into 3 equal rounds"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"learning_rate": -1.0}, "a learning rate must be positive, such as 1e-3, not -1"),
        ({"learning_rate": float("nan")}, "must be positive"),
        ({"seed": -1}, "a seed must be 0 or more"),
    ],
)
def test_bad_options(options: dict, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        Options(**options)


def test_loggers(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TaskError, match="no logger neptune"):
        Machine(loggers=("neptune",))
    monkeypatch.setattr("graph_metanetworks.training.options.find_spec", lambda name: None)
    with pytest.raises(TaskError, match=r"pip install 'graph_metanetworks\[wandb\]'"):
        Machine(loggers=("csv", "wandb"))


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        (Machine(accelerator="foo"), "cannot train with --accelerator foo --devices 1 here"),
        (Machine(devices=3), "multiple of 3"),
        pytest.param(
            Machine(accelerator="gpu"),
            "--accelerator gpu.*Choose cpu, or auto",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
    ],
)
def test_a_start_that_cannot_work_claims_nothing(
    machine: Machine, message: str, data: LabelledZoo, tmp_path: Path
) -> None:
    with pytest.raises(TaskError, match=message):
        train(data, tmp_path / "run", QUICK, machine)
    assert not (tmp_path / "run").exists()


def test_a_method_that_cannot_take_the_networks_leaves_the_folder_free(
    data: LabelledZoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise UnsupportedNetwork("no place for it")

    with monkeypatch.context() as patched:
        patched.setattr(runs, "check_takes_all", refuses)
        with pytest.raises(UnsupportedNetwork):
            train(data, tmp_path, replace(QUICK, method="statnn"))
    assert train(data, tmp_path, replace(QUICK, method="statnn-boosting")).is_finished
