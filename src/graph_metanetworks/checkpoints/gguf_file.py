"""GGUF files of llama.cpp: their weights dequantised, and the networks of transformers that they hold."""

from __future__ import annotations

from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graph_metanetworks.checkpoints.formats import damaged, format_of
from graph_metanetworks.checkpoints.huggingface import weights_in
from graph_metanetworks.errors import CheckpointError
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


def gguf_in(path: Path) -> Path | None:
    """Return the GGUF file that a path names, or that is the only checkpoint of a folder."""
    if not path.exists():
        return None
    file = weights_in(path) if path.is_dir() else path
    return file if file.suffix != ".json" and format_of(file) == "gguf" else None


def config_of_gguf(path: Path) -> dict[str, Any]:
    """Return the config.json that transformers would write for the network in a file.

    `build_network` makes the network from it.
    """
    found = _converted(path)["config"]
    with optional_imports():
        import transformers
    config = transformers.AutoConfig.for_model(**found)
    heads: Any = transformers.MODEL_FOR_CAUSAL_LM_MAPPING
    known = [heads[type(config)].__name__] if type(config) in heads else []
    return {**config.to_dict(), "architectures": found.get("architectures") or known}


def weights_of_gguf(path: Path, network: nn.Module) -> dict[str, Tensor]:
    """Return the weights under the names of a network of transformers, and in its layout.

    llama.cpp permutes the queries and keys of some networks; transformers knows which.
    """
    return _converted(path, return_tensors=True, model_to_load=network)["tensors"]


def _converted(path: Path, **options: Any) -> dict[str, Any]:
    with optional_imports():
        import gguf  # noqa: F401, transformers imports it without naming our extra
        from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
    try:
        with redirect_stderr(StringIO()):  # a progress bar for each file
            return load_gguf_checkpoint(str(path), **options)
    except Exception as error:  # it has no error of its own
        raise CheckpointError(
            f"transformers cannot build the network of '{path}': {type(error).__name__}: {error}. Name the "
            "function that builds it, as --network my_model.py:build, with the names of llama.cpp."
        ) from error


def _is_plain(field: Any) -> bool:
    """Return whether a field of metadata is one value. Vocabularies are lists, and long."""
    return len(field.data) == 1 and not field.name.startswith("GGUF.")
