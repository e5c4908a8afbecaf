"""Permutation specifications in the forms that other tools take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graph_metanetworks.errors import UnsupportedNetwork
from graph_metanetworks.symmetry.axes import Axis, is_pinned, leaves

if TYPE_CHECKING:
    from graph_metanetworks.symmetry.group import Symmetry

FORMATS = ("git-re-basin", "torch-pruning", "json")


def export(symmetry: Symmetry, form: str) -> str:
    """Return a specification as JSON: of "git-re-basin", "torch-pruning" or of ours."""
    made = {"git-re-basin": git_re_basin, "torch-pruning": torch_pruning, "json": factors}
    if form not in made:
        raise ValueError(f"there is no format {form!r}; choose one of {', '.join(FORMATS)}.")
    return json.dumps(made[form](symmetry), indent=1)


def git_re_basin(symmetry: Symmetry) -> dict[str, list[str | None]]:
    """Return `axes_to_perm` of Git Re-Basin: the permutation along each dimension of each parameter, or None.

    It has one permutation for each dimension. A dimension that is a product or a concatenation of several
    axes cannot be expressed, and is an error.
    """
    names = _permutations(symmetry)
    return {
        name: [_only(names, dim, f"'{name}' ({index})") for index, dim in enumerate(dims)]
        for name, dims in symmetry.parameters.items()
    }


def torch_pruning(symmetry: Symmetry) -> list[dict[str, Any]]:
    """Return groups as those of Torch-Pruning: layers whose output or input channels are pruned together."""
    return [
        {
            "channels": factor.size,
            "copies": factor.copies,
            "layers": [
                {"module": name.rpartition(".")[0], "parameter": name.rpartition(".")[2], "dim": dim}
                for name, dim in factor.parameters
            ],
        }
        for factor in symmetry.factors
        if factor.parameters
    ]


def factors(symmetry: Symmetry) -> list[dict[str, Any]]:
    """Return size, number of copies, kind, and dimensions of parameters of every factor."""
    return [
        {
            "size": factor.size,
            "copies": factor.copies,
            "kind": factor.kind,
            "parameters": [[name, dim] for name, dim in factor.parameters],
            "nodes": [group.name for group in factor.groups],
        }
        for factor in symmetry.factors
    ]


def _permutations(symmetry: Symmetry) -> dict[Axis, str]:
    """Name the permutations in the order of the parameters that they act on first: P_0, P_1, ..."""
    found: dict[Axis, str] = {}
    for dims in symmetry.parameters.values():
        for dim in dims:
            for axis in leaves(dim):
                if axis.form is None and not axis.pinned and axis.size > 1:
                    found.setdefault(axis, f"P_{len(found)}")
    return found


def _only(names: Mapping[Axis, str], dim: list[Axis], where: str) -> str | None:
    if is_pinned(dim):
        return None
    free = [axis for axis in leaves(dim) if not axis.pinned and axis.size > 1]
    if len(leaves(dim)) != 1 or free[0] not in names:
        raise UnsupportedNetwork(
            f"{where} is permuted in several parts (heads, groups, concatenated or flattened channels), "
            "which Git Re-Basin cannot express. Export as json instead."
        )
    return names[free[0]]
