"""GGUF files of llama.cpp, dequantised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graph_metanetworks.checkpoints.formats import damaged
from graph_metanetworks.extras import optional_imports


def load_gguf(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the weights as float32, under the names of llama.cpp, and the metadata."""
    with optional_imports():
        import gguf
    try:
        reader = gguf.GGUFReader(path)
        weights = {
            # dequantised arrays have the order of axes of PyTorch; GGUF lists them the other way round
            tensor.name: torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).copy()).reshape(
                *map(int, reversed(tensor.shape))
            )
            for tensor in reader.tensors
        }
        plain = {name: field.contents() for name, field in reader.fields.items() if _is_plain(field)}
    except Exception as error:  # the package has no error of its own
        raise damaged(path, f"{type(error).__name__}: {error}") from error
    return weights, plain


def _is_plain(field: Any) -> bool:
    """Return whether a field of metadata is one value. Vocabularies are lists, and long."""
    return len(field.data) == 1 and not field.name.startswith("GGUF.")
