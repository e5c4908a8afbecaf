"""Resize a copy of a module: its parameters and buffers, and the integers in its attributes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, singledispatch
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.prune.program import recording_of
from graph_metanetworks.prune.resize import resized
from graph_metanetworks.symmetry.axes import Dim, leaves
from graph_metanetworks.symmetry.subsets import Subset
from graph_metanetworks.testing.function import copied
from graph_metanetworks.trace.record.operation import Operation

Sizes = Mapping[int, Counter[int]]  # what a size may have become in one module, with the evidence for it
Place = tuple[str, str]  # a module, with * for the number of its layer, and an attribute
Decision = Mapping[Place, int]  # which of its possible values an attribute gets
MOST_RUNS = 40  # with other values of attributes
# evidence that a number in a module holds a size: an argument of an operation that the module itself calls,
# one of an operation below it, the size of a tensor below it
OWN_ARGUMENT, ARGUMENT, TENSOR = 10_000, 100, 1


class ModuleResizer:
    """Make smaller copies of a module; `decide` finds out which integers in its attributes hold sizes.

    The copies share the parameters that are cut with each other, and all others with the module.
    """

    def __init__(self, model: nn.Module, graph: ParameterGraph, subset: Subset):
        self.model, self.graph, self.subset = model, graph, subset
        changes = _argument_changes(graph, subset)
        self.changes: dict[str, dict[str, Any]] = defaultdict(dict)
        for operation, changed in changes:
            self.changes[operation.path] |= changed
        self.sizes = _sizes(graph, subset, changes)

    def submodule(self, path: str) -> nn.Module | None:
        """Return a resized copy of a submodule whose class is known."""
        return self.resized({}).get_submodule(path)

    def decide(self, run: Callable[[nn.Module], str]) -> tuple[Decision | None, str]:
        """Find values of attributes with which the resized module works; else None, and why.

        `run` returns why a module fails, or an empty string. Where one fails in a submodule, other values of
        the attributes of that submodule, and of those around it, are tried: those that let it get further.
        """
        options = self._options()
        best: dict[Place, int] = dict.fromkeys(options, 0)
        reached, path, failure = self._attempt(best, run)
        first_failure = failure
        for _ in range(MOST_RUNS):
            if not failure:
                return best, ""
            further, decision = (reached, path, failure), None
            for place, choice in self._alternatives(best, options, path):
                found = self._attempt({**best, place: choice}, run)
                if not found[2] or found[0] > further[0]:
                    further, decision = found, {**best, place: choice}
                if not found[2]:
                    break
            if decision is None:
                break
            best, (reached, path, failure) = decision, further
        return None, first_failure

    def _attempt(self, decision: Decision, run: Callable[[nn.Module], str]) -> tuple[int, str, str]:
        """Return how many modules ran, in which one it failed, and why."""
        small = self.resized(decision)
        names = {id(module): name for name, module in small.named_modules()}
        running, finished = [""], 0

        def enter(module: nn.Module, args: Any) -> None:
            running.append(names.get(id(module), running[-1]))

        def leave(module: nn.Module, args: Any, result: Any) -> None:
            nonlocal finished
            finished += 1
            running.pop()

        hooks = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave)]
        try:
            failure = run(small)
        finally:
            for hook in hooks:
                hook.remove()
        return finished, running[-1], failure

    def _alternatives(
        self, decision: Decision, options: Mapping[Place, int], path: str
    ) -> list[tuple[Place, int]]:
        """Return other values for the module that failed and those around it, the most doubtful first.

        If none failed, the result differs, and any may be wrong.
        """
        around = [place for place in options if not path or _is_around(place[0], _position(path))]
        around.sort(key=lambda place: (-len(place[0]), self._evidence[place]))
        return [(p, choice) for p in around for choice in range(options[p]) if choice != decision[p]]

    @cached_property
    def _evidence(self) -> Counter[Place]:
        """How much speaks for the likeliest value of each attribute."""
        found: Counter[Place] = Counter()
        for path, module in self.model.named_modules():
            for name, value in vars(module).items():
                if type(value) is int and value in self.sizes.get(path, {}):
                    found[_position(path), name] += self.sizes[path][value].most_common(1)[0][1]
        return found

    def _options(self) -> dict[Place, int]:
        """Return how many values each attribute may have."""
        options: dict[Place, int] = {}
        for path, module in self.model.named_modules():
            for name, values in self._attributes(module, path):
                place = _position(path), name
                options[place] = max(options.get(place, 0), len(values))
        return options

    def resized(self, decision: Decision) -> nn.Module:
        """Return a smaller copy of the module, with the values of attributes that were decided on."""
        shared = {id(parameter): parameter for parameter in self.model.parameters()}
        small = copied(self.model, {**shared, **self._cut})
        dims = self.graph.symmetry.parameters
        current = small.state_dict(keep_vars=True)
        for name, value in self.model.state_dict(keep_vars=True).items():
            if id(value) in self._cut and name in dims and current[name] is not self._cut[id(value)]:
                set_weight(small, name, self._cut[id(value)])
        for path, module in small.named_modules():
            if _is_known(module):
                update(module, self.changes.get(path, {}))
                continue
            for name, values in list(self._attributes(module, path)):
                choice = decision.get((_position(path), name))
                if choice is not None:
                    setattr(module, name, values[min(choice, len(values) - 1)])
        return small

    @cached_property
    def _cut(self) -> dict[int, Tensor]:
        """What is left of each tensor that loses something, by the id of the tensor: tied ones stay tied."""
        dims = self.graph.symmetry.parameters
        made: dict[int, Tensor] = {}
        for name, value in self.model.state_dict(keep_vars=True).items():
            if name in dims and self.subset.cuts(dims[name]) and id(value) not in made:
                cut = self.subset.cut(value.detach(), dims[name])
                is_parameter = isinstance(value, nn.Parameter)
                made[id(value)] = nn.Parameter(cut, value.requires_grad) if is_parameter else cut
        return made

    # -------------------------------------------------------------- attributes

    def _attributes(self, module: nn.Module, path: str) -> Iterator[tuple[str, list[Any]]]:
        """Yield attributes that may hold a size that changed, with possible values, the likeliest first."""
        sizes = self.sizes.get(path, {})
        if _is_known(module):
            return
        for name, value in vars(module).items():
            if not name.startswith("_") and name != "training":
                values = _resized_values(value, sizes)
                if values:
                    yield name, [*values, value]


def size_changes(graph: ParameterGraph, subset: Subset) -> Sizes:
    """Return what may have become of each size anywhere in a network."""
    return _sizes(graph, subset, _argument_changes(graph, subset))[""]


def set_weight(model: nn.Module, name: str, value: Tensor) -> None:
    """Replace a parameter or a buffer, given by its name in the state dict."""
    path, _, attribute = name.rpartition(".")
    owner = model.get_submodule(path)
    if attribute in owner._buffers:
        owner._buffers[attribute] = value
    else:
        setattr(owner, attribute, value)


def changed_attributes(model: nn.Module, small: nn.Module) -> dict[str, dict[str, Any]]:
    """Return the numbers in attributes by which a resized module differs from the original, by module."""
    resized = dict(small.named_modules())
    found: dict[str, dict[str, Any]] = {}
    for path, module in model.named_modules():
        before, after = vars(module), vars(resized[path])
        changed = {
            name: after[name]
            for name, value in before.items()
            if isinstance(value, int | tuple | list) and _is_number(value) and after.get(name) != value
        }
        if changed:
            found[path] = changed
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int) or all(isinstance(item, int) for item in value)


def _position(path: str) -> str:
    return ".".join("*" if part.isdigit() else part for part in path.split("."))


def _is_around(outer: str, inner: str) -> bool:
    return not outer or inner == outer or inner.startswith(f"{outer}.")


def _resized_values(value: Any, sizes: Sizes) -> list[Any]:
    if type(value) is int:
        return [new for new, _ in sizes.get(value, Counter()).most_common() if new != value]
    if isinstance(value, tuple | list) and value and all(type(item) is int for item in value):
        new = [(_resized_values(item, sizes) or [item])[0] for item in value]
        return [type(value)(new)] if list(value) != new else []
    return []


def _argument_changes(graph: ParameterGraph, subset: Subset) -> list[tuple[Operation, dict[str, Any]]]:
    """Return the arguments of operations that hold other sizes."""
    recording = recording_of(graph)
    return [
        (operation, changed)
        for operation, axes in zip(recording.operations, recording.axes, strict=True)
        if not operation.body
        and isinstance(operation.func, torch._ops.OpOverload)
        and (changed := resized(operation, axes, subset)[1])
    ]


def _sizes(
    graph: ParameterGraph, subset: Subset, changes: Sequence[tuple[Operation, Mapping[str, Any]]]
) -> dict[str, dict[int, Counter[int]]]:
    """Return, for each module, what may have become of the sizes of axes and dimensions inside it."""
    recording = recording_of(graph)
    found: dict[str, dict[int, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
    for operation, axes in zip(recording.operations, recording.axes, strict=True):
        dims = {id(dim): dim for dims in (*axes.used, *axes.outputs) for dim in dims}
        pairs = {pair for dim in dims.values() for pair in _pairs(dim, subset)}
        for path in _above(operation):
            for old, new in pairs:
                found[path][old][new] += TENSOR
    for operation, changed in changes:
        for name, value in changed.items():
            for old, new in _changed_numbers(operation.arguments.get(name), value):
                for path in _above(operation):
                    found[path][old][new] += OWN_ARGUMENT if path == operation.path else ARGUMENT
    return found


def _changed_numbers(old: Any, new: Any) -> Iterator[tuple[int, int]]:
    olds = list(old) if isinstance(old, list | tuple) else [old]
    news = list(new) if isinstance(new, list | tuple) else [new]
    olds = olds * len(news) if len(olds) == 1 else olds  # one size for all parts of a split
    if len(olds) == len(news):
        yield from (pair for pair in zip(olds, news, strict=True) if pair[0] != pair[1] and _are_int(pair))


def _are_int(pair: tuple[Any, Any]) -> bool:
    return all(type(number) is int for number in pair)


def _pairs(dim: Dim, subset: Subset) -> Iterator[tuple[int, int]]:
    """Yield old and new sizes of runs of neighbouring axes: heads, dimensions, heads x dimensions."""
    if not subset.cuts([dim]):
        return
    axes = leaves(dim)
    for start in range(len(axes)):
        old, new = 1, 1
        for axis in axes[start:]:
            old, new = old * axis.size, new * subset.length(axis)
            if old != new:
                yield old, new


def _above(operation: Operation) -> Iterator[str]:
    path = operation.path
    while path:
        yield path
        path = path.rpartition(".")[0]
    yield ""


# ------------------------------------------------------------------ layers of torch.nn


@singledispatch
def update(module: nn.Module, changes: Mapping[str, Any]) -> None:
    """Update the sizes that a layer of `torch.nn` keeps, from its weights or its operation."""


@update.register
def _(module: nn.Linear, changes: Mapping[str, Any]) -> None:
    module.out_features, module.in_features = module.weight.shape


@update.register
def _(module: nn.Bilinear, changes: Mapping[str, Any]) -> None:
    module.out_features, module.in1_features, module.in2_features = module.weight.shape


@update.register
def _(module: _ConvNd, changes: Mapping[str, Any]) -> None:
    first, second = module.weight.shape[:2]
    module.groups = changes.get("groups", module.groups)
    if isinstance(module, _ConvTransposeNd):
        module.in_channels, module.out_channels = first, second * module.groups
    else:
        module.out_channels, module.in_channels = first, second * module.groups


@update.register
def _(module: _NormBase, changes: Mapping[str, Any]) -> None:
    own = module.weight if module.weight is not None else module.running_mean
    if own is not None:
        module.num_features = len(own)


@update.register
def _(module: nn.GroupNorm, changes: Mapping[str, Any]) -> None:
    module.num_groups = changes.get("group", module.num_groups)
    module.num_channels = changes.get("C", module.num_channels)


@update.register
def _(module: nn.LayerNorm | nn.RMSNorm, changes: Mapping[str, Any]) -> None:
    if module.weight is not None:
        module.normalized_shape = tuple(module.weight.shape)
    elif "normalized_shape" in changes:
        module.normalized_shape = tuple(changes["normalized_shape"])


@update.register
def _(module: nn.Embedding | nn.EmbeddingBag, changes: Mapping[str, Any]) -> None:
    module.num_embeddings, module.embedding_dim = module.weight.shape


@update.register
def _(module: nn.RNNBase, changes: Mapping[str, Any]) -> None:
    gates = {"LSTM": 4, "GRU": 3}.get(module.mode, 1)
    rows, module.input_size = module.get_parameter("weight_ih_l0").shape
    module.hidden_size = rows // gates
    if module.proj_size:
        module.proj_size = module.get_parameter("weight_hh_l0").shape[1]


@update.register
def _(module: nn.RNNCellBase, changes: Mapping[str, Any]) -> None:
    module.hidden_size, module.input_size = module.weight_hh.shape[1], module.weight_ih.shape[1]


@update.register
def _(module: nn.PReLU, changes: Mapping[str, Any]) -> None:
    module.num_parameters = len(module.weight)


def _is_known(module: nn.Module) -> bool:
    return update.dispatch(type(module)) is not update.dispatch(nn.Module)
