"""Folders of Hugging Face: config.json beside the weights, in one file or several."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from textwrap import shorten
from typing import Any

from torch import nn

from graph_metanetworks.checkpoints.checkpoint import listed
from graph_metanetworks.checkpoints.formats import damaged, is_checkpoint_name, no_checkpoint
from graph_metanetworks.errors import CheckpointError, StateDictMismatch
from graph_metanetworks.extras import optional_imports

CONFIG = "config.json"
MESSAGE = 300  # characters shown of an error of transformers, which may list hundreds of models
INDEX = ".index.json"  # ending of the file that lists the shards of a checkpoint
STEMS = ("model", "pytorch_model", "diffusion_pytorch_model")
FILES = [  # of the weights, in the order of preference
    f"{stem}{ending}{index}" for ending in (".safetensors", ".bin") for stem in STEMS for index in ("", INDEX)
]


def weights_in(folder: Path) -> Path:
    """Return the file of the weights in a folder, or the index of several."""
    for name in FILES:
        if (folder / name).is_file():
            return folder / name
    files = sorted(path for path in folder.iterdir() if path.is_file())
    others = [path for path in files if path.name.endswith(INDEX)]
    others = others or [path for path in files if is_checkpoint_name(path.name)]
    if len(others) == 1:
        return others[0]
    if others:
        raise CheckpointError(
            f"the folder '{folder}' has several checkpoints: {listed([path.name for path in others], 3)}. "
            "Name one of them."
        )
    raise no_checkpoint(folder, "the folder has no file of weights")


def is_model_folder(folder: Path) -> bool:
    """Return whether a folder holds one network with its config.json."""
    return (folder / CONFIG).is_file() and any((folder / name).is_file() for name in FILES)


def shards_of(index: Path) -> list[Path]:
    """Return the files that an index lists."""
    try:
        names = json.loads(index.read_text())["weight_map"].values()
    except (ValueError, KeyError, AttributeError) as error:
        raise damaged(index, f"it lists no weights: {type(error).__name__}: {error}") from error
    files = [index.parent / name for name in dict.fromkeys(names)]
    if absent := [path.name for path in files if not path.is_file()]:
        raise CheckpointError(f"'{index}' lists {listed(absent, 3)}, which the folder does not have.")
    return files


def config_beside(path: Path) -> dict[str, Any]:
    """Return the content of config.json in a folder, or beside a file; nothing if there is none."""
    file = (path if path.is_dir() else path.parent) / CONFIG
    if not file.is_file():
        return {}
    try:
        config = json.loads(file.read_text())
    except ValueError as error:
        raise damaged(file, f"it is not valid JSON: {error}") from error
    return config if isinstance(config, dict) else {}


def build_network(config: Mapping[str, Any], *, where: object) -> nn.Module:
    """Build the untrained network that a config.json describes. No code of the folder is run."""
    with optional_imports():
        import transformers
    try:
        made = type(transformers.AutoConfig.for_model(config["model_type"])).from_dict(dict(config))
        kind = next((getattr(transformers, name, None) for name in config.get("architectures") or ()), None)
        return (kind(made) if kind else transformers.AutoModel.from_config(made)).eval()
    except Exception as error:  # configs are written by many versions of many libraries
        reason = shorten(str(error), MESSAGE, placeholder=" ...")
        raise StateDictMismatch(
            f"transformers cannot build the network of {where}: {type(error).__name__}: {reason}"
        ) from error
