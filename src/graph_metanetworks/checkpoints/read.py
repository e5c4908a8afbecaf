"""Read a checkpoint as it is: any format, wherever the weights are in it, whatever wraps their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from graph_metanetworks.checkpoints import huggingface, renaming
from graph_metanetworks.checkpoints.checkpoint import Checkpoint, Source
from graph_metanetworks.checkpoints.fit import fit
from graph_metanetworks.checkpoints.formats import damaged, format_of
from graph_metanetworks.checkpoints.gguf_file import load_gguf
from graph_metanetworks.checkpoints.inside import StateDict, likeliest, saved_config, state_dicts
from graph_metanetworks.checkpoints.torch_file import load_torch
from graph_metanetworks.errors import CheckpointError

# What Ctrl-C becomes if it arrives while torch makes a tensor of a storage: no file can cause this error.
INTERRUPTED = "could not determine the shape of object type"
LIGHTNING = "pytorch-lightning_version"  # a key of Lightning's files


@dataclass(frozen=True)
class Content:
    """What a file holds: weights, perhaps deep inside of it."""

    value: Any
    format: str
    config: dict[str, Any] = field(default_factory=dict)


def read_checkpoint(
    path: str | PathLike[str],
    network: nn.Module | None = None,
    *,
    key: str | None = None,
    ignore_extra: bool = False,
) -> Checkpoint:
    """Read the weights of a file or folder as a state dict. Nothing that a file contains is run.

    It reads safetensors, also in several files with an index, files of `torch.save` and of Lightning, folders
    of Hugging Face, and GGUF (dequantised). It finds the state dict inside, and strips the prefixes of
    wrappers such as `module.`.

    Args:
        network: the names and shapes to fit; what does not fit is an error that says how they differ.
        key: where the state dict is inside the file, such as `ema` or `student.encoder`; by default the
            likeliest, or the one that fits the network.
        ignore_extra: drop entries that the network does not have. `checkpoint.dropped` lists them.

    >>> import tempfile, torch
    >>> model = nn.Sequential(nn.Linear(3, 2))
    >>> saved = {"epoch": 7, "model_state": {f"module.{k}": v for k, v in model.state_dict().items()}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save(saved, f"{folder}/best.pt")
    ...     checkpoint = read_checkpoint(f"{folder}/best.pt", model)
    >>> list(checkpoint), checkpoint.summary.partition(": ")[2]
    (['0.weight', '0.bias'], "a PyTorch file, 2 tensors of 8 values under 'model_state'; stripped 'module.'")
    """
    opened = open_checkpoint(Path(path), key=key)
    return opened.plain() if network is None else opened.fitted(network, ignore_extra=ignore_extra)


@dataclass(frozen=True, eq=False)
class Opened:
    """The state dicts that a file holds, the likeliest first, before it is decided which to take."""

    found: list[StateDict]
    source: Source

    def plain(self) -> Checkpoint:
        """Return the likeliest under the names that its weights have without wrappers."""
        chosen = likeliest(self.found, self.source.path)
        way = renaming.without_wrappers(chosen.weights)
        names = {way(name) or name: name for name in chosen.weights}
        notes = [way.note] if way.note else []
        if others := [".".join(one.key) for one in self.found if one is not chosen]:
            notes.append(f"it also has {', '.join(map(repr, others))} (--key)")
        weights = {new: chosen.weights[old] for new, old in names.items()}
        return Checkpoint(weights, replace(self.source, key=chosen.key, names=names).noting(*notes))

    def fitted(self, network: nn.Module, *, ignore_extra: bool = False) -> Checkpoint:
        """Return the one that fits a network, under the network's names."""
        return fit(self.found, network, self.source, ignore_extra=ignore_extra)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(value.shape) for name, value in self.plain().items()}


def open_checkpoint(path: Path, *, key: str | None = None) -> Opened:
    """Read a file or folder, and find the state dicts in it."""
    if not path.exists():
        raise CheckpointError(f"there is no file or folder '{path}'.")
    content = _content(path)
    found = state_dicts(content.value, key, path)
    return Opened(found, Source(path, content.format, config=content.config))


def read_again(path: Path, key: Sequence[str], names: Mapping[str, str]) -> dict[str, Tensor]:
    """Read entries from where `Source` says they are: by the name to give them, their name in the file."""
    value = _content(path).value
    for part in key:
        value = value[part] if part in value else {n: value[f"{part}.{n}"] for n in _after(part, value)}
    return {name: value[saved] for name, saved in names.items()}


def files_of(path: Path) -> list[Path]:
    """Return the files that a checkpoint consists of."""
    if path.is_dir():
        config = [path / huggingface.CONFIG] if (path / huggingface.CONFIG).is_file() else []
        return [*config, *files_of(huggingface.weights_in(path))]
    return [path, *huggingface.shards_of(path)] if path.name.endswith(huggingface.INDEX) else [path]


def _content(path: Path) -> Content:
    if path.is_dir():
        inner = _content(huggingface.weights_in(path))
        config = huggingface.config_beside(path)
        return Content(
            inner.value, f"a Hugging Face folder ({inner.format})" if config else inner.format, config
        )
    if path.name.endswith(huggingface.INDEX):
        parts = [_content(shard) for shard in huggingface.shards_of(path)]
        together = {name: x for part in parts for name, x in part.value.items()}
        return Content(together, f"{len(parts)} files with an index", huggingface.config_beside(path))
    match format_of(path):
        case "safetensors":
            return Content(_load_safetensors(path), "a safetensors file", huggingface.config_beside(path))
        case "gguf":
            weights, metadata = load_gguf(path)
            return Content(weights, "a GGUF file, dequantised", metadata)
        case "torch":
            value = load_torch(path)
            is_lightning = isinstance(value, dict) and LIGHTNING in value
            kind = "a Lightning checkpoint" if is_lightning else "a PyTorch file"
            return Content(value, kind, saved_config(value) or huggingface.config_beside(path))


def _load_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no dictionary
    except (SafetensorError, OSError, ValueError) as error:
        if INTERRUPTED in str(error):
            raise KeyboardInterrupt from error
        raise damaged(path, error) from error


def _after(prefix: str, names: Iterable[str]) -> list[str]:
    return [name[len(prefix) + 1 :] for name in names if name.startswith(f"{prefix}.")]
