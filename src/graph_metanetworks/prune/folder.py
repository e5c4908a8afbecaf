"""Save pruned networks and load them again, with or without the code that built the original."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, fx, nn

from graph_metanetworks._version import __version__
from graph_metanetworks.errors import PruneError
from graph_metanetworks.prune.api import Pruning
from graph_metanetworks.prune.batch import Batch, FixedBatch, enlarged
from graph_metanetworks.prune.double import CLOSE
from graph_metanetworks.prune.huggingface import save_configuration
from graph_metanetworks.prune.listing import read, written
from graph_metanetworks.prune.module import set_weight
from graph_metanetworks.prune.program import Program, ProgramBuilder, recording_of
from graph_metanetworks.storage.atomic import write_durably
from graph_metanetworks.testing.function import difference
from graph_metanetworks.trace.record.operation import tensors
from graph_metanetworks.trace.record.untouched import untouched

DESCRIPTION, WEIGHTS, PROGRAM, CONSTANTS = (
    "pruned.json",
    "weights.safetensors",
    "program.json",
    "constants.safetensors",
)


def save_pruned(small: nn.Module, folder: str | Path) -> None:
    """Save the result of `gmn.prune`, also after fine-tuning.

    The folder holds the weights, the sizes that a module of the original class needs, and, where the recorded
    operations can be used, a program that runs without the original code.
    """
    pruning = getattr(small, "pruning", None)
    if not isinstance(pruning, Pruning):
        raise PruneError("only the result of gmn.prune can be saved; use torch.save for other networks.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights, names = _untied(small)
    save_file(weights, folder / WEIGHTS)
    try:
        program, why = _program(small, pruning), ""
    except PruneError as error:
        program, why = None, str(error)
    if program is not None:
        write_durably(folder / PROGRAM, json.dumps(written(program)).encode())
        constants = {n: v for n, v in program.attributes.items() if n.startswith("constants.")}
        save_file({name: value.contiguous().clone() for name, value in constants.items()}, folder / CONSTANTS)
    description = {
        "version": __version__,
        "class": f"{type(small).__module__}:{type(small).__qualname__}",
        "form": pruning.form,
        "reason": pruning.reason,
        "parameters": pruning.parameters,
        "operations": pruning.operations,
        "proof": asdict(pruning.proof),
        "attributes": pruning.attributes,
        "tied": names,
        "no program": why,
        "learned": [name for name, _ in small.named_parameters(remove_duplicate=False)],
        "hugging face": pruning.form == "module"
        and save_configuration(small, pruning.plan, pruning.example, folder),
    }
    write_durably(folder / DESCRIPTION, json.dumps(description, indent=1).encode())


def load_pruned(folder: str | Path, build: Callable[[], nn.Module] | None = None) -> nn.Module:
    """Load a network that `save_pruned` or `gmn prune` saved.

    With `build`, a function that makes the original network, the result is a module of its class. Without, it
    is the program, which needs no code but this library.
    """
    folder = Path(folder)
    try:
        description = json.loads((folder / DESCRIPTION).read_text())
        weights = load_file(folder / WEIGHTS)
    except (OSError, ValueError) as error:
        raise PruneError(f"'{folder}' holds no pruned network that can be read: {error}") from error
    weights |= {name: weights[owner] for name, owner in description["tied"].items()}
    if build is not None:
        return _rebuilt(build(), weights, description, folder)
    if not (folder / PROGRAM).exists():
        raise PruneError(
            f"'{folder}' holds no program ({description['no program']}). Pass build=..., a function that "
            "makes the original network."
        )
    listing = json.loads((folder / PROGRAM).read_text())
    constants = load_file(folder / CONSTANTS) if (folder / CONSTANTS).exists() else {}
    learned = set(description["learned"])
    used = {node["target"] for node in listing["nodes"] if node["op"] == "get_attr"}
    layers = tuple(f"{name}." for name in listing["layers"])
    tensors = {
        name: nn.Parameter(value) if name in learned and value.is_floating_point() else value
        for name, value in (weights | constants).items()
        if name in used or name.startswith(layers or ("\0",))
    }
    return read(listing, tensors).module()


def _program(small: nn.Module, pruning: Pruning) -> Program:
    if isinstance(small, fx.GraphModule):
        attributes: dict[str, Any] = dict(small.state_dict(keep_vars=True))
        for node in small.graph.nodes:
            if node.op == "call_module":
                attributes[node.target] = small.get_submodule(node.target)
        return Program(small.graph, attributes, type(small).__name__)
    plan, state = pruning.plan, dict(small.state_dict(keep_vars=True))
    builder = ProgramBuilder(plan.graph, plan.subset, state, small.get_submodule)
    return _of_any_batch(small, builder, *pruning.example) or builder.build()


def _of_any_batch(small: nn.Module, builder: ProgramBuilder, args: tuple, kwargs: dict) -> Program | None:
    """Build a program that takes any batch, if it computes what the module does with another one."""
    recording = recording_of(builder.graph)
    try:
        batch = Batch.of(recording, small, args, kwargs)
        program = replace(builder, batch=batch).build()
    except FixedBatch:
        return None
    given, named = enlarged(batch.size, 2, args, kwargs)
    inputs, _ = enlarged(batch.size, 2, tuple(recording.matched(args, kwargs).values()), {})
    with untouched(small), torch.no_grad():
        expected, found = tensors(small(*given, **named)), tensors(program.run(*inputs))
    agrees = all(any(_are_close(own, other) for other in expected) for own in found)
    return program if agrees else None


def _are_close(own: Tensor, other: Tensor) -> bool:
    return own.shape == other.shape and difference([other], [own]) < CLOSE


def _rebuilt(
    model: nn.Module, weights: Mapping[str, Tensor], description: Mapping[str, Any], folder: Path
) -> nn.Module:
    if description["form"] == "program":
        raise PruneError(
            f"'{folder}' holds a program, because resizing layers was not enough ({description['reason']}). "
            "Load it without build."
        )
    missing = set(model.state_dict()) ^ set(weights)
    if missing:
        raise PruneError(
            f"build() returned a {type(model).__name__} that does not fit '{folder}': '{min(missing)}' is in "
            "one of them only. Pass the function that made the original network."
        )
    known: dict[int, Tensor] = {}  # tied weights stay tied
    for name, value in model.state_dict(keep_vars=True).items():
        if id(value) not in known:
            is_parameter = isinstance(value, nn.Parameter)
            new = weights[name].to(value.dtype)
            known[id(value)] = nn.Parameter(new, value.requires_grad) if is_parameter else new
        set_weight(model, name, known[id(value)])
    for path, changed in description["attributes"].items():
        module = model.get_submodule(path)
        for attribute, value in changed.items():
            old = getattr(module, attribute)
            setattr(module, attribute, tuple(value) if isinstance(old, tuple) else value)
    return model.eval()


def _untied(small: nn.Module) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return each tensor of a state dict once, and the owner of further names."""
    weights: dict[str, Tensor] = {}
    owners: dict[int, str] = {}
    names: dict[str, str] = {}
    for name, value in small.state_dict(keep_vars=True).items():
        if not isinstance(value, Tensor) or name.startswith("constants."):
            continue
        if id(value) in owners:
            names[name] = owners[id(value)]
            continue
        owners[id(value)] = name
        weights[name] = value.detach().cpu().contiguous().clone(memory_format=torch.contiguous_format)
    return weights, names
