"""Oracles: what every parameter graph must satisfy. Use them on your own networks.

>>> import torch, graph_metanetworks as gmn
>>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
>>> graph = gmn.testing.assert_all(model, torch.randn(5, 3))
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from graph_metanetworks.graph import EdgeBlock, ParameterGraph, block_position
from graph_metanetworks.symmetry.group import Automorphism, Symmetry
from graph_metanetworks.trace.interpreter import where
from graph_metanetworks.trace.outputs import output_tensors
from graph_metanetworks.trace.tape import Escape, Operation, TensorRef, plain_kernels, refs, tensors
from graph_metanetworks.trace.tracer import Tracer

TOLERANCE = 1e-9  # relative, in float64
VISIBLE = 1e-7  # relative change that a wrong permutation must cause
CANCELLED = 1e-8  # results this small against the inputs are rounding errors: the mean of centred numbers


def assert_all(model: nn.Module, /, *args: Any, **kwargs: Any) -> ParameterGraph:
    """Trace a network and hold its graph against every oracle; returns the graph."""
    tracer = Tracer()
    graph = tracer.trace(model, *args, **kwargs)
    assert_covers(graph, model)
    assert_round_trip(graph, model)
    assert_automorphism(graph, model)
    assert_function_kept(graph, model, *args, **kwargs)
    assert_operations_equivariant(model, *args, **kwargs)
    return graph


# ------------------------------------------------------------------ weights and edges


def assert_covers(graph: ParameterGraph, model: nn.Module) -> None:
    """Each element of each parameter, and of each floating-point buffer in the graph, has one owner."""
    known = {name: p for p in graph.parameters for name in (p.name, *p.tied)}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        assert name in known, f"the parameter '{name}' is not in the graph"
        assert known[name].shape == tuple(parameter.shape), f"'{name}' has another shape"
    count = {p.name: torch.zeros(p.numel, dtype=torch.int64) for p in graph.parameters}
    for block in graph.blocks:
        if block.parameter is not None and block.is_owner:
            assert block.elements is not None
            index = block.elements.index().reshape(-1)
            count[block.parameter] += torch.bincount(index, minlength=count[block.parameter].numel())
    for name, owners in count.items():
        wrong = int((owners != 1).sum())
        assert not wrong, f"{wrong} of {owners.numel()} elements of '{name}' do not have one owner"
    owned = sum(p.numel for p in graph.parameters)
    assert graph.num_parameters == owned, f"{graph.num_parameters} edges for {owned} elements"


def assert_round_trip(graph: ParameterGraph, model: nn.Module) -> None:
    """Weights to edges and back are bit for bit the same: values, dtypes, tied names, several channels."""
    before = {n: t for n, t in model.state_dict().items() if n not in graph.ignored}
    after = graph.state_dict(graph.edge_values(before))
    assert set(before) == set(after), f"names differ: {sorted(set(before) ^ set(after))}"
    for name, value in before.items():
        assert after[name].dtype == value.dtype, f"'{name}' came back as {after[name].dtype}"
        assert _same_bits(after[name], value), f"'{name}' came back changed"
    channels = {name: torch.stack([value, value + 1, 2 * value], -1) for name, value in before.items()}
    several = graph.state_dict(graph.edge_values(channels))
    for name, value in channels.items():
        assert _same_bits(several[name], value), f"'{name}' came back changed with three channels"


def _same_bits(first: Tensor, second: Tensor) -> bool:
    return torch.equal(torch.nan_to_num(first), torch.nan_to_num(second)) and torch.equal(
        first.isnan(), second.isnan()
    )


# ------------------------------------------------------------------ the function


def assert_function_kept(
    graph: ParameterGraph,
    model: nn.Module,
    /,
    *args: Any,
    samples: int = 3,
    tolerance: float = TOLERANCE,
    **kwargs: Any,
) -> None:
    """Sampled automorphisms leave the output unchanged in float64; a wrong permutation changes it."""
    double, args, kwargs = _in_double(model, args, kwargs)
    weights = {name: value.clone() for name, value in double.state_dict().items()}
    expected = _outputs(double, weights, args, kwargs)
    assert all(bool(output.isfinite().all()) for output in expected), (
        f"the output of {graph.name} is not finite on this example, so it proves nothing; pass another"
    )
    for seed in range(samples):
        permuted = _sample(graph, seed).apply(weights)
        error = _difference(expected, _outputs(double, permuted, args, kwargs))
        assert error <= tolerance, (
            f"an automorphism of {graph.name} changes its output by {error:.1e} (relative), more than "
            f"{tolerance:.0e}; gmn.testing.assert_operations_equivariant names the wrong rule"
        )
    for automorphism in map(lambda seed: _sample(graph, seed), range(20)):
        moved = _moved(graph, automorphism)
        if not moved:  # the identity, which a small group gives now and then
            continue
        change = max(
            _difference(expected, _outputs(double, wrong, args, kwargs))
            for wrong in _wrong_permutations(graph, automorphism, weights, moved)
        )
        assert change > VISIBLE, (
            f"leaving a tensor behind changes the output of {graph.name} by only {change:.1e}: the "
            "weights are too symmetric for this test; give them random values"
        )
        return


def _wrong_permutations(
    graph: ParameterGraph, automorphism: Automorphism, weights: Mapping[str, Tensor], moved: list[str]
) -> Iterator[dict[str, Tensor]]:
    """Permuted weights with one tensor left behind, for a few choices of that tensor."""
    permuted = automorphism.apply(weights)
    left_behind = dict(weights)
    if len(moved) == 1:  # all weights in one tensor: its elements are mixed up instead
        value = weights[moved[0]]
        order = torch.randperm(value.numel(), generator=torch.Generator().manual_seed(0))
        left_behind[moved[0]] = value.flatten()[order].view_as(value)
    names = {p.name: (p.name, *p.tied) for p in graph.parameters}
    for name in moved[:: max(1, len(moved) // 4)]:
        yield {**permuted, **{alias: left_behind[name] for alias in names[name]}}


def _moved(graph: ParameterGraph, automorphism: Automorphism) -> list[str]:
    """Parameters of which the automorphism moves some element."""
    numbered = _numbered(graph)
    permuted = automorphism.apply(numbered)
    return [p.name for p in graph.parameters if not torch.equal(permuted[p.name], numbered[p.name])]


def _sample(graph: ParameterGraph, seed: int) -> Automorphism:
    return graph.symmetry.sample(torch.Generator().manual_seed(seed))


def _in_double(model: nn.Module, args: tuple, kwargs: dict) -> tuple[nn.Module, tuple, dict]:
    double = copy.deepcopy(model).double().eval()

    def convert(tensor: Tensor) -> Tensor:
        return tensor.double() if tensor.is_floating_point() else tensor

    return double, *tree_map_only(Tensor, convert, (args, kwargs))


def _outputs(model: nn.Module, weights: Mapping[str, Tensor], args, kwargs) -> list[Tensor]:
    model.load_state_dict(weights)
    with torch.random.fork_rng(devices=[]), plain_kernels(), _default_double(), KeepDouble():
        torch.manual_seed(0)
        return output_tensors(model(*args, **kwargs))


def _difference(expected: list[Tensor], actual: list[Tensor], *, smallest: float = 0.0) -> float:
    """Largest change of any output, relative to the largest output, or to `smallest` if that is larger."""
    scale = max((float(t.double().abs().max()) for t in expected if t.numel()), default=0.0)
    change = max(
        (
            float((a.double() - b.double()).nan_to_num(0, 0, 0).abs().max())
            for a, b in zip(expected, actual, strict=True)
            if a.numel()
        ),
        default=0.0,
    )
    return change / max(scale, smallest, 1e-300)


@contextmanager
def _default_double() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class KeepDouble(TorchDispatchMode):
    """Keep float64 where a network casts to float32 itself, which would hide errors below 1e-7."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("dtype") == torch.float32:
            kwargs["dtype"] = torch.float64
        if func is torch.ops.aten._grouped_mm.default and args[0].dtype == torch.float64:
            return _grouped_product(*args[:3])
        args = tuple(torch.float64 if a is torch.float32 else a for a in args)
        return func(*args, **kwargs)


def _grouped_product(rows: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    """`_grouped_mm`, which has no float64 kernel: each group of rows times its own matrix."""
    lengths = ends.diff(prepend=ends.new_zeros(1)).tolist()
    parts = zip(rows[: int(ends[-1])].split(lengths), matrices, strict=True)
    products = [part @ matrix for part, matrix in parts]
    rest = rows.new_zeros(len(rows) - int(ends[-1]), matrices.shape[-1])
    return torch.cat([*products, rest])


# ------------------------------------------------------------------ the graph


def assert_automorphism(graph: ParameterGraph, model: nn.Module | None = None, *, samples: int = 2) -> None:
    """Sampled permutations map nodes to nodes alike, and edges to edges of the same kind, position and value.

    Without a model, elements are numbered and the numbers take the place of weights.
    """
    if model is None:
        weights = _numbered(graph)
    else:
        weights = {n: t for n, t in model.state_dict().items() if n not in graph.ignored}
    for seed in range(samples):
        automorphism = _sample(graph, seed)
        nodes = automorphism.nodes
        assert torch.equal(nodes.sort().values, torch.arange(graph.num_nodes)), "not a permutation"
        for name in ("node_kind", "node_depth", "node_index", "node_activation"):
            feature = getattr(graph, name)
            assert torch.equal(feature[nodes], feature), f"{name} is not invariant"
        before = graph.edge_values(weights)
        after = graph.edge_values(automorphism.apply(weights))
        for kind, blocks in _blocks_by_kind(graph).items():
            mapped = [_edge_rows(block, before[edges], nodes) for block, edges in blocks]
            found = [_edge_rows(block, after[edges], None) for block, edges in blocks]
            same = np.array_equal(_sorted(mapped), _sorted(found), equal_nan=True)
            assert same, f"the edges of {kind[0]} ({kind[1] or 'structural'}) are not mapped to edges"


def _numbered(graph: ParameterGraph) -> dict[str, Tensor]:
    weights, start = {}, 0
    for p in graph.parameters:
        values = torch.arange(start, start + p.numel, dtype=torch.float64).view(p.shape)
        weights.update({name: values for name in (p.name, *p.tied)})
        start += p.numel
    return weights


def _blocks_by_kind(graph: ParameterGraph) -> dict[tuple, list[tuple[EdgeBlock, slice]]]:
    found = defaultdict(list)
    for block, edges in zip(graph.blocks, graph.edge_slices, strict=True):
        found[block.kind, block.parameter].append((block, edges))
    return found


def _edge_rows(block: EdgeBlock, values: Tensor, nodes: Tensor | None) -> np.ndarray:
    """One row per edge: source, target, position, value. [edges, 6]"""
    ends = [end.expand(block.shape).reshape(-1) for end in (block.source, block.target)]
    ends = [end if nodes is None else nodes[end] for end in ends]
    columns = [*(end.double() for end in ends), *block_position(block).double().T, values.double()]
    return torch.stack(columns, dim=1).numpy()


def _sorted(rows: list[np.ndarray]) -> np.ndarray:
    table = np.concatenate(rows)
    return table[np.lexsort(table.T)]


# ------------------------------------------------------------------ single operations


def assert_operations_equivariant(
    model: nn.Module,
    /,
    *args: Any,
    tracer: Tracer | None = None,
    tolerance: float = 1e-7,
    **kwargs: Any,
) -> int:
    """Permute every operation's inputs by a sampled symmetry and run it again: its output is permuted alike.

    The unit test of every rule. Returns the number of operations that were checked.
    """
    double, args, kwargs = _in_double(model, args, kwargs)
    with _default_double(), KeepDouble():
        _, interpreter = (tracer or Tracer()).record(double, args, kwargs, snapshot=True)
    log = interpreter.log or []
    everything = {
        f"{i} {key}": tuple(value.dims)
        for i, (_, before, after) in enumerate(log)
        for key, value in [*before.items(), *((-k - 1, v) for k, v in after.items())]
    }
    sample = Symmetry(everything, (), 0).sample(torch.Generator().manual_seed(0))
    checked = 0
    for operation, before, after in log:
        if not _can_run_again(operation):
            continue
        error = _violation(operation, before, after, sample)
        assert error <= tolerance, (
            f"the rule for {operation.func} is wrong {where(operation)}: permuting the inputs does not "
            f"permute the output (relative error {error:.1e})"
        )
        checked += 1
    return checked


# results without a value of their own, and views of memory that a copy does not have
UNREPEATABLE = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "as_strided")


def _can_run_again(operation: Operation) -> bool:
    if isinstance(operation.func, nn.Module | Escape):
        return False
    tags = operation.func.tags
    name = operation.func._schema.name.split("::")[1]
    all_refs = operation.inputs + refs(operation.outputs)
    return (
        torch.Tag.inplace_view not in tags
        and torch.Tag.nondeterministic_seeded not in tags
        and name not in UNREPEATABLE
        and bool(refs(operation.outputs))
        and all(0 not in ref.shape and ref.value.layout == torch.strided for ref in all_refs)
    )


def _violation(operation: Operation, before, after, sample: Automorphism) -> float:
    def permuted(ref: TensorRef) -> Tensor:
        return sample.permute(ref.value, before[ref.key].dims)

    args, kwargs = tree_map_only(TensorRef, permuted, (operation.args, operation.kwargs))
    with torch.no_grad(), plain_kernels(), KeepDouble():
        result = operation.func(*args, **kwargs)
    noise = CANCELLED * max((_size(ref.value) for ref in operation.inputs), default=0.0)
    largest = 0.0
    for ref, actual in zip(refs(operation.outputs), tensors(result), strict=True):
        expected = sample.permute(ref.value, after[ref.key].dims)
        largest = max(largest, _difference([_real(expected)], [_real(actual)], smallest=noise))
    return largest


def _size(tensor: Tensor) -> float:
    """The largest entry; huge ones are masks, whose size says nothing about rounding elsewhere."""
    sizes = _real(tensor).abs()
    return float(sizes.where(sizes < 1e9, 0).max()) if sizes.numel() else 0.0


def _real(tensor: Tensor) -> Tensor:
    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return tensor.double().nan_to_num(0, 0, 0)
