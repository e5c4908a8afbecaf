"""Build the computation graph of a network: record one forward pass, apply the rules, merge, number."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from graph_metanetworks.computation_graph.builder import ComputationGraphBuilder, EdgeList
from graph_metanetworks.computation_graph.contraction import contract, renumbered
from graph_metanetworks.computation_graph.graph import ComputationGraph
from graph_metanetworks.computation_graph.rules import ZEROS, LabelledCall, run
from graph_metanetworks.errors import TooLarge, TraceError, UnsupportedOperation, UnusedParameters
from graph_metanetworks.graph.parts import Parameter
from graph_metanetworks.trace.record.checks import check
from graph_metanetworks.trace.record.operation import Escape, Operation, refs
from graph_metanetworks.trace.record.tape import Tape, WatchEscapes, plain_kernels
from graph_metanetworks.trace.record.untouched import untouched

MAX_EDGES = 200_000


def computation_graph(
    model: nn.Module, example: Tensor | Sequence[int], *, max_edges: int = MAX_EDGES
) -> ComputationGraph:
    """Build the computation graph of a small feed-forward network for an example input, or its shape.

    >>> import graph_metanetworks as gmn
    >>> mlp = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> graph = gmn.computation_graph(mlp, torch.zeros(1, 2))
    >>> [(layer.name, layer.kind) for layer in graph.layers]
    [('input', 'input'), ('0.bias', 'bias'), ('0', 'hidden'), ('2.bias', 'bias'), ('2', 'output')]

    Layers may be linear, convolutions, biases, pooling by sum or mean, residual connections and pointwise
    functions. Networks with more than `max_edges` edges are refused before anything is built.
    """
    check(model)
    like = next(model.parameters())
    shape = _shape(example)
    x = torch.zeros(shape, dtype=like.dtype, device=like.device)
    _check_size(model, x, max_edges)
    tape = Tape(lambda func: True, snapshot=True)  # keeps constants as they were when used
    with tape.following(model, lambda *_: False):
        result = _run(model, x, WatchEscapes(tape), tape)
    parameters, tensors = _parameters(model)
    builder = ComputationGraphBuilder(parameters)
    labels = {tape.ref(x).key: builder.layer("input", "input", x.shape)}
    for parameter, tensor in zip(parameters, tensors, strict=True):
        ref = tape.ref(tensor)
        labels[ref.key] = builder.parameter_label(parameter, ref.strides)
    for operation in tape.live([result]):
        _apply(builder, operation, labels)
    last = tape.ref(result).key
    if last not in labels:
        raise TraceError(f"the output of {type(model).__name__} does not depend on its input.")
    outputs = builder.layer("output", "output", result.shape)
    builder.join(outputs, labels[last], builder.constant(1.0))
    return _finished(builder, model, tensors)


def _shape(example: Tensor | Sequence[int]) -> tuple[int, ...]:
    if isinstance(example, Tensor):
        return tuple(example.shape)
    if not all(isinstance(size, int) for size in example):
        raise TraceError(f"an example is a tensor or its shape, not {example!r:.60}: pass one tensor.")
    return tuple(example)


def _run(model: nn.Module, x: Tensor, *modes: AbstractContextManager) -> Tensor:
    """Run one forward pass under the given modes."""
    with untouched(model), plain_kernels(), ExitStack() as stack:
        for mode in modes:
            stack.enter_context(mode)
        try:
            result = model(x)
        except Exception as error:
            raise TraceError(
                f"{type(model).__name__} raised {type(error).__name__}: {error}. Check that "
                f"model(torch.zeros({tuple(x.shape)})) runs."
            ) from error
    if not isinstance(result, Tensor):
        raise TraceError(
            f"{type(model).__name__} returned a {type(result).__name__}, but a computation graph has one "
            "tensor as its output. Wrap the network in a module that picks one."
        )
    return result


def _check_size(model: nn.Module, x: Tensor, max_edges: int) -> None:
    """Refuse a network with too many edges; it has one for each multiplication with a weight."""
    counter = FlopCounterMode(display=False)
    _run(model, x, counter)
    edges = counter.get_total_flops() // 2  # a multiplication and an addition are two
    if edges > max_edges:
        raise TooLarge(
            f"the computation graph of {type(model).__name__} would have about {edges:,} edges for inputs of "
            f"shape {tuple(x.shape)}, more than max_edges={max_edges:,}: shared weights are repeated "
            f"wherever they are used. Its parameter graph, gmn.trace(model, x), has one edge for each of its "
            f"{sum(p.numel() for p in model.parameters()):,} parameters, whatever the input. Use that, or "
            "pass a smaller example or a larger max_edges."
        )


def _parameters(model: nn.Module) -> tuple[list[Parameter], Sequence[Tensor]]:
    names: dict[int, list[str]] = {}
    for name, tensor in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(tensor), []).append(name)
    tensors = list(model.parameters())
    found = []
    for tensor in tensors:
        name, *tied = names[id(tensor)]
        found.append(Parameter(name, tuple(tensor.shape), tensor.dtype, tuple(tied)))
    return found, tensors


def _apply(builder: ComputationGraphBuilder, operation: Operation, labels: dict[int, Tensor]) -> None:
    """Label the results of an operation; a tensor without a label is a constant."""
    call = LabelledCall(builder, operation, labels)
    if isinstance(operation.func, Escape):
        raise call.refuse("it hands values to Python, where they cannot be followed")
    if call.name not in ZEROS and not any(ref.key in labels for ref in operation.inputs):
        return
    results = run(call)
    results = [results] if isinstance(results, Tensor) else list(results)
    written = {ref.key for ref in operation.writes}
    for ref, label in zip(refs(operation.outputs), results, strict=True):
        if ref.key not in written:
            labels[ref.key] = label
        elif ref.key in labels:
            labels[ref.key].copy_(label)
        else:
            raise call.refuse("it writes neurons into a constant")


def _finished(
    builder: ComputationGraphBuilder, model: nn.Module, tensors: Sequence[Tensor]
) -> ComputationGraph:
    edges = _without_repeats(builder, EdgeList.joined(builder.parts), type(model).__name__)
    layers, edges = contract(builder.layers, edges, int(builder.constant(1.0)))
    layers, edges = renumbered(layers, edges)
    weights = torch.cat([tensor.detach().double().reshape(-1).cpu() for tensor in tensors])
    _check_used(builder, edges, type(model).__name__)
    sharing, constants = _classes(edges.weight, list(builder.constants), len(weights))
    return ComputationGraph(
        layers=tuple(layers),
        source=edges.source,
        target=edges.target,
        sharing=sharing,
        parameters=tuple(builder.parameters),
        weights=weights,
        constants=constants,
        name=type(model).__name__,
    )


def _check_used(builder: ComputationGraphBuilder, edges: EdgeList, name: str) -> None:
    used = edges.weight[edges.weight >= 0]
    unused = []
    for parameter, start in zip(builder.parameters, builder.starts().values(), strict=True):
        if not bool(((used >= start) & (used < start + parameter.numel)).any()):
            unused.append(parameter.name)
    if unused:
        raise UnusedParameters(
            f"the output of {name} does not depend on {', '.join(unused)}. Remove them from the network: "
            "they have no edge in its computation graph."
        )


def _classes(weight: Tensor, constants: list[float], first: int) -> tuple[Tensor, Tensor]:
    """Number the constants that are still used after the parameters' elements."""
    used = [number for number in range(len(constants)) if bool((weight == -1 - number).any())]
    sharing = weight.clone()
    for place, number in enumerate(used):
        sharing[weight == -1 - number] = first + place
    return sharing, torch.tensor([constants[number] for number in used], dtype=torch.float64)


def _without_repeats(builder: ComputationGraphBuilder, edges: EdgeList, name: str) -> EdgeList:
    """Keep at most one edge between two nodes: sum constants, as in `x + x`; refuse repeated weights."""
    pairs = torch.stack([edges.source, edges.target], dim=1)
    found, place, count = pairs.unique(dim=0, return_inverse=True, return_counts=True)
    repeated = count[place] > 1
    if not bool(repeated.any()):
        return edges
    if bool((edges.weight[repeated] >= 0).any()):
        raise UnsupportedOperation(
            f"{name} has two weights between the same two neurons (a layer that sees a neuron twice, through "
            "circular padding or a concatenation). The paper's computation graphs have at most one edge "
            "there; parameter graphs, gmn.trace(model, x), may have several."
        )
    values = torch.tensor(list(builder.constants), dtype=torch.float64)
    sums = torch.zeros(len(found), dtype=torch.float64)
    sums.index_add_(0, place[repeated], values[-1 - edges.weight[repeated]])
    merged = (count > 1).nonzero()[:, 0]
    extra = EdgeList(found[merged, 0], found[merged, 1], builder.constant(sums[merged]))
    return EdgeList.joined([edges.kept(~repeated), extra])
