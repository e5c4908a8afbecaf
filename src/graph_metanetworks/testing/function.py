"""Oracle: symmetries leave the function of a network unchanged."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.symmetry.automorphism import Automorphism
from graph_metanetworks.testing.automorphism import numbered, sample
from graph_metanetworks.trace.record.outputs import output_tensors
from graph_metanetworks.trace.record.tape import plain_kernels

TOLERANCE = 1e-9  # relative, in float64
VISIBLE = 1e-7  # relative change that a wrong permutation must cause


def assert_function_kept(
    graph: ParameterGraph,
    model: nn.Module,
    /,
    *args: Any,
    samples: int = 3,
    tolerance: float = TOLERANCE,
    **kwargs: Any,
) -> None:
    """Check that sampled automorphisms keep the output in float64, and that wrong permutations change it."""
    double, args, kwargs = in_double(model, args, kwargs)
    weights = {name: value.clone() for name, value in double.state_dict().items()}
    expected = outputs(double, weights, args, kwargs)
    assert all(bool(output.isfinite().all()) for output in expected), (
        f"the output of {graph.name} is not finite on this example, so it proves nothing; pass another"
    )
    for seed in range(samples):
        permuted = sample(graph, seed).apply(weights)
        error = difference(expected, outputs(double, permuted, args, kwargs))
        assert error <= tolerance, (
            f"an automorphism of {graph.name} changes its output by {error:.1e} (relative), more than "
            f"{tolerance:.0e}; gmn.testing.assert_operations_equivariant names the wrong rule"
        )
    for automorphism in map(lambda seed: sample(graph, seed), range(20)):
        moved = moved_parameters(graph, automorphism)
        if not moved:  # the identity, which a small group samples now and then
            continue
        change = max(
            difference(expected, outputs(double, wrong, args, kwargs))
            for wrong in wrong_permutations(graph, automorphism, weights, moved)
        )
        assert change > VISIBLE, (
            f"leaving a tensor behind changes the output of {graph.name} by only {change:.1e}: the "
            "weights are too symmetric for this test; give them random values"
        )
        return


def wrong_permutations(
    graph: ParameterGraph, automorphism: Automorphism, weights: Mapping[str, Tensor], moved: list[str]
) -> Iterator[dict[str, Tensor]]:
    """Yield permuted weights with one tensor left behind, for a few choices of that tensor."""
    permuted = automorphism.apply(weights)
    left_behind = dict(weights)
    if len(moved) == 1:  # all weights lie in one tensor, so its elements are shuffled instead
        value = weights[moved[0]]
        order = torch.randperm(value.numel(), generator=torch.Generator().manual_seed(0))
        left_behind[moved[0]] = value.flatten()[order].view_as(value)
    names = {p.name: (p.name, *p.tied) for p in graph.parameters}
    for name in moved[:: max(1, len(moved) // 4)]:
        yield {**permuted, **{alias: left_behind[name] for alias in names[name]}}


def moved_parameters(graph: ParameterGraph, automorphism: Automorphism) -> list[str]:
    """Return the parameters of which the automorphism moves some element."""
    numbers = numbered(graph)
    permuted = automorphism.apply(numbers)
    return [p.name for p in graph.parameters if not torch.equal(permuted[p.name], numbers[p.name])]


def in_double(model: nn.Module, args: tuple, kwargs: dict) -> tuple[nn.Module, tuple, dict]:
    weights = {
        id(parameter): nn.Parameter(parameter.detach().double(), parameter.requires_grad)
        for parameter in model.parameters()
        if type(parameter) is nn.Parameter
        and parameter.is_floating_point()
        and parameter.dtype != torch.float64
    }
    double = copied(model, weights).double().eval()

    def convert(tensor: Tensor) -> Tensor:
        return tensor.double() if tensor.is_floating_point() else tensor

    return double, *tree_map_only(Tensor, convert, (args, kwargs))


def copied(model: nn.Module, replaced: Mapping[int, Any] | None = None) -> nn.Module:
    """Return a deep copy, with other objects instead of those whose ids are given.

    Weights that hooks of `prune` or `weight_norm` computed are detached first.
    """
    attributes = [value for module in model.modules() for value in vars(module).values()]
    computed = [value for value in attributes if isinstance(value, Tensor) and not value.is_leaf]
    detached = {id(tensor): tensor.detach().clone() for tensor in computed}
    return copy.deepcopy(model, {**detached, **(replaced or {})})


def outputs(model: nn.Module, weights: Mapping[str, Tensor], args, kwargs) -> list[Tensor]:
    """Return what the network computes with the given weights, in float64 throughout."""
    model.load_state_dict(weights)
    with torch.random.fork_rng(devices=[]), plain_kernels(), default_double(), KeepDouble():
        torch.manual_seed(0)
        return output_tensors(model(*args, **kwargs))


def difference(expected: list[Tensor], actual: list[Tensor], *, smallest: float = 0.0) -> float:
    """Return the largest change of any output, relative to the largest output, or to `smallest` if larger."""
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
def default_double() -> Iterator[None]:
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
    """Compute `_grouped_mm`, which has no float64 kernel: each group of rows times its own matrix."""
    lengths = ends.diff(prepend=ends.new_zeros(1)).tolist()
    parts = zip(rows[: int(ends[-1])].split(lengths), matrices, strict=True)
    products = [part @ matrix for part, matrix in parts]
    rest = rows.new_zeros(len(rows) - int(ends[-1]), matrices.shape[-1])
    return torch.cat([*products, rest])
