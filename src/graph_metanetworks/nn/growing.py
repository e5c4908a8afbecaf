"""Buffers whose size is known only when they are loaded."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def resize_on_load(module: nn.Module, *names: str) -> None:
    """Let the buffers of these names take the size that a state dict has."""

    def make_room(module: nn.Module, state_dict: dict[str, Tensor], prefix: str, *_: Any) -> None:
        for name in names:
            if prefix + name in state_dict:  # if not, loading says so
                setattr(module, name, nn.Buffer(torch.empty_like(state_dict[prefix + name])))

    module.register_load_state_dict_pre_hook(make_room)
