"""The menagerie: every small architecture on which the correctness oracles run."""

from . import (  # noqa: F401  (importing a family registers its architectures)
    attention,
    attention_scores,
    blocks,
    cnn,
    control,
    convolution,
    embedding,
    equivariant,
    field,
    gating,
    graph,
    grid,
    huggingface_decoder,
    huggingface_encoder,
    huggingface_encoder_decoder,
    huggingface_vision,
    interface,
    mlp,
    octree,
    parametrization,
    patch,
    recurrent,
    relative_position,
    residual,
    sharing,
    torch_attention,
)
from .architecture import REGISTRY, Architecture

__all__ = ["HANDWRITTEN", "MENAGERIE", "TRANSFORMERS", "Architecture"]

MENAGERIE: tuple[Architecture, ...] = tuple(REGISTRY.values())
TRANSFORMERS = tuple(entry for entry in MENAGERIE if entry.family == "transformers")
HANDWRITTEN = tuple(entry for entry in MENAGERIE if entry.family != "transformers")
