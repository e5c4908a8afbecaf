"""The attention and transformer modules of torch.nn."""

from functools import partial

import torch
from torch import Tensor, nn

from .architecture import architecture
from .inputs import inputs, normal

attention = partial(architecture, family="attention")


class SelfAttention(nn.Module):
    """nn.MultiheadAttention of a sequence with itself, between two linear layers."""

    def __init__(self, **options: bool | str) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 12)
        self.attend = nn.MultiheadAttention(12, 3, **options)
        self.head = nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:  # [B, N, 5] or [N, B, 5] -> [.., .., 4]
        x = self.embed(x)
        return self.head(x + self.attend(x, x, x, need_weights=False)[0])


self_attention = partial(attention, example=inputs(normal(2, 6, 5)))
self_attention("multihead-self-attention")(partial(SelfAttention, batch_first=True))
self_attention("multihead-self-attention-without-bias")(partial(SelfAttention, batch_first=True, bias=False))
self_attention("multihead-self-attention-bias-kv")(partial(SelfAttention, batch_first=True, add_bias_kv=True))
self_attention("multihead-self-attention-zero-attention")(
    partial(SelfAttention, batch_first=True, add_zero_attn=True)
)
attention("multihead-self-attention-sequence-first", example=inputs(normal(6, 2, 5)))(
    partial(SelfAttention, batch_first=False)
)


class CrossAttention(nn.Module):
    """nn.MultiheadAttention whose keys and values have widths of their own."""

    def __init__(self, *, batch_first: bool = True) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 12)
        self.embed_key = nn.Linear(6, 7, bias=False)
        self.embed_value = nn.Linear(6, 9)
        self.attend = nn.MultiheadAttention(12, 2, kdim=7, vdim=9, batch_first=batch_first)
        self.head = nn.Linear(12, 4)

    def forward(self, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor]:
        mixed, weights = self.attend(self.embed(x), self.embed_key(context), self.embed_value(context))
        return self.head(mixed), weights


attention("multihead-cross-attention", example=inputs(normal(2, 6, 5), normal(2, 7, 6)))(CrossAttention)
attention("multihead-cross-attention-sequence-first", example=inputs(normal(6, 2, 5), normal(7, 2, 6)))(
    partial(CrossAttention, batch_first=False)
)


@self_attention("multihead-self-attention-masked")
class MaskedAttention(nn.Module):
    """nn.MultiheadAttention with a causal mask and the weights of every head returned."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(10, 2, batch_first=True)
        self.embed = nn.Linear(5, 10)
        self.register_buffer("future", torch.ones(6, 6, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # [B, 6, 5] -> [B, 6, 10], [B, 2, 6, 6]
        x = self.embed(x)
        return self.attend(x, x, x, attn_mask=self.future, average_attn_weights=False)


LAYER = {"d_model": 12, "nhead": 3, "dim_feedforward": 20, "dropout": 0.0, "batch_first": True}


class Encoder(nn.Module):
    """nn.TransformerEncoder between two linear layers."""

    def __init__(self, **options: bool | str) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 12)
        layer = nn.TransformerEncoderLayer(**LAYER, **options)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:  # [B, N, 5] -> [B, N, 4]
        return self.head(self.encoder(self.embed(x)))


self_attention("transformer-encoder")(Encoder)
self_attention("transformer-encoder-norm-first")(partial(Encoder, norm_first=True, activation="gelu"))


@attention("transformer-decoder", example=inputs(normal(2, 6, 5), normal(2, 7, 8)))
class Decoder(nn.Module):
    """nn.TransformerDecoder with a causal mask, reading a memory."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 12)
        self.embed_memory = nn.Linear(8, 12)
        layer = nn.TransformerDecoderLayer(**LAYER)
        self.decoder = nn.TransformerDecoder(layer, 2, norm=nn.LayerNorm(12))
        self.head = nn.Linear(12, 4)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:  # [B, N, 5], [B, M, 8] -> [B, N, 4]
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
        x = self.decoder(self.embed(x), self.embed_memory(memory), tgt_mask=mask)
        return self.head(x)


@attention("transformer", example=inputs(normal(2, 6, 5), normal(2, 7, 5)))
class EncoderDecoder(nn.Module):
    """nn.Transformer between linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_source = nn.Linear(5, 12)
        self.embed_target = nn.Linear(5, 12)
        self.transformer = nn.Transformer(**LAYER | {"nhead": 2}, num_encoder_layers=1, num_decoder_layers=1)
        self.head = nn.Linear(12, 4)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:  # two [B, N, 5] -> [B, N, 4]
        source, target = self.embed_source(source), self.embed_target(target)
        return self.head(self.transformer(source, target))
