"""The base class of population layers: parameters and buffers stacked over networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import nn


class NotStackable(TypeError):
    """These modules cannot be stacked into a population. The message says why."""


class Stacked(nn.Module):
    """A layer of a population, stacked from the layers of its networks."""

    shared: ClassVar[tuple[str, ...]] = ()  # attributes that must be equal in all networks

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        for name in self.shared:
            values = [getattr(layer, name) for layer in layers]
            if any(value != values[0] for value in values):
                raise NotStackable(f"{type(layers[0]).__name__} layers differ in {name}")
            setattr(self, name, values[0])
        first = layers[0]
        for name, value in first.named_parameters(recurse=False):
            stacked = torch.stack([getattr(layer, name).detach() for layer in layers])
            self.register_parameter(name, nn.Parameter(stacked, requires_grad=value.requires_grad))
        for name, _ in first.named_buffers(recurse=False):
            self.register_buffer(name, torch.stack([getattr(layer, name) for layer in layers]))
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            if getattr(first, name, None) is None:
                setattr(self, name, None)
