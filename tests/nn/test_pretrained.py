"""Save and load: the same results."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import graph_metanetworks as gmn
from support.permuted import many

OPTIONS = {
    "plain": {},
    "node": {"level": "node", "out": 3},
    "options": {"aggregation": "fan", "two_way": False, "global_feature": True, "fourier": 2, "inner": 5},
    "kinds": {"readout": "kinds"},
    "tensors": {"readout": "tensors"},
    "attention": {"readout": "attention"},
    "edit": {"level": "edge", "readout": "edit"},
    "words": {"vocabulary": gmn.nn.Vocabulary(edge_kinds=(*gmn.nn.Vocabulary().edge_kinds, "a new kind"))},
    "stream": {"engine": "stream"},
    "grit": {"blocks": gmn.nn.Grit(heads=2, steps=3)},
}


def batch() -> gmn.Batch:
    return many(["mlp-relu", "lstm", "mlp-relu"]).to(torch.float32)


@torch.no_grad()
def assert_same(net: gmn.GraphMetanetwork, again: gmn.GraphMetanetwork) -> None:
    assert torch.equal(again(batch()), net(batch()))
    assert again.config == net.config
    assert (again.level, again.engine) == (net.level, net.engine)


@pytest.mark.parametrize("option", OPTIONS)
def test_options(option, tmp_path):
    net = gmn.GraphMetanetwork(hidden=16, layers=2, **OPTIONS[option])
    assert net.save_pretrained(tmp_path / "new" / "folder") == tmp_path / "new" / "folder"
    assert_same(net, gmn.GraphMetanetwork.from_pretrained(str(tmp_path / "new" / "folder")))


@pytest.mark.parametrize("name", ["accuracy", "contrastive", "editing", "grit"])
def test_presets(name, tmp_path):
    net = gmn.GraphMetanetwork.preset(name, hidden=32)
    net.save_pretrained(tmp_path)
    assert_same(net, gmn.GraphMetanetwork.from_pretrained(tmp_path))


def test_fitted_statistics_are_kept(tmp_path):
    net = gmn.GraphMetanetwork(16, 2)
    before = net(batch())
    net.edge_encoder.fit([batch()])
    assert not torch.allclose(net(batch()), before)
    net.save_pretrained(tmp_path)
    again = gmn.GraphMetanetwork.from_pretrained(tmp_path)
    assert_same(net, again)
    assert again.edge_encoder.fitted_names == net.edge_encoder.fitted_names


@pytest.mark.parametrize("option", ["plain", "tensors", "edit"])
def test_folders_whose_config_has_the_names(option, tmp_path):
    """As earlier versions wrote them; at that time `fit` did not reach `Edit`."""
    net = gmn.GraphMetanetwork(16, 2, **OPTIONS[option])
    net.fit([batch()])
    if option == "edit":
        net.readout.set_fitted_names(())
    net.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert "scales" not in config
    config["scales"] = list(net.edge_encoder.fitted_names)
    (tmp_path / "config.json").write_text(json.dumps(config))
    weights = load_file(tmp_path / "model.safetensors")
    old = {name: value for name, value in weights.items() if not name.endswith("names")}
    assert len(old) < len(weights)
    save_file(old, tmp_path / "model.safetensors")
    assert_same(net, gmn.GraphMetanetwork.from_pretrained(tmp_path))


@pytest.mark.parametrize("option", ["plain", "kinds", "edit"])
def test_folders_of_a_version_with_fewer_kinds(option, tmp_path):
    """Their config does not state the kinds, and their tables have no rows for later ones."""
    now = gmn.nn.Vocabulary()
    then = gmn.nn.Vocabulary(node_kinds=now.node_kinds[:-1], edge_kinds=now.edge_kinds[:-1])
    net = gmn.GraphMetanetwork(16, 2, vocabulary=then, **OPTIONS[option])
    net.fit([batch()])
    net.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["vocabulary"] = None
    (tmp_path / "config.json").write_text(json.dumps(config))
    again = gmn.GraphMetanetwork.from_pretrained(tmp_path)
    assert_same(net, again)
    with pytest.raises(gmn.nn.UnknownKind, match="'norm group'"):
        again(many(["mlp-group-norm"]).to(torch.float32))


def test_the_vocabulary_is_written(tmp_path):
    """Not only that it is the default one, which grows."""
    gmn.GraphMetanetwork(16, 2).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["vocabulary"]["edge_kinds"] == list(gmn.nn.Vocabulary().edge_kinds)


def test_a_damaged_folder(tmp_path):
    gmn.GraphMetanetwork(16, 2).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"0123")
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged"):
        gmn.GraphMetanetwork.from_pretrained(tmp_path)


def test_modules_of_ones_own_are_passed_again(tmp_path):
    def own() -> dict:
        return {
            "blocks": [gmn.nn.MessagePassing(16)],
            "readout": gmn.nn.MeanByKind(16, 2),
            "edge_encoder": gmn.nn.EdgeEncoder(16, gmn.nn.Vocabulary(), fourier=1),
        }

    net = gmn.GraphMetanetwork(16, **own())
    net.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"modules of your own.*blocks=..., edge_encoder=..., readout=..."):
        gmn.GraphMetanetwork.from_pretrained(tmp_path)
    assert_same(net, gmn.GraphMetanetwork.from_pretrained(tmp_path, **own()))


def test_a_block_used_twice(tmp_path):
    block = gmn.nn.MessagePassing(16)
    net = gmn.GraphMetanetwork(16, blocks=[block, block])
    net.save_pretrained(tmp_path)
    again = gmn.nn.MessagePassing(16)
    assert_same(net, gmn.GraphMetanetwork.from_pretrained(tmp_path, blocks=[again, again]))


def test_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere holds no metanetwork.*save_pretrained"):
        gmn.GraphMetanetwork.from_pretrained(tmp_path / "nowhere")


def test_a_repository_of_the_hub(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    net = gmn.GraphMetanetwork(16, 2)
    net.save_pretrained(tmp_path)
    monkeypatch.setattr(hub, "snapshot_download", lambda name, **_: {"someone/net": tmp_path}[name])
    assert_same(net, gmn.GraphMetanetwork.from_pretrained("someone/net"))

    def offline(name, **_):
        raise hub.errors.LocalEntryNotFoundError("no connection")

    monkeypatch.setattr(hub, "snapshot_download", offline)
    with pytest.raises(FileNotFoundError, match=r"no folder someone/net, .*hub.* no connection"):
        gmn.GraphMetanetwork.from_pretrained("someone/net")


@torch.no_grad()
def test_other_precisions(tmp_path):
    net = gmn.GraphMetanetwork(16, 2).double()
    net.save_pretrained(tmp_path)
    again = gmn.GraphMetanetwork.from_pretrained(tmp_path)
    double = batch().to(torch.float64)
    assert torch.equal(again(double), net(double))


def test_what_is_written_is_plain(tmp_path):
    gmn.GraphMetanetwork(16, 2).save_pretrained(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"config.json", "model.safetensors"}
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["hidden"] == 16 and config["layers"] == 2


def test_subclasses(tmp_path):
    class Own(gmn.GraphMetanetwork):
        pass

    Own(16, 2).save_pretrained(tmp_path)
    assert type(Own.from_pretrained(tmp_path)) is Own
    assert isinstance(Own.from_pretrained(tmp_path), nn.Module)
