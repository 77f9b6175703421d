"""The network of paper 1, Fig. 9 and Appendix B, in PyTorch.

The paper reports 25,589,541 trainable parameters. The parts as it lists them, with a Linear 512 -> 512 after the
ResNet's pooling, add up to 25,614,909; the auxiliary head comes on top. Each encoder's output goes into the
concatenation as its last Linear gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from onboard.policy.contract import ACTIONS, INPUTS, NO_ACTION
from onboard.values.errors import InputError

# ---- ResNet-18 (He et al. 2015), without its classifier: colour image -> 512 features

STAGES = 4
BLOCKS = 2


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with batch normalisation and a skip connection."""

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


GOAL_COMPASS = 3
"""What the auxiliary head predicts: rho, cos(phi), sin(phi) of the goal in the robot's present frame."""

ENCODED_INPUTS = ("rgb", "scan", "odom", "loc", "goal", "prev_action")
RGB_FEATURES = "rgb_features"
"""What the colour encoder made of an image, where that is computed apart."""


@dataclass(frozen=True, slots=True)
class Widths:
    """Sizes of the parts; the defaults are the paper's."""

    planes: int = 64
    rgb: int = 512
    scan_channels: tuple[int, int, int] = (64, 128, 256)
    scan: int = 512
    hidden: int = 1024
    vector: int = 64
    action: int = 32
    memory_layers: int = 2
    memory: int = 1024


GoalFrom = Literal["start", "odom", "loc", "pose"]


@dataclass(frozen=True, slots=True)
class Variant:
    """The inputs of the network, and its view of the goal; the defaults are the paper's.

    goal_from: "start" encodes the static goal; else the name of the input with the pose for `goal_seen_from`
    auxiliary: whether training predicts the goal compass from the memory
    """

    rgb: bool = True
    scan: bool = True
    loc: bool = True
    goal_from: GoalFrom = "start"
    auxiliary: bool = True

    def __post_init__(self) -> None:
        if self.goal_from not in get_args(GoalFrom):
            raise InputError(f"goal_from {self.goal_from!r}: must be one of {', '.join(get_args(GoalFrom))}")
        if self.goal_from == "loc" and not self.loc:
            raise InputError("goal_from 'loc': the network has no input loc")

    @property
    def encoded(self) -> tuple[str, ...]:
        """Return the inputs that have an encoder, in the contract's order."""
        left_out = {name for name in ("rgb", "scan", "loc") if not getattr(self, name)}
        return tuple(name for name in ENCODED_INPUTS if name not in left_out)


PAPER_VARIANT = Variant()
PAPER = Widths()
TINY = Widths(planes=4, rgb=16, scan_channels=(4, 8, 8), scan=16, hidden=16, vector=8, action=4, memory=32)
"""Small sizes with the same inputs and outputs, for tests and trials."""


class Step(NamedTuple):
    """Outputs of a decision step for a batch of N.

    logits (N, 28), value (N, 1), memory (layers, N, width), goal (N, 3) by the auxiliary head
    """

    logits: Tensor
    value: Tensor
    memory: Tensor
    goal: Tensor


class CircularConv(nn.Module):
    """Conv1d over the full circle of bearings, ReLU, MaxPool: (N, in, bins) -> (N, out, bins / pool)."""

    def __init__(self, channels_in: int, channels: int, kernel: int, pool: int) -> None:
        super().__init__()
        self.reach = kernel // 2
        self.conv = nn.Conv1d(channels_in, channels, kernel)
        self.pool = nn.MaxPool1d(pool)

    def forward(self, x: Tensor) -> Tensor:
        """Wrap by slices and a concatenation; not all ONNX engines know padding in wrap mode."""
        around = torch.cat([x[..., -self.reach :], x, x[..., : self.reach]], dim=-1)
        pooled: Tensor = self.pool(torch.relu(self.conv(around)))
        return pooled


class ScanEncoder(nn.Module):
    """(N, 1, 180) -> (N, width): kernels 7, 3, 3 and pools 3, 3, 5 leave 4 positions, then a Linear."""

    KERNELS = (7, 3, 3)
    POOLS = (3, 3, 5)

    def __init__(self, channels: tuple[int, int, int], width: int) -> None:
        super().__init__()
        pairs = zip((1, *channels), channels, self.KERNELS, self.POOLS, strict=False)
        self.convs = nn.Sequential(*(CircularConv(*sizes) for sizes in pairs))
        bins = INPUTS["scan"].type.shape[-1]
        for pool in self.POOLS:
            bins //= pool
        self.linear = nn.Linear(channels[-1] * bins, width)

    def forward(self, scan: Tensor) -> Tensor:
        """Encode."""
        features: Tensor = self.linear(self.convs(scan).flatten(1))
        return features


def goal_seen_from(pose: Tensor, goal: Tensor) -> Tensor:
    """Return (N, 3) rho [m], cos(phi), sin(phi) of a static goal (N, 3) relative to a pose (N, 5 or 3), start frame.

    The layer has no parameters. At the goal itself the direction is 0, 0.
    """
    x = goal[:, 0] * goal[:, 1] - pose[:, 0]
    y = goal[:, 0] * goal[:, 2] - pose[:, 1]
    cos, sin = torch.cos(pose[:, 2]), torch.sin(pose[:, 2])
    ahead, left = cos * x + sin * y, cos * y - sin * x
    rho = torch.sqrt(ahead * ahead + left * left + NEAREST_M**2)
    return torch.stack([rho, ahead / rho, left / rho], dim=1)


def _present(image: Tensor) -> Tensor:
    """Return (N, 1): 0 without an image, which the contract encodes as zeros, else 1. It gates the features."""
    return (image.abs().amax(dim=(1, 2, 3)) > 0.0).to(image.dtype)[:, None]


NEAREST_M = 1e-3
"""Keeps the direction finite at the goal."""


def _mlp(name: str, widths: Widths) -> nn.Sequential:
    size = INPUTS[name].type.shape[-1]
    return nn.Sequential(nn.Linear(size, widths.hidden), nn.ReLU(), nn.Linear(widths.hidden, widths.vector))


def _encoders(widths: Widths) -> dict[str, nn.Module]:
    resnet = ResNet18(widths.planes)
    return {
        "rgb": nn.Sequential(resnet, nn.Linear(resnet.features, widths.rgb)),
        "scan": ScanEncoder(widths.scan_channels, widths.scan),
        "odom": _mlp("odom", widths),
        "loc": _mlp("loc", widths),
        "goal": _mlp("goal", widths),
        "prev_action": nn.Embedding(NO_ACTION + 1, widths.action),
    }


def _width_of(name: str, widths: Widths) -> int:
    return {"rgb": widths.rgb, "scan": widths.scan, "prev_action": widths.action}.get(name, widths.vector)


class PolicyNetwork(nn.Module):
    """Encoders -> concatenation (1248 in the paper) -> GRU -> actor, critic, auxiliary goal head.

    Weights carry the names of the inputs: `scan.*` encodes the scan.
    """

    def __init__(self, widths: Widths = PAPER, variant: Variant = PAPER_VARIANT) -> None:
        super().__init__()
        self.widths, self.variant = widths, variant
        encoders = _encoders(widths)
        for name in variant.encoded:
            self.add_module(name, encoders[name])
        encoded = sum(_width_of(name, widths) for name in variant.encoded)
        self.gru = nn.GRU(encoded, widths.memory, num_layers=widths.memory_layers)
        self.actor = nn.Linear(widths.memory, len(ACTIONS))
        self.critic = nn.Linear(widths.memory, 1)
        self.auxiliary = nn.Linear(widths.memory, GOAL_COMPASS)

    @property
    def memory_shape(self) -> tuple[int, int]:
        """Return (layers, width) of the recurrent state."""
        return self.widths.memory_layers, self.widths.memory

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the names of all inputs in the contract's order; the recurrent state `memory_in` is last."""
        taken = {*self.variant.encoded, self.variant.goal_from, "memory_in"}
        return tuple(name for name in INPUTS if name in taken)

    def encode(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return (N, encoded) of inputs by name, shaped as in the contract with a batch of N.

        `rgb_features` (N, 512), the colour encoder's output, may replace `rgb`.
        """
        parts = [self._encoded(name, tensors) for name in self.variant.encoded]
        return torch.cat(parts, dim=1)

    def _encoded(self, name: str, tensors: Mapping[str, Tensor]) -> Tensor:
        if name == "rgb" and RGB_FEATURES in tensors:
            return tensors[RGB_FEATURES]
        values = tensors[name]
        if name == "goal" and self.variant.goal_from != "start":
            values = goal_seen_from(tensors[self.variant.goal_from], values)
        encoded: Tensor = self.get_submodule(name)(values)
        return encoded * _present(values) if name == "rgb" else encoded

    def forward(self, *inputs: Tensor) -> Step:
        """Run a decision step on tensors in the order of `inputs`."""
        return self.step(dict(zip(self.inputs, inputs, strict=True)))

    def step(self, tensors: Mapping[str, Tensor]) -> Step:
        """Run a decision step on tensors by name, with the memory (layers, N, width) as `memory_in`."""
        hidden, memory = self.gru(self.encode(tensors)[None], tensors["memory_in"])
        state = hidden[0]
        return Step(self.actor(state), self.critic(state), memory, self.auxiliary(state))


def parameter_count(module: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def untrained(seed: int, widths: Widths = PAPER, variant: Variant = PAPER_VARIANT) -> PolicyNetwork:
    """Return a network with PyTorch's initial weights by `seed`, in evaluation mode; the global generator is kept."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PolicyNetwork(widths, variant).eval()
