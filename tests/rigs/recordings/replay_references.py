"""Makes the reference runs anew: `python -m tests.rigs.recordings.replay_references [FOLDER]`.

Without a folder they go into `tests/data/replay`.

Needed only where the format of recordings changes; to what the runtime makes of them they are moved by
`onboard-hil update-reference`.
"""

from __future__ import annotations

import io
import json
import math
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from hil.commands.develop.update_reference import make_reference
from hil.drive.episodes import choose
from hil.drive.robot import Senses, SimulatedRobot
from hil.drive.sensing import SimulatedInbox
from hil.physics.collision_world import body_of
from onboard.assembly.policies import policy_maker
from onboard.assembly.robot import session_of
from onboard.config.config import Config
from onboard.config.mounts import load_mounts
from onboard.navigation.odometry import integrate
from onboard.recording.recorder import RecordQueue
from onboard.system.log import unlogged
from onboard.values.clock import NS_PER_S
from onboard.values.messages import STOP, DepthFrame, GoalRequest, Inputs, OdometryMessage, Pose, Teleop, Twist
from tests.rigs.runtime_bench import PLANT, Bench, Tape, plain_config

DATA = Path(__file__).parents[2] / "data"
REFERENCES = DATA / "replay"
OFFICE = DATA / "realsense-recording" / "office_40f.db3"
OFFICE_TOPIC = "/device_0/sensor_0/Depth_0/image/data/compressedDepth"
PNG = b"\x89PNG"
EVERY = 8
"""Of the office's pixels, each way: 80x60 of 640x480."""
OFFICE_F, OFFICE_UP_M, OFFICE_DOWN = 384.0 / EVERY, 0.6, math.radians(20.0)
OFFICE_S = 14.0

MAP, EPISODE, DEMO_S = "gdc1", 3, 60.0
LATE_MS = {15: 200.0, 30: 90.0}
BLOCKED_AT_S, BLOCKED_SLOTS = 25.0, 4
STUCK_S = 41.0, 47.0
"""While the wheels stand whatever is commanded, so that the robot backs off."""
THERE_S, BACK_S = (2.5,), (33.0, 38.0, 51.5)
"""When the goal is asked for, and then the way back, again after each fault that ends a drive."""
COARSE_MM, NEAR_MM = 16, 300
"""The walls' distance in steps, so that a minute of images takes little room."""

See = Callable[[int], Inputs]


def changed(**fields: object) -> Callable[[Inputs], Inputs]:
    return lambda inputs: replace(inputs, **fields)  # type: ignore[arg-type]


def without(*cameras: str) -> Callable[[Inputs], Inputs]:
    return lambda seen: replace(seen, depth={name: one for name, one in seen.depth.items() if name not in cameras})


def operated(inputs: Inputs) -> Inputs:
    return replace(inputs, teleop=Teleop(inputs.now_ns, Twist(0.2, 0.3)))


def elsewhere(inputs: Inputs) -> Inputs:
    """Have the localisation jump by two metres."""
    jumped = [replace(fix, pose=replace(fix.pose, x_m=fix.pose.x_m + 2.0)) for fix in inputs.fixes]
    return replace(inputs, fixes=tuple(jumped))


def coarse(inputs: Inputs) -> Inputs:
    depth = {name: replace(one, depth=one.depth // COARSE_MM * COARSE_MM) for name, one in inputs.depth.items()}
    return replace(inputs, depth=depth)


def mad(inputs: Inputs) -> Inputs:
    twists = [replace(one, twist=Twist(math.nan, 0.0)) for one in inputs.odometry]
    return replace(inputs, odometry=tuple(twists))


def walled(*cameras: str) -> Callable[[Inputs], Inputs]:
    """Have these cameras see a wall just before them."""

    def alter(seen: Inputs) -> Inputs:
        near = {
            name: replace(seen.depth[name], depth=np.full_like(seen.depth[name].depth, NEAR_MM)) for name in cameras
        }
        return replace(seen, depth={**seen.depth, **near})

    return alter


#   from [s]  to  what happens to what the robot senses
FAULTS: tuple[tuple[float, float, Callable[[Inputs], Inputs]], ...] = (
    (8.0, 10.0, changed(speed_limit_mps=0.3)),
    (12.0, 13.5, operated),
    (16.0, 20.0, without("front_left")),
    (22.0, 23.5, without("front_left", "front", "front_right", "rear")),
    (27.0, 28.0, elsewhere),
    (31.0, 31.6, changed(odometry=())),
    (35.0, 37.0, changed(e_stop=True)),
    (37.0, 99.0, changed(e_stop=False)),
    (42.0, 47.0, changed(obstacle=True)),
    (50.0, 50.1, mad),
    (54.0, 55.0, walled("front_left", "front", "front_right", "rear")),
    (57.0, 59.0, without("rear")),
)


class Run(Bench):
    """A recorded runtime on the simulated clock. see: what it senses at a time; drive: who hears its commands."""

    def __init__(self, config: Config, folder: Path, see: See, drive: Callable[[Twist], None]) -> None:
        self.tape = Tape(
            folder,
            config,
            session=scrubbed(session_of(config)),
            wall_ns=NS_PER_S,
            name="reference",
            queue=RecordQueue(100_000, 1e9),
        )
        policy = policy_maker(config, PLANT)()
        super().__init__(policy, takes_ms=LATE_MS, listeners=[self.tape], robot=config.robot)
        self._see, self._drive = see, drive

    def ask_for(self, goal: Pose, frame_id: str) -> None:
        """Let a goal arrive with the next tick."""
        now_ns = self.clock.now_ns()
        self._goals.append(GoalRequest(now_ns, now_ns, frame_id, goal))

    def lived_s(self) -> float:
        return (self.clock.now_ns() - NS_PER_S) / NS_PER_S

    def take(self, now_ns: int) -> Inputs:
        goals, self._goals = tuple(self._goals), []
        return replace(self._see(now_ns), goals=goals)

    def send(self, command: Twist) -> None:
        self._drive(command)


def scrubbed(session: dict[str, str]) -> dict[str, str]:
    """Return what a session says without what is this machine's: nothing of it is needed for a replay."""
    config = json.loads(session["configuration"])
    config["robot"] |= {"mounts": "mounts.toml", "plant": "plant.toml"}
    kept = {name: session[name] for name in ("robot", "mounts", "plant", "model_sha256")}
    return {**kept, "configuration": json.dumps(config), "machine": "reference"}


def demo(folder: Path) -> Path:
    """Record a minute of a drive through a furnished floor with faults in it."""
    config = plain_config()
    mounts, body = load_mounts(config.robot.mounts), body_of(config.robot)
    scenario = choose(MAP, 1, EPISODE, body)
    senses = Senses(seed=3)
    robot = SimulatedRobot(scenario.world, PLANT, body, replace(mounts, color={}), scenario.episode.start, senses)
    inbox = SimulatedInbox(robot, NS_PER_S)

    def see(now_ns: int) -> Inputs:
        seen, at_s = coarse(inbox.take(now_ns)), (now_ns - NS_PER_S) / NS_PER_S
        for from_s, to_s, alter in FAULTS:
            seen = alter(seen) if from_s <= at_s < to_s else seen
        return seen

    def drive(command: Twist) -> None:
        stuck = STUCK_S[0] <= run.lived_s() < STUCK_S[1]
        inbox.send(STOP if stuck else command)

    run = Run(config, folder, see, drive)
    there, back = Pose(*scenario.episode.goal_xy_m, 0.0), scenario.episode.start
    due = [*((at_s, there) for at_s in THERE_S), *((at_s, back) for at_s in BACK_S)]
    blocked = False
    while run.lived_s() < DEMO_S:
        if due and run.lived_s() >= due[0][0]:
            run.ask_for(due.pop(0)[1], "map")
        if run.lived_s() >= BLOCKED_AT_S and not blocked:
            run.skip(BLOCKED_SLOTS)
            blocked = True
        run.tick()
    return run.tape.close()


def office(folder: Path) -> Path:
    """Record a robot that is shown real depth images while its wheels follow its commands."""
    mounts_file = folder / "mounts.toml"
    mounts_file.write_text(OFFICE_MOUNTS, encoding="utf-8")
    config = plain_config()
    config = config.model_copy(update={"robot": config.robot.model_copy(update={"mounts": mounts_file})})
    images = list(office_images())
    per_decision = config.rates.ticks_per_decision
    pose, twist, ticks = Pose(0.0, 0.0, 0.0), Twist(0.0, 0.0), 0

    def see(now_ns: int) -> Inputs:
        nonlocal pose, ticks
        pose = integrate(pose, twist, 1.0 / config.rates.control_hz)
        number = ticks // per_decision
        stamp_ns = now_ns - ticks % per_decision * round(NS_PER_S / config.rates.control_hz)
        ticks += 1
        frame = DepthFrame("front", number, stamp_ns, images[number % len(images)])
        return Inputs(now_ns, depth={"front": frame}, odometry=(OdometryMessage(now_ns, now_ns, pose, twist),))

    def drive(command: Twist) -> None:
        nonlocal twist
        twist = command

    run = Run(config, folder, see, drive)
    run.tick()
    run.ask(6.0, 0.5)
    while run.lived_s() < OFFICE_S:
        run.tick()
    return run.tape.close()


def office_images() -> Iterator[npt.NDArray[np.uint16]]:
    """Yield the office's forty images, every eighth pixel of theirs, (60, 80) [mm]."""
    with sqlite3.connect(f"file:{OFFICE}?mode=ro", uri=True) as database:
        rows = database.execute(
            "select data from messages where topic_id = (select id from topics where name = ?) order by timestamp",
            (OFFICE_TOPIC,),
        )
        for (data,) in rows:
            image = np.asarray(Image.open(io.BytesIO(data[data.find(PNG) :])))
            yield image.astype(np.uint16)[::EVERY, ::EVERY].copy()


def looking_down(angle_rad: float) -> list[float]:
    """Return x, y, z, w of a camera that looks ahead and down: the optical frame's axes, then the pitch."""
    s, c = math.sin(angle_rad / 2.0), math.cos(angle_rad / 2.0)
    x, y, z, w = -0.5, 0.5, -0.5, 0.5
    return [round(one, 12) for one in (c * x + s * z, c * y + s * w, c * z - s * x, c * w - s * y)]


OFFICE_MOUNTS = f"""# One camera, as the office's frames were taken: 0.6 m up, 20 deg down.
[cameras.front]
width = 80
height = 60
fx = {OFFICE_F}
fy = {OFFICE_F}
cx = {320.0 / EVERY}
cy = {240.0 / EVERY}
translation_m = [0.2, 0.0, {OFFICE_UP_M}]
rotation_xyzw = {looking_down(OFFICE_DOWN)}
"""


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else REFERENCES
    target.mkdir(parents=True, exist_ok=True)
    for make in (demo, office):
        with tempfile.TemporaryDirectory() as folder, unlogged():
            make_reference(make(Path(folder)), target / f"{make.__name__}.mcap", make.__name__)


if __name__ == "__main__":
    main()
