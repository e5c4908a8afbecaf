"""Find the tensors among a network's arguments."""

from __future__ import annotations

from torch import Tensor

from graph_metanetworks.trace.record.operation import tensors


def named_inputs(args: tuple, kwargs: dict) -> list[tuple[str, Tensor]]:
    """Return the tensors in the arguments of a call, with the names that their nodes get."""
    named = []
    positional = tensors(args)
    for index, tensor in enumerate(positional):
        named.append(("input" if len(positional) == 1 else f"input {index}", tensor))
    for key, value in kwargs.items():
        found = tensors(value)
        for index, tensor in enumerate(found):
            named.append((key if len(found) == 1 else f"{key} {index}", tensor))
    return named
