"""The commands of `gmn zoo` and their messages."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from graph_metanetworks.cli import app
from graph_metanetworks.zoo import Zoo

FOLDER = Path(__file__).parents[1]
RECIPE = "support.zoo_recipes:Regressors"


def run(*args: object) -> Result:
    return CliRunner().invoke(app, ["zoo", *map(str, args)])


def passes(*args: object) -> str:
    result = run(*args)
    assert result.exit_code == 0, result.output
    return result.output


def fails(*args: object) -> str:
    result = run(*args)
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    return result.output


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo")
    passes("build", RECIPE, "--steps", 4, "--count", 30, "--out", folder, "--workers", 1, "--quiet")
    return folder


def test_options_of_the_recipe(zoo: Path) -> None:
    assert Zoo.open(zoo).description.options["steps"] == 4


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--steps=5"], {"steps": 5, "checkpoints": False}),
        (["--checkpoints", "--steps", "1"], {"steps": 1, "checkpoints": True}),
        (["--no-checkpoints"], {"steps": 3, "checkpoints": False}),
        (["--checkpoints=True"], {"steps": 3, "checkpoints": True}),
        (["--checkpoints", "false"], {"steps": 3, "checkpoints": False}),
        (["--checkpoints", "yes"], {"steps": 3, "checkpoints": True}),
    ],
)
def test_spellings_of_options(words: list[str], options: dict, tmp_path: Path) -> None:
    passes("build", RECIPE, *words, "--count", 2, "--out", tmp_path, "--workers", 1, "--quiet")
    found = Zoo.open(tmp_path).description.options
    assert {name: found[name] for name in options} == options


def test_a_recipe_in_a_file_is_found_again_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_recipes.py").write_text(
        "from support.zoo_recipes import Regressors\nclass Mine(Regressors): pass\n"
    )
    monkeypatch.chdir(tmp_path)
    passes("build", "my_recipes.py:Mine", "--count", 3, "--out", "zoo", "--workers", 1, "--quiet")
    monkeypatch.chdir("/")
    assert Zoo.open(tmp_path / "zoo")[0].build()


def test_help_lists_the_options_of_the_recipe() -> None:
    text = passes("build", RECIPE, "--help")
    assert "--drop-diverged" in text and "--checkpoints" in text
    assert "--checkpoints" not in passes("build", "--help")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["divers"], "there is no recipe 'divers'"),
        (
            [RECIPE, "--stps", "3"],
            "has an option --stps. The options of support.zoo_recipes:Regressors are: --steps,",
        ),
        ([RECIPE, "stray"], "'stray' is not an option"),
        ([RECIPE, "--steps", "-1"], "steps must not be negative"),
        ([RECIPE, "--steps", "abc"], "--steps must be a whole number, not 'abc'"),
        ([RECIPE, "--steps", "1.5"], "--steps must be a whole number, not '1.5'"),
        ([RECIPE, "--pause", "nan"], "--pause must be a number, not 'nan'"),
        ([RECIPE, "--checkpoints", "maybe"], "--checkpoints must be true or false, not 'maybe'"),
        ([RECIPE, "--steps"], "--steps needs a value (a whole number)"),
        ([RECIPE, "--no-steps"], "--no-steps is not valid: --steps is not a flag"),
        (["sine-inrs", "--schedule", "linear"], "--schedule must be constant or cosine, not 'linear'"),
        (["sine-inrs", "--steps", "0"], "steps must be at least 1, not 0"),
        (["sine-inrs", "--points", "0"], "points and largest must be positive"),
        (["sine-inrs", "--weight-decay", "-1"], "weight_decay must not be negative"),
        (["small-cnns", "--epochs", "0"], "epochs must be at least 1, not 0"),
        (["small-cnns", "--batch-size", "0"], "batch_size must be at least 1, not 0"),
    ],
)
def test_mistakes(words: list[str], said: str, tmp_path: Path) -> None:
    folder = tmp_path / "zoo"
    assert said in fails("build", *words, "--count", 3, "--out", folder, "--workers", 1)
    assert not folder.exists()  # nothing was started


def test_ctrl_c_before_anything_was_made(tmp_path: Path) -> None:
    (tmp_path / "stopped.py").write_text("raise KeyboardInterrupt  # while it is imported\n")
    result = run("build", tmp_path / "stopped.py:Mine", "--count", 3, "--out", tmp_path / "zoo")
    assert result.exit_code == 130 and "stopped: 0 of 3 networks are finished" in result.output


def test_another_command_is_refused(zoo: Path) -> None:
    said = fails("build", RECIPE, "--steps", 5, "--count", 30, "--out", zoo, "--workers", 1)
    assert "steps: 4, not 5" in said


def test_the_same_command_again(zoo: Path) -> None:
    output = passes("build", RECIPE, "--steps", 4, "--count", 30, "--out", zoo, "--workers", 1)
    assert "has 30 networks" in output


def test_info(zoo: Path, tmp_path: Path) -> None:
    text = passes("info", zoo, "--plot", tmp_path / "h.png")
    for part in ("30", "deep", "shallow", "test_accuracy", "seed", "steps", "torch", "noise", "saved"):
        assert part in text
    assert (tmp_path / "h.png").stat().st_size > 1000
    assert "Distribution of loss" in passes("info", zoo, "--metric", "loss", "--by", "diverged")
    known = json.loads(passes("info", zoo, "--json"))
    assert known["networks"] == known["wanted"] == 30 and known["settings"]["steps"] == 4
    assert "must end in" in fails("info", zoo, "--plot", "h.gif")
    assert "there is no folder" in fails("info", zoo, "--plot", tmp_path / "no" / "h.png")
    for option in ("--metric", "--by"):
        said = fails("info", zoo, option, "psnr")
        assert "there is no column 'psnr'" in said and "seed" not in said


def test_info_for_programs(zoo: Path, tmp_path: Path) -> None:
    result = run("info", zoo, "--json", "--plot", tmp_path / "h.png")
    spread = json.loads(result.stdout)["spread"]
    assert (tmp_path / "h.png").exists()
    families = Zoo.open(zoo).table["family"].to_pylist()
    assert spread["metric"] == "test_accuracy" and spread["by"] == "family"
    for family, group in spread["groups"].items():
        assert group["networks"] == sum(group["counts"]) == families.count(family) > 0
        assert len(group["counts"]) == len(spread["edges"]) - 1
        assert group["min"] <= group["median"] <= group["max"]


def test_info_counts_dropped_networks(tmp_path: Path) -> None:
    command = ("build", RECIPE, "--count", 40, "--out", tmp_path, "--workers", 1, "--quiet")
    passes(*command, "--drop-diverged")
    known = json.loads(passes("info", tmp_path, "--json"))
    assert known["dropped"] > 0 and known["networks"] + known["dropped"] == 40
    text = passes("info", tmp_path)
    assert f"{known['networks']} ({known['dropped']} more diverged and were dropped)" in text


def test_info_fits_the_terminal(zoo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = passes("info", zoo).splitlines()[1:]  # the first is the folder
    assert max(map(len, lines)) <= 80


def test_info_without_a_usual_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graph_metanetworks.zoo.histogram.METRICS", ())
    passes("build", RECIPE, "--count", 4, "--out", tmp_path, "--workers", 1, "--quiet")
    assert "Use --metric to show the distribution of one of index, family" in passes("info", tmp_path)
    assert json.loads(passes("info", tmp_path, "--json"))["spread"] is None
    assert "nothing to plot" in fails("info", tmp_path, "--plot", tmp_path / "h.png")


def test_check(zoo: Path) -> None:
    assert "with 30 networks: all intact" in passes("check", zoo)
    weights = zoo / "weights-00001.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1])
    said = fails("check", zoo)
    assert "weights-00001.safetensors" in said and "to rebuild only the damaged files" in said
    weights.write_bytes(content)


def test_check_names_shards_without_a_line(zoo: Path) -> None:
    manifest = zoo / "manifest.jsonl"
    content = manifest.read_bytes()
    manifest.write_bytes(content.splitlines(keepends=True)[0])
    assert "table-00001.parquet and weights-00001.safetensors are not in the manifest" in passes("check", zoo)
    manifest.unlink()
    said = fails("check", zoo)
    assert "manifest.jsonl: lines are missing" in said and "weights-00000.safetensors" in said
    command = ("build", RECIPE, "--steps", 4, "--count", 30, "--out", zoo, "--workers", 1)
    assert "kept 2 intact shards that were missing" in passes(*command)
    assert manifest.read_bytes() == content


def test_no_zoo(tmp_path: Path) -> None:
    for command in ("info", "check"):
        assert "there is no zoo in" in fails(command, tmp_path)


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    assert type(run("info", tmp_path, "--debug").exception).__name__ == "ZooError"
