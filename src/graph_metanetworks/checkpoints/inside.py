"""Find the state dict inside what a training script saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from graph_metanetworks.checkpoints.checkpoint import count, listed
from graph_metanetworks.errors import CheckpointError

# Keys under which training scripts save weights, the likeliest first.
PREFERRED = (
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "net",
    "network",
    "module",
    "params",
    "weights",
    "state",
)
AVERAGES = ("ema", "average", "shadow", "swa")  # parts of the keys of averaged weights
OTHERS = ("optim", "sched", "scaler", "rng", "callback", "loop", "amp_")  # parts of keys of no weights
CONFIGS = ("hyper_parameters", "config", "cfg", "hparams", "args", "model_args", "model_config")
DEPTH = 4


@dataclass(frozen=True)
class StateDict:
    """Tensors by name, and the keys under which they were found."""

    key: tuple[str, ...]
    weights: Mapping[str, Tensor]

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The likelier these are the network's weights, the smaller."""
        last = self.key[-1].lower() if self.key else "state_dict"
        preferred = PREFERRED.index(last) if last in PREFERRED else len(PREFERRED)
        return self.is_average, preferred, -len(self.weights)

    @property
    def is_average(self) -> bool:
        return any(part in key.lower() for key in self.key for part in AVERAGES)

    @property
    def is_expected(self) -> bool:
        return not self.key or self.key[-1].lower() in PREFERRED


def state_dicts(content: Any, key: str | None, path: Path) -> list[StateDict]:
    """Return the state dicts in a file, or under a key of it, the likeliest first."""
    start, inner = ((), content) if key is None else _under(content, key, path)
    found = sorted(_walk(inner, start), key=lambda one: one.rank)
    if not found:
        has = f"a dictionary of {listed(map(str, inner))}" if isinstance(inner, dict) else _kind(inner)
        raise CheckpointError(
            f"'{path}' holds no state dict{f' under {key!r}' if key else ''}: it holds {has}."
        )
    return found


def likeliest(found: Sequence[StateDict], path: Path) -> StateDict:
    """Return the state dict to read where no network decides, unless that would be a guess."""
    own = [one for one in found if not one.is_average] or found
    if len(own) > 1 and not own[0].is_expected:
        choices = ", ".join(f"{'.'.join(one.key)} ({count(one.weights, 'tensor')})" for one in own)
        raise CheckpointError(f"'{path}' holds several state dicts: {choices}. Choose one with --key.")
    return own[0]


def saved_config(content: Any) -> dict[str, Any]:
    """Return what a file says about its network, such as the hyper-parameters that Lightning saves."""
    if not isinstance(content, dict):
        return {}
    return next((dict(content[name]) for name in CONFIGS if isinstance(content.get(name), dict)), {})


def _walk(content: Any, key: tuple[str, ...]) -> Iterator[StateDict]:
    if not isinstance(content, Mapping) or len(key) > DEPTH:
        return
    inner = [
        found
        for name, value in content.items()
        if isinstance(name, str) and not any(part in name.lower() for part in OTHERS)
        for found in _walk(value, (*key, name))
    ]
    own = {name: value for name, value in content.items() if isinstance(value, Tensor)}
    most = max((len(one.weights) for one in inner), default=0)
    if all(isinstance(name, str) for name in own) and len(own) > most:
        yield StateDict(key, own)  # what is nested in it is no more than a detail
    else:
        yield from inner


def _under(content: Any, key: str, path: Path, *, above: tuple[str, ...] = ()) -> tuple[tuple[str, ...], Any]:
    """Follow a key, whose parts are separated by dots, into nested dictionaries, or take it as a prefix."""
    if isinstance(content, Mapping):
        if key in content:
            return (*above, key), content[key]
        for name in content:
            if isinstance(name, str) and key.startswith(f"{name}.") and isinstance(content[name], Mapping):
                return _under(content[name], key.removeprefix(f"{name}."), path, above=(*above, name))
        start = f"{key}."
        own = {name[len(start) :]: v for name, v in content.items() if str(name).startswith(start)}
        if own:
            return (*above, key), own
    has = listed(map(str, content)) if isinstance(content, Mapping) else _kind(content)
    where = f" under '{'.'.join(above)}'" if above else ""
    raise CheckpointError(f"'{path}' has no key '{key}'{where}. It has {has}.")


def _kind(content: Any) -> str:
    return f"a {type(content).__name__}"
