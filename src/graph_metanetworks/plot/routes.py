"""Route arrows between boxes: straight across a gap, or along the channel above a row of boxes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from matplotlib.path import Path

from graph_metanetworks.plot.columns import BoxPosition
from graph_metanetworks.plot.outline import Arrow

BOX, TALL, GAP = 1.36, 0.66, 0.5  # inches: width and height of a box, width of the gap between columns
STACK = TALL + 0.2  # from one box to the next in a column
LANE = 0.085  # between parallel lines in a channel
PORT = 0.1  # between arrows that leave or enter the same side of a box
CORNER = 0.06  # radius
SIDE = 0.45  # space left and right of all boxes for arrows that do not go straight

Point = tuple[float, float]


@dataclass
class Lanes:
    """Parallel lines in one channel: each takes the first lane that is free over its length."""

    taken: list[list[tuple[float, float]]] = field(default_factory=list)

    def take(self, start: float, end: float) -> int:
        low, high = min(start, end) - LANE, max(start, end) + LANE
        for number, lane in enumerate(self.taken):
            if all(high < left or low > right for left, right in lane):
                lane.append((low, high))
                return number
        self.taken.append([(low, high)])
        return len(self.taken) - 1


class Router:
    """Positions in inches: the origin is the upper left corner, y points up (so boxes have y < 0)."""

    def __init__(self, places: Sequence[BoxPosition], arrows: Sequence[Arrow]):
        self.places, self.arrows = places, arrows
        self.rows = 1 + max(place.row for place in places)
        self.half = [max(abs(p.slot) for p in places if p.row == row) for row in range(self.rows)]
        self.horizontal = [Lanes() for _ in range(self.rows + 1)]
        self.vertical: dict[int, int] = defaultdict(int)
        self.lanes = {i: self._lane(arrow) for i, arrow in enumerate(arrows) if not self._is_direct(arrow)}
        self.side = SIDE if self.lanes else 0.0
        self.middle = self._row_heights()
        self.ports = self._ports()

    @property
    def width(self) -> float:
        columns = (1 + max(place.column for place in self.places)) * (BOX + GAP) - GAP
        return columns + 2 * self.side

    @property
    def height(self) -> float:
        return -self._row_bottom(self.rows - 1) + 0.1

    def box(self, number: int) -> Point:
        """Return the centre of a box."""
        place = self.places[number]
        return self.side + place.column * (BOX + GAP) + BOX / 2, self.middle[place.row] + place.slot * STACK

    def path(self, number: int) -> Path:
        arrow = self.arrows[number]
        start, end = self._start(number), self._end(number)
        if self._is_direct(arrow):
            return _swing(start, end)
        if arrow.source == arrow.target:
            return self._loop(arrow.source)
        out, back, lane = self.lanes[number]
        channel = self._channel(arrow)
        y = self._channel_top(channel) - (lane + 1) * LANE
        out_x = start[0] + 0.08 + (out % 5) * 0.07
        back_x = end[0] - 0.14 - (back % 5) * 0.07
        return _rounded([start, (out_x, start[1]), (out_x, y), (back_x, y), (back_x, end[1]), end])

    def _is_direct(self, arrow: Arrow) -> bool:
        source, target = self.places[arrow.source], self.places[arrow.target]
        return source.row == target.row and target.column == source.column + 1

    def _channel(self, arrow: Arrow) -> int:
        """Return the number of an arrow's channel; channel `r` lies above row `r`."""
        source, target = self.places[arrow.source], self.places[arrow.target]
        return source.row + 1 if target.row > source.row else source.row

    def _lane(self, arrow: Arrow) -> tuple[int, int, int]:
        source, target = self.places[arrow.source], self.places[arrow.target]
        out, back = source.column + 1, target.column
        lane = self.horizontal[self._channel(arrow)].take(out * (BOX + GAP), back * (BOX + GAP))
        self.vertical[out] += 1
        self.vertical[-1 - back] += 1
        return self.vertical[out], self.vertical[-1 - back], lane

    def _row_heights(self) -> list[float]:
        middle, top = [], 0.0
        for row in range(self.rows):
            channel = (len(self.horizontal[row].taken) + 1) * LANE + 0.12
            middle.append(top - channel - self.half[row] * STACK - TALL / 2)
            top = middle[row] - self.half[row] * STACK - TALL / 2
        return middle

    def _row_bottom(self, row: int) -> float:
        return self.middle[row] - self.half[row] * STACK - TALL / 2

    def _channel_top(self, channel: int) -> float:
        return self._row_bottom(channel - 1) - 0.06 if channel else 0.0

    def _ports(self) -> dict[tuple[int, str], float]:
        """Return the height of each arrow's ends on its box, in the order of the boxes at the other end."""
        sides: dict[tuple[int, str], list[int]] = defaultdict(list)
        for number, arrow in enumerate(self.arrows):
            sides[arrow.source, "out"].append(number)
            sides[arrow.target, "in"].append(number)
        ports = {}
        for (_, side), numbers in sides.items():
            numbers.sort(key=lambda number: self._port_order(self.arrows[number], side))
            step = min(PORT, (TALL - 0.12) / len(numbers))
            for index, number in enumerate(numbers):
                ports[number, side] = ((len(numbers) - 1) / 2 - index) * step
        return ports

    def _port_order(self, arrow: Arrow, side: str) -> float:
        if not self._is_direct(arrow):
            return 1e9 if side == "out" and self._channel(arrow) > self.places[arrow.source].row else -1e9
        return -self.box(arrow.target if side == "out" else arrow.source)[1]

    def _start(self, number: int) -> Point:
        x, y = self.box(self.arrows[number].source)
        return x + BOX / 2, y + self.ports[number, "out"]

    def _end(self, number: int) -> Point:
        x, y = self.box(self.arrows[number].target)
        return x - BOX / 2, y + self.ports[number, "in"]

    def _loop(self, box: int) -> Path:
        x, y = self.box(box)
        right, top = x + BOX / 2, y + TALL / 2
        return _rounded([(right, y), (right + 0.16, y), (right + 0.16, top + 0.1), (x, top + 0.1), (x, top)])


def _swing(start: Point, end: Point) -> Path:
    middle = (start[0] + end[0]) / 2
    codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
    return Path([start, (middle, start[1]), (middle, end[1]), end], codes)


def _rounded(points: Sequence[Point]) -> Path:
    """Return a line with right angles and rounded corners."""
    vertices, codes = [points[0]], [Path.MOVETO]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        vertices += [_towards(corner, before), corner, _towards(corner, after)]
        codes += [Path.LINETO, Path.CURVE3, Path.CURVE3]
    return Path([*vertices, points[-1]], [*codes, Path.LINETO])


def _towards(corner: Point, other: Point) -> Point:
    length = max(abs(other[0] - corner[0]) + abs(other[1] - corner[1]), 1e-9)
    step = min(CORNER, length / 2) / length
    return corner[0] + step * (other[0] - corner[0]), corner[1] + step * (other[1] - corner[1])
