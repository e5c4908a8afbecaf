"""Attention in the ways people write it."""

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor, nn

from .program import Draw, Shape, With, step

FORMS = ("split", "reshape", "per head", "einsum", "module", "grouped", "separate")


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, size: int, form: str, *, fused: bool) -> None:
        super().__init__()
        self.heads, self.size, self.form, self.fused = heads, size, form, fused
        inner = heads * size
        if form == "einsum":
            self.packed = nn.Parameter(torch.randn(3, width, heads, size))
        elif form in ("separate", "grouped"):
            few = size if form == "grouped" else inner
            self.query, self.key, self.value = (nn.Linear(width, n) for n in (inner, few, few))
        else:
            self.qkv = nn.Linear(width, 3 * inner, bias=False)
        self.out = nn.Linear(inner, width)

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # each [B, heads, N, size]
        cut = (self.heads, self.size)
        if self.form == "einsum":
            query, key, value = torch.einsum("bnc,pchd->pbhnd", x, self.packed)
            return query, key, value
        if self.form == "separate":
            found = (f(x).unflatten(-1, cut).transpose(1, 2) for f in (self.query, self.key, self.value))
        elif self.form == "grouped":
            query = self.query(x).unflatten(-1, cut).transpose(1, 2)
            key, value = (f(x).unsqueeze(1).expand(-1, self.heads, -1, -1) for f in (self.key, self.value))
            found = (query, key, value)
        elif self.form == "split":
            found = (part.unflatten(-1, cut).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        elif self.form == "reshape":
            found = self.qkv(x).unflatten(-1, (3, *cut)).permute(2, 0, 3, 1, 4).unbind(0)
        else:
            found = self.qkv(x).unflatten(-1, (self.heads, 3 * self.size)).transpose(1, 2).chunk(3, -1)
        query, key, value = found
        return query, key, value

    def forward(self, x: Tensor) -> Tensor:  # [B, N, width] -> [B, N, width]
        query, key, value = self.parts(x)
        if self.fused:
            mixed = F.scaled_dot_product_attention(query, key, value)
        else:
            mixed = (query @ key.mT).softmax(-1) @ value
        return self.out(mixed.transpose(1, 2).flatten(2))

    def extra_repr(self) -> str:
        return f"{self.form}, heads={self.heads}, size={self.size}, fused={self.fused}"


@step
def attention(draw: Draw, shape: Shape) -> nn.Module | None:
    if len(shape) != 3:
        return None
    width, form = shape[-1], draw(st.sampled_from(FORMS))
    heads, size = draw(st.sampled_from([1, 2, 3])), draw(st.sampled_from([1, 2, 3]))
    skip = draw(st.booleans())
    if form == "module":
        if width % heads:
            return None
        module = nn.MultiheadAttention(width, heads, batch_first=True)
        function = lambda x, f: f(x, x, x, need_weights=False)[0] + skip * x  # noqa: E731
        return With(f"attention of {heads} heads", function, module)
    layer = Attention(width, heads, size, form, fused=draw(st.booleans()))
    return With(f"attend + {int(skip)} x", lambda x, f: f(x) + skip * x, layer)
