"""Summarise a parameter graph: the text of `graph.summary()` and its HTML in notebooks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING

from graph_metanetworks.graph.block_ends import BlockEnds
from graph_metanetworks.graph.parts import EdgeBlock, NodeGroup
from graph_metanetworks.table import WIDTH, Table, listed

if TYPE_CHECKING:
    from graph_metanetworks.graph.parameter_graph import ParameterGraph

LISTED_AXES = 8


def summary(graph: ParameterGraph, max_rows: int = 40) -> str:
    """Return node groups, edge blocks, kinds and symmetry as tables of at most `max_rows` rows.

    >>> import torch, graph_metanetworks as gmn
    >>> print(summary(gmn.trace(torch.nn.Linear(3, 2), torch.randn(1, 3))))    # doctest: +ELLIPSIS
    Linear: 6 nodes, 8 edges, 8 parameters
    symmetry: none, every neuron is fixed
    <BLANKLINE>
    Node groups
      name    kind         size  depth  activation
      input   input           3      0
      Linear  output          2      1
      Linear  linear bias     1      0
    ...
    """
    parts = [_header(graph)]
    parts += [table.text(max_rows) for table in _tables(graph)]
    parts += [
        "\n".join(wrap(note, WIDTH, subsequent_indent="  ", break_on_hyphens=False)) for note in _notes(graph)
    ]
    return "\n\n".join(parts)


def summary_html(graph: ParameterGraph, max_rows: int = 40) -> str:
    """Return the summary as HTML, with each table hidden behind its title."""
    header = "<br>".join(map(escape, _header(graph).splitlines()))
    tables = "".join(table.html(max_rows, folded=True) for table in _tables(graph))
    notes = "".join(f"<p>{escape(note)}</p>" for note in _notes(graph))
    return f"<div><p>{header}</p>{tables}{notes}</div>"


def group_name(graph: ParameterGraph, group: NodeGroup) -> str:
    """Return the module path of a group; the root module goes by its class."""
    return group.name or graph.name


def block_value(block: EdgeBlock) -> str:
    """Return where the values on a block's edges come from."""
    if block.parameter is None:
        return "structural"
    return "owner" if block.is_owner else "alias"


def _header(graph: ParameterGraph) -> str:
    structural = sum(block.num_edges for block in graph.blocks if block.parameter is None)
    counts = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {graph.num_parameters:,} parameters"
    return (
        f"{graph.name}: {counts}"
        + (f", {structural:,} structural edges" if structural else "")
        + (f"\nsymmetry: {_order(graph)}")
    )


def _order(graph: ParameterGraph) -> str:
    axes = len(graph.symmetry.variables)
    if not axes:
        return "none, every neuron is fixed"
    order = graph.symmetry.order_text
    logarithm = graph.symmetry.log_order
    return f"{order} permutations of neurons (log order {logarithm:,.4g}), {axes:,} free {_plural(axes)}"


def _plural(count: int) -> str:
    return "axis" if count == 1 else "axes"


def _tables(graph: ParameterGraph) -> Iterator[Table]:
    labels, ends = _labels(graph), graph.block_ends
    yield Table(
        "Node groups",
        ("name", "kind", "size", "depth", "activation"),
        [(group_name(graph, g), g.kind, f"{g.size:,}", f"{g.depth:,}", g.activation) for g in graph.groups],
        right=("size", "depth"),
    )
    yield Table(
        "Edge blocks",
        ("parameter", "kind", "shape", "source", "target", "value"),
        [_block_row(block, ends, labels) for block in graph.blocks],
    )
    yield _kinds("Node kinds", "nodes", ((g.kind, g.size) for g in graph.groups))
    yield _kinds("Edge kinds", "edges", ((b.kind, b.num_edges) for b in graph.blocks))
    if graph.symmetry.variables:
        yield _free_axes(graph)


def _labels(graph: ParameterGraph) -> dict[NodeGroup, str]:
    """Name each group, with its kind where a module has several."""
    count = Counter(group.name for group in graph.groups if group.size > 1)
    return {
        group: f"{group_name(graph, group)} {group.kind}"
        if count[group.name] > 1
        else group_name(graph, group)
        for group in graph.groups
    }


def _block_row(block: EdgeBlock, ends: BlockEnds, labels: Mapping[NodeGroup, str]) -> tuple[str, ...]:
    sources, targets = ends.sources(block), ends.targets(block)
    own = ends.parameter_nodes.issuperset(sources)
    source = "own node" if own else listed([labels[group] for group in sources], 1)
    target = listed([labels[group] for group in targets], 1)
    shape = "×".join(map(str, block.shape))
    return block.parameter or "", block.kind, shape, source, target, block_value(block)


def _kinds(title: str, unit: str, counted: Iterable[tuple[str, int]]) -> Table:
    found: dict[str, list[int]] = defaultdict(list)
    for kind, count in counted:
        found[kind].append(count)
    many = "groups" if unit == "nodes" else "blocks"
    rows = [(kind, f"{len(counts):,}", f"{sum(counts):,}") for kind, counts in found.items()]
    return Table(title, ("kind", many, unit), rows, right=(many, unit))


def _free_axes(graph: ParameterGraph) -> Table:
    """Tabulate the axes that contribute most to the order, and the groups whose neurons they permute."""
    axes = graph.symmetry.factors
    rows = [
        (
            f"{axis.size:,}",
            f"{axis.copies:,}",
            f"{axis.log_order:,.1f}",
            listed(group_name(graph, group) for group in axis.groups),
        )
        for axis in axes[:LISTED_AXES]
    ]
    left = len(axes) - LISTED_AXES
    if left > 0:
        rest = sum(axis.log_order for axis in axes[LISTED_AXES:])
        rows.append(("…", "", f"{rest:,.1f}", f"{left:,} more {_plural(left)}"))
    header = ("size", "copies", "log order", "permutes the neurons of")
    return Table("Free axes", header, rows, right=header[:3])


def _notes(graph: ParameterGraph) -> Iterator[str]:
    tied = [" = ".join((parameter.name, *parameter.tied)) for parameter in graph.parameters if parameter.tied]
    if tied:
        yield f"Tied: {listed(tied)}."
    if graph.unseen:
        yield (
            "On no edge, because they are not floating-point parameters or buffers, although the output may "
            f"depend on them: {listed(sorted(graph.unseen))}. Symmetries hold them fixed."
        )
    unused = graph.ignored - graph.unseen
    if unused:
        yield f"On no edge, because the output does not depend on them: {listed(sorted(unused))}."
    for note in graph.notes:
        yield f"Pinned: {note}"
