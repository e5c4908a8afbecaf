"""Save and load metanetworks: weights as safetensors, configuration as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from safetensors import SafetensorError, safe_open
from torch import nn

from graph_metanetworks.errors import StorageError
from graph_metanetworks.nn.fitted import set_fitted_names
from graph_metanetworks.nn.grit import Grit
from graph_metanetworks.nn.probes import Probes
from graph_metanetworks.nn.readouts import Edit
from graph_metanetworks.nn.vocabulary import Vocabulary
from graph_metanetworks.nn.weights import load_weights, save_weights
from graph_metanetworks.storage.atomic import write_durably
from graph_metanetworks.storage.hub import (
    CARD,
    LIBRARY,
    card,
    download,
    is_repository,
    markdown_table,
    upload,
)

if TYPE_CHECKING:
    from graph_metanetworks.nn.metanetwork import GraphMetanetwork

    Metanetwork = TypeVar("Metanetwork", bound=GraphMetanetwork)

CONFIG, WEIGHTS = "config.json", "model.safetensors"
EMBEDDINGS = {"node_kinds": "node_encoder.kind.weight", "edge_kinds": "edge_encoder.kind.weight"}


def config_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a metanetwork that JSON can hold, and the names of the others as "custom"."""
    given = {name: value for name, value in arguments.items() if name not in ("self", "__class__")}
    modules = {
        name
        for name, value in given.items()
        if isinstance(value, nn.Module) and not isinstance(value, Probes)
    }
    custom = [*modules, *(["blocks"] if isinstance(given["blocks"], list | tuple) else [])]
    given["tensors"] = list(given["tensors"])
    given["vocabulary"] = given["vocabulary"] or Vocabulary()  # a later version may have more kinds
    config = {name: value for name, value in given.items() if name not in custom}
    recipes = {name: asdict(value) for name, value in config.items() if isinstance(value, Vocabulary | Grit)}
    if isinstance(config["probes"], Probes):
        recipes["probes"] = config["probes"].config
    return config | recipes | {"custom": custom}


def save(network: GraphMetanetwork, folder: str | Path) -> Path:
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_durably(folder / CONFIG, (json.dumps(network.config, indent=2) + "\n").encode())
    save_weights(network, folder / WEIGHTS)
    return folder


def load(kind: type[Metanetwork], folder: str | Path, **custom: Any) -> Metanetwork:
    folder = _find(folder)
    config = json.loads((folder / CONFIG).read_text())
    names, needed = config.pop("scales", None), set(config.pop("custom"))
    if needed - set(custom):
        raise ValueError(
            f"the metanetwork in {folder} was made with modules of your own. Pass them again: "
            f"from_pretrained(folder, {', '.join(f'{name}=...' for name in sorted(needed - set(custom)))})."
        )
    config["vocabulary"] = _vocabulary(config["vocabulary"], folder / WEIGHTS)
    blocks = config.get("blocks")
    if blocks is None:  # as earlier versions wrote the default
        config.pop("blocks", None)
    elif isinstance(blocks, dict):
        config["blocks"] = Grit(**blocks)
    if config.get("probes") is not None:
        config["probes"] = Probes.from_config(config["probes"])
    network = kind(**(config | custom))
    if names is not None:
        _use_names_of_config(network, names, config["tensors"])
    load_weights(network, folder / WEIGHTS)
    return network


def _vocabulary(stated: dict[str, list[str]] | None, weights: Path) -> Vocabulary:
    """Return the vocabulary of a config. Earlier versions did not state it and had the first of our kinds."""
    if stated is not None:
        return Vocabulary(**{field: tuple(names) for field, names in stated.items()})
    known = Vocabulary()
    try:
        with safe_open(weights, "pt") as file:
            rows = {
                field: file.get_slice(name).get_shape()[0] if name in file.keys() else None  # noqa: SIM118
                for field, name in EMBEDDINGS.items()
            }
    except (OSError, SafetensorError):  # load_weights says what is wrong
        return known
    return replace(known, **{field: getattr(known, field)[:count] for field, count in rows.items()})


def _find(folder: str | Path) -> Path:
    """Return the folder of a metanetwork; download it if this names a repository of the Hugging Face hub."""
    path = Path(folder)
    if (path / CONFIG).is_file():
        return path
    if isinstance(folder, Path) or path.exists() or not is_repository(folder):
        raise FileNotFoundError(
            f"{folder} holds no metanetwork: there is no {CONFIG}. Give a folder that save_pretrained wrote."
        )
    try:
        return download(folder, files=(CONFIG, WEIGHTS))
    except StorageError as error:
        raise FileNotFoundError(f"there is no folder {folder}, and {error}") from error


def push(network: GraphMetanetwork, name: str, *, private: bool | None, token: str | None) -> str:
    """Upload a metanetwork, with a card."""
    return upload(name, partial(_stage, network, name), private=private, token=token)


def _stage(network: GraphMetanetwork, name: str, place: Path) -> None:
    save(network, place)
    shown = {key: value for key, value in network.config.items() if key not in ("vocabulary", "tensors")}
    text = card(
        {"library_name": LIBRARY, "tags": [LIBRARY, "weight-space-learning"]},
        f"# {name.rpartition('/')[2]}",
        f"A graph metanetwork of {network.num_parameters:,} parameters: a neural network whose inputs are "
        f"neural networks, made with `{LIBRARY}`.",
        markdown_table(("option", "value"), ((key, f"`{value!r}`") for key, value in shown.items())),
        "```python\nimport graph_metanetworks as gmn\n\n"
        f"metanetwork = gmn.GraphMetanetwork.from_pretrained({name!r})\n```",
    )
    (place / CARD).write_text(text)


def _use_names_of_config(network: GraphMetanetwork, names: list[str], tensors: list[str]) -> None:
    """Resize tables for a folder whose weights lack the names; at that time `fit` did not reach `Edit`."""
    set_fitted_names(network, names)
    if isinstance(network.readout, Edit):
        network.readout.set_fitted_names(tensors)
