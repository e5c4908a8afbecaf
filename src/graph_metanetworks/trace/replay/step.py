"""One operation of a recording, ready to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

from torch import Tensor

from graph_metanetworks.errors import ReplayError
from graph_metanetworks.trace.record.operation import Operation, refs
from graph_metanetworks.trace.replay.refusal import place

ROUNDING = 1e-5  # relative difference of numbers that count as equal
OTHER_PATH = "Trace it with them, or let the module run: graph = graph.with_module(model)."


class Slot(int):
    """The key of a tensor, in the place where the tensor goes."""


class Slots(list):
    """A list argument with slots in it, as of `aten.cat`."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operation, ready to run."""

    func: Callable
    args: tuple
    kwargs: dict[str, Any]
    outputs: tuple[int, ...]
    spread: tuple[int, ...]  # outputs that later steps write to with values that differ under vmap
    done: tuple[int, ...]  # tensors that no later step reads
    operation: Operation
    seen: Any = None  # the number that Python saw, which may have decided what the network did next
    checks_shape: bool = False

    def run(self, tensors: dict[int, Tensor]) -> None:
        """Run the operation on tensors by key, and add its results to them."""
        try:
            self._run(tensors)
        except ReplayError:
            raise
        except Exception as error:
            raise ReplayError(f"{place(self.operation)} failed when it was run again: {error}") from error

    def _run(self, tensors: dict[int, Tensor]) -> None:
        args = [_filled(value, tensors) for value in self.args]
        kwargs = {name: _filled(value, tensors) for name, value in self.kwargs.items()}
        result = self.func(*args, **kwargs)
        if self.seen is not None:
            self._check_seen(result)
        results = _tensors_in(result)
        for key, value in zip(self.outputs, results, strict=True):
            tensors[key] = value
        if self.checks_shape:
            self._check_shape(results)

    def _check_seen(self, result: Any) -> None:
        is_rounded = isinstance(self.seen, float) and isclose(result, self.seen, rel_tol=ROUNDING)
        if result != self.seen and not is_rounded:
            raise ReplayError(
                f"{place(self.operation)} gives {result} to Python, but {self.seen} when the network was "
                f"traced, so the network may do something else with these weights and inputs. {OTHER_PATH}"
            )

    def _check_shape(self, results: Sequence[Tensor]) -> None:
        for ref, value in zip(refs(self.operation.outputs), results, strict=True):
            if tuple(value.shape) != ref.shape:
                raise ReplayError(
                    f"{place(self.operation)} gives a tensor of shape {tuple(value.shape)}, but {ref.shape} "
                    "when the network was traced, so its operations do not fit these weights and inputs. "
                    f"{OTHER_PATH}"
                )


def _filled(value: Any, tensors: Mapping[int, Tensor]) -> Any:
    if type(value) is Slot:
        return tensors[value]
    if type(value) is Slots:
        return [_filled(item, tensors) for item in value]
    return value


def _tensors_in(result: Any) -> list[Tensor]:
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, list | tuple):
        return [tensor for item in result for tensor in _tensors_in(item)]
    return []
