"""Run many networks of one architecture on many inputs at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import (
    _set_vmap_fallback_warning_enabled,  # pyright: ignore[reportAttributeAccessIssue]
)
from torch.func import vmap

from graph_metanetworks.trace.replay.module_runner import ModuleRunner
from graph_metanetworks.trace.replay.program import Program
from graph_metanetworks.trace.replay.recording import Recording

Stacked = Mapping[Any, Tensor]  # tensors with a leading dimension
Results = tuple[Tensor, ...]
Map = Callable[[Callable[[Any], Results], Stacked], Results]
Run = Callable[[Mapping[str, Tensor], Mapping[int, Tensor]], Results]


def run_stacked(
    recording: Recording, weights: Mapping[str, Tensor], inputs: Mapping[int, Tensor], *, read: bool = False
) -> tuple[list[Tensor], Tensor | None]:
    """Run networks with stacked weights `[n, ...]` on stacked inputs `[p, ...]`, each as a call of its own.

    Returns the outputs, `[n, p, ...]` each, and with `read` the mean and deviation of nodes, `[n, p, N, 2]`.
    Layers on rows run in one product each (`LayeredProgram`). Otherwise networks and inputs are mapped by
    `torch.func.vmap`. Where it cannot map an operation, a loop gives the same result.
    """
    program = recording.program
    layered = None if read else program.layered
    if layered is not None and layered.takes(weights):
        return layered.run(weights, inputs), None

    def run(own: Mapping[str, Tensor], example: Mapping[int, Tensor]) -> Results:
        outputs, statistics = program.run(own, example, read=read)
        return (*outputs, statistics) if statistics is not None else tuple(outputs)

    results = _first_that_works(program, run, weights, inputs)
    return (list(results[:-1]), program.readings.of_nodes(results[-1])) if read else (list(results), None)


def _first_that_works(
    program: Program | ModuleRunner, run: Run, weights: Stacked, inputs: Stacked
) -> Results:
    """Map networks and inputs in the fastest way that works, and remember it for the next run."""
    for way in range(program.way, len(WAYS)):
        try:
            results = _run_in(WAYS[way], run, weights, inputs)
        except Exception:
            if program.refusal or way == len(WAYS) - 1:
                raise
            continue
        program.way = way
        return results
    raise AssertionError("the last way returns or raises")


def _run_in(way: tuple[Map, Map], run: Run, weights: Stacked, inputs: Stacked) -> Results:
    over_networks, over_inputs = way
    return over_networks(lambda own: over_inputs(lambda example: run(own, example), inputs), weights)


def _mapped(function: Callable[[Stacked], Results], stacked: Stacked) -> Results:
    if _length(stacked) == 1:
        return _looped(function, stacked)
    with _without_warnings():
        return vmap(function)(dict(stacked))


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence warnings about operations that vmap runs in a loop of its own."""
    _set_vmap_fallback_warning_enabled(False)
    try:
        yield
    finally:
        _set_vmap_fallback_warning_enabled(True)


def _looped(function: Callable[[Stacked], Results], stacked: Stacked) -> Results:
    each = [
        function({name: value[number] for name, value in stacked.items()})
        for number in range(_length(stacked))
    ]
    return tuple(torch.stack(results) for results in zip(*each, strict=True))


def _length(stacked: Stacked) -> int:
    return len(next(iter(stacked.values())))


# how networks and inputs are mapped, fastest first
WAYS = ((_mapped, _mapped), (_looped, _mapped), (_looped, _looped))
