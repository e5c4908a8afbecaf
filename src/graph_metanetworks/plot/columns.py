"""Arrange the boxes of an outline in columns by longest path, wrapped to rows like text."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import ceil

from graph_metanetworks.plot.outline import Outline

PER_ROW = 6  # columns in a row of boxes
SWEEPS = 4


@dataclass(frozen=True, slots=True)
class BoxPosition:
    row: int
    column: int
    slot: float  # vertical position in boxes: 0 is the middle of the row


def arrange(outline: Outline) -> list[BoxPosition]:
    """Return a position for each box."""
    columns = _columns(outline)
    stacks: dict[int, list[int]] = defaultdict(list)
    for box, column in enumerate(columns):
        stacks[column].append(box)
    slot = _order(outline, columns, stacks)
    row_of = _rows(outline, columns)
    start = {row: min(c for c in stacks if row_of[c] == row) for row in set(row_of.values())}
    return [BoxPosition(row_of[c], c - start[row_of[c]], slot[box]) for box, c in enumerate(columns)]


def _columns(outline: Outline) -> list[int]:
    """Assign columns by longest path from the left; a box that nothing feeds stands next to its target."""
    # boxes are ordered by depth, so an arrow to an earlier box closes a cycle and does not count
    forward = [(arrow.source, arrow.target) for arrow in outline.arrows if arrow.source < arrow.target]
    column = [0] * len(outline.boxes)
    for source, target in sorted(forward):
        column[target] = max(column[target], column[source] + 1)
    fed = {target for _, target in forward}
    after: dict[int, list[int]] = defaultdict(list)
    for source, target in forward:
        after[source].append(column[target])
    for box, targets in after.items():
        if box not in fed and outline.boxes[box].group.kind != "input":
            column[box] = min(targets) - 1
    used = sorted(set(column))
    return [used.index(c) for c in column]


def _order(outline: Outline, columns: list[int], stacks: dict[int, list[int]]) -> dict[int, float]:
    """Sort each column by the mean height of its neighbours, in sweeps, so that few arrows cross."""
    neighbours: dict[int, list[int]] = defaultdict(list)
    for arrow in outline.arrows:
        if columns[arrow.source] != columns[arrow.target]:
            neighbours[arrow.source].append(arrow.target)
            neighbours[arrow.target].append(arrow.source)
    slot = {box: place for stack in stacks.values() for box, place in zip(stack, _spread(stack), strict=True)}
    for sweep in range(SWEEPS):
        for column in sorted(stacks, reverse=sweep % 2 == 1):
            near = {
                box: [slot[other] for other in neighbours[box] if abs(columns[other] - column) == 1]
                or [slot[box]]
                for box in stacks[column]
            }
            stacks[column].sort(key=lambda box: -sum(near[box]) / len(near[box]))
            slot.update(zip(stacks[column], _spread(stacks[column]), strict=True))
    return slot


def _spread(stack: list[int]) -> list[float]:
    """Return slots from the top down, centred on the middle."""
    return [(len(stack) - 1) / 2 - index for index in range(len(stack))]


def _rows(outline: Outline, columns: list[int]) -> dict[int, int]:
    """Return the row of each column: rows of about equal length that break where few arrows cross."""
    total = max(columns) + 1
    crossing = [
        sum(columns[a.source] < cut <= columns[a.target] for a in outline.arrows) for cut in range(total)
    ]
    even = total / ceil(total / PER_ROW)
    best: list[tuple[float, list[int]]] = [(0.0, [])]  # cost and breaks of the first n columns
    for end in range(1, total + 1):
        best.append(
            min(
                (best[start][0] + crossing[start] + (end - start - even) ** 2, [*best[start][1], start])
                for start in range(max(0, end - PER_ROW), end)
            )
        )
    breaks = best[total][1]
    return {column: sum(start <= column for start in breaks) - 1 for column in range(total)}
