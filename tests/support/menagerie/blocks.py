"""Later convolutional blocks: squeeze-excitation, dense connections, ConvNeXt, U-Net."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .architecture import architecture
from .inputs import inputs, normal

blocks = partial(architecture, family="residual", example=inputs(normal(2, 3, 8, 6)))


@blocks("inverted-residual-squeeze-excitation")
class InvertedResidual(nn.Module):
    """The block of MobileNetV3 and EfficientNet, https://arxiv.org/abs/1905.02244."""

    def __init__(self, width: int = 6, hidden: int = 14, squeezed: int = 4) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.expand = nn.Sequential(nn.Conv2d(width, hidden, 1, bias=False), nn.BatchNorm2d(hidden))
        self.depthwise = nn.Sequential(
            nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
        )
        self.squeeze = nn.Conv2d(hidden, squeezed, 1)
        self.excite = nn.Conv2d(squeezed, hidden, 1)
        self.project = nn.Sequential(nn.Conv2d(hidden, width, 1, bias=False), nn.BatchNorm2d(width))
        self.head = nn.Linear(width, 4)

    def forward(self, image: Tensor) -> Tensor:  # [B, 3, H, W] -> [B, 4]
        x = self.stem(image)
        hidden = F.hardswish(self.depthwise(F.hardswish(self.expand(x))))
        squeezed = F.silu(self.squeeze(F.adaptive_avg_pool2d(hidden, 1)))
        hidden = hidden * torch.sigmoid(self.excite(squeezed))
        x = x + self.project(hidden)
        return self.head(x.mean(dim=(2, 3)))


@blocks("densenet")
class DenseNet(nn.Module):
    """Each layer reads the concatenation of all before it, https://arxiv.org/abs/1608.06993."""

    def __init__(self, width: int = 7, growth: int = 4, layers: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(width + index * growth),
                nn.ReLU(),
                nn.Conv2d(width + index * growth, growth, 3, padding=1, bias=False),
            )
            for index in range(layers)
        )
        self.transition = nn.Conv2d(width + layers * growth, 9, 1)
        self.head = nn.Linear(9, 4)

    def forward(self, image: Tensor) -> Tensor:  # [B, 3, H, W] -> [B, 4]
        features = [self.stem(image)]
        for layer in self.layers:
            features.append(layer(torch.cat(features, dim=1)))
        x = F.avg_pool2d(self.transition(torch.cat(features, dim=1)), 2)
        return self.head(F.relu(x).mean(dim=(2, 3)))


@blocks("convnext")
class ConvNeXt(nn.Module):
    """Two blocks with channels-last norm and layer scale, https://arxiv.org/abs/2201.03545."""

    def __init__(self, width: int = 8, hidden: int = 13, depth: int = 2) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 2, stride=2)
        self.depthwise = nn.ModuleList(
            nn.Conv2d(width, width, 3, padding=1, groups=width) for _ in range(depth)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.inner = nn.ModuleList(nn.Linear(width, hidden) for _ in range(depth))
        self.outer = nn.ModuleList(nn.Linear(hidden, width) for _ in range(depth))
        self.scales = nn.ParameterList(torch.ones(width) for _ in range(depth))
        self.head = nn.Linear(width, 4)

    def forward(self, image: Tensor) -> Tensor:  # [B, 3, H, W] -> [B, 4]
        x = self.stem(image)
        blocks = zip(self.depthwise, self.norms, self.inner, self.outer, self.scales, strict=True)
        for depthwise, norm, inner, outer, scale in blocks:
            hidden = norm(depthwise(x).permute(0, 2, 3, 1))
            hidden = scale * outer(F.gelu(inner(hidden)))
            x = x + hidden.permute(0, 3, 1, 2)
        return self.head(x.mean(dim=(2, 3)))


@blocks("u-net-transposed")
class UNet(nn.Module):
    """An encoder, and a decoder that reads the encoder's features by concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.down1 = nn.Conv2d(3, 6, 3, padding=1)
        self.down2 = nn.Conv2d(6, 9, 3, padding=1)
        self.norm = nn.GroupNorm(1, 9)
        self.bottom = nn.Conv2d(9, 11, 3, padding=1)
        self.up = nn.ConvTranspose2d(11, 9, 2, stride=2)
        self.merge = nn.Conv2d(9 + 6, 7, 3, padding=1)
        self.head = nn.Conv2d(7, 2, 1)

    def forward(self, image: Tensor) -> Tensor:  # [B, 3, H, W] -> [B, 2, H, W]
        shallow = F.relu(self.down1(image))
        deep = F.relu(self.norm(self.down2(F.max_pool2d(shallow, 2))))
        deep = F.relu(self.up(F.relu(self.bottom(deep))))
        return self.head(F.relu(self.merge(torch.cat([deep, shallow], dim=1))))


@blocks("u-net-interpolated")
class InterpolatedUNet(nn.Module):
    """A U-Net that upsamples by interpolation and adds its skips."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.Conv2d(width, 10, 3, stride=2, padding=1)
        self.up = nn.Conv2d(10, width, 1)
        self.head = nn.Conv2d(width, 2, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:  # [B, 3, H, W] -> [B, 2, H, W]
        fine = F.silu(self.stem(image))
        coarse = self.up(F.silu(self.down(fine)))
        bilinear = F.interpolate(coarse, scale_factor=2, mode="bilinear", align_corners=False)
        nearest = F.interpolate(coarse, size=fine.shape[-2:], mode="nearest")
        return self.head(fine + bilinear + nearest)
