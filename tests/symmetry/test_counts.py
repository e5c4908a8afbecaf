"""The symmetry of each architecture, derived by hand from its definition.

The oracles show that what is claimed holds; only these counts show that nothing is missed. Each entry
lists the axes that can be permuted independently: `n` for one set of n neurons, `each(m, n)` for m sets
of n neurons that are permuted independently of one another (the dimensions of m heads).
"""

from math import lgamma, prod

import pytest

from graph_metanetworks import Symmetry
from graph_metanetworks.symmetry.axes import parents
from support.traced import traced

Axis = tuple[int, int]  # (size, number of sets that are permuted independently)


def each(sets: int, size: int) -> Axis:
    return size, sets


def attention(heads: int, dot: int, value: int) -> list[Axis]:
    """Heads among themselves; within each head the dimensions of query and key together, and of the value."""
    return [(heads, 1), each(heads, dot), each(heads, value)]


def of(*sizes: int | Axis | list[Axis]) -> list[Axis]:
    axes: list[Axis] = []
    for size in sizes:
        axes += size if isinstance(size, list) else [(size, 1) if isinstance(size, int) else size]
    return axes


def under(names: str, axes: list[Axis]) -> dict[str, list[Axis]]:
    """The same axes for several architectures."""
    return {name: axes for name in names.split()}


def block(heads: int, dot: int, value: int, hidden: int) -> list[Axis]:
    return [*attention(heads, dot, value), (hidden, 1)]


# A group norm permutes whole groups, and channels within each group.
GROUPS_OF_12_AND_10 = of(2, each(2, 6), 2, each(2, 5))

COUNTS: dict[str, list[Axis]] = {
    # ---------------------------------------------------------------- perceptrons
    "single-linear-layer": of(),
    **under(
        "mlp-relu mlp-gelu mlp-silu mlp-tanh mlp-sigmoid mlp-elu mlp-leaky-relu mlp-softplus mlp-mish "
        "mlp-hardswish mlp-prelu-shared mlp-prelu-per-channel mlp-batch-norm mlp-layer-norm "
        "mlp-layer-norm-without-bias mlp-rms-norm mlp-softmax mlp-dropout mlp-without-bias mlp-linear "
        "mlp-on-sequence mlp-on-vector",
        of(12, 9),
    ),
    "mlp-glu": of(12, 9),  # a gate and its value are one neuron
    "mlp-group-norm": of(3, each(3, 4), 3, each(3, 3)),
    "mlp-many-activations": of(*[4] * 23),
    "mlp-deep-mixed-activations": of(12, 8, 10, 9, 7),
    **under("siren siren-without-bias", of(12, 10)),
    "siren-cosine": of(12, 9),  # the residual stream is one axis
    "fourier-features-with-phases": of(7, 11),
    "nerf": of(12, 12, 12, 11, 10, 8),
    "fourier-features": of(7, 11),  # the frequencies are stored, so sine and cosine move together
    "multiplicative-filter-network": of(9, 9, 9),
    # ---------------------------------------------------------------- convolutions
    **{
        f"cnn-{d}d-{norm}": of(12, 10)
        for d in (1, 2, 3)
        for norm in (
            "plain",
            "batch-norm",
            "batch-norm-without-affine",
            "batch-norm-flatten",
            "layer-norm",
            "instance-norm",
            "instance-norm-affine",
        )
    },
    **{f"cnn-{d}d-group-norm": GROUPS_OF_12_AND_10 for d in (1, 2, 3)},
    "cnn-flatten-max-pool": of(7, 10, 11),
    "cnn-dilated": of(9, 7),
    "cnn-depthwise-separable": of(8, 7, each(7, 2)),
    **under("autoencoder-1d autoencoder-2d autoencoder-3d", of(8, 10, 3, each(3, 2), each(3, 3))),
    "pixel-shuffle": of(5, 7),
    # ---------------------------------------------------------------- residual networks
    "resnet-basic-identity": of(8, 8, 8),
    "resnet-basic-projection": of(8, 8, 12, 12, 12),
    "resnet-bottleneck-identity": of(8, 5, 5, 5, 5),
    "resnet-bottleneck-projection": of(8, 5, 5, 14, 5, 5),
    "resnext": of(8, 3, each(3, 4), each(3, 4)),
    "resnet-pre-activation": of(9),
    "inverted-residual-squeeze-excitation": of(6, 14, 4),
    "densenet": of(7, 4, 4, 4, 9),
    "convnext": of(8, 13, 13),
    "u-net-transposed": of(6, 9, 11, 9, 7),
    "u-net-interpolated": of(8, 10),
    # ---------------------------------------------------------------- gating
    "gated-mlp-swiglu": of(8, 14, 14),
    "gated-mlp-packed": of(11),
    "highway": of(9),
    "maxout": of(10, each(10, 3), 7, each(7, 3)),
    "film-conditioning": of(8, 11),
    "hypernetwork": of(11, 8),
    "soft-mixture-of-experts": of(3, each(3, 7)),
    "bilinear": of(7, 8, 9),
    # ---------------------------------------------------------------- sharing
    "tied-autoencoder": of(11, 3),
    "shared-block": of(8, 13),
    "shared-module-under-two-names": of(9),  # what a shared layer reads and writes is one axis
    "shared-weight-own-bias": of(9),
    "siamese": of(11, 7),
    "language-model-tied-embedding": of(10, 13),
    "nested-modules": of(8, 11, 11, 13),
    # ---------------------------------------------------------------- recurrent networks
    **under(
        "rnn-tanh lstm lstm-sequence-first-without-bias gru lstm-learned-initial-state gru-cell rnn-cell "
        "minimal-gated-unit",
        of(8),
    ),
    **under("rnn-relu-bidirectional lstm-bidirectional gru-bidirectional", of(8, 8, 8, 8)),
    "lstm-multi-layer": of(8, 8, 8),
    "lstm-projected": of(8, 6, 8, 6),
    "lstm-cell": of(8, 7),
    "diagonal-state-space": of(7, each(7, 4)),
    # ---------------------------------------------------------------- control flow
    "configured-skip-norm": of(9),
    "configured-plain": of(9, 9, 9),
    "in-place-operations": of(9, 9),
    "slice-assignment": of(4, 6),
    "slices-of-channels": of(4, 3, 5),  # read by the left only, by both, by the right only
    "euler-ode": of(7, 11),
    "fixed-point": of(9),
    "gradient-descent-inside": of(9),
    # ---------------------------------------------------------------- embeddings
    **under("embedding-bag-mean embedding-bag-max embedding-bag-weighted-offsets", of(8, 11)),
    "sinusoidal-positions": of(10, 13),
    "text-convolution": of(7, 5, 6, 4),
    "category-features": of(4, 5, 11),
    # ---------------------------------------------------------------- equivariant layers, graphs, grids
    **under("equivariant-c4 equivariant-c4-declared equivariant-s6 equivariant-s6-declared", of(10, 8)),
    "deep-sets": of(11, 7),
    "p4-convolution": of(6, 5),
    "gcn": of(11, 8),
    "gat": of(2, each(2, 6), 3, 8),  # the second layer averages its heads
    "gat-v2": of(2, each(2, 6), 8),
    "graph-sage": of(11, 8),
    "gin": of(11, 9, 12, 8),
    "gcn-pooled": of(11),
    "message-passing": of(8, 13, 9),
    **under("grid-bilinear grid-voxel grid-triplane", of(6, 11)),
    **under("grid-hash grid-hash-declared", of(each(3, 4), 11)),  # levels keep their place
    # ---------------------------------------------------------------- weights computed from parameters
    "weight-norm": of(11, 8),
    "weight-norm-convolution": of(8, 7),
    "spectral-norm": of(11, 8),
    "lora-merged": of(11, 8, 2, 2, 2),
    "lora-unmerged": of(11, 2, 2),
    "weight-standardised-convolution": of(2, each(2, 5)),
    "masked-weight": of(9),
    # ---------------------------------------------------------------- interfaces
    **under("output-dataclass output-dict output-tuple inputs-keyword inputs-nested", of(11)),
    "output-hidden": of(),  # every hidden neuron is an output
    "inputs-masked-mean": of(9),
    "image-and-text": of(8, 6, 9),
    # ---------------------------------------------------------------- attention
    **under("attention-packed-qkv vision-transformer", of(12, *[block(3, 4, 4, 20)] * 2)),
    **under("transformer-encoder transformer-encoder-norm-first", of(12, *[block(3, 4, 4, 20)] * 2)),
    "attention-einsum": of(12, *[block(3, 5, 7, 20)] * 2),
    "attention-grouped-query": of(12, *[of(2, each(2, 2), each(2, 3), each(2, 3), 20)] * 2),
    "attention-multi-query": of(12, *[of(3, 4, 4, 20)] * 2),
    "attention-rotary": of(12, *[of(3, each(3, 4), 20)] * 2),  # only values can be permuted
    "attention-linear": of(12, *[block(2, 4, 5, 20)] * 2),
    "attention-query-key-norm": of(12, *[of(3, 4, each(3, 4), 20)] * 2),  # one norm for all heads
    "perceiver": of(4, 10, 8, 13),  # latents too
    # heads share a table of distances, and so one permutation of the dimensions of queries and keys
    **under(
        "decomposed-positions decomposed-positions-fused decomposed-positions-interpolated",
        of(12, 3, 4, each(3, 4), 14),
    ),
    # they share the convolution that pools values too
    **under("decomposed-positions-pooled-keys decomposed-positions-token", of(12, 3, 4, 4, 14)),
    "decomposed-positions-pooled": of(12, 3, 4, 4, 12, 14),  # on a coarser map, so not residual
    "attention-skewed-positions": of(12, *[of(3, 4, each(3, 4), 20)] * 2),
    **under(
        "multihead-self-attention multihead-self-attention-without-bias multihead-self-attention-bias-kv "
        "multihead-self-attention-zero-attention multihead-self-attention-sequence-first",
        of(12, attention(3, 4, 4)),
    ),
    **under(
        "multihead-cross-attention multihead-cross-attention-sequence-first",
        of(12, 7, 9, attention(2, 6, 6), 12),
    ),
    "multihead-self-attention-masked": of(10, each(2, 5), each(2, 5)),  # returns its heads
    "transformer-decoder": of(12, 12, *[of(attention(3, 4, 4), block(3, 4, 4, 20))] * 2),
    "transformer": of(12, 12, block(2, 6, 6, 20), attention(2, 6, 6), block(2, 6, 6, 20)),
    "mlp-mixer": of(10, 7, 17, 7, 17),
    "windowed-attention": of(10, *[attention(2, 5, 5)] * 2, 13),
    # ---------------------------------------------------------------- transformers
    **under(
        "hf-bert-masked-lm hf-bert-masked-lm-eager-attention hf-roberta-masked-lm hf-gpt2 hf-vit hf-deit",
        of(12, *[block(3, 4, 4, 20)] * 2),
    ),
    "hf-bert-sequence-classification": of(12, *[block(3, 4, 4, 20)] * 2, 12),
    "hf-gpt-neox": of(24, *[block(3, 6, 8, 20)] * 2),  # two of eight dimensions are rotated
    **under(
        "hf-llama hf-llama-eager-attention hf-qwen3 hf-gemma",
        of(12, *[of(2, each(2, 2), each(2, 4), 20)] * 2),  # two queries to each of two keys
    ),
    # experts are chosen by their index, and each permutes its own hidden neurons
    **under("hf-mixtral hf-gpt-oss", of(12, *[of(2, each(2, 2), each(2, 4), each(3, 20))] * 2)),
    "hf-mamba": of(8, *[of(16, 5, 3)] * 2),
    # two groups of two heads of four channels; the heads of a group share a state of five
    "hf-mamba2": of(8, *[of(2, each(2, 2), each(4, 4), each(2, 5))] * 2),
    # the encoder's last states are outputs, and the embedding ties the decoder to them
    "hf-t5": of(
        *[of(3, *[each(3, 5)] * 4, 20, 20)] * 2, *[attention(3, 5, 5)] * 2
    ),  # position biases are shared, and so are heads
    "hf-longt5": of(block(3, 5, 5, 20), attention(3, 5, 5), block(3, 5, 5, 20)),
    "hf-bart": of(block(3, 4, 4, 20), attention(2, 6, 6), block(2, 6, 6, 22)),
    "hf-whisper": of(12, 12, block(3, 4, 4, 20), attention(2, 6, 6), block(2, 6, 6, 22)),
    **under(
        "hf-wav2vec2 hf-wav2vec2-layer-norm", of(6, 8, 2, each(2, 6), *[block(3, 4, 4, 20)] * 2)
    ),  # positions by a grouped convolution
    # two feed-forward layers around attention and a gated, depthwise convolution
    "hf-conformer": of(6, 8, 12, *[of(20, attention(3, 4, 4), 12, 20)] * 2),
    # keys and values of the first stage come from a coarser grid with channels of its own
    "hf-segformer": of(6, 6, block(2, 3, 3, 12), 8, *[block(4, 2, 2, 24)] * 2, 10, 10, 10),
    "hf-swin": of(6, *[block(2, 3, 3, 9)] * 2, 12, block(3, 4, 4, 18)),
    "hf-convnext": of(6, 24, 8, 32, 10, 40, 40, 12, 48),
    "hf-resnet-basic": of(6, 12, 12, 12, 20, 20),
    "hf-resnet-bottleneck": of(6, 12, 3, 3, 3, 3, 20, 5, 5),
    "hf-regnet-x": of(6, 16, 2, *[each(2, 8)] * 2, 24, *[of(3, *[each(3, 8)] * 2)] * 2),
    "hf-regnet-y": of(6, 16, 2, *[each(2, 8)] * 2, 2, 24, *[of(3, *[each(3, 8)] * 2)] * 2, 4, 6),
    "hf-clip": of(*[block(2, 5, 5, 18)] * 2, *[block(3, 4, 4, 20)] * 2),  # streams are outputs
}

# Partitions that do not align cannot be written as products and concatenations: less is claimed than holds.
# Beside what is claimed: the axes of the largest group that is a product of symmetric groups.
CLAIMED_LESS: dict[str, tuple[list[Axis], list[Axis]]] = {
    # experts looked up by an index that depends on the input: they share one permutation
    "hf-mixtral-batched-experts": (
        of(12, *[of(2, each(2, 2), each(2, 4), 20)] * 2),
        of(12, *[of(2, each(2, 2), each(2, 4), each(3, 20))] * 2),
    ),
    # 18 channels in three groups for one convolution, in two for the next
    "cnn-grouped": (of(each(3, 4), each(2, 3)), of(6, 3, 3, 6, each(3, 4), each(2, 3))),
    # shuffled channels regrouped across the shuffle
    "channel-shuffle": (of(each(3, 4), each(3, 2)), of(each(3, 2), each(3, 4), each(3, 2))),
    "channel-shuffle-by-hand": (of(each(2, 5)), of(4, 3, 3, 4, each(2, 5))),
    # zero channels padded on both sides of the residual stream are alike
    "resnet-option-a": (of(8, 2, 3, 13, 13), of(8, 5, 13, 13)),
}


def log_order(axes: list[Axis]) -> float:
    return sum(sets * lgamma(size + 1) for size, sets in axes)


def sizes(axes: list[Axis]) -> list[int]:
    """The size of each set of neurons; an axis of m sets may also be found as m axes."""
    return sorted(size for size, sets in axes for _ in range(sets))


def found(symmetry: Symmetry) -> list[Axis]:
    return [(v.size, prod(parent.size for parent in parents(v))) for v in symmetry.variables]


@pytest.mark.parametrize("name", COUNTS)
def test_free_axes(name: str) -> None:
    symmetry = traced(name).graph.symmetry
    assert sizes(found(symmetry)) == sizes(COUNTS[name])
    assert symmetry.log_order == pytest.approx(log_order(COUNTS[name]), rel=1e-12)


@pytest.mark.parametrize("name", CLAIMED_LESS)
def test_known_losses(name: str) -> None:
    claimed, true = CLAIMED_LESS[name]
    symmetry = traced(name).graph.symmetry
    assert sizes(found(symmetry)) == sizes(claimed)
    assert symmetry.log_order == pytest.approx(log_order(claimed), rel=1e-12)
    assert log_order(claimed) < log_order(true)
