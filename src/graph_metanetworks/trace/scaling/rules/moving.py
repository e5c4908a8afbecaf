"""Views, joins and padding: labels move with elements."""

from __future__ import annotations

import torch
from torch import Tensor

from graph_metanetworks.trace.interpret.labels import canonical, compact, pattern
from graph_metanetworks.trace.interpret.registry import functional_name
from graph_metanetworks.trace.scaling.labels import Labels
from graph_metanetworks.trace.scaling.step import Step, rule


@rule("view", "_unsafe_view", "reshape", "_reshape_alias")
def reshaped(step: Step) -> list[Labels]:
    return [step.labels("self").moved(lambda label: label.reshape(step.shape))]


@rule(
    "permute",
    "transpose",
    "t",
    "expand",
    "squeeze",
    "unsqueeze",
    "slice",
    "select",
    "flip",
    "repeat",
    "roll",
    "unbind",
    "split",
    "split_with_sizes",
    "chunk",
)
def moved(step: Step) -> list[Labels]:
    labels = step.labels("self")
    results = [_again(step, label) for label in labels.tensors]
    return [
        Labels([canonical(own[index]) for own in results], labels.zero) for index in range(len(step.outs))
    ]


def _again(step: Step, label: Tensor) -> list[Tensor]:
    """Run the operation itself on a label instead of the tensor."""
    schema = step.operation.func._schema.arguments
    given = step.operation.arguments | {"self": label}
    result = step.operation.func(*(given[a.name] for a in schema if not a.kwarg_only))
    return [result] if isinstance(result, Tensor) else list(result)


@rule("cat", "stack")
def joined(step: Step) -> list[Labels]:
    """Concatenate labels by rank: the first label of each tensor, then the second, and so on."""
    given = [step.value(ref) for ref in step["tensors"]]
    count = max(len(labels.tensors) for labels in given)
    join = torch.cat if functional_name(step.operation.func) == "aten::cat" else torch.stack
    nothing, columns = torch.zeros((), dtype=torch.int64), []
    for index in range(count):
        parts = [
            labels.tensors[index] if index < len(labels.tensors) else nothing.expand(ref.shape)
            for labels, ref in zip(given, step["tensors"], strict=True)
        ]
        columns.append(canonical(join(parts, step["dim"])))
    return [Labels(columns, all(labels.zero for labels in given))]


@rule("constant_pad_nd")
def padded(step: Step) -> list[Labels] | None:
    """Pad with zeros, which match any scale, so padded positions take the scale of their channel."""
    if step["value"] != 0:
        return None
    labels, grown = step.labels("self"), range(len(step.shape) - len(step["pad"]) // 2, len(step.shape))
    step.system.zero(labels.along(grown))
    kept = labels.without(grown)
    return [
        Labels([compact(label, pattern(label)).expand(step.shape) for label in kept.tensors], labels.zero)
    ]
