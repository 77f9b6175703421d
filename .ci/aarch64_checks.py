"""What `.ci/aarch64` does on both machines, and how it compares.

aarch64_checks.py kernels             print digests of what kernels make of a fixed input, as JSON
aarch64_checks.py equal FILE FILE     digests are the same to the last bit; lengths of drives of `onboard-hil evaluate
                                      --json` within 1e-9 m, all else of them to the last bit
aarch64_checks.py arrived FILE FILE   the drives of both arrived
aarch64_checks.py record FILE         record ten seconds of a drive with `onboard-v2`
aarch64_checks.py base DOMAIN         be the base of a runtime on loopback, and drive it 1 m ahead
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

START_S, DRIVE_S, HZ = 300.0, 50.0, 20
AHEAD_M, NEAR_M, ROOM_M = 1.0, 0.2, 3.0
BEARINGS = np.linspace(-np.pi, np.pi, 180, endpoint=False)
NEAR = 1e-9
"""Largest difference of two lengths [m]. glibc's hypot rounds differently: aarch64 has fused multiply and add."""
LENGTHS = ("path_m", "distance_m", "min_clearance_m")
COMPARED = ("success", "ended", "time_s", "path_m", "distance_m", "min_clearance_m", "contacts", "actions")


EQUAL, CLOSE, DIFFERS = "equal", "close", "DIFFERS"


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def kernels() -> int:
    from hil.drive.episodes import choose
    from hil.physics.collision_world import Body
    from hil.sensors.camera import rays_of, render_depth
    from onboard.config.config import DEFAULT_ROBOT, ScanSection
    from onboard.config.mounts import load_mounts
    from onboard.perception.fusion_kernel import lower_ranges, projection_of
    from onboard.perception.kernels import planar
    from onboard.values.geometry import IDENTITY
    from onboard.values.messages import BINS

    mounts, section, rng = load_mounts(DEFAULT_ROBOT / "mounts.toml").depth, ScanSection(), np.random.default_rng(0)
    scenario = choose("gdc1", 1, 0, Body(0.25, 1.0))
    rendered = {
        name: render_depth(scenario.world, rays_of(one), scenario.episode.start) for name, one in mounts.items()
    }
    scans = {}
    for source in ("rendered", "noise"):
        ranges_m = np.full(BINS, np.inf, dtype=np.float32)
        for name, mount in mounts.items():
            height, width = rendered[name].shape
            frame = (
                rendered[name] if source == "rendered" else rng.integers(0, 10_000, (height, width), dtype=np.uint16)
            )
            lens = (width / 2, width / 2, (width - 1) / 2, (height - 1) / 2, 0.001)
            limits = (section.near_m, section.far_m, section.z_min_m, section.z_max_m, np.empty((0, 6)))
            projection = projection_of((height, width), *lens, mount.base_from_camera, *limits)
            lower_ranges(ranges_m, frame, projection, planar(IDENTITY))
        scans[f"scan fused of {source} frames"] = ranges_m
    made = {f"depth image {name}": image for name, image in rendered.items()} | scans
    say(json.dumps({name: hashlib.sha256(value.tobytes()).hexdigest() for name, value in made.items()}, indent=1))
    return 0


def _values(file: str) -> dict[str, Any]:
    read = json.loads(Path(file).read_text(encoding="utf-8"))
    drives = read.get("per_episode")
    return (
        read
        if drives is None
        else {f"{name} of drive {at}": drive[name] for at, drive in enumerate(drives) for name in COMPARED}
    )


def equal(here: str, there: str) -> int:
    ours, theirs = _values(here), _values(there)
    verdicts = {name: _verdict(name, ours.get(name), theirs.get(name)) for name in sorted(ours.keys() | theirs.keys())}
    for name, verdict in verdicts.items():
        other = "" if verdict == EQUAL else f" here, {theirs.get(name)} there"
        say(f"{verdict:8} {name}: {ours.get(name)}{other}")
    same, near = (list(verdicts.values()).count(one) for one in (EQUAL, CLOSE))
    say(
        f"{same} of {len(verdicts)} values are the same to the last bit on x86-64 and aarch64, {near} within {NEAR:g} m"
    )
    return int(DIFFERS in verdicts.values())


def _verdict(name: str, ours: Any, theirs: Any) -> str:
    if ours == theirs:
        return EQUAL
    lengths = name.partition(" of drive ")[0] in LENGTHS and isinstance(ours, float) and isinstance(theirs, float)
    return CLOSE if lengths and abs(ours - theirs) <= NEAR else DIFFERS


def arrived(here: str, there: str) -> int:
    equal(here, there)
    return int(not all(_values(file)["success of drive 0"] for file in (here, there)))


def record(file: str) -> int:
    from tests.rigs.recordings.replay_rig import simulated_drive

    with tempfile.TemporaryDirectory() as folder:
        shutil.move(simulated_drive(Path(folder), Path("onboard-v2"), 10.0), file)
    return 0


def base(domain: str) -> int:
    """Exit code 0: the runtime drove there and said so."""
    from onboard.config.config import DdsSection
    from onboard.drivers.dds.participant import Wire, wait_until
    from onboard.drivers.dds.ros_convert import header, ros_goal, ros_odometry, twist_from_ros
    from onboard.drivers.dds.ros_types import LaserScan
    from onboard.drivers.dds.topics import scan_source
    from onboard.navigation.odometry import integrate
    from onboard.values.clock import wall_ns
    from onboard.values.messages import STOP, Pose

    wire, pause = Wire(DdsSection(domain=int(domain))), threading.Event()
    odom, scan, goal = wire.writer("odom"), wire.writer(scan_source("base_scan")), wire.writer("goal_pose")
    commands, states = wire.reader("cmd_vel"), wire.reader("state")
    if not wait_until(lambda: bool(states.writers() and commands.writers()), START_S):
        say(f"no runtime on domain {domain} within {START_S:g} s")
        return 1
    pose, twist, heard, state, asked = Pose(0.0, 0.0, 0.0), STOP, 0, "", False
    end_s = time.monotonic() + DRIVE_S
    while time.monotonic() < end_s and not (asked and state.startswith("reached")):
        for message in commands.take():
            twist, heard = twist_from_ros(message.sample), heard + 1
        state = next((str(one.sample.data) for one in reversed(states.take())), state)
        pose, now = integrate(pose, twist, 1 / HZ), wall_ns()
        odom.write(ros_odometry(now, "odom", "base_link", pose, twist))
        away_m, off = np.hypot(pose.x_m, pose.y_m), BEARINGS + pose.yaw_rad - np.arctan2(pose.y_m, pose.x_m)
        ranges = np.sqrt(ROOM_M**2 - (away_m * np.sin(off)) ** 2) - away_m * np.cos(off)  # to a round wall
        laser = (-np.pi, np.pi, np.pi / 90, 0.0, 0.0, 0.05, 10.0)
        scan.write(LaserScan(header(now, "base_link"), *laser, ranges.tolist(), []))
        if not asked and state.startswith("idle"):
            goal.write(ros_goal(now, "base_link", Pose(AHEAD_M, 0.0, 0.0)))
            asked = True
        pause.wait(1 / HZ)
    wire.close()
    say(f"{heard} commands heard; the base stands {pose.x_m:.2f} m ahead; the runtime says {state!r}")
    return int(not state.startswith("reached") or abs(pose.x_m - AHEAD_M) > NEAR_M)


if __name__ == "__main__":
    verbs = {"kernels": kernels, "equal": equal, "arrived": arrived, "record": record, "base": base}
    sys.exit(verbs[sys.argv[1]](*sys.argv[2:]))
