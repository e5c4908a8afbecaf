"""Save and load the weights of any module as safetensors."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from graph_metanetworks.errors import WeightsError
from graph_metanetworks.storage.atomic import write_durably


def save_weights(module: nn.Module, path: str | Path) -> None:
    """Write the state dict of a module, fitted state included, into one file; the write is atomic."""
    # copies: safetensors refuses tensors that share memory, as those of a block used twice do
    tensors = {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in module.state_dict().items()
    }
    write_durably(Path(path), save(tensors))


def load_weights(module: nn.Module, path: str | Path) -> None:
    """Load what `save_weights` wrote into a module of the same configuration, in the precision of the file.

    Raises:
        WeightsError: the file is missing, damaged, or belongs to another configuration.
    """
    path = Path(path)
    try:
        tensors = load_file(path)
    except FileNotFoundError as error:
        raise WeightsError(f"there is no file of weights at {path}.") from error
    except (OSError, SafetensorError) as error:
        raise WeightsError(f"{path} is damaged, or holds no weights: {error}.") from error
    for name, tensor in chain(module.named_parameters(), module.named_buffers()):
        if name in tensors and tensor.is_floating_point():
            tensor.data = tensor.data.to(tensors[name].dtype)
    try:
        module.load_state_dict(tensors)
    except (RuntimeError, ValueError) as error:
        raise WeightsError(
            f"the weights in {path} do not fit this {type(module).__name__}; was it made with other options? "
            f"({error})"
        ) from error
