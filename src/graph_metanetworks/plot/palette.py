"""One colour per kind, the same in every picture."""

from __future__ import annotations

from zlib import crc32

INK, GREY, FAINT = "#1f2937", "#6b7280", "#cbd5e1"
POSITIVE, NEGATIVE = "#1d6fb8", "#d1392f"

_NODES = {
    "input": "#2f6fde",
    "output": "#d6453d",
    "neuron": "#64748b",
    "channel": "#0f8b7e",
    "sum": "#94a3b8",
    "product": "#7c6f64",
    "pool": "#38a3c5",
    "score": "#c2557a",
    "head": "#e0a100",
    "context": "#5b8c3e",
    "vocabulary": "#3f9e57",
    "token": "#e4722b",
    "grid": "#1b998b",
    "constant": "#b08968",
    "shared": "#8d99ae",
    "norm group": "#6d597a",
}
_EDGES = {
    "linear weight": "#6c8ebf",
    "convolution weight": "#3aa89b",
    "query weight": "#c8506e",
    "key weight": "#8e63c7",
    "value weight": "#5b9a3f",
    "output weight": "#3b7fb0",
    "query": "#c8506e",
    "key": "#8e63c7",
    "value": "#5b9a3f",
    "head": "#e0a100",
    "residual": "#374151",
    "embedding": "#3f9e57",
    "pooled weight": "#d08c60",
    "recurrent weight": "#b4573a",
    "gate weight": "#4f7cac",
    "token": "#e4722b",
    "grid": "#1b998b",
    "pool": "#38a3c5",
    "product": "#7c6f64",
    "norm group": "#6d597a",
}
_LAST_WORDS = {
    "bias": "#f0a43a",
    "scale": "#9a5b3c",
    "shift": "#d977b4",
    "mean": "#3fa7d6",
    "variance": "#a3b13c",
}
_OTHERS = ("#5d7f99", "#9a7aa0", "#87a96b", "#c08552", "#6a8d92", "#b56576", "#7a8450", "#8a7ea8")


def node_colour(kind: str) -> str:
    return _colour(kind, _NODES)


def edge_colour(kind: str) -> str:
    return _colour(kind, _EDGES)


def tint(colour: str, strength: float) -> tuple[float, float, float]:
    """Mix the colour with white: strength 1 is the colour itself, 0 is white."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 1 - strength * (1 - red), 1 - strength * (1 - green), 1 - strength * (1 - blue)


def _colour(kind: str, known: dict[str, str]) -> str:
    # crc32 rather than hash(): the same colour in every run
    other = _OTHERS[crc32(kind.encode()) % len(_OTHERS)]
    return known.get(kind) or _LAST_WORDS.get(kind.split()[-1] if kind else "", other)
