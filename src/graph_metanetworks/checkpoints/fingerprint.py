"""A fingerprint of an architecture: equal for networks that differ only in their weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

DEPTH = 4  # of nested attributes
LENGTH = 10  # characters


def fingerprint(network: nn.Module, example: Any = None) -> str:
    """Return the class of a network and a hash of its modules, options, shapes and example input.

    Attributes count too: two networks of equal shapes may differ in an activation that is a function. A
    difference that only code knows, such as a global variable, is not seen.

    >>> same = fingerprint(nn.Linear(3, 2)) == fingerprint(nn.Linear(3, 2))
    >>> same, fingerprint(nn.Linear(3, 2)) == fingerprint(nn.Linear(3, 4))
    (True, False)
    """
    digest = hashlib.sha256()
    for part in (*_parts(network), str(example)):
        digest.update(part.encode())
        digest.update(b"\0")
    return f"{type(network).__name__}-{digest.hexdigest()[:LENGTH]}"


def _parts(network: nn.Module) -> Iterator[str]:
    for name, module in network.named_modules(remove_duplicate=False):
        yield f"{name}={_type_name(module)}"
        own = {k: v for k, v in vars(module).items() if not k.startswith("_") and k != "training"}
        yield json.dumps({key: _plain(value, DEPTH) for key, value in sorted(own.items())}, sort_keys=True)
    for name, tensor in network.state_dict().items():
        shape = f"{list(tensor.shape)} {tensor.dtype}" if isinstance(tensor, Tensor) else "state"
        yield f"{name}: {shape}"


def _plain(value: Any, depth: int) -> Any:
    """Return what tells a value from others, but not where it is in memory."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        return f"{list(value.shape)} {value.dtype}"
    if isinstance(value, torch.dtype | torch.device):
        return str(value)
    if isinstance(value, FunctionType):
        return [value.__module__, value.__qualname__, hashlib.sha256(value.__code__.co_code).hexdigest()]
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return f"{value.__module__}.{value.__qualname__}"
    if depth == 0 or isinstance(value, nn.Module):
        return _type_name(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(own, depth - 1) for key, own in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(own, depth - 1) for own in value]
    return [_type_name(value), _plain(getattr(value, "__dict__", {}), depth - 1)]


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
