"""Rows of tables: of each tensor by its name, or else of its kind of edges."""

from __future__ import annotations

from collections.abc import Sequence

from graph_metanetworks.graph.parts import EdgeBlock
from graph_metanetworks.graph.vocabulary import UnknownKind, Vocabulary

__all__ = ["UnknownKind", "Vocabulary", "tensor_name", "tensor_rows"]


def tensor_name(block: EdgeBlock) -> str:
    """Return the name of a tensor in tables: its parameter and the kind of its edges.

    Queries, keys and values may be parts of one parameter, and layers of one name may be of several kinds.
    """
    return f"{block.parameter} ({block.kind})"


def tensor_rows(
    tensors: Sequence[str], blocks: Sequence[EdgeBlock], kinds: Sequence[int], num_kinds: int
) -> list[int]:
    """Return the row of each block in a table of kinds, then tensors: that of its tensor, or of its kind.

    The name of a tensor may leave out the kind.
    """
    known = {name: row for row, name in enumerate(tensors, num_kinds)}
    return [
        known.get(tensor_name(block), known.get(block.parameter or "", kind))
        for block, kind in zip(blocks, kinds, strict=True)
    ]
