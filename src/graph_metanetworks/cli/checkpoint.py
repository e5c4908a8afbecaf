"""Read weights from a file."""

from __future__ import annotations

import warnings
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from graph_metanetworks.errors import StateDictMismatch

WRAPPERS = ("state_dict", "model_state_dict", "model")  # keys under which training scripts save weights


def load_checkpoint(network: nn.Module, path: Path) -> dict[str, Tensor]:
    """Load the weights of a file into a network, and return its state dict."""
    saved = _read(path)
    try:
        network.load_state_dict(saved)
    except Exception as error:
        raise StateDictMismatch(f"'{path}' does not fit {type(network).__name__}: {error}") from error
    return network.state_dict()


def _read(path: Path) -> Any:
    try:
        return load_file(path) if path.suffix == ".safetensors" else _load_pickle(path)
    except UnpicklingError as error:
        raise StateDictMismatch(
            f"'{path}' is a pickle of more than weights, and it was not opened: it could run any code. Save "
            "the weights alone, with safetensors.torch.save_file(model.state_dict(), ...)."
        ) from error
    except Exception as error:  # torch has many ways to fail on bytes that it did not write
        raise StateDictMismatch(
            f"'{path}' cannot be read ({type(error).__name__}: {error}). It is damaged, or no checkpoint: "
            "copy or save it again."
        ) from error


def _load_pickle(path: Path) -> dict[str, Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about pickles that it then refuses
        saved = torch.load(path, map_location="cpu", weights_only=True)
    for key in WRAPPERS:
        if isinstance(saved, dict) and isinstance(saved.get(key), dict):
            return saved[key]
    return saved
