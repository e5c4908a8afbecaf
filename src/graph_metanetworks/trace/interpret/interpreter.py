"""Interpret a tape: give every tensor its axes, its nodes and the parameters behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import TraceError, UnsupportedOperation
from graph_metanetworks.symmetry.axes import (
    Axis,
    Dim,
    fixed,
    free,
    instantiate,
    leaves,
    make_specific,
    pin,
    size,
    unify_dims,
)
from graph_metanetworks.trace.interpret import binding, memory
from graph_metanetworks.trace.interpret.builder import ParameterGraphBuilder
from graph_metanetworks.trace.interpret.declare import apply_declaration
from graph_metanetworks.trace.interpret.labels import View
from graph_metanetworks.trace.interpret.registry import find_rule, functional_name
from graph_metanetworks.trace.interpret.size_limit import is_too_large, too_large
from graph_metanetworks.trace.interpret.value import Role, Value
from graph_metanetworks.trace.record.operation import Escape, Operation, TensorRef, refs

LARGEST_CONSTANT = 4_000_000  # elements; larger constants are assumed to vary everywhere


@dataclass(frozen=True, slots=True)
class Call:
    """One operation as its rule sees it: arguments by name, values of tensors, the graph being built."""

    trace: Interpreter
    operation: Operation
    name: str
    arguments: dict[str, Any]

    def __getitem__(self, argument: str) -> Any:
        return self.arguments[argument]

    def get(self, *arguments: str) -> Any:
        """Return the first of several spellings of an argument that this operation has."""
        return next((self.arguments[a] for a in arguments if a in self.arguments), None)

    def value(self, argument: str | TensorRef) -> Value:
        """Return what is known about a tensor argument."""
        ref = self.arguments[argument] if isinstance(argument, str) else argument
        return self.trace.value(ref)

    def use(self, argument: str | TensorRef) -> Value:
        """Like `value`, but with fresh axes if the tensor is constant; for rules that unify."""
        value = self.value(argument)
        dims = instantiate(value.dims)
        if all(a is b for a, b in zip(dims, value.dims, strict=True)):
            return value
        self.trace.seen(dims)
        ref = self.arguments[argument] if isinstance(argument, str) else argument
        self.trace.instances[ref.key] = dims
        return replace(value, dims=dims)

    @property
    def tensors(self) -> list[TensorRef]:
        return refs(list(self.arguments.values()))

    @property
    def outs(self) -> list[TensorRef]:
        return refs(self.operation.outputs)

    @property
    def out(self) -> TensorRef:
        return self.outs[0]

    @property
    def path(self) -> str:
        return self.operation.path

    def rerun(self, label: Tensor, argument: str = "self") -> Tensor:
        """Run the operation itself on a label instead of the tensor it was called with."""
        return self._again(label, argument)

    def rerun_all(self, label: Tensor, argument: str = "self") -> list[Tensor]:
        return list(self._again(label, argument))

    def _again(self, label: Tensor, argument: str) -> Any:
        schema = self.operation.func._schema
        arguments = {a.name: self.arguments[a.name] for a in schema.arguments}
        arguments[argument] = label
        positional = [arguments[a.name] for a in schema.arguments if not a.kwarg_only]
        keywords = {a.name: arguments[a.name] for a in schema.arguments if a.kwarg_only}
        return self.operation.func(*positional, **keywords)


@dataclass(frozen=True, slots=True)
class OperationAxes:
    """The dimensions of each tensor that an operation reads, and of each that it makes.

    `used` differs from `given` for constants, which get fresh axes in every operation that reads them.
    """

    given: Sequence[Sequence[Dim]]
    used: Sequence[Sequence[Dim]]
    outputs: Sequence[Sequence[Dim]]

    def resolved(self) -> OperationAxes:
        """Return the axes after everything is unified."""
        return OperationAxes(
            *(
                [[leaves(dim) for dim in dims] for dims in own]
                for own in (self.given, self.used, self.outputs)
            )
        )


class Interpreter:
    """State of one trace: values of tensors, axes seen together, the graph under construction."""

    def __init__(self, model: nn.Module, *, unknown: str = "raise"):
        self.builder = ParameterGraphBuilder()
        self.unknown = unknown
        self.notes: list[str] = []
        self.values: dict[int, Value] = {}
        self.types: list[list[Dim]] = []  # axes that occur together in some tensor or contraction
        self.reached: list[list[Dim]] = []  # the same for activations
        self.used: set[str] = set()
        self.shown: list[tuple[int, TensorRef, Value]] = []  # results, with the number of their operation
        self.axes: list[OperationAxes] = []  # of each operation
        self.instances: dict[int, list[Dim]] = {}  # fresh axes of constants in the current operation, by key
        self.log: list[tuple[Operation, dict[int, Value], dict[int, Value]]] | None = None
        self.path = ""
        self._classes = {name: type(module).__name__ for name, module in model.named_modules()}
        self._modules = dict(model.named_modules())
        self._state: dict[int, TensorRef] = {}
        self._parameters: dict[str, TensorRef] = {}
        self._inputs: dict[tuple, Tensor] = {}
        self._input_shapes: dict[str, tuple[int, ...]] = {}
        self._discrete: set[int] = set()  # storages of integer, boolean and complex state
        self._memory = memory.Memory()

    # -------------------------------------------------------------- values

    def value(self, ref: TensorRef) -> Value:
        if ref.key not in self.values:
            self.set(ref, self._constant(ref))
        self.values[ref.key] = self._memory.read(ref, self.values[ref.key])
        return self.values[ref.key]

    def set(self, ref: TensorRef, value: Value) -> None:
        lengths = tuple(size(leaves(dim)) for dim in value.dims)
        if lengths != ref.shape:
            raise AssertionError(f"a rule gave {lengths} for a tensor of shape {ref.shape}")
        self.values[ref.key] = value
        self._memory.up_to_date(ref)
        self.seen(value.dims, activation=value.is_activation)

    def seen(self, dims: list[Dim], *, activation: bool = False) -> None:
        """Record axes that occur together, because a dependence between them must hold here too."""
        self.types.append(dims)
        if activation:
            self.reached.append(dims)

    def mixes_along(self, dims: Sequence[Dim], mixed: Iterable[int]) -> None:
        """Record that the operation mixes some dimensions, so no other axis may depend on them."""
        mixed = set(mixed)
        self.seen([dim for index, dim in enumerate(dims) if index not in mixed])

    def _constant(self, ref: TensorRef) -> Value:
        """Describe a tensor that no operation made: pinned along the dimensions on which it varies."""
        value = ref.value
        if ref.storage in self._discrete:
            return Value(
                Role.CONSTANT, [fixed(length, "not a floating-point weight") for length in ref.shape]
            )
        readable = ref.has_value and value.layout == torch.strided
        dims = []
        for dim, length in enumerate(ref.shape):
            uniform = readable and length > 1 and 0 < value.numel() <= LARGEST_CONSTANT
            if uniform and bool((value == value.narrow(dim, 0, 1)).all()):
                dims.append(free(length, "a constant", generic=True))
            else:
                dims.append(fixed(length, "a constant that varies along it"))
        return Value(Role.CONSTANT, dims)

    def add_discrete(self, ref: TensorRef) -> None:
        """Add an integer, boolean or complex entry of the state dict.

        No automorphism permutes it, so all of its axes are pinned, whatever its values are in this network.
        """
        self._discrete.add(ref.storage)

    def add_input(self, ref: TensorRef, name: str) -> None:
        dims = [fixed(length, "input") for length in ref.shape]
        self._input_shapes[name] = ref.shape
        self.set(ref, Value(Role.ACTIVATION, dims, origin=View.whole(name, ref.shape)))
        self.shown.append((-1, ref, self.values[ref.key]))

    def add_parameter(self, ref: TensorRef, name: str, original: Tensor) -> None:
        self._state[id(original)] = ref
        self._parameters[name] = ref
        dims: list[Dim] = []
        for length in ref.shape:
            # each expert, each head may permute its own dimensions, until some tensor shows otherwise
            outer = [axis for dim in dims for axis in dim]
            dims.append([Axis(length, depends=outer, reason=name)] if length > 1 else [])
        views = [View.whole(name, ref.shape)] if 0 not in ref.shape else []
        self.set(ref, Value(Role.WEIGHT, dims, views=views))

    def axes_of(self, names: Iterable[str]) -> set[Axis]:
        """Return the axes of the named parameters."""
        return {
            axis for name in names for dim in self.value(self._parameters[name]).dims for axis in leaves(dim)
        }

    def state_ref(self, tensor: Tensor) -> TensorRef:
        """Return the reference to a parameter or buffer of the model."""
        return self._state[id(tensor)]

    def input_nodes(self, name: str, elements: Tensor, dim: Dim) -> Tensor:
        """Return nodes for the given elements of an input, the same ones on every call.

        Elements that differ only in where they are (another step of a sequence) have the same nodes.
        """
        shape = self._input_shapes[name]
        key = (name, *_coordinates(elements, shape))
        if key not in self._inputs:
            self._inputs[key] = self.builder.nodes("input", name, dim, elements.numel(), 0)
            self.builder.groups[-1].indexed = True
        return self._inputs[key]

    # -------------------------------------------------------------- operations

    def run(self, operations: list[Operation]) -> None:
        for number, operation in enumerate(operations):
            before = {ref.key: self.value(ref) for ref in operation.inputs}
            self.instances = {}
            with self._located(operation):
                self.step(operation)
            self.axes.append(self._axes(operation, before))
            # the values themselves: a later operation may still give them nodes
            self.shown += [(number, ref, self.values[ref.key]) for ref in refs(operation.outputs)]
            if self.log is not None:
                after = {ref.key: self.values[ref.key] for ref in refs(operation.outputs)}
                self.log.append((operation, before, after))

    def _axes(self, operation: Operation, before: Mapping[int, Value]) -> OperationAxes:
        given = [before[ref.key].dims for ref in operation.inputs]
        used = [self.instances.get(ref.key, before[ref.key].dims) for ref in operation.inputs]
        return OperationAxes(given, used, [self.values[ref.key].dims for ref in refs(operation.outputs)])

    @contextmanager
    def _located(self, operation: Operation) -> Iterator[None]:
        self.path = operation.path
        try:
            yield
        except TraceError:
            raise
        except Exception as error:
            if is_too_large(error):
                raise too_large(f"{operation.func}, called {where(operation)},", error) from error
            raise TraceError(
                f"the rule for {operation.func} failed {where(operation)}: {error!r}. This is a bug in "
                "the rule; please report it. Until it is fixed, gmn.declare the module as a whole."
            ) from error

    def step(self, operation: Operation) -> None:
        for ref in operation.inputs:
            self.used |= self.value(ref).parameters
        if isinstance(operation.func, nn.Module):
            apply_declaration(self, operation)
            return
        if isinstance(operation.func, Escape):
            self._leaves_torch(operation)
            return
        call = self._call(operation)
        if torch.Tag.inplace_view in operation.func.tags:
            self.set(call.out, memory.viewed_in_place(call))
            return
        found = find_rule(operation.func)
        results = found(call) if found else self._unknown(call)
        results = results if isinstance(results, list) else [results]
        written = {ref.key for ref in operation.writes}
        for ref, value in zip(call.outs, results, strict=True):
            if ref.key in written:
                self._write(ref, value)
            else:
                self.set(ref, value)

    def _call(self, operation: Operation) -> Call:
        name = functional_name(operation.func).split("::")[1]
        return Call(self, operation, name, operation.arguments)

    def _write(self, ref: TensorRef, value: Value) -> None:
        """Store an in-place result. Memory keeps its axes, and other views of it see the new nodes."""
        old = self.values[ref.key]
        make_specific(old.dims)
        dims = instantiate(value.dims)
        unify_dims(list(zip(old.dims, dims, strict=True)), "in-place write")
        make_specific(dims)
        self.set(ref, replace(value, dims=dims))
        self._memory.write(ref, old, self.values[ref.key])

    def _leaves_torch(self, operation: Operation) -> None:
        """Pin values that Python or NumPy sees, because their use cannot be followed."""
        (ref,) = operation.inputs
        value = self.value(ref)
        if value.is_pinned:
            return
        what = f"{operation.func} hands values to Python {where(operation)}, where they cannot be followed"
        self._not_understood(what, "Compute with tensors instead")
        for dim in value.dims:
            pin(dim, str(operation.func))

    def _unknown(self, call: Call) -> list[Value]:
        inputs = [call.value(ref) for ref in call.tensors]
        if any(not value.is_pinned for value in inputs):
            what = f"no rule for {call.operation.func}, called {where(call.operation)}"
            self._not_understood(what, "Add one with @gmn.rule")
        return binding.opaque(call)

    def _not_understood(self, what: str, remedy: str) -> None:
        """Refuse the network, or note that symmetry is given up in one place."""
        if self.unknown == "raise":
            raise UnsupportedOperation(
                f"{what}. {remedy}, describe the module with gmn.declare, or trace with "
                'gmn.Tracer(unknown="pin") to claim no symmetry there.'
            )
        self.notes.append(f"{what}: no symmetry is claimed there")

    # -------------------------------------------------------------- modules

    def class_of(self, path: str) -> str:
        return self._classes.get(path, "")

    def module(self, path: str) -> nn.Module | None:
        return self._modules.get(path)

    def owns(self, path: str, value: Value) -> bool:
        """Return whether every parameter in a value belongs to the module at `path`."""
        prefix = f"{path}." if path else ""
        return all(name.startswith(prefix) for name in value.parameters)


def _coordinates(elements: Tensor, shape: tuple[int, ...]) -> list[int]:
    """Return coordinates of elements along the dimensions of an input on which they differ."""
    rest, columns = elements, []
    for length in reversed(shape):
        columns.append(rest % length)
        rest = rest // length
    differing = [column for column in columns if bool((column != column[0]).any())]
    return torch.stack(differing or columns).reshape(-1).tolist()


def where(operation: Operation) -> str:
    module = f"in '{operation.path}'" if operation.path else "in the network itself"
    return f"{module} ({operation.location})" if operation.location else module
