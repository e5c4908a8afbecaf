"""What layers of a population have in common: parameters and buffers stacked over networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import nn


class NotStackable(TypeError):
    """These modules have no form for populations; the message says why."""


class Stacked(nn.Module):
    """A layer of a population, made of the layers of its networks."""

    alike: ClassVar[tuple[str, ...]] = ()  # attributes in which the networks must agree

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        for name in self.alike:
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
