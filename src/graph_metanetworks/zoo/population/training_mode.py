"""Two modes of running all networks of a population at once: stacked layers, or `torch.func.vmap`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from graph_metanetworks.zoo.population.stack import check_same_attributes, set_generators, stack
from graph_metanetworks.zoo.population.stacked import NotStackable, Stacked


class TrainingMode(ABC):
    """Maps images to the outputs of all networks. It owns their buffers."""

    buffers: dict[str, Tensor]  # [G, ...] each

    @abstractmethod
    def use(self, parameters: dict[str, Tensor]) -> None:
        """Use these stacked parameters from now on."""

    @abstractmethod
    def __call__(self, images: Tensor) -> Tensor:
        """Return the outputs `[G, batch, ...]`."""

    @abstractmethod
    def train(self, mode: bool) -> None: ...


class StackedLayers(TrainingMode):
    def __init__(self, networks: Sequence[nn.Module], generators: Sequence[torch.Generator]) -> None:
        self.module = stack(networks)
        set_generators(self.module, generators)
        self.buffers = {
            f"{path}.{name}": value
            for path, layer in self.module.named_modules()
            if isinstance(layer, Stacked)
            for name, value in layer.named_buffers(recurse=False)
        }

    def use(self, parameters: dict[str, Tensor]) -> None:
        for name, value in parameters.items():
            path, _, own = name.rpartition(".")
            self.module.get_submodule(path)._parameters[own] = value  # pyright: ignore[reportArgumentType]

    def __call__(self, images: Tensor) -> Tensor:
        return self.module(images.unsqueeze(0))

    def train(self, mode: bool) -> None:
        self.module.train(mode)


class Vmapped(TrainingMode):
    """`torch.func.vmap`, for networks without random operations.

    Random operations would not draw what each network would draw alone.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        for modules in zip(*(network.modules() for network in networks), strict=True):
            check_same_attributes(modules)
        self.module = networks[0]
        self.parameters = stacked_parameters(networks)
        buffers = [dict(network.named_buffers()) for network in networks]
        self.buffers = {name: torch.stack([each[name] for each in buffers]) for name in buffers[0]}

    def use(self, parameters: dict[str, Tensor]) -> None:
        self.parameters = parameters

    def __call__(self, images: Tensor) -> Tensor:
        def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
            return functional_call(self.module, (parameters, buffers), (images,))

        return vmap(one, randomness="error")(self.parameters, self.buffers)

    def train(self, mode: bool) -> None:
        self.module.train(mode)

    def works(self, images: Tensor) -> bool:
        """Return whether `vmap` can run these networks in training mode."""
        kept, self.buffers = self.buffers, {name: value.clone() for name, value in self.buffers.items()}
        try:
            self.train(True)
            self(images)
        except Exception:  # an error of the network itself is raised again when it is trained alone
            return False
        finally:
            self.buffers = kept
        return True


def find_training_mode(
    networks: Sequence[nn.Module], generators: Sequence[torch.Generator], images: Tensor
) -> TrainingMode | None:
    """Return the fastest mode that trains each network as if it were alone, if there is one."""
    if has_shared_parameters(networks[0]):
        return None  # stacking would untie shared parameters
    with suppress(NotStackable):
        return StackedLayers(networks, generators)
    with suppress(NotStackable):
        mode = Vmapped(networks)
        return mode if mode.works(images) else None
    return None


def has_shared_parameters(network: nn.Module) -> bool:
    once, all_names = (list(network.named_parameters(remove_duplicate=d)) for d in (True, False))
    return len(once) < len(all_names)


def stacked_parameters(networks: Sequence[nn.Module]) -> dict[str, Tensor]:
    each = [dict(network.named_parameters()) for network in networks]
    return {name: torch.stack([p[name].detach() for p in each]) for name in each[0]}
