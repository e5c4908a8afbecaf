"""Checkpoints are read as training scripts leave them: formats, nesting, prefixes; others are refused."""

import argparse
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks import CheckpointError, StateDictMismatch
from graph_metanetworks.checkpoints import read as reading
from graph_metanetworks.checkpoints.networks import NetworkReader
from support.llama_gguf import write_llama


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def prefixed(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in weights.items()}


@pytest.fixture
def weights() -> dict[str, Tensor]:
    return {name: value.clone() for name, value in network().state_dict().items()}


def same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return list(ours) == list(theirs) and all(torch.equal(ours[name], theirs[name]) for name in ours)


# ------------------------------------------------------------------ formats


@pytest.mark.parametrize("suffix", ["safetensors", "pt", "pth", "bin", "th"])
def test_one_file(suffix: str, weights, tmp_path: Path) -> None:
    path = tmp_path / f"model.{suffix}"
    save_file(weights, path) if suffix == "safetensors" else torch.save(weights, path)
    read = gmn.read_checkpoint(path, network())
    assert same(read, weights)
    network().load_state_dict(read)
    assert repr(read).startswith(f"<read {path}: a ") and f"{len(weights)} tensors" in read.summary
    assert gmn.read_checkpoint(path).keys() == weights.keys()


def test_a_wrong_suffix_does_not_matter(weights, tmp_path: Path) -> None:
    torch.save(weights, tmp_path / "a.safetensors")
    save_file(weights, tmp_path / "b.pt")
    torch.save(weights, tmp_path / "old.bin", _use_new_zipfile_serialization=False)
    for name in ("a.safetensors", "b.pt", "old.bin"):
        assert same(gmn.read_checkpoint(tmp_path / name, network()), weights)


@pytest.mark.parametrize("ending", ["safetensors", "bin"])
def test_files_with_an_index(ending: str, weights, tmp_path: Path) -> None:
    names = list(weights)
    parts = {f"model-{part + 1}-of-2.{ending}": names[part::2] for part in range(2)}
    for file, own in parts.items():
        part = {name: weights[name] for name in own}
        save_file(part, tmp_path / file) if ending == "safetensors" else torch.save(part, tmp_path / file)
    index = tmp_path / f"model.{ending}.index.json"
    index.write_text(json.dumps({"weight_map": {n: file for file, own in parts.items() for n in own}}))
    for path in (index, tmp_path):
        read = gmn.read_checkpoint(path, network())
        assert same(read, weights) and "2 files with an index" in read.summary
    (tmp_path / f"model-2-of-2.{ending}").unlink()
    with pytest.raises(CheckpointError, match=r"model-2-of-2.* which the folder does not have"):
        gmn.read_checkpoint(index)


def test_lightning(weights, tmp_path: Path) -> None:
    saved = {
        "state_dict": prefixed(weights, "model."),
        "pytorch-lightning_version": "2.4",
        "hyper_parameters": {"width": 4},
        "optimizer_states": [{"state": {0: {"exp_avg": torch.ones(3)}}}],
    }
    torch.save(saved, tmp_path / "last.ckpt")
    read = gmn.read_checkpoint(tmp_path / "last.ckpt")
    assert same(read, weights) and read.config == {"width": 4}
    assert (
        "a Lightning checkpoint" in read.summary and "under 'state_dict'; stripped 'model.'" in read.summary
    )


def test_gguf_is_dequantised(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    values = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
    writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", "clip")
    writer.add_block_count(1)
    quantised = gguf.quantize(values, gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("blk.0.attn_q.weight", quantised, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("output_norm.weight", values[0])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    read = gmn.read_checkpoint(tmp_path / "tiny.gguf")
    assert read["blk.0.attn_q.weight"].shape == (4, 64) and read["blk.0.attn_q.weight"].dtype == torch.float32
    assert torch.allclose(read["blk.0.attn_q.weight"], torch.from_numpy(values), atol=0.05)
    assert torch.equal(read["output_norm.weight"], torch.from_numpy(values[0]))
    assert read.config["general.architecture"] == "clip" and "dequantised" in read.summary
    with pytest.raises(CheckpointError, match=r"(?s)cannot build .*tiny\.gguf.*--network my_model\.py:build"):
        NetworkReader().read(tmp_path / "tiny.gguf")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_gguf_file_needs_no_builder(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    trained = write_llama(tmp_path / "llama.gguf")
    for path in (tmp_path / "llama.gguf", tmp_path):
        saved = NetworkReader().read(path)
        assert type(saved.network) is type(trained)
        assert same(saved.state_dict, trained.state_dict())  # queries and keys are permuted in the file
    zoo = gmn.Zoo.from_folder(tmp_path, out=tmp_path / "zoo", link=True, quiet=True)
    (one,) = zoo
    assert same(one.state_dict, trained.state_dict()) and type(one.build()) is type(trained)


# ------------------------------------------------------------------ where the weights are


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model", "model_state", "net", "ema"])
def test_nested_weights_are_found(key: str, weights, tmp_path: Path) -> None:
    optimizer = {"state": {0: {"exp_avg": torch.ones(3), "step": torch.tensor(1.0)}}, "param_groups": []}
    torch.save({"epoch": 3, key: weights, "optimizer": optimizer, "best": 0.9}, tmp_path / "a.pt")
    for read in (gmn.read_checkpoint(tmp_path / "a.pt"), gmn.read_checkpoint(tmp_path / "a.pt", network())):
        assert same(read, weights) and f"under '{key}'" in read.summary


def test_averages_are_taken_when_asked(weights, tmp_path: Path) -> None:
    average = {name: value + 1 for name, value in weights.items()}
    torch.save({"train": {"model_ema": average, "model": weights}}, tmp_path / "a.pt")
    read = gmn.read_checkpoint(tmp_path / "a.pt", network())
    assert same(read, weights) and "it also has 'train.model_ema' (--key)" in read.summary
    assert same(gmn.read_checkpoint(tmp_path / "a.pt", network(), key="train.model_ema"), average)
    with pytest.raises(CheckpointError, match=r"no key 'swa'\. It has train"):
        gmn.read_checkpoint(tmp_path / "a.pt", key="swa")


def test_the_network_decides_between_several(weights, tmp_path: Path) -> None:
    torch.save({"generator": weights, "discriminator": nn.Linear(2, 2).state_dict()}, tmp_path / "gan.pt")
    assert same(gmn.read_checkpoint(tmp_path / "gan.pt", network()), weights)
    with pytest.raises(CheckpointError, match=r"several state dicts: generator .*Choose one with --key"):
        gmn.read_checkpoint(tmp_path / "gan.pt")


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.", "module._orig_mod.", "net.backbone."])
def test_prefixes_are_stripped(prefix: str, weights, tmp_path: Path) -> None:
    torch.save(prefixed(weights, prefix), tmp_path / "a.pt")
    read = gmn.read_checkpoint(tmp_path / "a.pt", network())
    assert same(read, weights) and "stripped" in read.summary
    if not prefix.startswith("net"):  # what is no known wrapper may be part of the names
        plain = gmn.read_checkpoint(tmp_path / "a.pt")
        assert same(plain, weights) and plain.summary.count("stripped '") == 1


def test_prefixes_are_added_and_removed_inside(weights, tmp_path: Path) -> None:
    torch.save(weights, tmp_path / "a.pt")
    wrapped = nn.ModuleDict({"encoder": network()})
    read = gmn.read_checkpoint(tmp_path / "a.pt", wrapped)
    assert same(read, prefixed(weights, "encoder.")) and "added 'encoder.'" in read.summary
    torch.save({name.replace(".", "._orig_mod.", 1): x for name, x in weights.items()}, tmp_path / "b.pt")
    assert same(gmn.read_checkpoint(tmp_path / "b.pt", network()), weights)


def test_a_student_and_its_teacher_are_not_mixed_up(weights, tmp_path: Path) -> None:
    teacher = {name: value + 1 for name, value in weights.items()}
    torch.save(prefixed(weights, "student.") | prefixed(teacher, "teacher."), tmp_path / "a.pt")
    with pytest.raises(StateDictMismatch, match=r"under 'student\.' and 'teacher\.'.*--key student"):
        gmn.read_checkpoint(tmp_path / "a.pt", network(), ignore_extra=True)
    assert same(gmn.read_checkpoint(tmp_path / "a.pt", network(), key="teacher"), teacher)


# ------------------------------------------------------------------ what does not fit


def test_extra_entries_are_dropped_when_asked(weights, tmp_path: Path) -> None:
    torch.save({**weights, "loss.weight": torch.ones(2), "loss.steps": torch.tensor(3)}, tmp_path / "a.pt")
    with pytest.raises(
        StateDictMismatch, match=r"1 of the file's 11 tensors .*\n  loss\.weight \[2\][^;]*\n"
    ):
        gmn.read_checkpoint(tmp_path / "a.pt", network())
    read = gmn.read_checkpoint(tmp_path / "a.pt", network(), ignore_extra=True)
    assert same(read, weights) and read.dropped == ("loss.weight",)
    assert "dropped loss.weight" in read.summary and "left out loss.steps" in read.summary


def test_mismatches_name_the_nearest(weights, tmp_path: Path) -> None:
    renamed = {name.replace("3.", "last."): value for name, value in weights.items()}
    renamed["0.weight"] = torch.zeros(4, 5)
    torch.save(renamed | {f"more.{n}": torch.ones(1) for n in range(9)}, tmp_path / "a.pt")
    with pytest.raises(StateDictMismatch) as error:
        gmn.read_checkpoint(tmp_path / "a.pt", network())
    text = str(error.value)
    assert "does not fit Sequential" in text
    assert "3.weight [2, 4]; nearest: last.weight [2, 4]" in text
    assert "last.weight [2, 4]; nearest: 3.weight [2, 4]" in text
    assert "0.weight [4, 3], in the file [4, 5]" in text
    assert text.count("more.") == 1  # after last.weight and last.bias: three of each side


def test_the_nearest_name_has_the_same_shape_if_one_has(tmp_path: Path) -> None:
    torch.save({"stem.weight": torch.zeros(9, 9), "last.weight": torch.zeros(2, 4)}, tmp_path / "a.pt")
    with pytest.raises(StateDictMismatch, match=r"3.weight \[2, 4\]; nearest: last.weight \[2, 4\]"):
        gmn.read_checkpoint(tmp_path / "a.pt", nn.ModuleDict({"3": nn.Linear(4, 2)}))


def test_what_newer_releases_renamed_or_left_out(weights, tmp_path: Path) -> None:
    old = {n.replace("1.weight", "1.gamma").replace("1.bias", "1.beta"): x for n, x in weights.items()}
    del old["1.num_batches_tracked"]
    torch.save(old, tmp_path / "a.pt")
    read = gmn.read_checkpoint(tmp_path / "a.pt", network())
    assert same(read, weights) and "renamed 2 entries" in read.summary


def test_tied_weights_are_saved_once(tmp_path: Path) -> None:
    tied = nn.ModuleDict({"embed": nn.Embedding(5, 3), "head": nn.Linear(3, 5, bias=False)})
    tied["head"].weight = tied["embed"].weight
    save_file({"embed.weight": tied["embed"].weight.detach()}, tmp_path / "a.safetensors")
    read = gmn.read_checkpoint(tmp_path / "a.safetensors", tied)
    assert torch.equal(read["head.weight"], read["embed.weight"])


# ------------------------------------------------------------------ what is refused


def test_pickles_of_more_than_weights(weights, tmp_path: Path, recwarn) -> None:
    torch.save({"args": argparse.Namespace(lr=1), "model": weights}, tmp_path / "a.pt")
    with pytest.raises(
        CheckpointError, match=r"more than weights \(argparse.Namespace\), and it was not open"
    ):
        gmn.read_checkpoint(tmp_path / "a.pt")
    torch.save(network(), tmp_path / "whole.pt")
    (tmp_path / "evil.pt").write_bytes(pickle.dumps({"weights": print}, protocol=2))
    for name in ("whole.pt", "evil.pt"):
        with pytest.raises(CheckpointError, match="it could run any code"):
            gmn.read_checkpoint(tmp_path / name)
    assert not recwarn.list


def test_files_that_are_no_checkpoints(weights, tmp_path: Path) -> None:
    torch.save(weights, tmp_path / "good.pt")
    save_file(weights, tmp_path / "good.safetensors")
    with zipfile.ZipFile(tmp_path / "zip.pt", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with zipfile.ZipFile(tmp_path / "script.pt", "w") as archive:  # as torch.jit.save lays it out
        archive.writestr("script/data.pkl", "")
        archive.writestr("script/code/__torch__.py", "")
    contents = {
        "empty.pt": b"",
        "text.safetensors": b"hello, no weights are here",
        "lfs.bin": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        "keras.pt": b"\x89HDF\r\n\x1a\n" + bytes(99),
        "noise.pt": bytes(range(128, 255)),
        "plain.pt": pickle.dumps({"w": [1]}, protocol=2),
        "new.pt": pickle.dumps({"w": [1]}, protocol=4),
        "cut.pt": (tmp_path / "good.pt").read_bytes()[:300],
        "cut.safetensors": (tmp_path / "good.safetensors").read_bytes()[:-9],
        "head.safetensors": (tmp_path / "good.safetensors").read_bytes()[:40],
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    expected = {
        "empty.pt": "is no checkpoint: it is empty",
        "text.safetensors": "is no checkpoint: it is a text file",
        "lfs.bin": "git lfs pull",
        "keras.pt": "HDF5",
        "noise.pt": "is no checkpoint: its format is unknown",
        "plain.pt": "is no checkpoint: it is a pickle that PyTorch did not write",
        "new.pt": "is no checkpoint: it is a pickle that PyTorch did not write",
        "zip.pt": "a zip archive of readme.txt",
        "script.pt": "TorchScript",
        "cut.pt": "is damaged",
        "cut.safetensors": "is damaged",
        "head.safetensors": "is damaged",
        "nothing.pt": "there is no file or folder",
    }
    for name, message in expected.items():
        with pytest.raises(CheckpointError, match=message):
            gmn.read_checkpoint(tmp_path / name)


def test_ctrl_c_while_torch_reads_a_file(weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupt comes out of torch as another error, and must not make the file a damaged one."""
    save_file(weights, tmp_path / "a.safetensors")

    def interrupted(*args: object, **kwargs: object) -> None:
        raise ValueError("could not determine the shape of object type 'torch.storage.UntypedStorage'")

    monkeypatch.setattr(reading, "safe_open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gmn.read_checkpoint(tmp_path / "a.safetensors")


def test_files_without_a_state_dict(tmp_path: Path) -> None:
    torch.save({"epoch": 3, "losses": [1.0]}, tmp_path / "a.pt")
    torch.save(torch.zeros(3), tmp_path / "b.pt")
    with pytest.raises(CheckpointError, match="no state dict: it holds a dictionary of epoch, losses"):
        gmn.read_checkpoint(tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match="no state dict: it holds a Tensor"):
        gmn.read_checkpoint(tmp_path / "b.pt")
