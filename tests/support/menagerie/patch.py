"""Vision models on patches: ViT, MLP-Mixer and windowed attention."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .architecture import architecture
from .inputs import inputs, normal

patch = partial(architecture, family="patch", example=inputs(normal(2, 3, 8, 6)))


@patch("vision-transformer")
class VisionTransformer(nn.Module):
    """A class token and learned positions on patches of 2x2 pixels, with packed qkv attention."""

    def __init__(self, width: int = 12, heads: int = 3, hidden: int = 20, depth: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.embed = nn.Conv2d(3, width, 2, stride=2)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.zeros(1, 4 * 3 + 1, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(depth))
        self.project = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width)) for _ in range(depth)
        )
        self.head = nn.Linear(width, 4)

    def attend(self, x: Tensor, qkv: nn.Module) -> Tensor:  # [B, N, width] -> [B, N, width]
        batch, length, width = x.shape
        packed = qkv(x).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = packed.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
        return (scores.softmax(dim=-1) @ value).transpose(1, 2).reshape(batch, length, width)

    def forward(self, image: Tensor) -> Tensor:  # [B, 3, 8, 6] -> [B, 4]
        x = self.embed(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1) + self.position
        norms = iter(self.norms)
        for qkv, project, mlp in zip(self.qkv, self.project, self.mlps, strict=True):
            x = x + project(self.attend(next(norms)(x), qkv))
            x = x + mlp(next(norms)(x))
        return self.head(x[:, 0])


@patch("mlp-mixer")
class Mixer(nn.Module):
    """Perceptrons over patches and over channels in turn, https://arxiv.org/abs/2105.01601."""

    def __init__(self, width: int = 10, patches: int = 12, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, 2, stride=2)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.mix_patches = nn.ModuleList(
            nn.Sequential(nn.Linear(patches, 7), nn.GELU(), nn.Linear(7, patches)) for _ in range(depth)
        )
        self.mix_channels = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 17), nn.GELU(), nn.Linear(17, width)) for _ in range(depth)
        )
        self.head = nn.Linear(width, 4)

    def forward(self, image: Tensor) -> Tensor:  # [B, 3, 8, 6] -> [B, 4]
        x = self.embed(image).flatten(2).transpose(1, 2)
        norms = iter(self.norms)
        for mix_patches, mix_channels in zip(self.mix_patches, self.mix_channels, strict=True):
            x = x + mix_patches(next(norms)(x).transpose(1, 2)).transpose(1, 2)
            x = x + mix_channels(next(norms)(x))
        return self.head(x.mean(dim=1))


class WindowAttention(nn.Module):
    """Attention inside windows, with a learned bias for each relative position."""

    def __init__(self, width: int, heads: int, window: tuple[int, int]) -> None:
        super().__init__()
        rows, columns = window
        self.heads = heads
        self.window = window
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.bias_table = nn.Parameter(torch.zeros((2 * rows - 1) * (2 * columns - 1), heads))
        grid = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
        apart = grid[:, None] - grid[None, :] + torch.tensor([rows - 1, columns - 1])
        self.register_buffer("bias_index", apart[..., 0] * (2 * columns - 1) + apart[..., 1])

    def forward(self, image: Tensor, shift: int) -> Tensor:  # [B, H, W, width] -> [B, H, W, width]
        (rows, columns), (batch, height, breadth, width) = self.window, image.shape
        x = torch.roll(image, (-shift, -shift), dims=(1, 2))
        x = x.view(batch, height // rows, rows, breadth // columns, columns, width)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(-1, rows * columns, width)
        qkv = self.qkv(x).view(*x.shape[:2], 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        bias = self.bias_table[self.bias_index].permute(2, 0, 1)
        scores = query @ key.mT / (width // self.heads) ** 0.5 + bias
        x = self.project((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))
        x = x.view(batch, height // rows, breadth // columns, rows, columns, width)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(batch, height, breadth, width)
        return torch.roll(x, (shift, shift), dims=(1, 2))


@patch("windowed-attention")
class WindowedTransformer(nn.Module):
    """A plain and a shifted window block, then a merge of 2x2 patches as in Swin."""

    def __init__(self, width: int = 10) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.blocks = nn.ModuleList(WindowAttention(width, 2, (4, 3)) for _ in range(2))
        self.merge_norm = nn.LayerNorm(4 * width)
        self.merge = nn.Linear(4 * width, 13, bias=False)
        self.head = nn.Linear(13, 4)

    def forward(self, image: Tensor) -> Tensor:  # [B, 3, 8, 6] -> [B, 4]
        x = self.embed(image).permute(0, 2, 3, 1)
        for shift, (norm, block) in enumerate(zip(self.norms, self.blocks, strict=True)):
            x = x + block(norm(x), shift)
        corners = [x[:, row::2, column::2] for column in range(2) for row in range(2)]
        x = self.merge(self.merge_norm(torch.cat(corners, dim=-1)))
        return self.head(F.gelu(x).mean(dim=(1, 2)))
