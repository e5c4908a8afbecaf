"""One short rule per operation, by family. Importing this package registers them all."""

from graph_metanetworks.trace.interpret.rules import (
    attention,
    contraction,
    convolution,
    creation,
    indexing,
    normalization,
    ordering,
    pointwise,
    reduction,
    resampling,
    shape,
)

__all__ = [
    "attention",
    "contraction",
    "convolution",
    "creation",
    "indexing",
    "normalization",
    "ordering",
    "pointwise",
    "reduction",
    "resampling",
    "shape",
]
