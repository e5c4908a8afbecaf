"""Run a user's network and leave it exactly as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode; restore every flag, attribute and buffer on exit."""
    attributes = [(module, dict(vars(module))) for module in model.modules()]
    # parameters, buffers, submodules, hooks: a network may install hooks when it is first called
    registries = [
        (value, dict(value)) for _, saved in attributes for value in saved.values() if isinstance(value, dict)
    ]
    buffers = [
        (buffer, buffer.detach().clone())
        for buffer in model.buffers()
        if buffer.device.type != "meta" and not isinstance(buffer, FakeTensor)
    ]
    try:
        model.eval()
        yield
    finally:
        for module, saved in attributes:
            vars(module).clear()
            vars(module).update(saved)
        for registry, saved in registries:
            registry.clear()
            registry.update(saved)
        with torch.no_grad():
            for buffer, saved in buffers:
                if not torch.equal(buffer, saved):
                    buffer.copy_(saved)
