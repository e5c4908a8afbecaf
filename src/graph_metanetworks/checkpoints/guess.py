"""Guess an example input from the first well-known module of a network."""

from __future__ import annotations

from functools import singledispatch

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from graph_metanetworks.checkpoints.example import Example, UnclearExample

LENGTH, SIDE = 8, 32  # of guessed sequences and images


def guess_example(network: nn.Module) -> Example:
    """Return an input for a well-known module, or for a network that begins with one.

    >>> str(guess_example(nn.Sequential(nn.Conv2d(3, 8, 5), nn.ReLU())))
    '1x3x32x32:float32'
    """
    if getattr(network, "main_input_name", "") == "input_ids":  # a language model of transformers
        return Example(kwargs={"input_ids": torch.arange(LENGTH)[None]}, is_guess=True)
    dtype = next((p.dtype for p in network.parameters() if p.is_floating_point()), torch.float32)
    for module in network.modules():
        inputs = inputs_of(module)
        if inputs:
            own = (x.to(dtype) if x.is_floating_point() else x for x in inputs)
            return Example(tuple(own), is_guess=True)
    raise UnclearExample(
        f"no --input was given and none can be guessed for {type(network).__name__}. Describe "
        "each argument of forward: --input 1x3x32x32, --input 2x7:int64, --input mask=2x7:bool."
    )


@singledispatch
def inputs_of(module: nn.Module) -> list[Tensor]:
    """Return inputs that fit a module; none if it is unknown."""
    return []


@inputs_of.register
def _(module: nn.Linear) -> list[Tensor]:
    return [torch.randn(1, module.in_features)]


@inputs_of.register
def _(module: nn.Bilinear) -> list[Tensor]:
    return [torch.randn(1, module.in1_features), torch.randn(1, module.in2_features)]


@inputs_of.register
def _(module: _ConvNd) -> list[Tensor]:
    return [torch.randn(1, module.in_channels, *[SIDE] * len(module.kernel_size))]


@inputs_of.register
def _(module: nn.LayerNorm) -> list[Tensor]:
    return [torch.randn(1, *module.normalized_shape)]


@inputs_of.register
def _(module: nn.Embedding | nn.EmbeddingBag) -> list[Tensor]:
    return [torch.arange(LENGTH)[None] % module.num_embeddings]


@inputs_of.register
def _(module: nn.RNNBase) -> list[Tensor]:
    return [torch.randn(*_sequence(module.batch_first), module.input_size)]


@inputs_of.register
def _(module: nn.MultiheadAttention) -> list[Tensor]:
    sizes = (module.embed_dim, module.kdim, module.vdim)
    return [torch.randn(*_sequence(module.batch_first), size) for size in sizes]


@inputs_of.register
def _(module: nn.Transformer) -> list[Tensor]:
    return [torch.randn(*_sequence(module.batch_first), module.d_model) for _ in range(2)]


@inputs_of.register
def _(module: nn.TransformerEncoder | nn.TransformerEncoderLayer) -> list[Tensor]:
    return _attended(module)[:1]


@inputs_of.register
def _(module: nn.TransformerDecoder | nn.TransformerDecoderLayer) -> list[Tensor]:
    return _attended(module)[:2]


def _attended(module: nn.Module) -> list[Tensor]:
    attention = next(inner for inner in module.modules() if isinstance(inner, nn.MultiheadAttention))
    return inputs_of(attention)


def _sequence(batch_first: bool) -> tuple[int, int]:
    return (1, LENGTH) if batch_first else (LENGTH, 1)
