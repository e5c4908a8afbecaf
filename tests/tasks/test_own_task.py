"""A task and a baseline of a user's own, each in one file outside the package, through every command."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import graph_metanetworks as gmn
from graph_metanetworks.cli import app
from graph_metanetworks.errors import TaskError
from graph_metanetworks.methods import find_method
from graph_metanetworks.tasks import TracedZoo
from graph_metanetworks.tasks.registry import TASKS, make_task, task_class
from support.scaled_networks import scaled_zoo

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TASK = f"{EXAMPLES / 'learning_rate_task.py'}:LearningRate"
NORMS = f"{EXAMPLES / 'norms_baseline.py'}:NORMS"
FEW = ("--column", "rate", "--steps", "8", "--rounds", "2", "--quiet")
QUICK = (*FEW, "--setting", "50")


def passes(*words: object) -> str:
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scaled_zoo(tmp_path_factory.mktemp("own") / "zoo").folder


@pytest.mark.parametrize("file", ["learning_rate_task.py", "norms_baseline.py"])
def test_one_short_file_each(file: str) -> None:
    assert len((EXAMPLES / file).read_text().splitlines()) < 120


@pytest.mark.parametrize("method", ["gmn", "statnn-boosting", NORMS])
def test_train_and_predict(method: str, zoo: Path, tmp_path: Path) -> None:
    output = passes("train", TASK, zoo, "--out", tmp_path / "run", "--method", method, *QUICK)
    assert "mean error (powers of ten)" in output and "validation" in output
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["task"] == TASK and run["options"]["method"] == method
    found = json.loads(passes("predict", tmp_path / "run", zoo, "--json", "-"))
    assert len(found) == 60 and all(len(one["values"]) == 1 for one in found)
    printed = passes("predict", tmp_path / "run", zoo, "--quiet")
    assert "Predictions (learning-rate)" in printed


def test_the_experiment_has_a_report(zoo: Path, tmp_path: Path) -> None:
    words = ("--zoo", zoo, "--out", tmp_path / "e", "--methods", f"statnn,{NORMS}", "--seeds", "2")
    output = passes(
        "experiment", TASK, *words, "--column", "rate", "--steps", "8", "--rounds", "2", "--quiet"
    )
    assert "50 % R²" in output and "Norms" in output and "mean ± deviation over 2 seeds" in output
    report = (tmp_path / "e" / "report.html").read_text()
    assert "Predict the learning rate" in report and "learning curves" in report
    assert "an MLP on three norms of the weights" in report and "Can it be trusted" not in report
    assert (tmp_path / "e" / "runs" / "50" / "norms" / "seed-1" / "run.json").is_file()


def test_a_lower_score_is_better_where_the_task_says_so(zoo: Path, tmp_path: Path) -> None:
    words = ("--zoo", zoo, "--out", tmp_path, "--methods", f"statnn-boosting,{NORMS}", "--seeds", "1")
    passes("experiment", TASK, *words, *FEW)
    rows = [line.split(",") for line in (tmp_path / "table.csv").read_text().splitlines()[1:]]
    errors = {row[0].strip('"'): float(row[-1]) for row in rows}
    best = min(errors.values())
    assert f"<td class=best>{best:.3f}</td>" in (tmp_path / "report.html").read_text()


def test_the_options_of_a_task_are_those_of_the_command() -> None:
    text = " ".join(passes("train", TASK, "--help").split())
    assert "--column" in text and "learning_rate" in text and "--batch-size" in text and "--devices" in text
    assert "--label" not in text
    text = " ".join(passes("experiment", TASK, "--help").split())
    assert "--column" in text and "--seeds" in text and "--devices" not in text


def test_a_class_can_be_passed_instead(zoo: Path, tmp_path: Path) -> None:
    kind = task_class(TASK)
    options = {"column": "rate", "setting": "50", "steps": 4, "rounds": 1}
    run = gmn.train(kind, zoo, out=tmp_path / "run", method="deepsets", quiet=True, **options)
    assert set(run.scores["test"]) == {"r2", "error"}


def test_built_in_tasks_go_by_their_name(zoo: Path) -> None:
    for name in TASKS:
        assert make_task(task_class(name), {}).reference == name


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("acuracy", "there is no task 'acuracy'; choose from accuracy, .*or name your own"),
        (f"{EXAMPLES / 'learning_rate_task.py'}:Options", "is no task: it must be a subclass of"),
        (f"{EXAMPLES / 'learning_rate_task.py'}:LearningRates", "Did you mean 'LearningRate'"),
        (f"{EXAMPLES / 'missing.py'}:Task", "there is no file"),
    ],
)
def test_tasks_that_are_not_there(reference: str, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        task_class(reference)
    result = CliRunner().invoke(app, ["train", reference, "zoo", "--out", "run"])
    assert result.exit_code == 1


def test_methods_that_are_none() -> None:
    with pytest.raises(TaskError, match="is a type, not a method"):
        find_method(f"{EXAMPLES / 'norms_baseline.py'}:Norms")
    with pytest.raises(TaskError, match="cannot be imported"):
        find_method(f"{EXAMPLES / 'norms_baseline.py'}:NORM")


def test_unknown_options_are_named(zoo: Path, tmp_path: Path) -> None:
    with pytest.raises(
        TaskError, match="accuracy has no option stepps; its options are learning_rate, steps"
    ):
        gmn.train("accuracy", zoo, out=tmp_path / "run", stepps=3)
    assert not (tmp_path / "run").exists()
    assert TracedZoo(gmn.Zoo.open(zoo)).finite.all()
