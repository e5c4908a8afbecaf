"""Prune every architecture of the menagerie by 30 %, with this library and with Torch-Pruning 1.6.1.

    python benchmarks/pruning.py run results.jsonl            # one line per architecture and tool; resumes
    python benchmarks/pruning.py table results.jsonl          # the tables of docs/pruning.md

This library succeeds if `gmn.prune` returns: it proves every result and refuses otherwise. Torch-Pruning
succeeds if the network still runs, with outputs of the same shape, and passes the proof where it applies: all
weights that it removed are set to zero in a copy of the original, and both compute the same, to 1e-9 in
float64. Where a norm couples the units that went, it only has to run. Seconds are CPU seconds.
"""

from __future__ import annotations

import argparse
import copy
import json
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_pruning_help import help_for, output_layers, update_heads, update_norms, width_of

import graph_metanetworks as gmn
from graph_metanetworks.errors import PruneError
from graph_metanetworks.prune.double import exactly
from graph_metanetworks.testing.function import difference
from graph_metanetworks.trace.record.operation import tensors

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

AMOUNT, TOLERANCE = 0.3, 1e-9
LIMIT = 5  # CPU seconds after which Torch-Pruning is stopped; most networks need less than a tenth of one
TOOLS = ("ours", "ours with help", "torch-pruning", "torch-pruning with help")


class TimedOut(Exception):
    pass


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimedOut(f"did not end within {seconds} CPU seconds")

    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


# ------------------------------------------------------------------ this library


def ours(
    graph: gmn.ParameterGraph, model: nn.Module, args: tuple, kwargs: dict, *, help: bool
) -> dict[str, Any]:
    """Prune and prove. With help, dimensions within heads stay where the plan is refused because of them."""
    plan, excluded = gmn.prune_plan(graph, model, AMOUNT), []
    if not plan.pruned:
        return {"ok": True, "form": "nothing to prune"}
    try:
        small = gmn.prune(model, plan, *args, **kwargs)
    except PruneError:
        excluded = [own.name for own in plan.pruned if own.factor.within]
        if not help or not excluded:
            raise
        plan = gmn.prune_plan(graph, model, AMOUNT, exclude=excluded)
        small = gmn.prune(model, plan, *args, **kwargs)
    proof = small.pruning.proof
    return {
        "ok": True,
        "form": small.pruning.form,
        "why": small.pruning.reason[:200],
        "removal": proof.removal,
        "commutes": proof.commutes,
        "agreement": proof.agreement,
        "excluded": excluded,
        "parameters": list(plan.parameters),
    }


# ------------------------------------------------------------------ Torch-Pruning


def torch_pruning(
    graph: gmn.ParameterGraph, model: nn.Module, args: tuple, kwargs: dict, *, help: bool
) -> dict[str, Any]:
    """Prune with Torch-Pruning. With help, several ways are tried, and one that works counts."""
    if not help:
        return _attempt(graph, model, args, kwargs, helped=False)
    tries = (
        {},
        {"prune_num_heads": True, "prune_head_dims": False},
        {"num_heads": {}},
        {"num_heads": {}, "unwrapped_parameters": None},
    )
    found: list[dict[str, Any]] = []
    for options in tries:
        found.append(_attempt(graph, model, args, kwargs, helped=True, **options))
        if found[-1]["ok"] or "TimedOut" in found[-1]["why"]:  # which other ways do not change
            break
    seconds = sum(own["seconds"] for own in found)
    return {**next((own for own in found if own["ok"]), found[0]), "seconds": seconds}


def _attempt(graph: gmn.ParameterGraph, model: nn.Module, args: tuple, kwargs: dict, **how: Any) -> dict:
    clock = _Clock()
    try:
        with limited(LIMIT):
            found = _torch_pruned(graph, model, args, kwargs, clock, **how)
    except (Exception, TimedOut) as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "torch_pruning" in f.filename]
        own = [f"{Path(f.filename).name}:{f.name}" for f in frames if Path(f.filename) != Path(__file__)]
        message = str(error).splitlines()[0] if str(error) else ""
        found = {"ok": False, "why": f"{type(error).__name__}: {message}"[:300], "at": own[-1:]}
    return {**found, "stage": clock.stage, "seconds": clock.seconds}


class _Clock:
    """CPU seconds of Torch-Pruning itself, and what it is doing."""

    stage, seconds = "group", 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        start = time.process_time()
        try:
            yield
        finally:
            self.seconds += round(time.process_time() - start, 3)


def _torch_pruned(
    graph: gmn.ParameterGraph,
    model: nn.Module,
    args: tuple,
    kwargs: dict,
    clock: _Clock,
    *,
    helped: bool,
    **how: Any,
) -> dict[str, Any]:
    import torch_pruning as tp

    double = copy.deepcopy(model).double().eval()
    args, kwargs = (torch.utils._pytree.tree_map_only(Tensor, _double, x) for x in (args, kwargs))
    tagged = copy.deepcopy(double)
    _tag(tagged)
    options: dict[str, Any] = {"ignored_layers": output_layers(graph, tagged)}
    if helped:
        options |= help_for(graph, tagged) | how
    before = _outputs(double, args, kwargs)
    widths = {layer: width_of(layer) for layer in options.get("num_heads", {})}
    numbers_of_heads = dict(options.get("num_heads", {}))  # which it changes
    torch.manual_seed(0)
    with torch.enable_grad(), clock.running():  # it reads the autograd graph
        pruner = tp.pruner.BasePruner(
            tagged,
            args or None,
            importance=tp.importance.RandomImportance(),
            pruning_ratio=AMOUNT,
            forward_fn=lambda network, given: network(*args, **kwargs),
            output_transform=lambda result: [t for t in tensors(result) if t.requires_grad],
            **options,
        )
        clock.stage = "cut"
        pruner.step()
        clock.stage = "run"
    if helped:
        update_heads(tagged, widths, numbers_of_heads, pruner.num_heads)
        update_norms(tagged)
    return _judged(graph, model, double, tagged, args, kwargs, before)


def _judged(
    graph: gmn.ParameterGraph,
    model: nn.Module,
    double: nn.Module,
    tagged: nn.Module,
    args: tuple,
    kwargs: dict,
    before: list[Tensor],
) -> dict[str, Any]:
    """Run a network whose elements were numbered before it was pruned, and compare it with the original."""
    kept = {
        name: value.detach().reshape(-1).long()
        for name, value in tagged.state_dict().items()
        if value.is_floating_point()
    }
    original = double.state_dict()
    numbers = _numbers(original)
    zeroed = {name: value.clone() for name, value in original.items()}
    removed = 0
    for name, own in kept.items():
        elements = own - numbers[name]
        mask = torch.zeros(original[name].numel(), dtype=torch.bool)
        mask[elements] = True
        removed += int((~mask).sum())
        flat = original[name].reshape(-1)
        zeroed[name] = torch.where(mask, flat, 0).reshape(original[name].shape)
        with torch.no_grad():
            tagged.state_dict()[name].copy_(flat[elements].reshape(tagged.state_dict()[name].shape))
    if not removed:
        if not gmn.prune_plan(graph, model, AMOUNT).pruned:
            return {"ok": True, "form": "nothing to prune"}
        return {"ok": False, "why": "removed nothing"}
    after = _outputs(tagged, args, kwargs)
    if [t.shape for t in after] != [t.shape for t in before]:
        return {"ok": False, "why": "outputs have another shape"}
    share = removed / sum(value.numel() for value in original.values())
    if _is_coupled(graph, kept, numbers):
        return {"ok": True, "form": "runs", "share": share}
    double.load_state_dict(zeroed)
    error = difference(_outputs(double, args, kwargs), after)
    if not error <= TOLERANCE:
        return {"ok": False, "why": f"computes something else (relative difference {error:.0e})"}
    return {"ok": True, "form": "proved", "share": share}


def _is_coupled(graph: gmn.ParameterGraph, kept: dict[str, Tensor], numbers: dict[str, int]) -> bool:
    """Return whether units went that a norm or a softmax couples."""
    plan = gmn.prune_plan(graph, _Weights(graph), 0.0)
    touched = {p.name for p in graph.parameters if p.name in kept and len(kept[p.name]) < p.numel}
    names = {own.name for own in plan.factors if {name for name, _ in own.factor.parameters} & touched}
    return bool(names & set(plan.coupled))


class _Weights(nn.Module):
    """Stands for a network whose values do not matter."""

    def __init__(self, graph: gmn.ParameterGraph):
        super().__init__()
        self._known = {p.name: torch.empty(p.shape, device="meta") for p in graph.parameters}

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self._known


def _double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _outputs(model: nn.Module, args: tuple, kwargs: dict) -> list[Tensor]:
    with exactly(0):
        return tensors(model(*args, **kwargs))


def _numbers(state: dict[str, Tensor]) -> dict[str, int]:
    """Return the number of the first element of each floating-point tensor; tied ones share their numbers."""
    found: dict[str, int] = {}
    known: dict[int, int] = {}
    start = 1
    for name, value in state.items():
        if value.is_floating_point():
            found[name] = known.setdefault(value.data_ptr(), start)
            start += value.numel()
    return found


@torch.no_grad()
def _tag(model: nn.Module) -> None:
    """Number all elements, to see later which are left."""
    state = model.state_dict()
    for name, first in _numbers(state).items():
        state[name].copy_(torch.arange(first, first + state[name].numel()).view(state[name].shape))


# ------------------------------------------------------------------ all of them


def run(path: Path, only: list[str], tools: list[str], every: int = 1) -> None:
    from support.menagerie import MENAGERIE

    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known = {(line["name"], line["tool"]): line for line in lines}
    for architecture in MENAGERIE[::every]:
        if only and architecture.name not in only:
            continue
        if all((architecture.name, tool) in known for tool in tools):
            continue
        model, args, kwargs = architecture.make()
        start = time.process_time()
        graph = gmn.Tracer(**architecture.tracer).trace(model, *args, **kwargs)  # type: ignore[arg-type]
        traced = time.process_time() - start
        for tool in tools:
            if (architecture.name, tool) in known:
                continue
            start = time.process_time()
            try:
                if tool == "ours with help" and known.get((architecture.name, "ours"), {}).get("ok"):
                    found = known[architecture.name, "ours"]
                elif tool.startswith("ours"):
                    found = ours(graph, model, args, kwargs, help=tool.endswith("help"))
                else:
                    found = torch_pruning(graph, model, args, kwargs, help=tool.endswith("help"))
            except Exception as error:
                message = str(error).splitlines()[0] if str(error) else ""
                found = {"ok": False, "why": f"{type(error).__name__}: {message}"[:600]}
            seconds = round(found.get("seconds", time.process_time() - start + traced), 3)
            named = {"name": architecture.name, "family": architecture.family}
            line = {**found, **named, "tool": tool, "seconds": seconds}
            known[architecture.name, tool] = line
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")


def table(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    families = list(dict.fromkeys(line["family"] for line in lines))
    print("| family | networks | " + " | ".join(TOOLS) + " |")
    print("| --- | ---: |" + " ---: |" * len(TOOLS))
    for family in [*families, "all"]:
        own = [line for line in lines if family in (line["family"], "all")]
        counts = [sum(line["ok"] for line in own if line["tool"] == tool) for tool in TOOLS]
        number = len({line["name"] for line in own})
        print(f"| {family} | {number} | " + " | ".join(map(str, counts)) + " |")
    seconds = [sum(line["seconds"] for line in lines if line["tool"] == tool) for tool in TOOLS]
    print("| CPU seconds | | " + " | ".join(f"{total:.0f}" for total in seconds) + " |")
    for tool in TOOLS:
        forms = Counter(line["form"] for line in lines if line["tool"] == tool and line["ok"])
        print(f"\n{tool}: {dict(forms)}")
        for line in lines:
            if line["tool"] == tool and not line["ok"]:
                print(f"- `{line['name']}`: {line['why']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("results", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--every", type=int, default=1, help="take every n-th architecture, as a sample")
    parser.add_argument("--tools", nargs="*", default=list(TOOLS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "run":
        run(options.results, options.only, options.tools, options.every)
    else:
        table(options.results)


if __name__ == "__main__":
    main()
