"""What a recording consists of: references to tensors, operations, and the trees that hold them."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload

NO_VALUE = torch.empty(0, device="meta")


@dataclass(frozen=True, slots=True, eq=False)
class TensorRef:
    """A tensor at one point of the tape. `key` tells tensors apart, `storage` the memory they share.

    `value` is the tensor itself, or an empty one where it was released. It is not pickled.
    """

    key: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    storage: int
    value: Tensor

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def has_value(self) -> bool:
        return self.value.device.type != "meta"

    def without_tensor(self, storage: int) -> TensorRef:
        """Return the reference with no tensor, and with another number of its storage."""
        return replace(self, value=NO_VALUE, storage=storage)

    def __reduce__(self) -> tuple:
        layout = (self.key, self.shape, self.strides, self.offset, self.dtype, self.storage)
        return _ref_without_tensor, layout


def _ref_without_tensor(key, shape, strides, offset, dtype, storage) -> TensorRef:
    return TensorRef(key, shape, strides, offset, dtype, storage, NO_VALUE)


@dataclass(frozen=True, eq=False)
class Operation:
    """One recorded call: an ATen overload, or a declared module taken as a whole.

    `body` holds the operations inside a declared module. No rule reads them, but they can be run again.
    """

    func: Any
    args: tuple
    kwargs: dict
    outputs: Any
    path: str
    location: str
    body: tuple[Operation, ...] = ()

    @cached_property
    def inputs(self) -> list[TensorRef]:
        return refs((self.args, self.kwargs))

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """The arguments of an ATen overload by name, including defaults."""
        schema = self.func._schema.arguments
        given = {a.name: value for a, value in zip(schema, self.args, strict=False)}
        return {a.name: a.default_value for a in schema} | given | self.kwargs

    @cached_property
    def writes(self) -> list[TensorRef]:
        """The arguments that the operation changes in place."""
        if isinstance(self.func, nn.Module | Escape):
            return []
        return written_arguments(self.func, self.args, {})

    def __reduce__(self) -> tuple:
        func = OperationName.of(self.func) if isinstance(self.func, OpOverload) else self.func
        return _named_operation, (
            func,
            self.args,
            self.kwargs,
            self.outputs,
            self.path,
            self.location,
            self.body,
        )


def _named_format(name: str) -> torch.memory_format:
    return getattr(torch, name)


def _reduced(value: torch.memory_format) -> tuple:
    return _named_format, (str(value).removeprefix("torch."),)


copyreg.pickle(torch.memory_format, _reduced)  # PyTorch's own way fails with the protocol of torch.save


@dataclass(frozen=True, slots=True)
class OperationName:
    """The name of an ATen overload, by which it is pickled; such as `aten`, `add`, `Tensor`."""

    namespace: str
    operation: str
    overload: str

    @staticmethod
    def of(func: OpOverload) -> OperationName:
        namespace, _, operation = func._schema.name.partition("::")
        return OperationName(namespace, operation, func._overloadname)

    def find(self) -> OpOverload | Escape:
        """Return the overload, or an escape if no library of this process registers it."""
        try:
            return getattr(getattr(getattr(torch.ops, self.namespace), self.operation), self.overload)
        except AttributeError:
            return Escape(f"{self.namespace}::{self.operation}, which is not registered in this process")


def _named_operation(func: Any, *rest: Any) -> Operation:
    return Operation(func.find() if isinstance(func, OperationName) else func, *rest)


def written_arguments(func: Any, args: tuple, kwargs: dict) -> list[TensorRef]:
    """Return the tensors that an ATen overload changes in place."""
    if not func._schema.is_mutable:
        return []
    positions = dict(enumerate(args))
    return [
        ref
        for position, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
        for ref in refs(positions.get(position, kwargs.get(argument.name)))
    ]


def refs(tree: Any) -> list[TensorRef]:
    return [leaf for leaf in leaves(tree) if isinstance(leaf, TensorRef)]


def leaves(tree: Any) -> list[Any]:
    """Return what is in nested lists, tuples and dicts.

    Arguments and results of ATen operations nest nothing else. PyTorch's `tree_leaves` is much slower.
    """
    kind = type(tree)
    if kind is list or kind is tuple:
        return [leaf for node in tree for leaf in leaves(node)]
    if kind is dict:
        return [leaf for node in tree.values() for leaf in leaves(node)]
    return [tree]


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to what is in nested lists, tuples and dicts."""
    kind = type(tree)
    if kind is list or kind is tuple:
        return kind([map_leaves(function, node) for node in tree])
    if kind is dict:
        return {key: map_leaves(function, node) for key, node in tree.items()}
    return function(tree)


def map_tensors(function: Callable[[Tensor], Any], tree: Any) -> Any:
    return map_leaves(lambda leaf: function(leaf) if isinstance(leaf, Tensor) else leaf, tree)


def tensors(tree: Any, *, skip: Callable[[Any], bool] = lambda node: False) -> list[Tensor]:
    """Return all tensors in nested containers and objects: dicts, tuples, dataclasses, graphs, any object.

    Objects for which `skip` returns True are not searched.
    """
    # a stack rather than an inner function that calls itself: such a cycle would keep the tensors alive
    found: list[Tensor] = []
    seen: set[int] = set()
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Tensor):
            found.append(node)
        elif id(node) not in seen and not isinstance(node, str | bytes | type | nn.Module) and not skip(node):
            seen.add(id(node))
            waiting += reversed(_children(node))
    return found


def _children(node: Any) -> list[Any]:
    if isinstance(node, Mapping):
        return list(node.values())
    if isinstance(node, list | tuple | set | frozenset):
        return list(node)
    if hasattr(node, "__dataclass_fields__"):
        return [getattr(node, name) for name in node.__dataclass_fields__]
    return list(getattr(node, "__dict__", {}).values())


@dataclass(frozen=True, slots=True)
class Escape:
    """A call through which values leave PyTorch, after which they cannot be followed."""

    name: str

    def __str__(self) -> str:
        return self.name
