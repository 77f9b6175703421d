"""Drives of one robot in MuJoCo and in the project's own world, and their table.

    python -m tests.foreign.drive --drives 3 --seed 1 [--pictures DIR]

The whole runtime drives on the simulated clock: the figures do not depend on the machine's load.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hil.drive.conditions import ramped_plant
from hil.drive.full_runtime import drive_runtime
from hil.drive.robot import Senses
from hil.drive.sensing import Cameras, SimulatedInbox
from hil.drive.setting import REACHED_M, Setting, goal_request, goal_tick, how_ended
from hil.evaluate.baselines.registry import make_policy
from hil.physics.free_space import Episode
from hil.sensors.flawed_scan import Flaws
from onboard.assembly.robot import build_rigs, robot_of
from onboard.config.config import load_config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.policy.inference import InlineInference
from onboard.runtime import Runtime
from onboard.state import TickRecord
from onboard.system.log import unlogged
from onboard.values.clock import SimulatedClock
from tests.foreign.robot import MPS2, RADPS2, ForeignRobot
from tests.foreign.scenes import BODY, KINDS, Scene, scene

MAX_S = 90.0
STILL_MPS, TURNS_RADPS = 0.03, 0.1
LENS = {"width": 106, "height": 60, "fx": 53.0, "fy": 40.0, "cx": 52.5, "cy": 29.5}
"""90 deg across, 74 deg down."""
CAMERAS = ("front=0.18,0,0.5,0,18,0", "front_left=0.1,0.14,0.5,60,18,0", "front_right=0.1,-0.14,0.5,-60,18,0",
           "rear=-0.18,0,0.5,180,18,0")  # fmt: skip
SET = ("--set", "cameras.source=dds", "--set", "cameras.color=none")
INIT = ("--footprint", "0.25", "--height", "0.85", "--speed", "0.8", "--name", "foreign", "--policy", "reactive")


@dataclass(frozen=True)
class Drive:
    """One drive: whether the goal was truly reached, its end, contacts, path [m], and the share of time that it turned.

    trace: (n, 3) x, y [m] and yaw [rad] of each tick
    """

    reached: bool
    ended: str
    contacts: int
    path_m: float
    time_s: float
    turning: float
    trace: np.ndarray


def configured() -> Setting:
    """Return the robot as its owner configures it: `onboard init`, the lens of its cameras, and its identified ramp."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "robot"
        options = [word for camera in CAMERAS for word in ("--camera", camera)]
        command = [
            Path(sys.executable).parent / "onboard",
            "init",
            made,
            *INIT,
            "--set",
            "cameras.source=dds",
            "--set",
            "cameras.color=none",
            *options,
        ]
        subprocess.run(command, check=True, capture_output=True)
        config, mounts = load_config(made / "onboard.toml"), load_mounts(made / "mounts.toml")
        plant = ramped_plant(load_plant(made / "plant.toml"), MPS2, RADPS2)
    depth = {name: replace(mount, **LENS) for name, mount in mounts.depth.items()}
    senses = Senses(depth_noise=True, flaws=Flaws((7.5, 7.5), (0.1, 0.1)), depth_every=1)
    world = scene("office", 0, 0).world
    return Setting(world, plant, BODY, replace(mounts, depth=depth, color={}), config, senses=senses)


class _Judge:
    runtime: Runtime

    def __init__(self, setting: Setting, episode: Episode, inbox: SimulatedInbox, robot: ForeignRobot) -> None:
        self._setting, self._episode, self._inbox, self._robot = setting, episode, inbox, robot
        self._began = goal_tick(setting.config.rates.ticks_per_decision)
        self.rows: list[tuple[float, ...]] = []
        self.ended, self.path_m, self.contacts = "", 0.0, 0

    def tick(self, record: TickRecord, counters: object) -> None:
        """Send the goal in its tick, keep the true state, and stop the runtime at the end."""
        tick, state = record.slot.number - self._began, self._robot.state
        if tick == -1:
            self._inbox.requests.append(goal_request(self._setting, self._episode, record.slot.start_ns))
            self.path_m, self.contacts = state.path_m, state.contacts
        if tick < 0 or self.ended:
            return
        pose = state.pose
        self.rows.append((pose.x_m, pose.y_m, pose.yaw_rad, state.twist.v_mps, state.twist.w_radps))
        self.ended = how_ended(self.runtime.state.mission) or ("time" if tick >= MAX_S * 30 else "")
        if self.ended:
            self.runtime.stop()


def drive_foreign(setting: Setting, where: Scene, episode: Episode, seed: int) -> Drive:
    """Return a drive in MuJoCo, by the whole runtime."""
    robot = ForeignRobot(where, episode.start, setting.mounts, seed)
    clock, config = SimulatedClock(), setting.config
    inbox = SimulatedInbox(robot, clock.now_ns(), Cameras(robot, False))  # type: ignore[arg-type]
    policy = make_policy("reactive", setting, episode, None)
    described = robot_of(config, build_rigs(config, setting.mounts), setting.plant, policy, None)
    judge = _Judge(setting, episode, inbox, robot)
    judge.runtime = runtime = Runtime(described, clock, inbox, InlineInference(policy, clock.now_ns), inbox, (judge,))
    with unlogged():
        asyncio.run(runtime.run())
    rows, state = np.array(judge.rows), robot.state
    return _drive(rows, judge.ended, episode, state.contacts - judge.contacts, state.path_m - judge.path_m)


def drive_own(setting: Setting, where: Scene, episode: Episode, seed: int) -> Drive:
    """Return the same drive in the project's own world, with rendered cameras of the same rate, age and noise."""
    there = replace(setting, world=where.world)
    policy = make_policy("reactive", there, episode, None)
    with unlogged():
        outcome = drive_runtime(there, episode, policy, seed, rendered=True, max_s=MAX_S)
    return _drive(outcome.trace[:, 1:], outcome.ended, episode, outcome.contacts, outcome.path_m)


def _drive(rows: np.ndarray, ended: str, episode: Episode, contacts: int, path_m: float) -> Drive:
    goal_m = math.hypot(rows[-1, 0] - episode.goal_xy_m[0], rows[-1, 1] - episode.goal_xy_m[1])
    turns = (np.abs(rows[:, 3]) < STILL_MPS) & (np.abs(rows[:, 4]) > TURNS_RADPS)
    reached = ended == "stop" and goal_m <= REACHED_M
    return Drive(reached, ended, contacts, path_m, len(rows) / 30.0, float(turns.mean()), rows[:, :3])


WORLDS = {"MuJoCo": drive_foreign, "own": drive_own}


def compare(drives: int, seed: int) -> dict[tuple[str, str], list[tuple[Episode, Drive]]]:
    """Return the drives of each scene and world."""
    setting, done = configured(), {}
    for kind in KINDS:
        where = scene(kind, seed, drives)
        for name, drive in WORLDS.items():
            done[kind, name] = []
            for number, episode in enumerate(where.episodes):
                one = drive(setting, where, episode, seed + number)
                done[kind, name].append((episode, one))
                ratio = one.path_m / episode.geodesic_m
                told = f"{one.ended}, {one.contacts} contacts, {one.time_s:.0f} s, path / shortest {ratio:.2f}"
                sys.stderr.write(f"{kind}, {name}: {told}\n")
    return done


def table(done: dict[tuple[str, str], list[tuple[Episode, Drive]]]) -> str:
    """Return a Markdown table of the drives."""
    lines = [
        "| scene | world | goals | reached | contacts | path / shortest | turning in place |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for (kind, name), rows in done.items():
        drives, reached = [drive for _, drive in rows], [(one, drive) for one, drive in rows if drive.reached]
        ratio = sum(drive.path_m for _, drive in reached) / max(sum(one.geodesic_m for one, _ in reached), 1e-9)
        turning = sum(drive.turning * drive.time_s for drive in drives) / sum(drive.time_s for drive in drives)
        contacts = sum(drive.contacts for drive in drives)
        lines.append(
            f"| {kind} | {name} | {len(rows)} | {len(reached)} | {contacts} | {ratio:.2f} | {100 * turning:.0f} % |"
        )
    return "\n".join(lines)


def draw(done: dict[tuple[str, str], list[tuple[Episode, Drive]]], seed: int, folder: Path) -> None:
    """Draw the drives of each scene and world into a folder."""
    import matplotlib.pyplot as plt  # only for pictures

    for (kind, name), rows in done.items():
        where = scene(kind, seed, len(rows))
        figure, axes = plt.subplots(figsize=(8, 6))
        for x, y, z in where.boxes:
            axes.add_patch(plt.Rectangle((x[0], y[0]), x[1] - x[0], y[1] - y[0], color="0.7" if z[0] > 0.2 else "0.3"))
        for episode, drive in rows:
            axes.plot(*drive.trace[:, :2].T)
            axes.plot(*episode.goal_xy_m, "k*" if drive.reached else "rx")
        axes.set(xlim=(0, where.size_m[0]), ylim=(0, where.size_m[1]), aspect="equal", title=f"{kind}, {name}")
        figure.savefig(folder / f"{kind}-{name}.png", dpi=80)
        plt.close(figure)


def main() -> None:
    """Drive, print the table, and draw if a folder is given."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--drives", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pictures", type=Path)
    options = parser.parse_args()
    done = compare(options.drives, options.seed)
    sys.stdout.write(f"{table(done)}\n")
    if options.pictures:
        draw(done, options.seed, options.pictures)


if __name__ == "__main__":
    main()
