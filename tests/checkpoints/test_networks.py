"""Networks of checkpoints: builders get what they ask for, and architectures are told apart."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks import CheckpointError, StateDictMismatch
from graph_metanetworks.checkpoints.builder import Builder, Facts
from graph_metanetworks.checkpoints.example import Example
from graph_metanetworks.checkpoints.find import find_checkpoints
from graph_metanetworks.checkpoints.fingerprint import fingerprint
from graph_metanetworks.checkpoints.networks import NetworkReader

FACTS = Facts(Path("a.pt"), {"width": 3, "kind": "wide"}, lambda: {"weight": (5, 7)}, {"depth": 2})


def width_of(build, facts: Facts = FACTS, **options) -> int:
    network, _ = Builder.of(build, **options)(facts)
    assert isinstance(network, nn.Linear)
    return network.in_features


def test_builders_ask_by_name() -> None:
    assert width_of(lambda width: nn.Linear(width, 1)) == 3
    assert width_of(lambda shapes: nn.Linear(shapes["weight"][1], 1)) == 7
    assert width_of(lambda path, row, shapes: nn.Linear(len(str(path)) + row["width"] + len(shapes), 1)) == 8
    assert width_of(lambda p, r, s: nn.Linear(len(str(p)) + r["width"] + len(s), 1)) == 8
    assert width_of(lambda config, size=4: nn.Linear(config["depth"] + size, 1)) == 6
    assert width_of(lambda file: nn.Linear(len(file.name), 1)) == 4
    assert width_of(lambda: nn.Linear(9, 1)) == 9
    assert width_of(nn.Linear(2, 1)) == 2
    assert width_of(nn.Linear, args=[6, 1]) == 6
    assert Builder.of(lambda: (nn.Linear(2, 1), torch.zeros(4, 2)))(FACTS)[1] is not None


def test_a_column_names_the_builder(tmp_path: Path) -> None:
    builders = {"wide": lambda: nn.Linear(100, 1), "narrow": lambda: nn.Linear(2, 1)}
    assert width_of(builders, column="kind") == 100
    (tmp_path / "own_builders.py").write_text(
        "from torch import nn\ndef wide(width): return nn.Linear(width, 1)\n"
    )
    assert width_of(str(tmp_path / "own_builders.py"), column="kind") == 3
    with pytest.raises(CheckpointError, match="names none in the column 'architecture'"):
        Builder.of(builders)(FACTS)
    with pytest.raises(CheckpointError, match="no builder of 'wide', only of other"):
        Builder.of({"other": nn.Linear}, column="kind")(FACTS)


def test_builders_that_fail() -> None:
    with pytest.raises(CheckpointError, match=r"needs height, .* a column of the table: width, kind"):
        Builder.of(lambda width, height: None)(FACTS)
    with pytest.raises(CheckpointError, match=r"building the network of 'a.pt' failed: ZeroDivisionError"):
        Builder.of(lambda: 1 / 0)(FACTS)
    with pytest.raises(CheckpointError, match=r"TypeError: .* 'height' was given the path of the file"):
        Builder.of(lambda height: nn.Linear(height, 1))(FACTS)
    with pytest.raises(CheckpointError, match=r"returned an object of type str, not an nn.Module"):
        Builder.of(lambda: "no network")(FACTS)
    assert Builder.of(lambda: None).reference is None
    assert Builder.of(nn.Linear).reference == "torch.nn.modules.linear:Linear"


class Switched(nn.Linear):
    def __init__(self, activation) -> None:
        super().__init__(3, 2)
        self.activation = activation


def test_fingerprints_see_more_than_shapes() -> None:
    assert fingerprint(Switched(torch.relu)) == fingerprint(Switched(torch.relu))
    different = [
        Switched(torch.relu),
        Switched(torch.tanh),
        Switched("relu"),
        nn.Linear(3, 2),
        nn.Linear(2, 3),
    ]
    different += [Switched(lambda x: x * 2), Switched(lambda x: x.relu())]
    assert len({fingerprint(network) for network in different}) == len(different)
    assert fingerprint(nn.Linear(3, 2), "1x3") != fingerprint(nn.Linear(3, 2), "2x3")


def test_examples_survive_json() -> None:
    ids = torch.tensor([[3, 1, 4]])
    example = Example((torch.randn(1, 3), ids), {"mask": torch.tensor([True, False]), "cache": False})
    again = Example.from_json(json.loads(json.dumps(example.as_json())))
    assert str(again) == str(example) and torch.equal(again.args[1], ids)
    assert again.kwargs["mask"].tolist() == [True, False] and again.kwargs["cache"] is False


def test_checkpoints_are_found(tmp_path: Path) -> None:
    for name in (
        "b.pt",
        "a.pth.tar",
        "notes.txt",
        "x/c.ckpt",
        ".hidden/d.pt",
        "zoo/zoo.json",
        "zoo/w.safetensors",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "hf").mkdir()
    for name in ("config.json", "model.safetensors", "optimizer.pt"):
        (tmp_path / "hf" / name).write_text("{}")
    index = {"weight_map": {"a": "shard-1.bin", "b": "shard-2.bin"}}
    (tmp_path / "x" / "big.bin.index.json").write_text(json.dumps(index))
    (tmp_path / "x" / "shard-1.bin").write_text("")
    found = find_checkpoints(tmp_path, skip=lambda folder: (folder / "zoo.json").exists())
    names = [path.relative_to(tmp_path).as_posix() for path in found]
    assert names == ["a.pth.tar", "b.pt", "hf", "x/big.bin.index.json", "x/c.ckpt"]


def test_a_hugging_face_folder_needs_no_builder(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12
    )
    model = transformers.BertModel(config)
    model.save_pretrained(tmp_path)
    saved = NetworkReader().read(tmp_path)
    assert type(saved.network) is transformers.BertModel
    assert all(torch.equal(saved.state_dict[name], x) for name, x in model.state_dict().items())
    assert "a Hugging Face folder" in saved.checkpoint.summary
    assert saved.trace().num_parameters == sum(p.numel() for p in model.parameters())
    beside = NetworkReader().read(tmp_path / "model.safetensors")  # config.json is beside the file
    assert beside.architecture == saved.architecture
    (tmp_path / "config.json").write_text('{"model_type": "none"}')
    with pytest.raises(StateDictMismatch, match="transformers cannot build") as error:
        NetworkReader().read(tmp_path)
    assert len(str(error.value)) < 600  # transformers lists every model that it has
    (tmp_path / "config.json").unlink()
    with pytest.raises(CheckpointError, match="is unknown: name the class or function that builds it"):
        NetworkReader().read(tmp_path / "model.safetensors")


def test_the_weights_are_those_of_the_file(tmp_path: Path) -> None:
    trained = nn.Linear(3, 2)
    torch.save(trained.half().state_dict(), tmp_path / "a.pt")
    saved = NetworkReader(Builder.of(lambda: nn.Linear(3, 2))).read(tmp_path / "a.pt")
    assert saved.state_dict["weight"].dtype == torch.float32  # that of the network
    assert torch.equal(saved.state_dict["weight"], trained.weight.float())
    assert not torch.equal(saved.network.weight, saved.state_dict["weight"])
    assert gmn.read_checkpoint(tmp_path / "a.pt")["weight"].dtype == torch.float16


class Idle(nn.Linear):
    """A layer with the temperature of a loss."""

    def __init__(self) -> None:
        super().__init__(3, 2)
        self.temperature = nn.Parameter(torch.ones(1))


def test_unused_parameters_are_kept_when_asked(tmp_path: Path) -> None:
    torch.save(Idle().state_dict(), tmp_path / "a.pt")
    with pytest.raises(gmn.UnusedParameters, match="--unused keep"):
        NetworkReader(Builder.of(Idle)).read(tmp_path / "a.pt").trace()
    kept = NetworkReader(Builder.of(Idle), unused="keep").read(tmp_path / "a.pt").trace()
    assert kept.num_parameters == 9


class Flat(nn.Module):
    """Takes sequences, and begins with a convolution for images."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(1, 2, (3, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x[:, None, :, None])


def test_errors_mention_a_guessed_input(tmp_path: Path) -> None:
    torch.save(Flat().state_dict(), tmp_path / "a.pt")
    with pytest.raises(gmn.TraceError, match=r"it was guessed: 1x1x32x32:float32\. Pass your own"):
        NetworkReader(Builder.of(Flat)).read(tmp_path / "a.pt").trace()
    wrong = Example((torch.zeros(1, 1, 8, 8),))
    with pytest.raises(gmn.TraceError) as error:
        NetworkReader(Builder.of(Flat), wrong).read(tmp_path / "a.pt").trace()
    assert "guessed" not in str(error.value)
