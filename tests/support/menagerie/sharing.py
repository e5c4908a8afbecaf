"""Parameters and modules used more than once."""

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from .architecture import architecture
from .inputs import inputs, normal, tokens

sharing = partial(architecture, family="sharing", example=inputs(normal(15, 5)))


@sharing("tied-autoencoder")
class TiedAutoencoder(nn.Module):
    """A decoder made of the transposed encoder weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 11)
        self.second = nn.Linear(11, 3)
        self.back = nn.Parameter(self.first.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 5]
        code = self.second(F.relu(self.first(x)))
        hidden = F.relu(F.linear(code, self.second.weight.T, self.back))
        return hidden @ self.first.weight


class ResidualBlock(nn.Module):
    """x + outer(relu(inner(norm(x))))."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, hidden)
        self.outer = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:  # [B, width] -> [B, width]
        return x + self.outer(F.relu(self.inner(self.norm(x))))


@sharing("shared-block")
class SharedBlock(nn.Module):
    """One residual block applied three times."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 8)
        self.block = ResidualBlock(8, 13)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 3]
        x = self.embed(x)
        for _ in range(3):
            x = self.block(x)
        return self.head(x)


@sharing("shared-module-under-two-names")
def shared_names() -> nn.Module:
    """Return a network that holds the same hidden layer twice, nested differently."""
    hidden = nn.Linear(9, 9)
    return nn.Sequential(
        nn.Sequential(nn.Linear(5, 9), nn.Tanh(), hidden),
        nn.Tanh(),
        nn.Sequential(nn.Sequential(hidden, nn.Tanh())),
        nn.Linear(9, 3),
    )


@sharing("shared-weight-own-bias")
def shared_weight() -> nn.Module:
    """Return two linear layers with one weight between them and two biases."""
    first, second = nn.Linear(9, 9), nn.Linear(9, 9)
    second.weight = first.weight
    return nn.Sequential(nn.Linear(5, 9), nn.ReLU(), first, nn.ReLU(), second, nn.Linear(9, 3))


@sharing("siamese", example=inputs(normal(15, 5), normal(15, 5)))
class Siamese(nn.Module):
    """Two inputs through one encoder, compared channel by channel."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(5, 11), nn.ReLU(), nn.Linear(11, 7, bias=False))
        self.head = nn.Linear(7, 2)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:  # [B, 5], [B, 5] -> [B, 2]
        return self.head((self.encoder(left) - self.encoder(right)).abs())


@sharing("language-model-tied-embedding", example=inputs(tokens(2, 6, 17)))
class TiedLanguageModel(nn.Module):
    """Logits by the same matrix that embeds the tokens, with learned positions."""

    def __init__(self, vocabulary: int = 17, width: int = 10) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(8, width)
        self.block = ResidualBlock(width, 13)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:  # [B, N] -> [B, N, vocabulary]
        position = self.position.weight[: tokens.shape[1]]
        return self.head(self.block(self.embed(tokens) + position))


@sharing("nested-modules")
class Nested(nn.Module):
    """Blocks in a ModuleDict of ModuleLists, reached through attributes of attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 8)
        self.stages = nn.ModuleDict(
            {
                "early": nn.ModuleList(ResidualBlock(8, 11) for _ in range(2)),
                "late": nn.ModuleList([nn.Sequential(ResidualBlock(8, 13), nn.Tanh())]),
            }
        )
        self.head = nn.ModuleDict({"mean": nn.Linear(8, 3), "gate": nn.Linear(8, 3)})

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 3]
        x = self.embed(x)
        for stage in self.stages.values():
            for block in stage:
                x = block(x)
        return self.head["mean"](x) * self.head["gate"](x).sigmoid()
