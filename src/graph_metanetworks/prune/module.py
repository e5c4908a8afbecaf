"""Resize a copy of a module: its parameters and buffers, and the integers in its attributes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import singledispatch
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.prune.program import recording_of
from graph_metanetworks.prune.resize import resized
from graph_metanetworks.symmetry.axes import Dim, leaves
from graph_metanetworks.symmetry.subsets import Subset
from graph_metanetworks.testing.function import copied
from graph_metanetworks.trace.record.tape import Operation

Sizes = Mapping[int, set[int]]  # what each old size may have become, in one module
Decision = tuple[type, str]  # an attribute of a class of modules
MOST_UNDECIDED = 5  # attributes that are tried in every combination


class ModuleResizer:
    """Make smaller copies of a module; which integer attributes hold sizes is left to `variants`."""

    def __init__(self, model: nn.Module, graph: ParameterGraph, subset: Subset):
        self.model, self.graph, self.subset = model, graph, subset
        self.changes = _argument_changes(graph, subset)
        self.sizes = _sizes(graph, subset, [name for name, _ in model.named_modules()])
        self.undecided = self._undecided()

    def submodule(self, path: str) -> nn.Module | None:
        """Return a resized copy of a submodule whose class is known."""
        return self.resized(frozenset(), self.model).get_submodule(path)

    def variants(self) -> Iterator[frozenset[Decision]]:
        """Yield sets of attributes to change, the most likely first: all, none, all but some."""
        everything = frozenset(self.undecided)
        yield everything
        if everything:
            yield frozenset()
        if len(everything) <= MOST_UNDECIDED:
            for count in range(1, len(everything)):
                for left_out in combinations(self.undecided, count):
                    yield everything - set(left_out)
            return
        for left_out in self.undecided:
            yield everything - {left_out}

    def resized(self, chosen: frozenset[Decision], model: nn.Module) -> nn.Module:
        """Return a smaller copy of a module, with the chosen attributes changed."""
        small = copied(model)
        self._replace_weights(small)
        for path, module in small.named_modules():
            if _is_known(module):
                update(module, self.changes.get(path, {}))
                continue
            for name, value in self._attributes(module, path):
                if (type(module), name) in chosen:
                    setattr(module, name, value)
        return small

    # -------------------------------------------------------------- weights

    def _replace_weights(self, small: nn.Module) -> None:
        dims = self.graph.symmetry.parameters
        made: dict[int, Tensor] = {}  # tied weights stay tied
        for name, value in small.state_dict(keep_vars=True).items():
            if name not in dims or not self.subset.cuts(dims[name]):
                continue
            path, _, attribute = name.rpartition(".")
            if id(value) not in made:
                cut = self.subset.cut(value.detach(), dims[name]).clone()
                is_parameter = isinstance(value, nn.Parameter)
                made[id(value)] = nn.Parameter(cut, value.requires_grad) if is_parameter else cut
            owner = small.get_submodule(path)
            if attribute in owner._buffers:
                owner._buffers[attribute] = made[id(value)]
            else:
                setattr(owner, attribute, made[id(value)])

    # -------------------------------------------------------------- attributes

    def _undecided(self) -> tuple[Decision, ...]:
        found: dict[Decision, None] = {}
        for path, module in self.model.named_modules():
            if not _is_known(module):
                found |= {(type(module), name): None for name, _ in self._attributes(module, path)}
        return tuple(found)

    def _attributes(self, module: nn.Module, path: str) -> Iterator[tuple[str, Any]]:
        """Yield the attributes of a module that hold a size that may have changed, with the new value."""
        sizes = self.sizes.get(path, {})
        for name, value in vars(module).items():
            if name.startswith("_") or name == "training":
                continue
            new = _resized_value(value, sizes)
            if new is not None and new != value:
                yield name, new


def _resized_value(value: Any, sizes: Sizes) -> Any:
    if type(value) is int:
        changed = sizes.get(value, set()) - {value}
        return changed.copy().pop() if len(changed) == 1 else None
    if isinstance(value, tuple | list) and value and all(type(item) is int for item in value):
        new = [_resized_value(item, sizes) for item in value]
        return type(value)(item if n is None else n for item, n in zip(value, new, strict=True))
    return None


def _argument_changes(graph: ParameterGraph, subset: Subset) -> dict[str, dict[str, Any]]:
    """Return the arguments of operations that change, by module and name."""
    recording = recording_of(graph)
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for operation, axes in zip(recording.operations, recording.axes, strict=True):
        if not operation.body and isinstance(operation.func, torch._ops.OpOverload):
            found[operation.path] |= resized(operation, axes, subset)[1]
    return found


def _sizes(graph: ParameterGraph, subset: Subset, paths: Sequence[str]) -> dict[str, dict[int, set[int]]]:
    """Return, for each module, what became of the sizes of axes and dimensions inside it."""
    recording = recording_of(graph)
    found: dict[str, dict[int, set[int]]] = {path: defaultdict(set) for path in paths}
    for operation, axes in zip(recording.operations, recording.axes, strict=True):
        pairs = {
            pair
            for dims in (*axes.used, *axes.outputs)
            if subset.cuts(dims)
            for dim in dims
            for pair in _pairs(dim, subset)
        }
        for path in _above(operation):
            for old, new in pairs:
                if path in found:
                    found[path][old].add(new)
    return found


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
    rows, module.input_size = module.weight_ih_l0.shape
    module.hidden_size = rows // gates
    if module.proj_size:
        module.proj_size = module.weight_hh_l0.shape[1]


@update.register
def _(module: nn.RNNCellBase, changes: Mapping[str, Any]) -> None:
    module.hidden_size, module.input_size = module.weight_hh.shape[1], module.weight_ih.shape[1]


@update.register
def _(module: nn.PReLU, changes: Mapping[str, Any]) -> None:
    module.num_parameters = len(module.weight)


def _is_known(module: nn.Module) -> bool:
    return update.dispatch(type(module)) is not update.dispatch(nn.Module)
