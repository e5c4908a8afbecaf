"""The examples run. The tour, on a reduced list: what it prints, the page it writes, and that it can fail."""

import io
import re
import runpy
import sys
from contextlib import redirect_stdout
from html.parser import HTMLParser
from pathlib import Path

import pytest

from support.command_line import succeeds
from support.processes import LIMIT, run_python

EXAMPLES = Path(__file__).parent.parent / "examples"
VISITED = ["MLP", "LSTM", "Residual network"]


def run(name: str, *arguments: str | Path, timeout: float = LIMIT) -> str:
    """What an example prints."""
    done = run_python("-W", "error::UserWarning", EXAMPLES / name, *arguments, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_in_process(name: str, *arguments: str | Path) -> str:
    """Return what an example prints, without waiting for another process to import PyTorch."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.setattr(sys, "argv", [name, *map(str, arguments)])
        patch.syspath_prepend(EXAMPLES)  # where Python looks when it is given a script
        try:
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        except SystemExit as exit:
            assert not exit.code, printed.getvalue()
    return printed.getvalue()


def test_layers_of_pyg_learn():
    printed = run_in_process("pyg_blocks.py")
    errors = re.findall(r"(\w+) +squared error ([\d.]+), of the mean ([\d.]+)", printed)
    assert [name for name, _, _ in errors] == ["GINEConv", "GATv2Conv", "GPSConv"]
    assert all(float(error) < float(before) for _, error, before in errors)


def test_alignment_lowers_the_barrier(tmp_path):
    printed = run_in_process("merge.py", "--width", "96", "--epochs", "6", "--plot", tmp_path / "merge.svg")
    before, after = map(float, re.findall(r"barrier ([\d.]+), aligned ([\d.]+)", printed)[0])
    assert after < before / 3
    one, two, aligned = map(
        float, re.findall(r"endpoints ([\d.]+) and ([\d.]+); aligned ([\d.]+)", printed)[0]
    )
    assert aligned == two and max(one, two) < 0.5
    assert "aligned" in (tmp_path / "merge.svg").read_text()


@pytest.mark.slow
def test_own_checkpoints_become_a_zoo_a_predictor_and_a_map(tmp_path, monkeypatch):
    """Follow the page, with fewer steps of training."""
    page = runpy.run_path(str(EXAMPLES.parent / "docs" / "pages.py"))["shell_commands"]
    (tmp_path / "examples").symlink_to(EXAMPLES)
    monkeypatch.chdir(tmp_path)
    assert "60 checkpoints" in run("own_checkpoints.py", "mine")
    make, train, embed = page(EXAMPLES.parent / "docs" / "checkpoints.md")[:3]
    assert "has 60 networks" in succeeds(*make, "--quiet").output
    assert "validation" in succeeds(*train, "--steps", "20", "--quiet").output
    assert "embedded 60 networks" in succeeds(*embed, "--quiet").output
    assert "test accuracy" in (tmp_path / "map.svg").read_text()


BERT = r"([\d,]+) parameters\nprediction, .*: -?[\d.]+\nedited: .* changes by ([\d.]+) on average\n"


def test_a_bert_goes_in_and_comes_back():
    found = re.search(BERT, run_in_process("bert.py"))
    assert found and found[1] == "36,704" and float(found[2]) > 0
    assert len((EXAMPLES / "bert.py").read_text().splitlines()) < 40


def test_a_local_bert_goes_in_and_comes_back(tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 16, "hidden_size": 8, "intermediate_size": 4, "max_position_embeddings": 8}
    config = transformers.BertConfig(**sizes, num_hidden_layers=1, num_attention_heads=2)
    bert = transformers.BertModel(config)
    bert.save_pretrained(tmp_path)
    parameters = sum(parameter.numel() for parameter in bert.parameters())
    found = re.search(BERT, run_in_process("bert.py", "--checkpoint", tmp_path))
    assert found and found[1] == f"{parameters:,}" and float(found[2]) > 0


@pytest.fixture(scope="module")
def tour(tmp_path_factory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("tour")
    chosen = [part for name in VISITED for part in ("--only", name)]
    return run_in_process("tour.py", *chosen, "--out", folder), folder


def test_every_network_passes_every_oracle(tour):
    output, _ = tour
    rows = {name: line for line in output.splitlines() for name in VISITED if line.strip().startswith(name)}
    assert sorted(rows) == sorted(VISITED)
    assert all(row.count("✓") == 5 for row in rows.values())
    assert "index.html" in output.replace("\n", "")


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src", "xlink:href")]


def test_the_page_is_self_contained(tour):
    _, folder = tour
    page = Page()
    page.feed((folder / "index.html").read_text())
    assert page.tags.count("svg") == page.tags.count("section") == len(VISITED)
    assert all(link.startswith("#") for link in page.links), "the page reads another file"
    assert not {"script", "link", "img"} & set(page.tags)


def test_what_the_pictures_refer_to_is_there_once(tour):
    _, folder = tour
    text = (folder / "index.html").read_text()
    for name in set(re.findall(r"url\(#(\w+)\)", text)) | set(re.findall(r'href="#([\w-]+)"', text)):
        assert text.count(f'id="{name}"') == 1, name


@pytest.fixture
def tour_module(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    import tour as module

    return module


def test_a_broken_oracle_is_shown(tour_module, tmp_path, monkeypatch):
    def refuse(graph, model, x):
        raise AssertionError("<not covered>")

    monkeypatch.setitem(tour_module.ORACLES, "covers", refuse)
    with pytest.raises(SystemExit) as exit:
        tour_module.tour(only=["MLP"], out=tmp_path)
    assert exit.value.code == 1
    page = (tmp_path / "index.html").read_text()
    assert "✗ covers" in page and "&lt;not covered&gt;" in page and "✓ round trip" in page


def test_an_unknown_stop_is_refused(tour_module, tmp_path):
    with pytest.raises(Exception, match="is not on the tour: MLP"):
        tour_module.tour(only=["Perceiver"], out=tmp_path)


@pytest.mark.slow
def test_the_whole_tour(tour_module, tmp_path):
    with pytest.raises(SystemExit) as exit:
        tour_module.tour(only=None, out=tmp_path)
    assert exit.value.code == 0


@pytest.mark.slow
def test_the_demo_ends_with_what_the_reader_came_for(tmp_path):
    little = ("--networks", "40", "--epochs", "1", "--steps", "10")
    output = run("demo.py", *little, "--out", tmp_path, timeout=800)
    for method in ("GMN", "GMN with probes", "DMC", "DeepSets", "StatNN", "StatNN, boosted"):
        assert re.search(rf"^ +{method} +[\d,–]+ +-?[\d.]+ +\S+$", output, re.MULTILINE), method
    assert len(re.findall(r"network-\d+\.safetensors", output)) == 3
    assert (tmp_path / "scatter.png").is_file() and (tmp_path / "experiment" / "report.html").is_file()
    assert "report.html" in output.replace("\n", "")
