"""Names of weights in a file and in a network: wrappers add prefixes, and releases rename parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

WRAPPERS = ("module.", "_orig_mod.", "model.")  # of DataParallel, torch.compile, Lightning modules
PROBES = 16  # names that prefixes are looked for with
CHANGED = (  # endings that PyTorch and transformers have renamed
    (".weight_g", ".parametrizations.weight.original0"),
    (".weight_v", ".parametrizations.weight.original1"),
    (".gamma", ".weight"),
    (".beta", ".bias"),
)


@dataclass(frozen=True)
class Renaming:
    """Remove a prefix and wrappers inside the name, then add another prefix."""

    remove: str = ""
    add: str = ""
    inner: tuple[str, ...] = ()  # parts to remove wherever they are

    def __call__(self, name: str) -> str | None:
        """Return the new name; None if the name does not have the prefix."""
        if not name.startswith(self.remove):
            return None
        bare = name.removeprefix(self.remove)
        for part in self.inner:
            bare = f".{bare}".replace(f".{part}", ".")[1:]
        return self.add + bare

    @property
    def is_usual(self) -> bool:
        """Whether only wrappers are removed."""
        rest = self.remove
        for wrapper in WRAPPERS:
            rest = rest.replace(wrapper, "")
        return not rest

    @property
    def note(self) -> str:
        removed = [f"stripped '{part}'" for part in (self.remove, *self.inner) if part]
        return ", ".join([*removed, *([f"added '{self.add}'"] if self.add else [])])


def without_wrappers(names: Collection[str]) -> Renaming:
    """Return what strips the wrappers that all names have.

    >>> without_wrappers(["module.model.a.weight", "module.model.b.weight"]).remove
    'module.model.'
    """
    remove = ""
    while names and (found := next((w for w in WRAPPERS if _all_start(names, remove + w)), None)):
        remove += found
    inner = [part for part in ("_orig_mod.",) if any(f".{part}" in name[len(remove) :] for name in names)]
    return Renaming(remove, inner=tuple(inner))


def renamings(names: Collection[str], wanted: Collection[str]) -> list[Renaming]:
    """Return the ways to make the names of a file those of a network, the most usual first."""
    inner = tuple(
        part
        for part in ("_orig_mod.", "module.")
        if any(f".{part}" in f".{name}" for name in names)
        and not any(f".{part}" in f".{name}" for name in wanted)
    )
    bare = [Renaming(inner=inner)(name) or "" for name in names]
    removed = _prefixes(bare, wanted)
    added = _prefixes(wanted, bare)
    ways = [Renaming(), Renaming(inner=inner)]
    ways += [Renaming(prefix, inner=inner) for prefix in removed]
    ways += [Renaming(add=prefix, inner=inner) for prefix in added]
    both = [Renaming(w, prefix, inner) for w in WRAPPERS for prefix in _prefixes(wanted, _strip(bare, w))]
    return list(dict.fromkeys(sorted([*ways, *both], key=lambda way: not way.is_usual)))


def changed(name: str, wanted: Collection[str]) -> str:
    """Return the name that a parameter has had since a release renamed it.

    >>> changed("norm.gamma", {"norm.weight"})
    'norm.weight'
    """
    if name in wanted:
        return name
    for pairs in (CHANGED, [(new, old) for old, new in CHANGED]):
        for old, new in pairs:
            if name.endswith(old) and name.removesuffix(old) + new in wanted:
                return name.removesuffix(old) + new
    return name


def _prefixes(longer: Collection[str], shorter: Collection[str]) -> list[str]:
    """Return the prefixes, ending in a dot, that many of the longer names have before a shorter one."""
    every = list(shorter)
    probes = {f".{name}" for name in every[:: max(1, len(every) // PROBES)]}
    found = Counter(name[: 1 - len(probe)] for name in longer for probe in probes if name.endswith(probe))
    return [prefix for prefix, _ in found.most_common(8)]


def _strip(names: Iterable[str], prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]


def _all_start(names: Iterable[str], prefix: str) -> bool:
    return all(name.startswith(prefix) and name != prefix for name in names)


def apply(way: Renaming, names: Iterable[str], wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    """Return pairs of a wanted name and its name in the file."""
    for name in names:
        new = way(name)
        if new is not None and (final := changed(new, wanted)) in wanted:
            yield final, name
