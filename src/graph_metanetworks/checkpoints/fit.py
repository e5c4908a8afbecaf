"""Fit the weights of a file to a network: names, tied weights, and entries that one of them does not have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from graph_metanetworks.checkpoints import renaming
from graph_metanetworks.checkpoints.checkpoint import Checkpoint, Source, count, listed
from graph_metanetworks.checkpoints.inside import StateDict
from graph_metanetworks.checkpoints.mismatch import Mismatch
from graph_metanetworks.checkpoints.renaming import Renaming
from graph_metanetworks.errors import StateDictMismatch

COUNTER = "num_batches_tracked"  # of batch norms, which old files do not have and no output depends on
CONSTANTS = ("inv_freq", "position_ids", "masked_bias", "relative_position_index", COUNTER)


@dataclass(frozen=True, eq=False)
class Expected:
    """The weights that a network expects."""

    network: nn.Module

    @cached_property
    def tensors(self) -> dict[str, Tensor]:
        return {name: x for name, x in self.network.state_dict().items() if isinstance(x, Tensor)}

    @cached_property
    def tied(self) -> dict[str, list[str]]:
        """Names of one parameter, by each of them: a file may have only one."""
        names: dict[int, list[str]] = {}
        for name, parameter in self.network.named_parameters(remove_duplicate=False):
            names.setdefault(id(parameter), []).append(name)
        return {name: group for group in names.values() for name in group}

    def ignores(self, name: str, value: Tensor) -> bool:
        """Return whether an entry that the network does not have is a counter, an index or a constant."""
        if not value.is_floating_point() or name.endswith(CONSTANTS):
            return True
        patterns = getattr(self.network, "_keys_to_ignore_on_load_unexpected", None) or ()  # of transformers
        return any(re.search(pattern, name) for pattern in patterns)


@dataclass(frozen=True)
class Fit:
    """The names of a file that become names of a network, by one way of renaming."""

    found: StateDict
    way: Renaming
    names: Mapping[str, str]  # of the network, and those of the file
    missing: tuple[str, ...]
    extra: tuple[str, ...]  # of the file
    misshapen: tuple[str, ...]  # of the network

    @property
    def quality(self) -> tuple[bool, int, int, int]:
        """The larger the better."""
        fits = not self.missing and not self.misshapen
        return fits, len(self.names) - 2 * len(self.misshapen), -len(self.extra), -self.found.is_average


def fit(
    found: Sequence[StateDict], network: nn.Module, source: Source, *, ignore_extra: bool = False
) -> Checkpoint:
    """Return the state dict of a file that fits the network best, under the network's names."""
    expected = Expected(network)
    fits = [_fitted(one, way, expected) for one in found for way in _ways(one, expected)]
    best = max(fits, key=lambda one: one.quality)
    _refuse_ambiguity(best, fits, source)
    saved = best.found.weights
    dropped = [name for name in best.extra if not expected.ignores(name, saved[name])]
    mismatch = Mismatch(
        file={name: tuple(saved[name].shape) for name in saved},
        network={name: tuple(x.shape) for name, x in expected.tensors.items()},
        names=best.names,
        missing=best.missing,
        extra=() if ignore_extra else tuple(dropped),
        misshapen=best.misshapen,
    )
    if mismatch:
        raise StateDictMismatch(f"'{source.path}' does not fit {type(network).__name__}: {mismatch.text()}")
    weights, notes = {}, [best.way.note] if best.way.note else []
    filled = []
    for name, default in expected.tensors.items():
        if name in best.names:
            weights[name] = saved[best.names[name]]
        else:
            filled.append(name)
            weights[name] = torch.zeros_like(default) if default.is_meta else default.detach().clone()
    ignored = [name for name in best.extra if name not in dropped]
    if changed := [
        old for new, old in best.names.items() if best.way(old) != new and _last(old) != _last(new)
    ]:
        notes.append(f"renamed {count(changed, 'entry').replace('entrys', 'entries')}, such as {changed[0]}")
    if ignored:
        notes.append(f"left out {listed(ignored, 3)}, which hold no weights")
    others = [one for one in found if one is not best.found]
    if others:
        notes.append("it also has " + ", ".join(f"'{'.'.join(one.key)}'" for one in others) + " (--key)")
    source = replace(source, key=best.found.key, names=dict(best.names), dropped=tuple(dropped))
    return Checkpoint(weights, source.noting(*notes))


def _ways(found: StateDict, expected: Expected) -> list[Renaming]:
    if set(expected.tensors) == set(found.weights):
        return [Renaming()]
    return renaming.renamings(found.weights, expected.tensors)


def _fitted(found: StateDict, way: Renaming, expected: Expected) -> Fit:
    names = dict(renaming.apply(way, found.weights, expected.tensors))
    for name in [name for name in expected.tensors if name not in names]:
        present = [names[twin] for twin in expected.tied.get(name, ()) if twin in names]
        if present:
            names[name] = present[0]
    used = set(names.values())
    return Fit(
        found,
        way,
        names,
        missing=tuple(n for n in expected.tensors if n not in names and not n.endswith(COUNTER)),
        extra=tuple(name for name in found.weights if name not in used),
        misshapen=tuple(
            n for n, old in names.items() if found.weights[old].shape != expected.tensors[n].shape
        ),
    )


def _refuse_ambiguity(best: Fit, fits: Sequence[Fit], source: Source) -> None:
    """Refuse to choose between a student and its teacher."""
    if not best.quality[0] or best.way.is_usual:
        return
    same = [one for one in fits if one.found is best.found and one.quality[0] and not one.way.is_usual]
    prefixes = sorted({one.way.remove for one in same if one.names != best.names} | {best.way.remove})
    if len(prefixes) > 1:
        choices = " and ".join(f"'{prefix}'" for prefix in prefixes)
        raise StateDictMismatch(
            f"'{source.path}' has several sets of weights that fit, under {choices}. Choose one: "
            f"--key {prefixes[0].rstrip('.')}."
        )


def _last(name: str) -> str:
    return name.rpartition(".")[2]
