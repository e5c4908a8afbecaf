"""The public entry: trace a network into a parameter graph."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.func import functional_call
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

import graph_metanetworks.trace.interpret.modules
import graph_metanetworks.trace.interpret.rules  # noqa: F401  (registers the rules)
from graph_metanetworks.errors import TraceError, UnseenWeights, UnusedParameters
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.graph.parts import Parameter
from graph_metanetworks.table import listed
from graph_metanetworks.trace.finish.assemble import assemble
from graph_metanetworks.trace.finish.readings import choose_readings
from graph_metanetworks.trace.interpret.declare import is_declared
from graph_metanetworks.trace.interpret.interpreter import Interpreter
from graph_metanetworks.trace.interpret.registry import has_rule
from graph_metanetworks.trace.interpret.size_limit import is_too_large, size_limit, too_large
from graph_metanetworks.trace.record.checks import check, check_example
from graph_metanetworks.trace.record.discrete import read_entries, weight_entries
from graph_metanetworks.trace.record.inputs import named_inputs
from graph_metanetworks.trace.record.operation import Operation, tensors
from graph_metanetworks.trace.record.outputs import output_tensors
from graph_metanetworks.trace.record.tape import Tape, WatchEscapes, plain_kernels
from graph_metanetworks.trace.record.untouched import untouched
from graph_metanetworks.trace.replay import Recording

Unused = Literal["raise", "keep"]  # what to do with parameters that the example never reached

_PACKAGE = __name__.partition(".")[0]


def trace(model: nn.Module, /, *args: Any, **kwargs: Any) -> ParameterGraph:
    """Trace a network into its parameter graph; arguments are exactly those of `model(...)`.

    >>> import torch, graph_metanetworks as gmn
    >>> graph = gmn.trace(torch.nn.Conv2d(3, 8, 5), torch.randn(1, 3, 9, 9))
    >>> graph
    ParameterGraph(Conv2d: 12 nodes, 608 edges, 608 parameters)
    """
    return Tracer().trace(model, *args, **kwargs)


@dataclass(frozen=True, kw_only=True)
class Tracer:
    """Trace networks with options.

    Args:
        unknown: what to do with an operation that has no rule: "raise", or "pin" to claim no symmetry there.
        unused: what to do with parameters that the example never reached: "raise", or "keep" them without
            symmetry.
        attention: "distinct" nodes for queries, keys and values, or "shared" ones as in the paper.
        heads: a structural "node" per head, or the "index" of the head as a feature as in the paper.
        outputs: which part of the network's result counts as its output; by default every tensor in it,
            except in the caches of `transformers`.
    """

    unknown: Literal["raise", "pin"] = "raise"
    unused: Unused = "raise"
    attention: Literal["distinct", "shared"] = "distinct"
    heads: Literal["node", "index"] = "node"
    outputs: Callable[[Any], Any] | None = None

    def __post_init__(self):
        choices = {
            "unknown": ("raise", "pin"),
            "unused": ("raise", "keep"),
            "attention": ("distinct", "shared"),
            "heads": ("node", "index"),
        }
        for option, allowed in choices.items():
            if getattr(self, option) not in allowed:
                raise ValueError(
                    f"Tracer({option}={getattr(self, option)!r}) is not one of {', '.join(allowed)}."
                )

    def trace(self, model: nn.Module, /, *args: Any, **kwargs: Any) -> ParameterGraph:
        """Trace a network into its parameter graph; arguments are exactly those of `model(...)`."""
        graph, _ = self.record(model, args, kwargs)
        return graph

    def record(
        self, model: nn.Module, args: tuple, kwargs: dict, *, snapshot: bool = False
    ) -> tuple[ParameterGraph, Interpreter]:
        """Return the graph and the interpreter that made it.

        `snapshot` keeps the tensors of every operation.
        """
        check(model)
        with unset_fake_temporarily():
            state = _NetworkState.of(model)
            tape = Tape(has_rule, snapshot=snapshot)
            convert = _to_meta if state.is_abstract else _without_fake
            args, kwargs = tree_map_only(Tensor, convert, (args, kwargs))
            check_example(named_inputs(args, kwargs))
            result = self._run(model, state, tape, args, kwargs)
            # the caller's default device and other modes must not affect our own tensors
            with (
                torch._C.DisableTorchFunction(),
                _disable_current_modes(),
                size_limit(max((tensor.numel() for tensor in state.tensors.values()), default=0)),
            ):
                return self._interpret(model, state, tape, result, args, kwargs)

    def _interpret(
        self, model: nn.Module, state: _NetworkState, tape: Tape, result: Any, args: tuple, kwargs: dict
    ) -> tuple[ParameterGraph, Interpreter]:
        outputs = self._outputs(model, result)
        interpreter = Interpreter(model, unknown=self.unknown)
        interpreter.log = [] if tape.snapshot else None
        for tensor in state.discrete.values():
            interpreter.add_discrete(tape.ref(tensor))
        for name, tensor in state.tensors.items():
            interpreter.add_parameter(tape.ref(tensor), name, state.originals[name])
        for name, tensor in named_inputs(args, kwargs):
            interpreter.add_input(tape.ref(tensor), name)
        live = tape.live(outputs)
        interpreter.run(live)
        parameters = self._reached(model, state, interpreter)
        ignored = state.names - {n for p in parameters for n in (p.name, *p.tied)}
        _warn_of_unseen(model, weight_entries(state.discrete, tape, live))
        name = type(_original(model)).__name__
        try:
            graph = assemble(
                interpreter,
                parameters,
                {p.name: interpreter.value(tape.ref(state.tensors[p.name])).dims for p in parameters},
                [interpreter.value(tape.ref(tensor)) for tensor in outputs],
                attention=self.attention,
                heads=self.heads,
                ignored=ignored,
                unseen=ignored & (state.foreign | read_entries(state.discrete, tape, live, outputs)),
                name=name,
            )
        except Exception as error:
            if is_too_large(error):
                raise too_large(name, error) from error
            raise
        recording = _recorded(tape, live, state, named_inputs(args, kwargs), outputs, interpreter)
        return replace(graph, recording=recording), interpreter

    def _outputs(self, model: nn.Module, result: Any) -> list[Tensor]:
        chosen = self._chosen(model, result)
        found = output_tensors(chosen) if self.outputs is None else tensors(chosen)
        if not found:
            raise TraceError(
                f"{type(model).__name__} returned no tensor (but {type(chosen).__name__}). Pass "
                "gmn.Tracer(outputs=...) a function that picks the tensors out of the result."
            )
        return found

    def _chosen(self, model: nn.Module, result: Any) -> Any:
        if self.outputs is None:
            return result
        try:
            return self.outputs(result)
        except Exception as error:
            raise TraceError(
                f"Tracer(outputs=...) failed on the {type(result).__name__} that {type(model).__name__} "
                f"returned: {type(error).__name__}: {error}. It gets that result and returns its tensors."
            ) from error

    def _run(self, model: nn.Module, state: _NetworkState, tape: Tape, args: tuple, kwargs: dict) -> Any:
        with (
            untouched(model),
            plain_kernels(),
            tape.following(model, is_declared),
            WatchEscapes(tape),
            tape,
        ):
            try:
                if not state.replaced:
                    return model(*args, **kwargs)
                return functional_call(model, state.replaced, args, kwargs, tie_weights=False)
            except TraceError:
                raise
            except Exception as error:
                raise TraceError(_failure(model, state, tape.path, error)) from error

    def _reached(self, model: nn.Module, state: _NetworkState, interpreter: Interpreter) -> list[Parameter]:
        learned = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        unused = {name for name in state.tensors if name not in interpreter.used}
        missed = [name for name in state.tensors if name in unused and name in learned]
        if missed and self.unused == "raise":
            raise UnusedParameters(
                f"the output does not depend on {len(missed)} parameter(s) of "
                f"{type(model).__name__}: {listed(missed, 8)}. Pass an example that uses them, or trace with "
                'gmn.Tracer(unused="keep"), on the command line --unused keep, to keep them as edges without '
                f"symmetry.{_bypassed(missed, state)}"
            )
        return [
            Parameter(name, tuple(tensor.shape), tensor.dtype, state.tied[name])
            for name, tensor in state.tensors.items()
            if name not in unused or name in missed
        ]


def _recorded(
    tape: Tape,
    operations: list[Operation],
    state: _NetworkState,
    inputs: list[tuple[str, Tensor]],
    outputs: list[Tensor],
    interpreter: Interpreter,
) -> Recording:
    """Keep what is needed to run the network again, and to find scaling symmetries."""
    owner = {id(tensor): name for name, tensor in state.tensors.items()}
    parameters = {name: tape.ref(tensor) for name, tensor in state.tensors.items()}
    declared = {id(op.func): op.func for op in operations if isinstance(op.func, nn.Module)}
    return Recording.of(
        operations,
        [(ref, (name, *state.tied[name])) for name, ref in parameters.items()],
        [(tape.ref(tensor), (name,)) for name, tensor in state.discrete.items()],
        [(tape.ref(tensor), (name,)) for name, tensor in inputs],
        [tape.ref(tensor) for tensor in outputs],
        owned={
            key: [parameters[owner[id(t)]] for t in module.parameters() if id(t) in owner]
            for key, module in declared.items()
        },
        originals=tape.originals,
        readings=choose_readings(interpreter),
        num_nodes=interpreter.builder.num_nodes,
        axes=interpreter.axes,
    )


@dataclass(frozen=True)
class _NetworkState:
    """The network's state: one floating-point tensor per owner, further names of tied ones, and the rest."""

    tensors: dict[str, Tensor]
    originals: dict[str, Tensor]
    tied: dict[str, tuple[str, ...]]
    names: frozenset[str]
    replaced: dict[str, Tensor]  # stand-ins for fake tensors
    discrete: dict[str, Tensor]  # integer, boolean and complex tensors, by every name
    foreign: frozenset[str]  # neither a parameter nor a buffer: extra state, packed weights

    @property
    def is_abstract(self) -> bool:
        """Whether some weights have no values."""
        return any(tensor.device.type == "meta" for tensor in self.tensors.values())

    @staticmethod
    def of(model: nn.Module) -> _NetworkState:
        entries = model.state_dict(keep_vars=True)
        everything: dict[str, Tensor] = dict(model.named_buffers(remove_duplicate=False))
        everything.update(model.named_parameters(remove_duplicate=False))
        stand_in = {id(t): _without_fake(t) for t in everything.values() if isinstance(t, FakeTensor)}
        replaced = {n: stand_in[id(t)] for n, t in everything.items() if id(t) in stand_in}
        known = {id(tensor) for tensor in everything.values()}
        owner: dict[int, str] = {}
        owned: dict[str, Tensor] = {}
        tied: dict[str, list[str]] = {}
        discrete: dict[str, Tensor] = {}
        for name, tensor in entries.items():
            if not isinstance(tensor, Tensor):
                continue
            if not tensor.is_floating_point():
                discrete[name] = stand_in.get(id(tensor), tensor)
                continue
            if id(tensor) in owner:
                tied[owner[id(tensor)]].append(name)
                continue
            owner[id(tensor)] = name
            owned[name] = stand_in.get(id(tensor), tensor)
            tied[name] = []
        return _NetworkState(
            owned,
            {name: entries[name] for name in owned},
            {k: tuple(v) for k, v in tied.items()},
            frozenset(entries),
            replaced,
            discrete,
            frozenset(name for name, entry in entries.items() if id(entry) not in known),
        )


def _original(model: nn.Module) -> nn.Module:
    """Return the network inside a `torch.compile`d one."""
    return getattr(model, "_orig_mod", model)


def _without_fake(tensor: Tensor) -> Tensor:
    if not isinstance(tensor, FakeTensor):
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _to_meta(tensor: Tensor) -> Tensor:
    """Move an input to the meta device, next to weights without values; indices keep their values."""
    tensor = _without_fake(tensor)
    return tensor.to("meta") if tensor.is_floating_point() else tensor


def _bypassed(missed: list[str], state: _NetworkState) -> str:
    """Name the remedy for a pruned weight whose module is never called, such as `out_proj` of attention."""
    for name in missed:
        path, _, parameter = name.removesuffix("_orig").rpartition(".")
        if name.endswith("_orig") and f"{name.removesuffix('_orig')}_mask" in state.names:
            return (
                f" '{name}' belongs to torch.nn.utils.prune, and its module '{path}' is never called, so the "
                "network uses a copy of the pruned weight. Make the pruning permanent with "
                f"torch.nn.utils.prune.remove(model.get_submodule('{path}'), '{parameter}')."
            )
    return ""


def _warn_of_unseen(model: nn.Module, names: frozenset[str]) -> None:
    if names:
        warnings.warn(
            f"the output of {type(_original(model)).__name__} depends on {listed(sorted(names))} (integer, "
            "boolean or complex). Only floating-point tensors lie on edges: a metanetwork does not see "
            "these, and symmetries hold them fixed. Register what is the same in every network as a buffer "
            "with persistent=False.",
            UnseenWeights,
            stacklevel=_frames_to_user(),
        )


def _frames_to_user() -> int:
    """Return the `stacklevel` at which the caller's warning points outside of this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(f"{_PACKAGE}."):
        frame, level = frame.f_back, level + 1
    return level


def _failure(model: nn.Module, state: _NetworkState, path: str, error: Exception) -> str:
    place = f"in '{path}' ({type(model.get_submodule(path)).__name__})" if path else "at the top"
    frame, location = error.__traceback__, ""
    while frame is not None:
        code = frame.tb_frame.f_code.co_filename
        if "graph_metanetworks" not in code and "/torch/" not in code:
            location = f" ({code}:{frame.tb_lineno})"
        frame = frame.tb_next
    hint = (
        "The weights have no values (meta or fake tensors), but the network reads one. Trace it with real "
        "weights."
        if state.is_abstract and "meta" in str(error).lower()
        else "Check that model(*args, **kwargs) runs with the example you passed to gmn.trace."
    )
    message = str(error).rstrip(".")
    return f"{type(model).__name__} raised {type(error).__name__} {place}{location}: {message}. {hint}"
