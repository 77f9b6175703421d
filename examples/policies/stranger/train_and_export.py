"""A stranger's policy: a PyTorch MLP on a 36-beam lidar and the goal, trained and exported without this project.

The network imitates a simple law in random scenes: of all directions, take the free one nearest to the goal. Nothing
here imports onboard. The batch is variable, and the inputs have the author's own names and units:

    lidar   (batch, 36)  ranges [m] in sectors of 10 degrees, from -180 degrees to the left
    target  (batch, 2)   distance [m] and bearing [rad] of the goal from the robot
    action  (batch, 2)   v and w, each in [-1, 1] by a tanh

    python examples/policies/stranger/train_and_export.py --out out/stranger.onnx
    onboard-engines wrap out/stranger.onnx -o out/policy --v 0 0.6 --w -1 1 --fov -180 180
    onboard-engines validate out/policy/stranger.onnx
    onboard-hil evaluate --policy out/policy/stranger.onnx --map apartment --episodes 4 --runtime --rendered
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

BEAMS, FAR_M = 36, 10.0
BEARINGS = np.radians(-175.0 + 10.0 * np.arange(BEAMS))
V_MAX, W_MAX = 0.6, 1.0
BODY_M = 0.45
"""Half the width of the way that the law keeps free."""


class Mlp(nn.Module):
    """Nearness of each beam and the goal, two hidden layers, tanh."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(BEAMS + 3, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2), nn.Tanh()
        )

    def forward(self, lidar: Tensor, target: Tensor) -> Tensor:
        """Return (batch, 2) in [-1, 1]."""
        nearness = 1.0 / (lidar.clamp(0.0, FAR_M) + 0.3)
        distance, bearing = target[:, :1], target[:, 1:]
        goal = torch.cat([distance.clamp(max=3.0) / 3.0, torch.cos(bearing), torch.sin(bearing)], 1)
        return self.layers(torch.cat([nearness, goal], 1))


def scenes(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return lidar (count, 36) and target (count, 2) of random rooms with round obstacles."""
    direction = np.stack([np.cos(BEARINGS), np.sin(BEARINGS)], 1)
    turn = rng.uniform(-np.pi, np.pi, (count, 1))
    ranges = np.full((count, BEAMS), FAR_M)
    for side in range(4):  # four walls of a room that is turned at random
        towards = np.cos(BEARINGS[None] - turn - side * np.pi / 2)
        away = rng.uniform(0.4, 8.0, (count, 1))
        ranges = np.minimum(ranges, np.where(towards > 0.05, away / np.maximum(towards, 0.05), FAR_M))
    for _ in range(6):
        radius, distance, bearing = (rng.uniform(*span, (count, 1)) for span in ((0.1, 0.8), (0.6, 6.0), (-3.14, 3.14)))
        centre = np.concatenate([distance * np.cos(bearing), distance * np.sin(bearing)], 1)
        along = centre @ direction.T
        inside = radius**2 - (distance**2 - along**2)
        hit = (inside > 0.0) & (along > 0.0)
        ranges = np.where(hit, np.minimum(ranges, along - np.sqrt(np.maximum(inside, 0.0))), ranges)
    target = np.stack([rng.uniform(0.0, 8.0, count), rng.uniform(-np.pi, np.pi, count)], 1)
    return np.maximum(ranges, 0.05), target


def law(lidar: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return (n, 2): the pair of the law in [-1, 1]."""
    apart = BEARINGS[:, None] - BEARINGS[None]
    apart = (apart + np.pi) % (2 * np.pi) - np.pi
    aside = lidar[:, None, :] * np.abs(np.sin(apart))[None]
    blocks = (np.cos(apart) > 0.0)[None] & (aside < BODY_M)
    free = np.where(blocks, lidar[:, None, :] * np.cos(apart)[None], FAR_M).min(2)
    wanted = np.minimum(target[:, :1], 2.0)
    off = np.abs((BEARINGS[None] - target[:, 1:] + np.pi) % (2 * np.pi) - np.pi)
    cost = off + 2.0 * np.maximum(0.0, wanted - free) + 0.3 * np.abs(BEARINGS)[None]
    best = cost.argmin(1)
    heading = BEARINGS[best]
    straight = np.take_along_axis(off, best[:, None], 1)[:, 0] < np.radians(10.0)
    heading = np.where(straight, target[:, 1], heading)  # finer than the beams
    ahead = free[:, BEAMS // 2]
    v = np.clip(np.cos(heading), 0.0, 1.0) ** 2 * np.clip((ahead - 0.2) / 1.0, 0.0, 1.0) * np.clip(target[:, 0], 0.3, 1)
    w = np.clip(1.5 * heading / W_MAX, -1.0, 1.0)
    return np.stack([2.0 * v - 1.0, w], 1)


def train(steps: int, seed: int) -> Mlp:
    """Return the MLP that imitates the law."""
    torch.manual_seed(seed)
    rng, network = np.random.default_rng(seed), Mlp()
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        lidar, target = scenes(256, rng)
        wanted = torch.tensor(law(lidar, target), dtype=torch.float32)
        given = (torch.tensor(one, dtype=torch.float32) for one in (lidar, target))
        loss = (network(*given) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if (step + 1) % 500 == 0:
            sys.stdout.write(f"step {step + 1} of {steps}: loss {float(loss.detach()):.4f}\n")
    return network


def export(network: Mlp, model: Path) -> None:
    """Write the network with a variable batch."""
    model.parent.mkdir(parents=True, exist_ok=True)
    names = ["lidar", "target", "action"]
    torch.onnx.export(
        network.eval(), (torch.zeros(1, BEAMS), torch.zeros(1, 2)), str(model), dynamo=False, opset_version=17,
        input_names=names[:2], output_names=names[2:], dynamic_axes={name: {0: "batch"} for name in names},
    )  # fmt: skip


def main() -> None:
    """Train and export."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.onnx")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    export(train(given.steps, given.seed), given.out)
    sys.stdout.write(f"{given.out}\n")


if __name__ == "__main__":
    main()
