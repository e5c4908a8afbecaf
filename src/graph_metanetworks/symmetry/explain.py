"""Explain the group as text: what is permuted, what moves with it, what is fixed and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from math import log
from textwrap import wrap
from typing import TYPE_CHECKING

from graph_metanetworks.symmetry.factors import Factor, Fixed, Place
from graph_metanetworks.table import WIDTH, Table, listed

if TYPE_CHECKING:
    from graph_metanetworks.graph.parts import NodeGroup
    from graph_metanetworks.symmetry.group import Symmetry

SMALL = log(1e6)  # below this the order is printed exactly
NO_BREAK = "\u00a0"
SHOWN = 4  # names in a list


def explain(symmetry: Symmetry) -> str:
    """Return the factors, those within heads listed below their heads, and what is fixed.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> print(explain(gmn.trace(model, torch.randn(1, 2)).symmetry))
    6 permutations of neurons leave the function unchanged (log order 1.792).
    <BLANKLINE>
    Permuted, each independently of the others:
      3 channels: 0
        weights (dimension): 0.weight (0), 0.bias (0), 2.weight (1)
    <BLANKLINE>
    Fixed:
      2
        why: output
      input
        why: input
    """
    parts = [_header(symmetry)]
    if symmetry.factors:
        parts.append("\n".join(["Permuted, each independently of the others:", *_permuted(symmetry)]))
    if symmetry.fixed:
        parts.append("\n".join(["Fixed:", *_fixed(symmetry.fixed)]))
    return "\n\n".join(parts)


def explain_html(symmetry: Symmetry, max_rows: int = 12) -> str:
    """Return the same for notebooks: the order, and tables that unfold."""
    permuted = Table(
        f"Permuted: {len(symmetry.factors):,}",
        ("size", "copies", "kind", "neurons of", "weights"),
        [
            (
                f"{factor.size:,}",
                f"{factor.copies:,}",
                factor.kind,
                listed(map(_name, factor.groups), SHOWN),
                listed(map(_place, factor.parameters), SHOWN),
            )
            for factor in symmetry.factors
        ],
        right=("size", "copies"),
    )
    fixed = Table(
        f"Fixed: {len(symmetry.fixed):,}",
        ("neurons of", "why"),
        [
            (listed([*map(_name, own.groups), *map(_place, own.parameters)], SHOWN), own.reason or "unknown")
            for own in symmetry.fixed
        ],
    )
    tables = "".join(table.html(max_rows, folded=True) for table in (permuted, fixed) if table.rows)
    return f"<div><p>{escape(_header(symmetry))}</p>{tables}</div>"


def order_text(symmetry: Symmetry) -> str:
    """Return the number of permutations: exact if it is small, else a power of ten."""
    log_order = symmetry.log_order
    return f"{symmetry.order():,}" if log_order < SMALL else f"about 10^{log_order / log(10):,.1f}"


def _header(symmetry: Symmetry) -> str:
    if not symmetry.factors:
        return "No permutation of neurons leaves the function unchanged: every neuron is fixed."
    return (
        f"{order_text(symmetry)} permutations of neurons leave the function unchanged "
        f"(log order {symmetry.log_order:,.4g})."
    )


def _permuted(symmetry: Symmetry) -> Iterator[str]:
    """Yield each factor, followed by those that are permuted within it."""

    def tree(outer: tuple[Factor, ...]) -> Iterator[str]:
        for factor in symmetry.factors:
            if factor.within == outer:
                yield from _lines(factor, 1 + len(outer))
                yield from tree((*outer, factor))

    yield from tree(())


def _lines(factor: Factor, depth: int) -> Iterator[str]:
    what = factor.kind
    if factor.within:
        what = f"in each of {factor.copies:,} {factor.within[0].kind}"
    elif factor.copies > 1:
        what = f"{factor.kind} in each of {factor.copies:,} places"
    names = listed(map(_name, factor.groups), SHOWN)
    yield _wrapped(f"{factor.size:,} {what}: {names or 'none'}", depth)
    places = listed(map(_place, factor.parameters), SHOWN)
    yield _wrapped(f"weights (dimension): {places or 'none'}", depth + 1)


def _fixed(fixed: Iterable[Fixed]) -> Iterator[str]:
    for own in fixed:
        names = listed([*map(_name, own.groups), *map(_place, own.parameters)], SHOWN)
        yield _wrapped(names, 1)
        yield _wrapped(f"why: {own.reason or 'unknown'}", 2)


def _wrapped(text: str, depth: int) -> str:
    indent = "  " * depth
    lines = wrap(text, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}    ")
    return "\n".join(lines).replace(NO_BREAK, " ")


def _name(group: NodeGroup) -> str:
    return group.name or f"the {group.kind} nodes"


def _place(place: Place) -> str:
    name, dimension = place
    return f"{name}{NO_BREAK}({dimension})"
