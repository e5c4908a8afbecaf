"""Files of `torch.save`, read without running what a pickle may contain."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from graph_metanetworks.checkpoints.formats import damaged, no_checkpoint
from graph_metanetworks.errors import CheckpointError

GLOBAL = re.compile(r"GLOBAL (\S+)")


def load_torch(path: Path) -> Any:
    """Read tensors, containers and plain values, and refuse everything else."""
    try:
        # a file and not its name, by which torch would choose the format
        with open(path, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickles that it then refuses
            return torch.load(file, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise _refused(path, str(error)) from error
    except Exception as error:  # torch has many ways to fail on bytes that it did not write
        if "magic number" in str(error):
            raise no_checkpoint(path, "it is a pickle that PyTorch did not write") from error
        raise damaged(path, f"{type(error).__name__}: {error}") from error


def _refused(path: Path, message: str) -> CheckpointError:
    found = GLOBAL.search(message)
    if found is None and "Unsupported operand" in message:
        return no_checkpoint(path, "it is a pickle that PyTorch did not write")
    more = f" ({found[1]})" if found else ""
    return CheckpointError(
        f"'{path}' is a pickle of more than weights{more}, and it was not opened: it could run any code. "
        "Where you trust it, load it and save the weights alone: torch.save(model.state_dict(), ...) or "
        "safetensors.torch.save_file(model.state_dict(), ...)."
    )
