"""`onboard-hil twin-latency`: latency from just before a pose is published to the last resulting message.

The method is that of paper 4: publish a pose, then receive the sensor messages and the collision message. All messages
go over DDS between processes. The simulated robot turns slowly on the spot. It sends the next pose when all messages of
the previous pose have come, or after a timeout.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import Progress

from hil.live.child_process import Child
from hil.live.target.figures import LATE_MS, PAPER
from hil.live.twin.topics import COLLISION, POINTS, RESUME, robot_section, twin_section
from onboard.commands.cli import new_figure, svg_text, write_text
from onboard.config.config import Config
from onboard.config.mounts import load_mounts
from onboard.drivers.dds.participant import Reader, Wire
from onboard.drivers.dds.ros_convert import ns_from_time, ros_odometry
from onboard.drivers.dds.ros_types import Empty
from onboard.drivers.dds.topics import LOG, Topic, topic
from onboard.system.signals import Signals
from onboard.system.waiting import Waiting
from onboard.values.clock import NS_PER_S, wall_ns
from onboard.values.errors import OnboardError, naming
from onboard.values.geometry import wrap
from onboard.values.messages import Pose, Twist

if TYPE_CHECKING:
    from matplotlib.figure import Figure

START_S = 900.0
LOST_S = 0.4
"""Timeout of a round trip. An incomplete round trip counts as lost and as late. The timeout is below the twin's timeout
for the robot's poses (`pose_filter.SILENT_NS`)."""
WARM_UP = 30
MAP, PEOPLE = "gdc1", 4
STEP_RAD = 0.01
"""Rotation between two consecutive poses."""
VERY_LATE_MS = 200.0


@dataclass(frozen=True, slots=True)
class LatencyOptions:
    """Options of the measurement.

    mounts: file with the cameras of the twin; None is the robot's file
    depth:  whether the depth images belong to the round trip
    points: whether the cloud of the lidar does
    """

    count: int = 10_000
    mounts: Path | None = None
    depth: bool = True
    points: bool = False


def run_latency(config: Config, config_file: Path, options: LatencyOptions, out: Path) -> dict[str, Any]:
    """Measure and return the statistics. Show a progress bar on a terminal; write log and histogram to `out`.

    Raises OnboardError.
    """
    with naming(out, "written", OnboardError):
        out.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    with Signals(), Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("round trips", total=options.count)
        found, took_ms = measure(config, config_file, options, out, lambda n: bar.update(task, completed=n))
    write_text(out / "twin-latency.svg", svg_text(histogram(took_ms)))
    return found


def measure(
    config: Config, config_file: Path, options: LatencyOptions, out: Path, report: Callable[[int], None]
) -> tuple[dict[str, Any], npt.NDArray[np.float64]]:
    """Return the statistics of `options.count` round trips, and each [ms]. report: called with the number of them.

    Raises OnboardError.
    """
    arguments = ["hil", "twin", "--map", MAP, "--pedestrians", str(PEOPLE)]
    arguments += ["--config", str(config_file), "--no-localization"]
    record, log = out / "twin.json", out / "twin-latency.log"
    arguments += ["--json", str(record.resolve())]
    arguments += [] if options.mounts is None else ["--mounts", str(options.mounts)]
    mounts = load_mounts(options.mounts or config.robot.mounts)
    names = ["scan", *(["color/image"] if mounts.color else [])]
    names += [f"{name}/depth/image" for name in mounts.depth] if options.depth else []
    with contextlib.ExitStack() as held:
        robot = held.enter_context(contextlib.closing(Wire(robot_section(config.dds, "odom"))))
        twin = held.enter_context(contextlib.closing(Wire(twin_section(config.dds))))
        child = Child("the twin", arguments, log)
        held.callback(child.end)
        trips = RoundTrips(robot, twin, names, points=options.points)
        trips.wait_until_received(child)
        took_ms = []
        for number in range(options.count):
            took_ms.append(trips.one())
            child.check()
            report(number + 1)
    busy = json.loads(record.read_text(encoding="utf-8"))["busy_ms"]
    messages = [*names, *(["points"] if options.points else []), "collision"]
    load = {"load_average": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
    spent = np.array(took_ms)
    return figures(spent) | {"simulator_ms": busy, "messages": messages, "paper_4": PAPER, **load}, spent


class RoundTrips:
    """Robot's side of the measurement: sends a pose and waits for all resulting messages."""

    def __init__(self, robot: Wire, twin: Wire, names: list[str], *, points: bool = False) -> None:
        """Open reliable readers, the default of a ROS node. Raises ConfigError, DriverError."""
        frames = robot.section
        self._frames = frames.odom_frame, frames.base_frame
        self._pose = robot.writer("odom")
        rows = [*map(topic, names), *([POINTS] if points else [])]
        self._sensors = {row.name: twin.reader(Topic(row.name, row.wire, row.kind, LOG)) for row in rows}
        self._collision = twin.reader(COLLISION)
        self._resume = twin.writer(RESUME)
        self._yaw_rad = 0.0
        self.missing = ""

    def wait_until_received(self, child: Child, now_s: Callable[[], float] = time.monotonic) -> None:
        """Send poses until `WARM_UP` round trips are complete. Every 30 s, say how many are and what was missing last.

        Raises OnboardError if none was complete for `START_S` seconds, or if the twin's process has ended.
        """
        waiting = Waiting(lambda line: sys.stderr.write(f"{line}\n"), now_s)
        received, since_s, last = 0, now_s(), "none"
        while received < WARM_UP:
            if np.isfinite(self.one()):
                received, since_s = received + 1, now_s()
            child.check()
            last = self.missing or last
            line = f"warm-up: {received} of {WARM_UP} round trips; not received within {LOST_S:g} s of its pose: {last}"
            starts = "" if received else "; the twin's process starts, and compiles the first time"
            waiting.note(line + starts, "warm-up")
            if now_s() - since_s > START_S:
                raise OnboardError(f"{line}; no round trip for {START_S:g} s")

    def one(self) -> float:
        """Send a pose and return the latency of its round trip [ms], or inf if a message has not come in time.

        The topic of that message is in `missing`.
        """
        self._yaw_rad = wrap(self._yaw_rad + STEP_RAD)
        for reader in (*self._sensors.values(), self._collision):
            reader.take()
        stamp_ns = wall_ns()
        message = ros_odometry(stamp_ns, *self._frames, Pose(0.0, 0.0, self._yaw_rad), Twist(0.0, 0.0))
        began_ns = time.monotonic_ns()
        self._pose.write(message)
        deadline_ns = began_ns + round(LOST_S * NS_PER_S)
        late = (name for name, reader in self._sensors.items() if not _came(reader, stamp_ns, deadline_ns))
        self.missing = next(late, "") or ("" if _came(self._collision, None, deadline_ns) else COLLISION.name)
        if self.missing:
            self._resume.write(Empty())  # the twin may have paused because this process paused too long
            return np.inf
        return (time.monotonic_ns() - began_ns) / 1e6


def _came(reader: Reader, stamp_ns: int | None, deadline_ns: int) -> bool:
    """Return whether a message came before the deadline. stamp_ns: required stamp; None accepts every message."""
    while True:
        for message in reader.take():
            if stamp_ns is None or ns_from_time(message.sample.header.stamp) == stamp_ns:
                return True
        left_s = (deadline_ns - time.monotonic_ns()) / NS_PER_S
        if left_s <= 0.0:
            return False
        reader.wait(left_s)


def figures(took_ms: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Return mean, standard deviation and tail of the round trips [ms]. A lost round trip is inf.

    Only `lost`, the share below 100 ms and the count above 200 ms include lost round trips.
    Raises OnboardError if all round trips are lost.
    """
    came = took_ms[np.isfinite(took_ms)]
    if len(came) == 0:
        raise OnboardError("no message of any round trip was received")
    return {
        "count": len(took_ms),
        "lost": int(len(took_ms) - len(came)),
        "mean_ms": round(float(came.mean()), 3),
        "sd_ms": round(float(came.std()), 3),
        "p50_ms": round(float(np.quantile(came, 0.5)), 3),
        "p99_ms": round(float(np.quantile(came, 0.99)), 3),
        "worst_ms": round(float(came.max()), 3),
        "share_below_100_ms": round(float((took_ms < LATE_MS).mean()), 5),
        "above_200_ms": int((took_ms > VERY_LATE_MS).sum()),
    }


def histogram(took_ms: npt.NDArray[np.float64]) -> Figure:
    """Return a histogram of the round trips [ms]; lost ones are left out. Raises MissingExtraError."""
    figure = new_figure(640, 320)
    axes = figure.add_subplot(xlabel="round trip [ms]", ylabel="round trips", yscale="log")
    axes.hist(took_ms[np.isfinite(took_ms)], bins=100)
    axes.axvline(LATE_MS, linestyle="--", color="black")
    return figure


def summary(result: dict[str, Any]) -> str:
    """Return the statistics as text for the operator, with the values of paper 4."""
    paper = result["paper_4"]
    return (
        f"{result['count']} round trips, {result['lost']} lost: mean {result['mean_ms']:.2f} ms, "
        f"sd {result['sd_ms']:.2f}, p99 {result['p99_ms']:.2f}, worst {result['worst_ms']:.1f}; "
        f"{100 * result['share_below_100_ms']:.2f} % below 100 ms, {result['above_200_ms']} above 200 ms\n"
        f"median {result['p50_ms']:.2f} ms, of these {result['simulator_ms']['p50']:.2f} ms in the simulator, the "
        f"rest on the wire; load average {result['load_average']:.1f} on {result['cores']} cores\n"
        f"paper 4: {paper['count']}: mean {paper['mean_ms']} ms, sd {paper['sd_ms']}; "
        f"{100 * paper['share_below_100_ms']:.2f} % below 100 ms, {paper['above_200_ms']} above 200 ms\n"
    )
