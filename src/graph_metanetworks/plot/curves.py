"""Edges between neurons as curves: parallel ones are bent apart, long ones bent around."""

from __future__ import annotations

import numpy as np
from matplotlib.path import Path
from numpy.typing import NDArray

Points = NDArray[np.float64]  # [n, 2]
SPREAD, WIDEST = 0.07, 0.4  # inches between parallel edges, and from the first to the last


def rank_parallel(source: NDArray[np.int64], target: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how far each edge is bent: edges that join the same two nodes get distinct values around 0.

    >>> rank_parallel(np.array([0, 0, 0, 1]), np.array([2, 2, 2, 2])).round(2).tolist()
    [-0.07, 0.0, 0.07, 0.0]
    """
    low, high = np.minimum(source, target), np.maximum(source, target)
    _, pair, size = np.unique(low * (high.max() + 1) + high, return_inverse=True, return_counts=True)
    order = np.argsort(pair, kind="stable")
    first = np.cumsum(size) - size
    rank = np.empty(len(pair))
    rank[order] = np.arange(len(pair)) - first[pair[order]]
    many = size[pair]
    step = np.minimum(SPREAD, WIDEST / np.maximum(many - 1, 1))
    return (rank - (many - 1) / 2) * step


def control_points(
    start: Points, end: Points, bend: NDArray[np.float64], pitch: float, centre: float
) -> Points:
    """Return the middle point of a quadratic curve for each edge, bent sideways by `bend`.

    Edges that skip columns swing around what lies between, on the side where most of them are; an edge inside
    a column swings out to its right.
    """
    along = end - start
    length = np.linalg.norm(along, axis=1, keepdims=True)
    sideways = np.stack([-along[:, 1], along[:, 0]], axis=1) / np.maximum(length, 1e-9)
    middle = (start + end) / 2 + 2 * bend[:, None] * sideways
    skips = np.abs(along[:, 0]) > 1.5 * pitch
    up = np.where((start[:, 1] + end[:, 1]).mean() < 2 * centre - 0.1, -1, 1)
    middle[skips, 1] += 0.3 * up * np.abs(along[skips, 0])
    inside = np.abs(along[:, 0]) < 1e-6
    middle[inside, 0] += 0.35 * pitch + 0.25 * np.abs(along[inside, 1])
    return middle


def curves(start: Points, middle: Points, end: Points) -> Path:
    """Join all curves into one path, which keeps vector files small."""
    straight = np.abs(middle - (start + end) / 2).max(axis=1) < 1e-9
    pieces = [_one(*points) for points in zip(start, middle, end, straight, strict=True)]
    return Path.make_compound_path(*pieces)


def each_curve(start: Points, middle: Points, end: Points) -> list[Path]:
    return [_one(*points, False) for points in zip(start, middle, end, strict=True)]


def _one(start: Points, middle: Points, end: Points, straight: bool) -> Path:
    if straight:
        return Path([start, end], [Path.MOVETO, Path.LINETO])
    if np.allclose(start, end):  # a neuron that feeds itself
        out, away = np.array([0.35, 0.22]), np.array([0.35, -0.22])
        codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
        return Path([start, start + out, start + away, end], codes)
    return Path([start, middle, end], [Path.MOVETO, Path.CURVE3, Path.CURVE3])
