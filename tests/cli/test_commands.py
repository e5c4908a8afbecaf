"""The command line: targets, inputs, checkpoints, outputs, and errors without a traceback."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner, Result

import graph_metanetworks as gmn
from graph_metanetworks.checkpoints.example import parse_example, parse_literal
from graph_metanetworks.checkpoints.guess import guess_example
from graph_metanetworks.cli import app
from graph_metanetworks.cli.target import load_network, parse_keyword

NETWORKS = """
import torch
from torch import nn
from beside import WIDTH

class Net(nn.Module):
    def __init__(self, width=WIDTH, *, bias=True):
        super().__init__()
        self.inner = nn.Linear(3, width, bias=bias)
        self.outer = nn.Linear(width, 2)

    def forward(self, x, scale=None, strict=False):
        x = self.outer(torch.relu(self.inner(x)))
        if strict:
            assert scale.shape == (5, 2), "a scale of another shape"
        return x if scale is None else x * scale

class Strange(Net):
    def forward(self, x):
        return self.outer(torch.linalg.matrix_exp(self.inner(x)))

class Forgetful(Net):
    def forward(self, x):
        return self.inner(x)

def factory(width):
    return Net(width)

made = Net(4)
number = 3

class Box:
    Inner = Net

def broken():
    raise RuntimeError("no such weights")

def text():
    return "not a network"
"""


@pytest.fixture
def networks(tmp_path: Path, monkeypatch) -> str:
    (tmp_path / "beside.py").write_text("WIDTH = 5\n")
    (tmp_path / "networks_of_a_user.py").write_text(NETWORKS)
    monkeypatch.chdir(tmp_path)
    return str(tmp_path / "networks_of_a_user.py")


def run(*args: str) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def passes(*args: str) -> str:
    result = run("trace", *args)
    assert result.exit_code == 0, result.output
    return result.stdout


def fails(*args: str) -> str:
    result = run("trace", *args)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit), "a traceback"
    assert result.stderr.startswith("error: ") and not result.stdout
    return " ".join(result.stderr.split())


# ------------------------------------------------------------------ targets


@pytest.mark.parametrize(
    ("name", "options", "hidden"),
    [
        ("Net", (), 5),
        ("Net", ("--arg", "7"), 7),
        ("Net", ("--kwarg", "width=6", "--kwarg", "bias=False"), 6),
        ("factory", ("--arg", "8"), 8),
        ("made", (), 4),
        ("Box.Inner", (), 5),
    ],
)
def test_targets_in_a_file(networks, name, options, hidden):
    output = passes(f"{networks}:{name}", "--input", "1x3", *options)
    biased = "bias=False" not in options
    assert f"{3 * hidden + biased * hidden + 2 * hidden + 2} parameters" in output


def test_targets_in_a_module():
    assert "8 parameters" in passes("torch.nn:Linear", "--arg", "3", "--arg", "2")


def test_a_module_in_the_working_directory(networks):
    assert "Net: " in passes("networks_of_a_user:Net", "--input", "1x3")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("torch.nn.Linear", "module:name or path/to/file.py:name"),
        ("torch.nn:Linaer", "Did you mean 'Linear'?"),
        ("no.such.module:Net", "importing 'no.such.module' failed"),
        ("no/such/file.py:Net", "there is no file"),
        ("torch.nn:Linear", "missing 2 required positional arguments"),
        ("torch:float32", "is a dtype"),
        ("math:sqrt", "--arg"),
    ],
)
def test_a_wrong_target_is_explained(target, message):
    assert message in fails(target)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("number", "is a int"),
        ("broken", "RuntimeError: no such weights"),
        ("text", "returned an object of type str"),
        ("made --arg 3", "takes no --arg"),
    ],
)
def test_a_wrong_name_in_a_file_is_explained(networks, name, message):
    name, *options = name.split()
    assert message in fails(f"{networks}:{name}", *options)


def test_a_file_that_fails_is_explained(tmp_path):
    (tmp_path / "bad.py").write_text("1 / 0")
    assert "ZeroDivisionError" in fails(f"{tmp_path / 'bad.py'}:Net")


def test_literals():
    assert parse_literal("[1, 2]") == [1, 2] and parse_literal("relu") == "relu"
    assert parse_keyword("x=a=b") == ("x", "a=b")
    assert load_network("torch.nn:ReLU", [], {"inplace": True}).inplace
    assert "--kwarg takes name=value" in fails("torch.nn:Linear", "--kwarg", "3")


# ------------------------------------------------------------------ inputs


def test_inputs_are_drawn_as_described():
    example = parse_example(["2x3", "1x400:int64", "mask=7:bool", "x=2x2:float64", "flag=False"], high=3)
    floats, integers = example.args
    assert floats.shape == (2, 3) and floats.dtype == torch.float32
    assert integers.dtype == torch.int64 and integers.unique().tolist() == [0, 1, 2]
    assert example.kwargs["mask"].dtype == torch.bool and example.kwargs["x"].dtype == torch.float64
    assert example.kwargs["flag"] is False


def test_inputs_reach_the_network(networks):
    target = (f"{networks}:Net", "--input", "5x3", "--input", "strict=True")
    passes(*target, "--input", "scale=5x2")
    assert "a scale of another shape" in fails(*target, "--input", "scale=5x1")


@pytest.mark.parametrize(
    ("spec", "message"),
    [("3by4", "is not a shape"), ("2x3:int65", "no dtype 'int65'"), ("2=3", "name of an argument")],
)
def test_a_wrong_input_is_explained(spec, message):
    assert message in fails("torch.nn:Linear", "--arg", "3", "--arg", "2", "--input", spec)


GUESSED = [
    nn.Linear(3, 2),
    nn.Bilinear(2, 3, 4),
    nn.Conv1d(2, 3, 3),
    nn.ConvTranspose2d(2, 3, 3),
    nn.Conv3d(1, 2, 3),
    nn.LayerNorm([2, 3]),
    nn.Embedding(3, 2),
    nn.LSTM(3, 4),
    nn.GRU(3, 4, batch_first=True),
    nn.MultiheadAttention(4, 2, kdim=3, vdim=5),
    nn.Transformer(4, 2, 1, 1, 8, batch_first=True),
    nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 1),
    nn.TransformerDecoderLayer(4, 2, 8),
    nn.Sequential(nn.Flatten(), nn.Linear(3, 2)).double(),
]


@pytest.mark.parametrize("network", GUESSED, ids=lambda network: type(network).__name__)
def test_guessed_inputs_fit(network):
    example = guess_example(network)
    gmn.trace(network, *example.args, **example.kwargs)


def test_a_language_model_is_guessed(networks):
    Path("tiny.py").write_text(
        "import transformers as hf\n"
        "def gpt2():\n"
        "    return hf.GPT2LMHeadModel(hf.GPT2Config(n_embd=8, n_head=2, n_layer=1, vocab_size=11))\n"
    )
    assert "GPT2LMHeadModel" in passes("tiny.py:gpt2")


def test_what_cannot_be_guessed_is_asked_for():
    assert "--input 1x3x32x32" in fails("torch.nn:ReLU")


def test_a_wrong_guess_is_confessed(networks):
    Path("pair.py").write_text(
        "from torch import nn\n"
        "class Pair(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(3, 2)\n"
        "    def forward(self, x, y):\n"
        "        return self.fc(x + y)\n"
    )
    message = fails("pair.py:Pair")
    assert "guessed: 1x3:float32" in message and "missing 1 required positional argument: 'y'" in message
    passes("pair.py:Pair", "--input", "1x3", "--input", "1x3")


# ------------------------------------------------------------------ options of the tracer


def test_unknown_operations(networks):
    target = (f"{networks}:Strange", "--arg", "4", "--input", "4x3")
    assert "matrix_exp" in fails(*target)
    assert "Pinned: " in passes(*target, "--unknown", "pin")


def test_unused_parameters(networks):
    target = (f"{networks}:Forgetful", "--input", "1x3")
    assert "outer.weight" in fails(*target)
    assert "outer.weight" in passes(*target, "--unused", "keep")


@pytest.mark.parametrize("options", [("--attention", "shared"), ("--heads", "index")])
def test_variants_of_attention(options):
    target = ("torch.nn:TransformerEncoderLayer", "--arg", "4", "--arg", "2", "--json", "-")
    network = nn.TransformerEncoderLayer(4, 2)
    expected = gmn.Tracer(**{options[0][2:]: options[1]}).trace(network, torch.randn(8, 1, 4))
    plain, variant = json.loads(passes(*target)), json.loads(passes(*target, *options))
    assert variant["counts"]["nodes"] == expected.num_nodes != plain["counts"]["nodes"]


def test_an_unknown_choice_is_a_usage_error():
    assert run("trace", "torch.nn:Linear", "--unknown", "perhaps").exit_code == 2


def test_meta_networks_need_no_memory():
    output = passes(
        "torch.nn:Linear", "--arg", "1000000", "--arg", "1000000", "--kwarg", "bias=False", "--meta"
    )
    assert "1,000,000,000,000 parameters" in output


# ------------------------------------------------------------------ checkpoints


@pytest.mark.parametrize("form", ["safetensors", "pt", "wrapped.pt"])
def test_checkpoints_are_loaded(tmp_path, form):
    weights = nn.Linear(3, 2).state_dict()
    path = tmp_path / f"weights.{form}"
    if form == "safetensors":
        save_file(weights, path)
    else:
        torch.save({"state_dict": weights} if "wrapped" in form else weights, path)
    picture = tmp_path / "graph.svg"
    target = ("torch.nn:Linear", "--arg", "3", "--arg", "2", "--plot", str(picture))
    passes(*target, "--checkpoint", str(path))
    assert "positive" in picture.read_text()
    passes(*target)
    assert "positive" not in picture.read_text()


def test_a_checkpoint_of_another_network_is_explained(tmp_path):
    path = tmp_path / "weights.safetensors"
    save_file(nn.Linear(4, 2).state_dict(), path)
    message = fails("torch.nn:Linear", "--arg", "3", "--arg", "2", "--checkpoint", str(path))
    assert "does not fit Linear" in message and "weight [2, 3], in the file [2, 4]" in message


def test_a_checkpoint_never_runs_code(tmp_path):
    torch.save(nn.Linear(3, 2), tmp_path / "whole.pt")
    message = fails("torch.nn:Linear", "--arg", "3", "--arg", "2", "--checkpoint", str(tmp_path / "whole.pt"))
    assert "it could run any code" in message


def test_a_checkpoint_needs_memory(tmp_path):
    path = tmp_path / "weights.safetensors"
    save_file(nn.Linear(3, 2).state_dict(), path)
    assert "--meta" in fails(
        "torch.nn:Linear", "--arg", "3", "--arg", "2", "--meta", "--checkpoint", str(path)
    )


# ------------------------------------------------------------------ outputs


def test_json_says_what_the_graph_holds(networks, tmp_path):
    passes(f"{networks}:Net", "--input", "1x3", "--json", str(tmp_path / "graph.json"))
    data = json.loads((tmp_path / "graph.json").read_text())
    assert data["name"] == "Net"
    assert data["counts"] == {"nodes": 12, "edges": 32, "parameters": 32, "structural_edges": 0}
    assert [group["name"] for group in data["groups"] if group["kind"] == "neuron"] == ["inner"]
    weight = next(block for block in data["blocks"] if block["parameter"] == "outer.weight")
    assert weight["shape"] == [2, 5] and weight["is_owner"]
    assert [data["groups"][i]["name"] for i in weight["sources"]] == ["inner"]
    assert [data["groups"][i]["name"] for i in weight["targets"]] == ["outer"]
    (axis,) = data["symmetry"]["free_axes"]
    assert axis["size"] == 5 and data["symmetry"]["log_order"] == pytest.approx(4.787, abs=1e-3)


def test_json_alone_on_standard_output(networks):
    assert json.loads(passes(f"{networks}:Net", "--input", "1x3", "--json", "-"))["name"] == "Net"


def test_the_picture_is_drawn(networks, tmp_path):
    output = passes(f"{networks}:Net", "--input", "1x3", "--plot", str(tmp_path / "graph.png"))
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")
    assert "graph.png" in output.replace("\n", "")


def test_a_wrong_suffix_is_told_before_the_work(networks):
    assert ".svg, .png, .pdf" in fails("no.such.module:Net", "--plot", "graph.gif")


def test_debug_shows_the_traceback():
    result = run("trace", "torch.nn:Linaer", "--debug")
    assert isinstance(result.exception, gmn.TraceError)


def test_max_rows(networks):
    assert "more rows" in passes(f"{networks}:Net", "--input", "1x3", "--max-rows", "3")


# ------------------------------------------------------------------ gmn symmetry


def test_the_symmetry_is_explained(networks):
    result = run("symmetry", f"{networks}:Net", "--input", "1x3")
    assert result.exit_code == 0, result.output
    assert "Net: 120 permutations" in result.stdout
    assert "5 channels: inner" in result.stdout and "why: output" in result.stdout


def test_errors_of_symmetry_are_explained(networks):
    result = run("symmetry", f"{networks}:Strange", "--arg", "4", "--input", "4x3")
    assert result.exit_code == 1 and "matrix_exp" in result.stderr
    assert run("symmetry", f"{networks}:Strange", "--arg", "4", "--input", "4x3", "--unknown", "pin").stdout


def test_version_and_help():
    assert run("--version").stdout.strip() == f"gmn {gmn.__version__}"
    assert "trace" in run("--help").stdout
