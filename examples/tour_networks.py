"""The stops of the tour: small networks of many kinds, each with an example input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Stop:
    name: str
    about: str
    build: Callable[[], nn.Module]
    example: Callable[[], Tensor]


def tokens() -> Tensor:
    return torch.arange(2 * 6).view(2, 6) % 11 + 3


class Siren(nn.Module):
    def __init__(self, width: int = 8):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, width), nn.Linear(width, width)])
        self.colour = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 2] -> [B, 3]
        for layer in self.layers:
            x = torch.sin(30 * layer(x))
        return self.colour(x)


class ResidualNet(nn.Module):
    def __init__(self, width: int = 5):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.head = nn.Linear(width, 4)

    def forward(self, image: Tensor) -> Tensor:  # [B, 3, H, W] -> [B, 4]
        x = F.relu(self.stem(image))
        x = F.relu(x + self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))
        return self.head(x.mean((2, 3)))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 6, 3, padding=1)
        self.bottom, self.up = nn.Conv2d(6, 6, 3, padding=1), nn.ConvTranspose2d(6, 4, 2, stride=2)
        self.merge, self.head = nn.Conv2d(8, 4, 3, padding=1), nn.Conv2d(4, 2, 1)

    def forward(self, image: Tensor) -> Tensor:  # [B, 1, H, W] -> [B, 2, H, W]
        fine = F.relu(self.down1(image))
        coarse = F.relu(self.bottom(F.relu(self.down2(F.max_pool2d(fine, 2)))))
        return self.head(F.relu(self.merge(torch.cat([self.up(coarse), fine], dim=1))))


class VisionTransformer(nn.Module):
    def __init__(self, width: int = 8, heads: int = 2):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 5, width))
        self.block = nn.TransformerEncoderLayer(width, heads, 12, activation="gelu", batch_first=True)
        self.head = nn.Linear(width, 4)

    def forward(self, image: Tensor) -> Tensor:  # [B, 3, 8, 8] -> [B, 4]
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.positions
        return self.head(self.block(x)[:, 0])


class LastState(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrence, self.head = nn.LSTM(3, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:  # [B, T, 3] -> [B, 2]
        return self.head(self.recurrence(x)[0][:, -1])


class SetLayer(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.own, self.all = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # [B, n, inputs] -> [B, n, outputs]
        return self.own(x) + self.all(x.mean(dim=1, keepdim=True))


class Triplane(nn.Module):
    def __init__(self, features: int = 4, size: int = 4):
        super().__init__()
        self.planes = nn.Parameter(torch.randn(3, features, size, size))
        self.decoder = nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, position: Tensor) -> Tensor:  # [B, 3] in [-1, 1] -> [B, 3]
        pairs = torch.stack([position[:, [0, 1]], position[:, [1, 2]], position[:, [2, 0]]])
        features = F.grid_sample(self.planes, pairs[:, :, None], align_corners=True)
        return self.decoder(features.squeeze(-1).sum(dim=0).T)


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(12, 3, 20, batch_first=True)
    return nn.Sequential(
        nn.Linear(5, 12), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(12, 3)
    )


def gpt2() -> nn.Module:
    import transformers as hf

    config = hf.GPT2Config(
        vocab_size=17,
        n_positions=11,
        n_embd=12,
        n_layer=3,
        n_head=3,
        n_inner=20,
        use_cache=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    return hf.GPT2LMHeadModel(config)


def llama() -> nn.Module:
    import transformers as hf

    config = hf.LlamaConfig(
        vocab_size=17,
        hidden_size=12,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        intermediate_size=20,
        use_cache=False,
    )
    return hf.LlamaForCausalLM(config)


STOPS = [
    Stop(
        "MLP",
        "The hidden neurons of a layer can be permuted if the weights of the next layer follow.",
        lambda: nn.Sequential(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, 3)),
        lambda: torch.randn(5, 4),
    ),
    Stop(
        "SIREN",
        "An image as a network that maps coordinates to colours, with sine activations.",
        Siren,
        lambda: torch.randn(5, 2),
    ),
    Stop(
        "CNN",
        "One node per channel, one edge per tap of a kernel; scale, shift, mean and variance of a batch norm "
        "start at one node each.",
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Conv2d(4, 4, 3),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, 3),
        ),
        lambda: torch.randn(2, 2, 9, 9),
    ),
    Stop(
        "Residual network",
        "A skip connection is a dashed edge of weight 1; it ties the channels at both endpoints together.",
        ResidualNet,
        lambda: torch.randn(2, 3, 6, 6),
    ),
    Stop(
        "U-Net",
        "The decoder reads the encoder's channels through a concatenation: two arrows, one parameter.",
        UNet,
        lambda: torch.randn(2, 1, 8, 8),
    ),
    Stop(
        "DeepSets",
        "Two matrices connect the same neurons: one acts on each element, the other on the mean of the set.",
        lambda: nn.Sequential(SetLayer(3, 6), nn.ReLU(), SetLayer(6, 2)),
        lambda: torch.randn(2, 7, 3),
    ),
    Stop(
        "LSTM",
        "Four gates share each neuron; the state feeds itself.",
        LastState,
        lambda: torch.randn(2, 6, 3),
    ),
    Stop(
        "Triplane",
        "A field on three planes: each grid site is a fixed node, and the features are free.",
        Triplane,
        lambda: 2 * torch.rand(9, 3) - 1,
    ),
    Stop(
        "Vision transformer",
        "Queries and keys meet in score nodes, which feed a node per head; heads can be permuted, and so can "
        "the dimensions inside each head.",
        VisionTransformer,
        lambda: torch.randn(2, 3, 8, 8),
    ),
    Stop(
        "TransformerEncoder",
        "From torch.nn. Equal layers are drawn once, with their number.",
        encoder,
        lambda: torch.randn(2, 6, 5),
    ),
]
if find_spec("transformers"):
    STOPS += [
        Stop("GPT-2", "From transformers: packed q, k and v, tied embedding.", gpt2, tokens),
        Stop(
            "Llama",
            "From transformers: grouped queries, rotary positions that tie pairs of dimensions, a gated MLP.",
            llama,
            tokens,
        ),
    ]
