"""The help that the documentation of Torch-Pruning asks its users for, found as a user would find it."""

from __future__ import annotations

from typing import Any

from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.symmetry.axes import variables

PACKED = ("qkv", "query_key_value", "c_attn")  # names of layers that hold queries, keys and values


def output_layers(graph: gmn.ParameterGraph, model: nn.Module) -> list[Any]:
    """Return the layers whose channels must stay, which its documentation asks to ignore: mostly outputs."""
    modules = dict(model.named_modules(remove_duplicate=False))
    ties = {p.name: (p.name, *p.tied) for p in graph.parameters}
    names = {
        block.parameter
        for block in graph.blocks
        if block.parameter and any(g.kind == "output" for g in graph.block_ends.targets(block))
    }
    own = {owned for name in names for owned in ties[name]}
    # a tied embedding is not an output
    own = {n for n in own if not isinstance(modules[n.rpartition(".")[0]], nn.Embedding)}
    free = set(graph.symmetry.variables)
    for name, dims in graph.symmetry.parameters.items():
        for each in ties.get(name, ()) if len(dims) > 1 else ():
            module = modules[each.rpartition(".")[0]]
            transposed = isinstance(module, nn.Embedding | nn.modules.conv._ConvTransposeNd)
            known = each.endswith("weight") and type(module).__name__ != "Conv1D"
            if known and free.isdisjoint(variables(dims[1 if transposed else 0])):
                own.add(each)
    owners = {name: modules[name.rpartition(".")[0]] for name in own}
    parameters = dict(model.named_parameters())
    # a bare weight of a module that has others is ignored alone
    weights = [parameters[n] for n, owner in owners.items() if n in parameters and list(owner.children())]
    return [*(owner for owner in owners.values() if not list(owner.children())), *weights]


def help_for(graph: gmn.ParameterGraph, model: nn.Module) -> dict[str, Any]:
    """Return what a user would tell it: numbers of heads, channels of bare parameters, layers of its own."""
    import torch_pruning as tp
    from transformers.pytorch_utils import Conv1D

    modules = dict(model.named_modules())
    heads: dict[nn.Module, int] = {
        module: module.num_heads for module in modules.values() if isinstance(module, nn.MultiheadAttention)
    }
    headed = {place for f in graph.symmetry.factors if f.kind == "heads" for place in f.parameters}
    for factor in graph.symmetry.factors:
        for place in factor.parameters if not headed.isdisjoint(factor.parameters) else ():
            module = modules.get(place[0].rpartition(".")[0])
            output = 1 if isinstance(module, Conv1D) else 0
            if isinstance(module, nn.Linear | Conv1D) and place[0].endswith("weight") and place[1] == output:
                # groups of heads; 1 for keys that all heads share
                heads[module] = heads.get(module, 1) * (factor.size if factor.kind == "heads" else 1)
    bare = {}
    known = (nn.Linear, nn.modules.conv._ConvNd, nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)
    known += (nn.Embedding, nn.PReLU, nn.MultiheadAttention, nn.RNNBase, Conv1D)
    for factor in graph.symmetry.factors:
        for name, dim in factor.parameters:
            module = modules.get(name.rpartition(".")[0])
            parameter = dict(model.named_parameters()).get(name)
            if parameter is not None and not isinstance(module, known):
                bare[parameter] = dim
    return {
        "num_heads": heads,
        "unwrapped_parameters": list(bare.items()),
        "customized_pruners": {Conv1D: _transposed_linear(tp)},
        "root_module_types": [tp.ops.TORCH_CONV, tp.ops.TORCH_LINEAR, tp.ops.TORCH_LSTM, Conv1D],
    }


def _transposed_linear(tp: Any) -> Any:
    """Tell it how to cut the linear layers of GPT-2, whose weights are transposed."""

    class Pruner(tp.pruner.function.BasePruningFunc):
        def prune_out_channels(self, layer: Any, idxs: Any) -> Any:
            keep = [i for i in range(layer.nf) if i not in set(idxs)]
            layer.weight = self._prune_parameter_and_grad(layer.weight, keep, 1)
            layer.bias = self._prune_parameter_and_grad(layer.bias, keep, 0)
            layer.nf = len(keep)
            return layer

        def prune_in_channels(self, layer: Any, idxs: Any) -> Any:
            keep = [i for i in range(layer.nx) if i not in set(idxs)]
            layer.weight = self._prune_parameter_and_grad(layer.weight, keep, 0)
            layer.nx = len(keep)
            return layer

        def get_out_channels(self, layer: Any) -> int:
            return layer.nf

        def get_in_channels(self, layer: Any) -> int:
            return layer.nx

    return Pruner()


def update_norms(model: nn.Module) -> None:
    """Update the shapes of norms whose scales a user named as bare parameters."""
    for module in model.modules():
        if isinstance(module, nn.RMSNorm) and module.weight is not None:
            module.normalized_shape = tuple(module.weight.shape)


def width_of(layer: nn.Module) -> int:
    sizes = {nn.MultiheadAttention: "embed_dim", nn.Linear: "out_features"}
    return getattr(layer, sizes.get(type(layer), "nf"))


def _owner(path: str) -> str:
    """Return the module that a layer, or a list of layers, belongs to."""
    owner, _, name = path.rpartition(".")
    return owner.rpartition(".")[0] if name.isdigit() else owner


def update_heads(
    model: nn.Module, before: dict[nn.Module, int], heads: dict[nn.Module, int], left: dict[nn.Module, int]
) -> None:
    """Update what modules remember of the sizes of attention, as its examples do for vision transformers."""
    paths = {module: path for path, module in model.named_modules()}
    found: dict[tuple[str, str], int] = {}
    for layer, number in heads.items():
        path, old, new = paths[layer], before[layer], width_of(layer)
        now = left.get(layer, number)
        if isinstance(layer, nn.MultiheadAttention):  # the layers of torch.nn around it keep d_model
            owners, sizes = {path[:i] for i, c in enumerate(path) if c == "."} | {""}, {old: new}
        else:
            parts = (3, 1) if any(name in path for name in PACKED) else (1,)
            sizes = {old // p // n: new // p // m for p in parts for n, m in ((number, now), (1, 1))}
            owners = {_owner(path)}
        for own in owners:
            for attribute, value in vars(model.get_submodule(own)).items():
                if type(value) is int and "heads" in attribute:
                    found[own, attribute] = now if value == number else value
                elif type(value) is int and value in sizes:
                    found[own, attribute] = sizes[value]
    for (own, attribute), value in found.items():
        setattr(model.get_submodule(own), attribute, value)
