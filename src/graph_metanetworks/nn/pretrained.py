"""Save and load metanetworks: weights as safetensors, how they were made as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from graph_metanetworks.nn.grit import Grit
from graph_metanetworks.nn.vocabulary import Vocabulary

if TYPE_CHECKING:
    from graph_metanetworks.nn.metanetwork import GraphMetanetwork

    Metanetwork = TypeVar("Metanetwork", bound=GraphMetanetwork)

CONFIG, WEIGHTS = "config.json", "model.safetensors"


def config_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a metanetwork that JSON can hold; names of the others under "custom"."""
    given = {name: value for name, value in arguments.items() if name not in ("self", "__class__")}
    modules = {name for name, value in given.items() if isinstance(value, nn.Module)}
    custom = [*modules, *(["blocks"] if isinstance(given["blocks"], list | tuple) else [])]
    given["tensors"] = list(given["tensors"])
    config = {name: value for name, value in given.items() if name not in custom}
    recipes = {name: asdict(value) for name, value in config.items() if isinstance(value, Vocabulary | Grit)}
    return config | recipes | {"custom": custom}


def save(network: GraphMetanetwork, folder: str | Path) -> Path:
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = network.config | {"scales": list(network.scales)}
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n")
    # copies: safetensors refuses tensors that share memory, as those of a block used twice do
    weights = {
        name: value.clone(memory_format=torch.contiguous_format)
        for name, value in network.state_dict().items()
    }
    save_file(weights, folder / WEIGHTS)
    return folder


def load(kind: type[Metanetwork], folder: str | Path, **custom: Any) -> Metanetwork:
    folder = Path(folder)
    if not (folder / CONFIG).is_file():
        raise FileNotFoundError(
            f"{folder} holds no metanetwork: there is no {CONFIG}. Give a folder that save_pretrained wrote."
        )
    config = json.loads((folder / CONFIG).read_text())
    scales, needed = config.pop("scales"), set(config.pop("custom"))
    if needed - set(custom):
        raise ValueError(
            f"the metanetwork in {folder} was made with modules of your own: pass them again, as "
            f"from_pretrained(folder, {', '.join(f'{name}=...' for name in sorted(needed - set(custom)))})."
        )
    if config["vocabulary"] is not None:
        config["vocabulary"] = Vocabulary(**{k: tuple(v) for k, v in config["vocabulary"].items()})
    if config.get("blocks") is not None:
        config["blocks"] = Grit(**config["blocks"])
    network = kind(**(config | custom))
    network.make_tables(scales)
    weights = load_file(folder / WEIGHTS)
    network.to(next(iter(weights.values())).dtype).load_state_dict(weights)
    return network
