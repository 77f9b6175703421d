"""The network of paper 1, section 1.3 (its Fig. 9 and Appendix B), in PyTorch.

The paper reports 25,589,541 trainable parameters. The parts as it lists them, with a Linear 512 -> 512 after the
ResNet's pooling, add up to 25,614,909; the auxiliary head comes on top. Each encoder's output goes into the
concatenation as its last Linear gives it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from engines.resnet import ResNet18
from onboard.contract import ACTIONS, INPUTS, NO_ACTION

GOAL_COMPASS = 3
"""What the auxiliary head predicts: rho, cos(phi), sin(phi) of the goal in the robot's present frame."""

ENCODED_INPUTS = ("rgb", "scan", "odom", "loc", "goal", "prev_action")


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


PAPER = Widths()
TINY = Widths(planes=4, rgb=16, scan_channels=(4, 8, 8), scan=16, hidden=16, vector=8, action=4, memory=32)
"""The same inputs and outputs at a hundredth of the work, for tests and for trying things out."""


class Step(NamedTuple):
    """What one decision step gives, N being the batch.

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
        """Wrap by slices and a concatenation, which every ONNX engine knows, unlike padding in wrap mode."""
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


def _mlp(name: str, widths: Widths) -> nn.Sequential:
    size = INPUTS[name].type.shape[-1]
    return nn.Sequential(nn.Linear(size, widths.hidden), nn.ReLU(), nn.Linear(widths.hidden, widths.vector))


class PolicyNetwork(nn.Module):
    """Encoders -> concatenation (1248 in the paper) -> GRU -> actor, critic, auxiliary goal head."""

    def __init__(self, widths: Widths = PAPER) -> None:
        super().__init__()
        self.widths = widths
        resnet = ResNet18(widths.planes)
        self.rgb = nn.Sequential(resnet, nn.Linear(resnet.features, widths.rgb))
        self.scan = ScanEncoder(widths.scan_channels, widths.scan)
        self.odom = _mlp("odom", widths)
        self.loc = _mlp("loc", widths)
        self.goal = _mlp("goal", widths)
        self.prev_action = nn.Embedding(NO_ACTION + 1, widths.action)
        encoded = widths.rgb + widths.scan + 3 * widths.vector + widths.action
        self.gru = nn.GRU(encoded, widths.memory, num_layers=widths.memory_layers)
        self.actor = nn.Linear(widths.memory, len(ACTIONS))
        self.critic = nn.Linear(widths.memory, 1)
        self.auxiliary = nn.Linear(widths.memory, GOAL_COMPASS)

    @property
    def memory_shape(self) -> tuple[int, int]:
        """Return (layers, width) of the recurrent state."""
        return self.widths.memory_layers, self.widths.memory

    def encode(self, rgb: Tensor, scan: Tensor, odom: Tensor, loc: Tensor, goal: Tensor, prev_action: Tensor) -> Tensor:
        """Return (N, encoded) of inputs shaped as in the contract, N for their batch of 1."""
        parts = [
            self.rgb(rgb),
            self.scan(scan),
            self.odom(odom),
            self.loc(loc),
            self.goal(goal),
            self.prev_action(prev_action),
        ]
        return torch.cat(parts, dim=1)

    def forward(
        self,
        rgb: Tensor,
        scan: Tensor,
        odom: Tensor,
        loc: Tensor,
        goal: Tensor,
        prev_action: Tensor,
        memory: Tensor,
    ) -> Step:
        """Take one decision step; memory (layers, N, width) goes in and comes out."""
        encoded = self.encode(rgb, scan, odom, loc, goal, prev_action)
        hidden, memory = self.gru(encoded[None], memory)
        state = hidden[0]
        return Step(self.actor(state), self.critic(state), memory, self.auxiliary(state))


def parameter_count(module: nn.Module) -> int:
    """Return the number of trainable parameters."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


def untrained(seed: int, widths: Widths = PAPER) -> PolicyNetwork:
    """Return a network with PyTorch's default initial weights by `seed`, in evaluation mode; global state is kept."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PolicyNetwork(widths).eval()
