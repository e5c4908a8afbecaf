"""Rebuild a network from its recorded operations, with the sizes that are left: a `torch.fx` program."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._pytree import tree_map

from graph_metanetworks.errors import PruneError
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.prune.batch import Batch, FixedBatch
from graph_metanetworks.prune.resize import described, resized
from graph_metanetworks.symmetry.axes import Dim, leaves
from graph_metanetworks.symmetry.subsets import Ragged, Subset
from graph_metanetworks.trace.interpret.interpreter import OperationAxes
from graph_metanetworks.trace.record.operation import Operation, TensorRef, refs, tensors
from graph_metanetworks.trace.replay.memory import all_writes
from graph_metanetworks.trace.replay.recording import Recording

ROUNDING = 1e-5  # relative difference of numbers that count as equal
DOUBLE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def recording_of(graph: ParameterGraph) -> Recording:
    if graph.recording is None:
        raise PruneError(
            f"the graph of {graph.name} has no recorded operations. Trace the network again with gmn.trace."
        )
    return graph.recording


def flat(result: Any) -> list[Tensor]:
    """Return the tensors in the result of a module."""
    return tensors(result)


def check_number(found: Any, seen: Any, where: str) -> None:
    """Check a number that the network's code read, and that may have decided what it did next."""
    if found != seen and not (isinstance(seen, float) and isclose(found, seen, rel_tol=ROUNDING)):
        raise PruneError(
            f"{where} gives {found} to Python, but {seen} on the example with which the network was traced, "
            "so the network may do something else here."
        )


@dataclass(frozen=True, eq=False)
class Program:
    """The operations of a network, with what they read by name."""

    graph: fx.Graph
    attributes: Mapping[str, Any]
    name: str

    def module(self) -> fx.GraphModule:
        """Return the program as a module that runs by itself."""
        return fx.GraphModule(dict(self.attributes), self.graph, class_name=self.name).eval()

    def run(self, *inputs: Tensor) -> Any:
        """Run the operations one by one; one that fails, or gives an unexpected shape, is named."""
        return CheckedRun(self).run(*inputs)


@dataclass(eq=False)
class ProgramBuilder:
    """Make a program of recorded operations. `module` returns a resized submodule, for declared ones."""

    graph: ParameterGraph
    subset: Subset
    weights: Mapping[str, Tensor]
    module: Callable[[str], nn.Module | None] = lambda path: None
    double: bool = False
    batch: Batch | None = None  # if the program takes batches of any size
    changes: list[tuple[Operation, dict[str, Any]]] = field(default_factory=list)

    def build(self) -> Program:
        self.recording = recording_of(self.graph)
        if self.recording.refusal:
            raise PruneError(self.recording.refusal)
        self._nodes: dict[int, fx.Node] = {}
        self._attributes: dict[str, Any] = {}
        self._made = fx.Graph()
        self._read = {ref.key for operation in self.recording.operations for ref in operation.inputs}
        self._read |= set(self.recording.outputs)
        self._varying = {key for key in (*self.recording.parameters, *self.recording.inputs)}
        self._varying_memory: set[int] = set()
        for key, entry in self.recording.inputs.items():
            node = self._made.placeholder(_identifier(entry.names[0]))
            self._nodes[key] = node
        if self.batch is not None:
            size = self._made.call_function(torch.ops.aten.sym_size.int, (self._nodes[self.batch.input], 0))
            self._size = self.batch.expression(self._made, size)
        steps = zip(self.recording.operations, self.recording.axes, strict=True)
        for number, (operation, axes) in enumerate(steps):
            self._number = number
            try:
                self._add(operation, axes)
            except Ragged as error:
                raise PruneError(f"{described(operation)} cannot take what is left: {error}.") from error
        outputs = [self._node(key) for key in self.recording.outputs]
        self._made.output(outputs[0] if len(outputs) == 1 else tuple(outputs))
        return Program(self._made, self._attributes, f"Pruned{self.graph.name}")

    # -------------------------------------------------------------- operations

    def _add(self, operation: Operation, axes: OperationAxes) -> None:
        if operation.body:
            self._add_declared(operation, axes)
            return
        if not refs(operation.outputs):
            self._add_check(operation)
            return
        self._follow(operation)
        func, changed = resized(operation, axes, self.subset)
        if changed:
            self.changes.append((operation, changed))
        if self.batch is not None and isinstance(operation.func, torch._ops.OpOverload):
            changed = {**changed, **self.batch.numbers(operation, changed, self._size)}
        given = iter([self._fitted(operation, axes, place) for place in range(len(operation.inputs))])
        args, kwargs = tree_map(
            lambda leaf: next(given) if isinstance(leaf, TensorRef) else self._plain(leaf),
            (operation.args, operation.kwargs),
        )
        args, kwargs = _with(operation, list(args), kwargs, changed)
        node = self._made.call_function(func, tuple(args), kwargs)
        self._mark(node, operation, axes)
        self._results(node, operation.outputs)

    def _add_check(self, operation: Operation) -> None:
        seen = operation.outputs if isinstance(operation.outputs, bool | int | float) else None
        if seen is None or not self._varies(operation):
            return
        nodes = [self._node(ref.key) for ref in operation.inputs]
        found = self._made.call_function(operation.func, tuple(nodes))
        found.meta["operation"] = operation
        self._made.call_function(check_number, (found, seen, described(operation)))

    def _add_declared(self, operation: Operation, axes: OperationAxes) -> None:
        """Add a declared module: its operations if nothing in it is cut, or else the resized module."""
        self._follow(operation)
        parameters = self.graph.symmetry.parameters
        entries = [self.recording.parameters[ref.key] for ref in operation.inputs[len(axes.given) :]]
        owned = [parameters.get(entry.names[0], ()) for entry in entries]
        if not any(self.subset.cuts(dims) for dims in (*axes.used, *axes.outputs, *owned)):
            for inner in operation.body:
                nothing = OperationAxes([[]] * len(inner.inputs), [[]] * len(inner.inputs), [])
                self._add(inner, nothing)
            return
        module = self.module(operation.path)
        if module is None or not type(module).__module__.startswith("torch.nn"):
            raise PruneError(
                f"{operation.func} in '{operation.path}' is declared as a whole, so its operations cannot be "
                "given other sizes."
            )
        self._attributes[operation.path] = module.double() if self.double else module
        inputs = [self._fitted(operation, axes, place) for place in range(len(axes.given))]
        called = self._made.call_module(operation.path, tuple(inputs))
        called.meta["operation"] = operation
        node = self._made.call_function(flat, (called,))
        self._mark(node, operation, axes)
        self._results(node, operation.outputs)

    def _results(self, node: fx.Node, outputs: Any) -> None:
        if isinstance(outputs, TensorRef):
            self._nodes[outputs.key] = node
            return
        for index, part in enumerate(outputs):
            if isinstance(part, TensorRef):
                self._nodes[part.key] = self._made.call_function(operator.getitem, (node, index))

    def _mark(self, node: fx.Node, operation: Operation, axes: OperationAxes) -> None:
        node.meta |= {"operation": operation, "dims": axes.outputs, "number": self._number}
        is_dynamic = isinstance(operation.func, torch._ops.OpOverload) and (
            torch.Tag.dynamic_output_shape in operation.func.tags
        )
        if axes.outputs and not is_dynamic and self.batch is None:
            node.meta["shapes"] = [
                self.subset.shape(dims) if ref.key in self._read else None
                for ref, dims in zip(refs(operation.outputs), axes.outputs, strict=True)
            ]

    # -------------------------------------------------------------- tensors

    def _fitted(self, operation: Operation, axes: OperationAxes, place: int) -> fx.Node:
        """Return an argument; of a constant, as many equal entries as the other operands have."""
        ref, given, used = operation.inputs[place], axes.given[place], axes.used[place]
        node = self._node(ref.key, given)
        for dim, (own, fresh) in enumerate(zip(given, used, strict=True)):
            new = self.subset.size(fresh)
            if self.subset.size(own) == new:
                continue
            if self.batch is not None and self.batch.is_along(operation, place, dim):
                node = self._fitted_within(node, given, used, dim)
                continue
            indices = self.subset.fitting(own, fresh)
            if indices == list(range(new)):
                node = self._made.call_function(torch.ops.aten.slice.Tensor, (node, dim, 0, new))
            else:
                index = self._constant(torch.tensor(indices, device="cpu"))
                node = self._made.call_function(torch.ops.aten.index_select.default, (node, dim, index))
        return node

    def _fitted_within(self, node: fx.Node, given: Sequence[Dim], used: Sequence[Dim], dim: int) -> fx.Node:
        """Fit a first dimension that starts with the batch, by what comes after the batch."""
        assert self.batch is not None
        own, fresh = leaves(given[dim]), leaves(used[dim])
        if dim != 0 or not own or not fresh or {own[0].size, fresh[0].size} != {self.batch.size}:
            raise FixedBatch("a constant is fitted along the batch")
        rest = [self.subset.size(other) for other in given[1:]]
        parts = (node, [-1, self.subset.size(own[1:]), *rest])
        index = self._constant(torch.tensor(self.subset.fitting(own[1:], fresh[1:]), device="cpu"))
        apart = self._made.call_function(torch.ops.aten.reshape.default, parts)
        chosen = self._made.call_function(torch.ops.aten.index_select.default, (apart, 1, index))
        return self._made.call_function(torch.ops.aten.reshape.default, (chosen, [-1, *rest]))

    def _node(self, key: int, dims: Sequence[Dim] = ()) -> fx.Node:
        constants = self.recording.constants
        key = constants.same.get(key, key)
        if key in self._nodes:
            return self._nodes[key]
        entry = self.recording.parameters.get(key) or self.recording.discrete.get(key)
        if entry is not None:
            self._nodes[key] = self._weight(entry.names, key)
        elif key in constants.values:
            self._nodes[key] = self._constant(self.subset.cut(constants.values[key], dims))
        elif key in constants.views:
            view = constants.views[key]
            base = self.recording.parameters.get(view.base)
            if base is not None and self.subset.cuts(self.graph.symmetry.parameters.get(base.names[0], ())):
                raise PruneError(f"a view of '{base.names[0]}' was stored before the network ran.")
            flattened = self._made.call_function(
                torch.ops.aten.reshape.default, (self._node(view.base), [-1])
            )
            index = self._constant(view.elements.index().reshape(-1))
            chosen = self._made.call_function(torch.ops.aten.index_select.default, (flattened, 0, index))
            shape = list(view.elements.shape)
            self._nodes[key] = self._made.call_function(torch.ops.aten.reshape.default, (chosen, shape))
        else:
            raise PruneError(f"a tensor of {self.graph.name} {constants.missing.get(key, 'is not known')}.")
        return self._nodes[key]

    def _weight(self, names: tuple[str, ...], key: int) -> fx.Node:
        name = next((name for name in names if name in self.weights), None)
        if name is None:
            if key not in self.recording.constants.values:
                raise PruneError(f"the state dict has no '{names[0]}'.")
            return self._constant(self.recording.constants.values[key])
        if name not in self._attributes:
            value, dims = self.weights[name].detach(), self.graph.symmetry.parameters.get(name, ())
            if tuple(value.shape) != self.subset.shape(dims):  # or else it is cut already
                value = self.subset.cut(value, dims)
            value = self._converted(value)
            if isinstance(self.weights[name], nn.Parameter):
                value = nn.Parameter(value, requires_grad=self.weights[name].requires_grad)
            self._attributes[name] = value
        return self._made.get_attr(name)

    def _constant(self, value: Tensor) -> fx.Node:
        value = self._converted(value)
        for name, known in self._attributes.items():
            if name.startswith("constants.") and known is value:
                return self._made.get_attr(name)
        name = f"constants.c{sum(known.startswith('constants.') for known in self._attributes)}"
        self._attributes[name] = value
        return self._made.get_attr(name)

    def _converted(self, value: Tensor) -> Tensor:
        return value.to(DOUBLE.get(value.dtype, value.dtype)) if self.double else value

    def _plain(self, leaf: Any) -> Any:
        if self.double and isinstance(leaf, torch.dtype):
            return DOUBLE.get(leaf, leaf)
        return leaf

    # -------------------------------------------------------------- what varies with weights and inputs

    def _varies(self, operation: Operation) -> bool:
        return any(
            ref.key in self._varying or ref.storage in self._varying_memory for ref in operation.inputs
        )

    def _follow(self, operation: Operation) -> None:
        if self._varies(operation):
            results: Iterable[TensorRef] = (*refs(operation.outputs), *all_writes(operation))
            self._varying_memory |= {ref.storage for ref in results}


def _identifier(name: str) -> str:
    name = name.replace(" ", "_")
    return name if name.isidentifier() else "input"


def _with(operation: Operation, args: list, kwargs: dict, changed: dict) -> tuple[list, dict]:
    """Return the arguments of a call, some of them replaced by name."""
    if not changed:
        return args, kwargs
    schema = [argument.name for argument in operation.func._schema.arguments]
    named = dict(zip(schema, args, strict=False)) | kwargs | changed
    kept = {name: value for name, value in named.items() if value is not ...}
    first = {name: kept.pop(name) for name in schema[: len(args)] if name in kept}
    return list(first.values()), kept


class CheckedRun(fx.Interpreter):
    """Run a program; an operation that fails, or gives an unexpected shape, is named."""

    def __init__(self, program: Program, *, keep: bool = False):
        super().__init__(nn.Module(), garbage_collect_values=not keep, graph=program.graph)
        self.attributes = program.attributes
        self.extra_traceback = False

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.attributes[target]

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.attributes[target](*args, **kwargs)

    def run_node(self, n: fx.Node) -> Any:
        try:
            result = super().run_node(n)
        except PruneError:
            raise
        except Exception as error:
            operation = n.meta.get("operation")
            place = described(operation) if operation else str(n)
            raise PruneError(f"{place} fails with the sizes that are left: {error}") from error
        shapes = n.meta.get("shapes")
        if shapes is not None:
            found = [tuple(tensor.shape) for tensor in tensors(result)]
            if any(wanted not in (None, own) for own, wanted in zip(found, shapes, strict=True)):
                raise PruneError(
                    f"{described(n.meta['operation'])} gives {found} with the sizes that are left, but "
                    f"{shapes} are expected."
                )
        return result
