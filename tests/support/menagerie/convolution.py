"""The kinds of convolution: pooled, dilated, grouped, depthwise, transposed, shuffled."""

from functools import partial

from torch import Tensor, nn

from .architecture import architecture
from .inputs import inputs, normal

convolution = partial(architecture, family="convolution", example=inputs(normal(2, 3, 8, 6)))


@convolution("cnn-flatten-max-pool")
def lenet() -> nn.Module:
    """Return strided and pooled convolutions flattened into a perceptron."""
    return nn.Sequential(
        nn.Conv2d(3, 7, 3, padding=1),
        nn.ELU(),
        nn.MaxPool2d(2),
        nn.Conv2d(7, 10, (2, 3), padding=(0, 1), padding_mode="circular"),
        nn.ELU(),
        nn.AvgPool2d((1, 2)),
        nn.Flatten(),
        nn.Linear(10 * 3, 11),
        nn.ELU(),
        nn.Linear(11, 4),
    )


@convolution("cnn-dilated")
def dilated() -> nn.Module:
    """Return convolutions whose kernels have holes."""
    return nn.Sequential(
        nn.Conv2d(3, 9, 3, padding=2, dilation=2),
        nn.ELU(),
        nn.Conv2d(9, 7, 3, padding=(2, 1), dilation=(2, 1)),
        nn.ELU(),
        nn.Conv2d(7, 4, 1),
    )


@convolution("cnn-grouped")
def grouped() -> nn.Module:
    """Return grouped convolutions between two that mix the groups."""
    return nn.Sequential(
        nn.Conv2d(3, 12, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 18, 3, padding=1, groups=3),
        nn.BatchNorm2d(18),
        nn.ReLU(),
        nn.Conv2d(18, 6, 1, groups=2),
        nn.ReLU(),
        nn.Conv2d(6, 4, 1),
    )


@convolution("cnn-depthwise-separable")
def depthwise_separable() -> nn.Module:
    """Return depthwise convolutions, one of which doubles its channels."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 1),
        nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU6(),
        nn.Conv2d(8, 7, 1),
        nn.ReLU6(),
        nn.Conv2d(7, 14, 3, padding=1, groups=7),
        nn.ReLU6(),
        nn.Conv2d(14, 4, 1),
    )


def autoencoder(conv: type[nn.Module], transposed: type[nn.Module]) -> nn.Module:
    """Return strided convolutions undone by transposed ones, one of them grouped."""
    return nn.Sequential(
        conv(3, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        conv(8, 10, 2),
        nn.ReLU(),
        transposed(10, 6, 2),
        nn.ReLU(),
        transposed(6, 9, 2, stride=2, groups=3),
        nn.ReLU(),
        conv(9, 3, 1),
    )


convolution("autoencoder-1d", example=inputs(normal(2, 3, 9)))(
    partial(autoencoder, nn.Conv1d, nn.ConvTranspose1d)
)
convolution("autoencoder-2d")(partial(autoencoder, nn.Conv2d, nn.ConvTranspose2d))
convolution("autoencoder-3d", example=inputs(normal(2, 3, 5, 4, 6)))(
    partial(autoencoder, nn.Conv3d, nn.ConvTranspose3d)
)


@convolution("channel-shuffle")
def channel_shuffle() -> nn.Module:
    """Return grouped convolutions with their groups interleaved by nn.ChannelShuffle."""
    return nn.Sequential(
        nn.Conv2d(3, 12, 1),
        nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=1, groups=3),
        nn.ChannelShuffle(3),
        nn.ReLU(),
        nn.Conv2d(12, 6, 1, groups=3),
        nn.ReLU(),
        nn.Conv2d(6, 4, 1),
    )


@convolution("channel-shuffle-by-hand")
class ShuffleByHand(nn.Module):
    """Grouped convolutions with their groups interleaved by view and transpose."""

    def __init__(self, groups: int = 2) -> None:
        super().__init__()
        self.groups = groups
        self.first = nn.Conv2d(3, 10, 3, padding=1)
        self.second = nn.Conv2d(10, 14, 1, groups=groups)
        self.head = nn.Conv2d(14, 4, 1, groups=groups)

    def forward(self, image: Tensor) -> Tensor:  # [B, 3, H, W] -> [B, 4, H, W]
        x = self.second(self.first(image).relu()).relu()
        x = x.unflatten(1, (self.groups, -1)).transpose(1, 2).flatten(1, 2)
        return self.head(x)


@convolution("pixel-shuffle")
def pixel_shuffle() -> nn.Module:
    """Return a super-resolution network that trades channels for pixels and back."""
    return nn.Sequential(
        nn.Conv2d(3, 5 * 4, 3, padding=1),
        nn.PixelShuffle(2),
        nn.ReLU(),
        nn.Conv2d(5, 7, 3, padding=1),
        nn.ReLU(),
        nn.PixelUnshuffle(2),
        nn.Conv2d(7 * 4, 12, 1),
        nn.PixelShuffle(2),
    )
