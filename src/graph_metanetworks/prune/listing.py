"""Programs as JSON: operations by name, so that loading one runs no code of its author."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload

from graph_metanetworks.errors import PruneError
from graph_metanetworks.prune.program import Program, check_number, flat

FUNCTIONS = {
    "getitem": operator.getitem,
    "add": operator.add,
    "mul": operator.mul,
    "check_number": check_number,
    "flat": flat,
}
NAMED = (torch.dtype, torch.layout, torch.memory_format)  # written as torch.float32, torch.strided, ...
LAYERS = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}
LAYER_OPTIONS = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "bidirectional")


def written(program: Program) -> dict[str, Any]:
    """Return the operations of a program, and its layers, as plain lists and dicts."""
    nodes = [
        {
            "op": node.op,
            "name": node.name,
            "target": _target(node.target),
            "args": _written(node.args),
            "kwargs": _written(node.kwargs),
        }
        for node in program.graph.nodes
    ]
    layers = {n: _layer(value) for n, value in program.attributes.items() if isinstance(value, nn.Module)}
    return {"name": program.name, "nodes": nodes, "layers": layers}


def read(listing: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Program:
    """Rebuild a program from its listing and its tensors."""
    graph = fx.Graph()
    nodes: dict[str, fx.Node] = {}
    attributes: dict[str, Any] = dict(tensors)
    for name, (kind, options) in listing["layers"].items():
        layer = LAYERS[kind](**options)
        own = {
            key.removeprefix(f"{name}."): attributes.pop(key)
            for key in list(attributes)
            if key.startswith(f"{name}.")
        }
        layer.load_state_dict(own)
        attributes[name] = layer
    for entry in listing["nodes"]:
        target = _function(entry["target"]) if entry["op"] == "call_function" else entry["target"]
        args, kwargs = _read(entry["args"], nodes), _read(entry["kwargs"], nodes)
        args = tuple(args) if isinstance(args, list) else args
        nodes[entry["name"]] = graph.create_node(entry["op"], target, args, kwargs, entry["name"])
    return Program(graph, attributes, listing["name"])


def _layer(module: nn.Module) -> tuple[str, dict[str, Any]]:
    kind = type(module).__name__
    options = {name: getattr(module, name) for name in LAYER_OPTIONS}
    if isinstance(module, nn.LSTM):
        options["proj_size"] = module.proj_size
    if isinstance(module, nn.RNN):
        options["nonlinearity"] = module.nonlinearity
    return kind, options


def _target(target: Any) -> str:
    if isinstance(target, OpOverload):
        return f"{target._schema.name}.{target._overloadname}"
    names = {function: name for name, function in FUNCTIONS.items()}
    return target if isinstance(target, str) else names[target]


def _function(name: str) -> Any:
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    namespace, _, rest = name.partition("::")
    operation, _, overload = rest.rpartition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), operation), overload)
    except AttributeError as error:
        raise PruneError(
            f"the program uses {name}, which this PyTorch ({torch.__version__}) does not have. Load it with "
            "the version that saved it."
        ) from error


def _written(value: Any) -> Any:
    if isinstance(value, fx.Node):
        return {"node": value.name}
    if isinstance(value, NAMED):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, list | tuple):
        return [_written(item) for item in value]
    if isinstance(value, Mapping):
        return {"dict": {key: _written(item) for key, item in value.items()}}
    return value


def _read(value: Any, nodes: Mapping[str, fx.Node]) -> Any:
    if isinstance(value, list):
        return [_read(item, nodes) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "node":
        return nodes[inner]
    if kind == "torch":
        return getattr(torch, inner)
    if kind == "device":
        return torch.device(inner)
    if kind == "complex":
        return complex(*inner)
    return {key: _read(item, nodes) for key, item in inner.items()}
