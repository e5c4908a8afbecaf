"""State that is fitted to a training zoo: its size is known after `fit`, or from the state dict.

A `Fitted` module has tables with a row for each name that `fit` found. The names are part of the state dict,
so loading needs no knowledge of the fit:

>>> import torch, graph_metanetworks as gmn
>>> model = torch.nn.Linear(3, 2)
>>> batch = gmn.collate([(gmn.trace(model, torch.zeros(1, 3)), model.state_dict())])
>>> fitted, fresh = gmn.GraphMetanetwork(8, 1), gmn.GraphMetanetwork(8, 1)
>>> fitted.fit([batch])
>>> fresh.load_state_dict(fitted.state_dict())
<All keys matched successfully>
>>> fitted_names(fresh)
('weight (linear weight)', 'bias (linear bias)')
"""

from __future__ import annotations

import json
from collections.abc import Iterable, MutableMapping
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

NAMES = "names"  # the buffer that holds them, as JSON in bytes: a state dict holds tensors only


@runtime_checkable
class HasFittedNames(Protocol):
    """A module whose parameters depend on names found by `fit`."""

    @property
    def fitted_names(self) -> tuple[str, ...]: ...
    def set_fitted_names(self, names: Iterable[str], /) -> None: ...


def refilled(parameter: nn.Parameter | None, value: Tensor) -> nn.Parameter:
    """Return the same parameter with a value of any size, so that an optimizer that holds it still trains it.

    An optimizer that has made a step with another size raises an error at the next one.
    """
    if parameter is None:
        return nn.Parameter(value)
    parameter.data, parameter.grad = value, None
    return parameter


def refill(module: nn.Module, like: nn.Module) -> None:
    """Give a module the size and the values of another of its class, and keep its parameters as objects."""
    for name, parameter in module.named_parameters():
        refilled(parameter, like.get_parameter(name).data)
    for name, part in module.named_modules():
        fresh = like.get_submodule(name)
        if isinstance(part, nn.Linear) and isinstance(fresh, nn.Linear):
            part.in_features, part.out_features = fresh.in_features, fresh.out_features


class Fitted(nn.Module):
    """Base of modules with tables that have a row for each name. Subclasses implement `make_tables`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fitted_names: tuple[str, ...] = ()
        self.names = nn.Buffer(_encode(()))
        resize_by_names(self, NAMES)

    def set_fitted_names(self, names: Iterable[str]) -> None:
        """Replace the tables by new ones, with a row of neutral values for each name."""
        self.fitted_names = tuple(names)
        self.names = nn.Buffer(_encode(self.fitted_names).to(self.names.device))
        self.make_tables()

    def make_tables(self) -> None:
        """Make the parameters and buffers whose size depends on `fitted_names`."""
        raise NotImplementedError(f"{type(self).__name__} needs make_tables()")


def fitted_names(module: nn.Module) -> tuple[str, ...]:
    """Return the names that a metanetwork, or any module that holds one, was fitted to."""
    found = (part.fitted_names for part in module.modules() if isinstance(part, HasFittedNames))
    return next((names for names in found if names), ())


def set_fitted_names(module: nn.Module, names: Iterable[str]) -> None:
    """Resize all tables of a module for these names.

    Call it before loading a state dict that lacks names, as those saved by earlier versions do.
    """
    names = tuple(names)
    for part in list(module.modules()):
        if isinstance(part, HasFittedNames):
            part.set_fitted_names(names)


# ------------------------------------------------------------------ when a state dict is loaded


def resize_by_names(module: nn.Module, key: str) -> None:
    """Call `module.set_fitted_names` with the names under `key` before a state dict is loaded."""
    module.register_load_state_dict_pre_hook(partial(_resize_by_names, key=key))


def resize_buffers(module: nn.Module, *buffers: str) -> None:
    """Give these buffers the size and precision that they have in a state dict before it is loaded."""
    module.register_load_state_dict_pre_hook(partial(_resize_buffers, buffers=buffers))


# Functions of this module, not closures: a module can then be pickled.


def _resize_by_names(
    module: Any, state_dict: MutableMapping[str, Tensor], prefix: str, *_: Any, key: str
) -> None:
    if prefix + key not in state_dict:  # made before names were saved: the tables stay as they are
        if isinstance(module, Fitted):
            state_dict[prefix + key] = module.names
        return
    names = _decode(state_dict[prefix + key], prefix + key)
    if names != module.fitted_names:  # otherwise keep the parameters: an optimizer may hold them
        with torch.random.fork_rng(devices=[]):  # loading draws no random numbers
            module.set_fitted_names(names)


def _resize_buffers(
    module: nn.Module,
    state_dict: MutableMapping[str, Tensor],
    prefix: str,
    *_: Any,
    buffers: tuple[str, ...],
) -> None:
    for name in buffers:
        if prefix + name in state_dict:  # otherwise torch reports it as missing
            device = getattr(module, name).device
            setattr(module, name, nn.Buffer(torch.empty_like(state_dict[prefix + name], device=device)))


def _encode(names: Iterable[str]) -> Tensor:
    return torch.tensor(list(json.dumps(list(names)).encode()), dtype=torch.uint8)


def _decode(encoded: Tensor, key: str) -> tuple[str, ...]:
    try:
        return tuple(json.loads(bytes(encoded.tolist())))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the state dict is damaged: '{key}' does not hold names of tensors ({error})."
        ) from error
