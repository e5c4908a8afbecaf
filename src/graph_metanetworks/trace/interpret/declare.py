"""Declare a whole module in axis notation, instead of following its operations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import TraceError
from graph_metanetworks.symmetry.axes import (
    Axis,
    Cases,
    Dim,
    concatenate,
    fixed,
    free,
    unify_dims,
)
from graph_metanetworks.trace.interpret import binding, wiring
from graph_metanetworks.trace.interpret.labels import lay_along
from graph_metanetworks.trace.interpret.value import Role, Value
from graph_metanetworks.trace.record.operation import Operation, TensorRef, refs

if TYPE_CHECKING:
    from graph_metanetworks.trace.interpret.interpreter import Interpreter


@dataclass(frozen=True)
class Declaration:
    """How a module's inputs, parameters and outputs share axes.

    One string per tensor, one word per dimension::

        i           an axis of channels, which may be permuted
        T           a position (batch, time, kernel, grid), which may not; `...` for any number of them
        4           a fixed size
        (4 h)       several axes packed into one dimension
        f+b         two axes of channels side by side
        f|b         a different axis at each index of the first dimension

    An edge goes from the channels that come first (inputs before hidden before output ones) to those
    that come last; `"(4 h) p : p -> h"` says it explicitly. Positions of a parameter with only one axis of
    channels are nodes of their own. A call with more tensors than `inputs` lists is followed operation
    by operation.
    """

    inputs: Sequence[str]
    parameters: Mapping[str, str]
    outputs: Sequence[str]
    kinds: Mapping[str, str] = field(default_factory=dict)  # kind of edge by parameter name


DECLARATIONS: dict[type[nn.Module], Callable[[Any], Declaration | None]] = {}


def declare(
    module_class: type[nn.Module],
    declaration: Callable[[Any], Declaration | None] | None = None,
    *,
    inputs: Sequence[str] = (),
    parameters: Mapping[str, str] | None = None,
    outputs: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
) -> None:
    """Treat modules of exactly this class as one operation.

    >>> import graph_metanetworks as gmn
    >>> class Shift(torch.nn.Linear):
    ...     pass
    >>> gmn.declare(Shift, inputs=["B i"], parameters={"weight": "o i", "bias": "o"}, outputs=["B o"])

    Where axes depend on the instance, pass a function from the module to a `gmn.Declaration` instead; it may
    return None for instances that should be followed operation by operation.
    """
    if module_class in DECLARATIONS:
        raise ValueError(f"{module_class.__name__} is already declared; a module can be declared only once.")
    given = Declaration(inputs, parameters or {}, outputs, kinds or {})
    DECLARATIONS[module_class] = declaration or (lambda module: given)


def is_declared(module: nn.Module, num_inputs: int) -> bool:
    """Return whether a call of the module with `num_inputs` tensors is taken as a whole.

    A declaration says nothing about a weight that a hook computes (`torch.nn.utils.prune`), so a module with
    such a weight is followed operation by operation.
    """
    found = DECLARATIONS.get(type(module))
    declaration = found(module) if found else None
    if declaration is None or num_inputs > len(declaration.inputs):
        return False
    return not any(isinstance(vars(module).get(name), Tensor) for name in declaration.parameters)


@dataclass
class _Axes:
    """The axes of one use of a declared module, by name."""

    sizes: dict[str, int] = field(default_factory=dict)
    dims: dict[str, Dim] = field(default_factory=dict)

    def learn(self, spec: list[list[str]], shape: Sequence[int], what: str) -> None:
        """Infer the sizes of axes from a tensor's shape."""
        for names, length in zip(spec, shape, strict=True):
            unknown = [n for n in names if self.size(n) is None]
            known = prod(self.size(n) or 1 for n in names)
            fits = length == known if not unknown else length % known == 0
            if len(unknown) > 1 or not fits:
                sizes = ", ".join(f"{n} = {s}" for n, s in self.sizes.items())
                raise TraceError(
                    f"{what}: a dimension of size {length} does not fit '{' '.join(names)}' ({sizes}). "
                    "Correct the module's gmn.declare."
                )
            for name in unknown:
                self._set(name, length // known)

    def _set(self, name: str, length: int) -> None:
        unknown = [n for n in name.split("+") if n not in self.sizes]
        for part in name.split("|") if "|" in name else unknown:
            self.sizes[part] = length // (1 if "|" in name else len(unknown))

    def size(self, name: str) -> int | None:
        if name.isdigit():
            return int(name)
        if "|" in name:
            return self.sizes.get(name.split("|")[0])
        parts = [self.sizes.get(part) for part in name.split("+")]
        return None if None in parts else sum(p for p in parts if p)

    def length(self, name: str) -> int:
        found = self.size(name)
        assert found is not None, name
        return found

    def all_dims(self, spec: list[list[str]]) -> list[Dim]:
        """Return the dimensions of a tensor; alternatives range over its first one."""
        dims = [self.dim(names) for names in spec]
        for index, names in enumerate(spec):
            if len(names) == 1 and "|" in names[0] and self.length(names[0]) > 1:
                cases = [(1, self.dim([n])) for n in names[0].split("|")]
                form = Cases(dims[0], cases) if len(cases) > 1 else None
                dims[index] = [Axis(self.length(names[0]), form=form)] if form else cases[0][1]
        return dims

    def dim(self, names: Sequence[str]) -> Dim:
        return [axis for name in names for axis in self._axis(name)]

    def _axis(self, name: str) -> Dim:
        if name not in self.dims:
            if not name[0].islower():
                self.dims[name] = fixed(self.length(name), "a declared place")
            elif "+" in name:
                parts = [(self.length(n), self._axis(n)) for n in name.split("+")]
                self.dims[name] = concatenate(parts)
            else:
                self.dims[name] = free(self.length(name), name)
        return self.dims[name]


def _words(spec: str, shape: Sequence[int]) -> list[list[str]]:
    """Parse `"(4 h) i"` into `[["4", "h"], ["i"]]`; `...` becomes the sizes it stands for."""
    dims = spec.split(" : ")[0]
    words = [word.strip("()").split() for word in re.findall(r"\([^)]*\)|\S+", dims)]
    if ["..."] in words:
        at = words.index(["..."])
        missing = len(shape) - len(words) + 1
        words[at : at + 1] = [[str(n)] for n in shape[at : at + missing]]
    if len(words) != len(shape):
        raise TraceError(f"a tensor of shape {tuple(shape)} is declared as '{spec}'.")
    return words


def apply_declaration(trace: Interpreter, operation: Operation) -> None:
    """Wire one call of a declared module into the graph."""
    module = operation.func
    declaration = DECLARATIONS[type(module)](module)
    assert declaration is not None
    _DeclaredCall(trace, operation, module, declaration).wire()


class _DeclaredCall:
    """One call of a declared module. `nodes` holds the nodes along each axis of channels, in flow order."""

    def __init__(self, trace: Interpreter, operation: Operation, module: nn.Module, declared: Declaration):
        self.trace, self.module, self.declared = trace, module, declared
        self.path = operation.path
        self.axes = _Axes()
        self.inputs = _matched(declared.inputs, operation.inputs)
        self.outputs = _matched(declared.outputs, refs(operation.outputs))
        state = dict(module.named_parameters()) | dict(module.named_buffers())
        self.parameters = {
            name: (_words(spec, state[name].shape), trace.state_ref(state[name]))
            for name, spec in declared.parameters.items()
            if name in state
        }
        self.nodes: dict[str, Tensor] = {}

    def wire(self) -> None:
        declared = [*self.inputs, *self.parameters.values(), *self.outputs]
        for words, ref in declared:
            self.axes.learn(words, ref.shape, f"'{self.path}'")
        for words, ref in [*self.inputs, *self.parameters.values()]:
            own = self.trace.value(ref).dims
            dims = self.axes.all_dims(words)
            unify_dims(list(zip(own, dims, strict=True)), type(self.module).__name__)
            self.trace.seen(dims, activation=True)
        self._enter()
        self._make_nodes()
        for name, (words, ref) in self.parameters.items():
            self._edges(name, words, ref)
        self._leave()

    # -------------------------------------------------------------- nodes

    def _enter(self) -> None:
        """Find the nodes of the incoming channels."""
        for words, ref in self.inputs:
            for dim, names in enumerate(words):
                if len(names) == 1 and names[0][0].islower():
                    value = self.trace.value(ref)
                    if value.is_weight:
                        value = binding.lift(self.trace, value, ref.shape)
                        self.trace.set(ref, value)
                    label = wiring.label_along(self.trace, value, ref.shape, dim)
                    line = label[tuple(slice(None) if d == dim else 0 for d in range(ref.ndim))]
                    self.nodes.setdefault(names[0], line)

    def _make_nodes(self) -> None:
        """Make nodes for every other axis of channels.

        One packed with positions has nodes at each position.
        """
        depth = self.trace.builder.depths(*self.nodes.values())[1] if self.nodes else 0
        packed = {
            name: names
            for words, _ in self.outputs
            for names in words
            for name in names
            if len(names) > 1 and name[0].islower()
        }
        every = [n for words, _ in [*self.parameters.values(), *self.outputs] for d in words for n in d]
        for name in (part for n in every if n[0].islower() for part in re.split(r"[+|]", n)):
            if name not in self.nodes:
                depth += 1
                names = packed.get(name, [name])
                count = prod(self.axes.length(n) for n in names)
                self.nodes[name] = self.trace.builder.nodes(
                    "neuron", self.path, self.axes.dim(names), count, depth
                ).view([self.axes.length(n) for n in names])
        self.packed = packed

    def _line(self, name: str) -> Tensor:
        return torch.cat([self.nodes[part].reshape(-1) for part in name.split("+")])

    # -------------------------------------------------------------- edges

    def _edges(self, name: str, words: list[list[str]], ref: TensorRef) -> None:
        trace, builder = self.trace, self.trace.builder
        flat = [word for names in words for word in names]
        shape = [self.axes.length(word) for word in flat]
        dims = [self.axes.dim([word]) for word in flat]
        source, target = self._ends(name, flat)
        kind = self.declared.kinds.get(name)
        sites: set[int] = set()
        if target is None:
            target = builder.node("parameter", self.path, 1).view([1] * len(shape))
        if source is None:
            sites = {d for d, word in enumerate(flat) if word[0].isupper() and shape[d] > 1}
            kind = kind or ("grid" if sites else "linear bias")
            depth = builder.depths(target)[1]
            source = binding.source_nodes(trace, kind, shape, dims, sites, depth)
        value = trace.value(ref)
        for view in value.views:
            laid = view.moved(lambda label: label.reshape(shape))
            builder.attach(kind or "linear weight", laid, dims, source, target, self.path, sites)
        trace.used |= value.parameters

    def _ends(self, name: str, flat: list[str]) -> tuple[Tensor | None, Tensor | None]:
        """Return where the edges of a parameter with these axes start and end."""
        arrow = self.declared.parameters[name].partition(" : ")[2]
        channels = [word for word in flat if word[0].islower()]
        order = list(self.nodes)
        if arrow:
            first, last = (side.strip() for side in arrow.split("->"))
        elif not channels:
            return None, None
        else:
            channels.sort(key=lambda word: max(order.index(n) for n in word.split("+")))
            first, last = channels[0], channels[-1]
        target_at = flat.index(last)
        target = self._laid(last, target_at, flat)
        if len(channels) < 2:
            return None, target
        source_at = len(flat) - 1 - flat[::-1].index(first)
        return self._laid(first, source_at, flat), target

    def _laid(self, name: str, at: int, flat: list[str]) -> Tensor:
        """Lay the nodes of an axis along its position among a parameter's axes."""
        names = self.packed.get(name)
        if names is None or not all(n in flat for n in names):
            return lay_along(self._line(name), at, len(flat))
        where = [at if n == name else flat.index(n) for n in names]
        order = sorted(range(len(names)), key=lambda i: where[i])
        grid = self.nodes[name].permute(order)
        lengths = {where[i]: self.axes.length(names[i]) for i in order}
        return grid.reshape([lengths.get(d, 1) for d in range(len(flat))])

    # -------------------------------------------------------------- outputs

    def _leave(self) -> None:
        for words, ref in self.outputs:
            labels = []
            for dim, names in enumerate(words):
                name = next((n for n in names if n[0].islower()), None)
                if name is None:
                    continue
                if "|" in name:
                    stacked = torch.stack([self._line(n) for n in name.split("|")])
                    shape = [n if d in (0, dim) else 1 for d, n in enumerate(ref.shape)]
                    labels.append(stacked.reshape(shape).expand(ref.shape))
                else:
                    labels.append(lay_along(self._line(name), dim, ref.ndim).expand(ref.shape))
            value = Value(Role.ACTIVATION, self.axes.all_dims(words), labels=labels)
            self.trace.set(ref, value)


def _matched(specs: Sequence[str], tensors: Sequence[TensorRef]) -> list[tuple]:
    return [(_words(spec, ref.shape), ref) for spec, ref in zip(specs, tensors, strict=False)]
