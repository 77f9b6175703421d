"""ResNet-18 (He et al. 2015), without its classifier: colour image -> 512 features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

STAGES = 4
BLOCKS = 2


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with batch normalisation and a way past them."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.past: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.past = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        """(N, channels_in, H, W) -> (N, channels, H / stride, W / stride)."""
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.past(x))


class ResNet18(nn.Module):
    """Stem, four stages of two basic blocks with `planes` x 1, 2, 4, 8 channels, mean over the image."""

    def __init__(self, planes: int = 64) -> None:
        super().__init__()
        self.features = planes * 2 ** (STAGES - 1)
        self.conv1 = nn.Conv2d(3, planes, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        blocks: list[nn.Module] = []
        channels = planes
        for stage in range(STAGES):
            for block in range(BLOCKS):
                width = planes * 2**stage
                stride = 2 if stage > 0 and block == 0 else 1
                blocks.append(BasicBlock(channels, width, stride))
                channels = width
        self.blocks = nn.Sequential(*blocks)

    def forward(self, image: Tensor) -> Tensor:
        """(N, 3, H, W) -> (N, features)."""
        x = self.pool(torch.relu(self.bn1(self.conv1(image))))
        features: Tensor = self.blocks(x)
        return features.mean(dim=(2, 3))
